//! Tests on the emulated card; they are skipped where it could not be built. With `BIREME_TEST_CARD=real` those that
//! need no faults run on the machine's own card.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agree;
mod card;
#[path = "../../../engine/tests/it/case.rs"]
mod case;
#[path = "../../../engine/tests/it/compare.rs"]
mod compare;
mod convolutions;
mod driver;
mod faults;
mod golden;
mod index;
mod lookup;
mod losses;
mod matmul;
mod metrics;
mod nets;
mod norms;
mod optimizers;
mod order;
mod pool;
mod products;
mod programs;
mod random;
mod recurrent;
#[path = "../../../engine/tests/it/runs.rs"]
mod runs;
mod same;
mod selected_rows;
mod shape;
