//! Sparse tables: rows by key, made when they are first touched.
//!
//! A [`SparseTable`] holds any 64-bit keys. Each row is one record: counters, weights and what the
//! optimizer keeps. What a record holds and how it changes is the accessor's business, and which
//! keys may have one the [`Entry`]'s. Tables are memory and nothing else: no server, no file, and no
//! thread but one that fetches memory while a table grows.
//!
//! From the bottom: `arena` and `prefault` (memory that does not move), `index` (hash to place) and `growth` (from
//! one index to the next) · `shard` (all under one lock) · `batch` (keys sorted by shard) · `accessor`, `rule` (what the
//! numbers mean, with the engine's `accessor`) · `sparse_table` (all of it together). Servers and checkpoints know a table as a
//! [`RowStore`].

mod accessor;
mod arena;
mod batch;
pub mod bench;
mod columns;
mod config;
mod from_block;
mod growth;
mod index;
mod prefault;
mod removed;
mod rule;
mod save;
mod shard;
mod sparse_table;
mod store;

pub use accessor::AccessorConfig;
pub(crate) use batch::part_of;
pub use bireme_engine::accessor::{CtrClass, CtrConfig, Entry, SparseRule, SparseRuleKind};
pub use bireme_engine::random::RowInit;
pub use columns::{Column, ColumnKind, SaveMode};
pub use config::{PushStep, TableConfig};
pub use rule::OptimizerRule;
pub use save::{Row, ShardView};
pub use sparse_table::{Shrunk, SparseTable, Stat};
pub use store::{Picks, RowStore, RowVisitor, Rows, TableLayout};
