//! Whole trainings from YAML, in processes of their own.

mod job;
mod modes;
mod online;
mod resume;
