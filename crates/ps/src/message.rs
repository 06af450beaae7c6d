//! The protocol between workers and servers: every request and reply, and nothing else.
