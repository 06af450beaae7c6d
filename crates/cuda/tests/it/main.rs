//! Tests on the emulated card; they are skipped where it could not be built. With `BIREME_TEST_CARD=real` those that
//! need no faults run on the machine's own card.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod amp;
mod beside_host;
mod card;
#[expect(dead_code, reason = "the engine's own tests use the rest")]
#[path = "../../../engine/tests/it/case.rs"]
mod case;
#[expect(dead_code, reason = "as above")]
#[path = "../../../engine/tests/it/compare.rs"]
mod compare;
mod convolutions;
mod create;
mod draws;
mod driver;
mod eager;
#[path = "../../../engine/tests/it/eager_models.rs"]
mod eager_models;
mod elementwise;
mod faults;
mod feeds;
mod golden;
mod index;
mod lines;
mod lookup;
mod losses;
mod matmul;
mod memory;
mod metrics;
mod nets;
mod norms;
mod optimizers;
mod order;
mod pool;
mod products;
mod programs;
mod random;
mod records;
mod recurrent;
mod reduce;
#[path = "../../../engine/tests/it/runs.rs"]
mod runs;
mod selected_rows;
mod shape;
mod slopes;
mod table;
