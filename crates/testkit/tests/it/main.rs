//! Clusters against local runs.

mod equals_local;
