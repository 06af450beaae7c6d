//! Whatever nodes say to the one that hosts their meeting, a job ends once.

#![no_main]

use bireme_launch::rendezvous::fuzz_board;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_board(bytes));
