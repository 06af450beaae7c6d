//! The trainer's side: routes values to servers, queues and merges them, and keeps a mode's promises.
