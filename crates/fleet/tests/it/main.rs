//! A whole job in one process: servers and trainers on threads, over a network in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod job;
mod peers;
