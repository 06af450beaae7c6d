//! Tests on the emulated card; they are skipped where it could not be built. With `BIREME_TEST_CARD=real` those that
//! need no faults run on the machine's own card.

mod card;
#[path = "../../../engine/tests/it/case.rs"]
mod case;
#[path = "../../../engine/tests/it/compare.rs"]
mod compare;
mod convolutions;
mod driver;
mod faults;
mod golden;
mod losses;
mod matmul;
mod nets;
mod norms;
mod products;
mod recurrent;
#[path = "../../../engine/tests/it/runs.rs"]
mod runs;
