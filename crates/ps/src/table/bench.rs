//! Figures of tables.
