//! Whole trainings from YAML, in processes of their own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod browser;
mod checkpoints;
mod columns;
mod gpubox;
mod job;
mod messages;
mod modes;
mod online;
mod quality;
mod readers;
mod resume;
mod warm;
