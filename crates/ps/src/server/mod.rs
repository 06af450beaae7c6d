//! The server: answers requests, keeps time with the trainers, applies updates.
