//! What goes wrong: memory that runs out, kernels that misbehave, drivers and cards that are missing.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;

use bireme_cuda::driver::{Card, Error, Pinned, Stream};

use crate::card::{Alone, alone, get, launch, open, put};

/// The kernel and the reason of a failure.
fn reason(error: Error) -> (Arc<str>, String) {
    match error {
        Error::Launch { kernel, why } => (kernel, why),
        other => panic!("{other}"),
    }
}

#[test]
fn memory_runs_out() {
    let Some(machine) = alone() else { return };
    machine.control.set_memory(10_000);
    let (_card, stream) = open(0);
    let kept = stream.allocate(4_000).unwrap();
    let error = stream.allocate(6_001).err().unwrap();
    assert_eq!(error, Error::OutOfMemory { bytes: 6_001, free: 6_000, total: 10_000 });
    assert_eq!(
        error.to_string(),
        "the card is out of memory: 6001 bytes were asked for, 6000 of 10000 are free"
    );
    // Memory that is freed in the order of the stream can be had again without a wait.
    for _ in 0..5 {
        drop(stream.allocate(6_000).unwrap());
    }
    drop(kept);
    stream.allocate(10_000).unwrap();
}

#[test]
fn an_allocation_fails_when_told_to() {
    let Some(machine) = alone() else { return };
    let (_card, stream) = open(0);
    machine.control.fail_allocation(2);
    let _first = stream.allocate(16).unwrap();
    assert!(matches!(stream.allocate(16), Err(Error::OutOfMemory { bytes: 16, .. })));
    stream.allocate(16).unwrap();
}

#[test]
fn a_failed_launch_ends_the_context() {
    let Some(machine) = alone() else { return };
    let machine = machine.quiet();
    let (card, stream) = open(0);
    let at = put(&stream, &[0i32]);
    stream.synchronize().unwrap();
    machine.control.fail_launch(2);
    for _ in 0..3 {
        launch!(stream, "probe_count", 1, 1, 0, at.address()).unwrap();
    }
    let wanted = ("probe_count".into(), "unspecified launch failure".to_owned());
    let error = stream.synchronize().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a kernel failed on the card, `probe_count` or one before it: unspecified launch failure"
    );
    assert_eq!(reason(error), wanted);
    // Every call says so from then on.
    assert_eq!(reason(stream.allocate(16).err().unwrap()), wanted);
    assert_eq!(reason(launch!(stream, "probe_count", 1, 1, 0, at.address()).unwrap_err()), wanted);
    assert_eq!(reason(card.synchronize().unwrap_err()), wanted);
    // The other card is not touched.
    let (_other, on_other) = open(1);
    assert_eq!(get::<u8>(&on_other, &put(&on_other, &[5u8])), [5]);
    drop((at, stream, card));
    // A new context is whole.
    let (_card, stream) = open(0);
    assert_eq!(get::<u8>(&stream, &put(&stream, &[5u8])), [5]);
}

const ILLEGAL: &str = "an illegal memory access was encountered";
const FAILED: &str = "unspecified launch failure";
const MISALIGNED: &str = "misaligned address";

/// Runs work that fails, with several seeds: the error has this text, and the card saw this.
fn fails(machine: &Alone, run: impl Fn(&Arc<Stream>) -> Error, why: &str, seen: &[&str]) {
    for seed in 0..6 {
        machine.control.seed(seed);
        let (_card, stream) = open(0);
        assert_eq!(reason(run(&stream)).1, why, "seed {seed}");
        let fault = machine.control.last_fault();
        assert!(seen.iter().any(|seen| fault.contains(seen)), "seed {seed}: {fault}");
    }
}

#[test]
fn an_access_outside_of_a_buffer_is_trapped() {
    let Some(machine) = alone() else { return };
    let machine = machine.quiet();
    for bytes in [16usize, 100, 4096, 70_000] {
        let (used, end) = (bytes.next_multiple_of(16) as i64, bytes.next_multiple_of(4096) as i64);
        let write = |offset: i64| {
            move |stream: &Arc<Stream>| {
                let memory = stream.allocate(bytes).unwrap();
                launch!(stream, "probe_write", 1, 1, 0, memory.address(), offset).unwrap();
                drop(memory);
                stream.synchronize().unwrap_err()
            }
        };
        fails(
            &machine,
            write(end),
            ILLEGAL,
            &["`probe_write`: block (0, 0, 0), thread 0: access to an address"],
        );
        fails(&machine, write(-4096), ILLEGAL, &["bytes before a buffer"]);
        fails(&machine, write(1 << 32), ILLEGAL, &["in no buffer"]);
        // Right beside it: a fault at once on one side, found when the memory is freed on the other.
        let later = "bytes beside a buffer were written to";
        fails(&machine, write(used), ILLEGAL, &["behind the end of a buffer", later]);
        fails(&machine, write(-1), ILLEGAL, &["1 bytes before a buffer", later]);
    }
}

#[test]
fn memory_that_is_gone_is_not_touched() {
    let Some(machine) = alone() else { return };
    let machine = machine.quiet();
    let freed = |stream: &Arc<Stream>| {
        let memory = put(stream, &[0u8; 16]);
        let address = memory.address();
        drop(memory);
        launch!(stream, "probe_write", 1, 1, 0, address, 0i64).unwrap();
        stream.synchronize().unwrap_err()
    };
    fails(&machine, freed, ILLEGAL, &["in no buffer now"]);
    let of_another_card = |stream: &Arc<Stream>| {
        let (_card, other) = open(1);
        let memory = put(&other, &[0u8; 16]);
        other.synchronize().unwrap();
        launch!(stream, "probe_write", 1, 1, 0, memory.address(), 0i64).unwrap();
        stream.synchronize().unwrap_err()
    };
    fails(&machine, of_another_card, ILLEGAL, &["memory of card 1 (16 bytes)"]);
    let of_another_stream = |stream: &Arc<Stream>| {
        let other = Stream::new(stream.card()).unwrap();
        let memory = other.allocate(16).unwrap();
        launch!(stream, "probe_write", 1, 1, 0, memory.address(), 0i64).unwrap();
        // An event that never came back to this stream would have been needed.
        match stream.synchronize() {
            Ok(()) => Error::Launch { kernel: "none".into(), why: ILLEGAL.into() },
            Err(error) => error,
        }
    };
    let seen = "memory whose allocation has not run on its stream yet";
    let found = (0..20).filter(|&seed| {
        machine.control.seed(seed);
        let (_card, stream) = open(0);
        reason(of_another_stream(&stream)).0.as_ref() == "probe_write"
            && machine.control.last_fault().contains(seen)
    });
    assert!(found.count() > 3);
}

#[test]
fn page_locked_memory_that_is_freed_too_early_is_found() {
    let Some(machine) = alone() else { return };
    let machine = machine.quiet();
    let early = |stream: &Arc<Stream>| {
        let memory = stream.allocate(16).unwrap();
        let pinned = Pinned::new(stream.card(), 16).unwrap();
        // SAFETY: it is not, and that is what is tested.
        #[expect(unsafe_code, reason = "copies are waited for later")]
        unsafe {
            stream.upload_later(memory.whole(), &pinned, 0..16).unwrap();
        }
        drop(pinned);
        stream.synchronize().unwrap_err()
    };
    fails(&machine, early, ILLEGAL, &["`copy`"]);
}

#[test]
fn a_kernel_that_misbehaves_is_trapped() {
    let Some(machine) = alone() else { return };
    let machine = machine.quiet();
    let launched = |name: &'static str, block: u32, shared: u32| {
        move |stream: &Arc<Stream>| {
            let memory = put(stream, &[0u8; 64]);
            let (address, n) = (memory.address(), 4i32);
            launch!(stream, name, 2, block, shared, address, address, n).unwrap();
            stream.synchronize().unwrap_err()
        }
    };
    let ended = "some threads of a block have ended and others wait at a barrier";
    fails(&machine, launched("probe_early_end", 64, 0), FAILED, &[ended]);
    let apart = "threads of a block wait at different barriers";
    fails(&machine, launched("probe_two_barriers", 64, 0), FAILED, &[apart]);
    let alone = "threads of a warp wait for others that do not come";
    fails(&machine, launched("probe_lonely_lane", 32, 0), FAILED, &[alone]);
    let endless = "a thread waits in a loop for what does not come";
    fails(&machine, launched("probe_endless_wait", 2, 0), FAILED, &[endless]);
    fails(&machine, launched("probe_misaligned", 1, 0), MISALIGNED, &["not a multiple"]);
    let deep = "a thread needs more than its stack of 64 KB";
    fails(&machine, launched("probe_deep_stack", 1, 0), ILLEGAL, &[deep]);
    fails(
        &machine,
        launched("probe_division", 1, 0),
        FAILED,
        &["division of a whole number by zero"],
    );
    // It uses more shared memory than the launch gives.
    fails(&machine, launched("probe_block_sum", 128, 16), ILLEGAL, &["`probe_block_sum`"]);
    fails(&machine, launched("probe_block_sum", 128, 0), FAILED, &["no dynamic shared memory"]);
}

/// Run by the next test in a process of its own.
#[test]
#[ignore = "it ends the process"]
fn the_host_touches_memory_of_the_card() {
    let Some(_machine) = alone() else { return };
    let (_card, stream) = open(0);
    let memory = put(&stream, &[7u8; 16]);
    stream.synchronize().unwrap();
    // SAFETY: it is not, and that is what is tested.
    #[expect(unsafe_code, reason = "memory of the card is read")]
    let byte = unsafe { (memory.address() as *const u8).read_volatile() };
    assert_eq!(byte, 7);
}

#[test]
fn the_host_cannot_touch_memory_of_the_card() {
    if alone().is_none() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "faults::the_host_touches_memory_of_the_card"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.signal(), Some(11), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_launch_that_cannot_be_says_so() {
    let Some(_machine) = alone() else { return };
    let (_card, stream) = open(0);
    let error = launch!(stream, "probe_early_end", 1, 1025, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a kernel failed on the card, `probe_early_end` or one before it: invalid argument (1 blocks of 1025 threads, 0 \
         bytes shared)"
    );
    assert!(launch!(stream, "probe_early_end", 0, 32, 0).is_err());
    assert!(launch!(stream, "probe_early_end", 1, 32, 200 << 10).is_err());
    // More than 48 KB of shared memory are allowed for the kernel first.
    let from = put(&stream, &[1.0f32; 128]);
    launch!(stream, "probe_block_sum", 1, 128, 64 << 10, from.address(), from.address(), 128i32)
        .unwrap();
    assert_eq!(get::<f32>(&stream, &from)[0], 128.0);
}

#[test]
fn a_lost_card_is_one_message() {
    let Some(machine) = alone() else { return };
    let (card, stream) = open(0);
    let memory = put(&stream, &[0u8; 16]);
    machine.control.lose_card();
    assert_eq!(stream.synchronize(), Err(Error::Lost));
    assert_eq!(stream.upload(memory.whole(), &[0; 16]), Err(Error::Lost));
    assert_eq!(card.memory(), Err(Error::Lost));
    assert_eq!(Card::open(0).err(), Some(Error::Lost));
    drop((memory, stream, card));
    machine.control.reset();
    let (_card, stream) = open(0);
    stream.synchronize().unwrap();
}

#[test]
fn a_driver_that_is_too_old_says_so() {
    let Some(machine) = alone() else { return };
    machine.control.set_driver_version(12080);
    let error = Card::open(0).unwrap_err();
    assert_eq!(error, Error::OldDriver { version: 12080 });
    assert_eq!(
        error.to_string(),
        "the NVIDIA driver is too old: it supports CUDA 12.8, and 13.0 (driver 580) is needed"
    );
}

#[test]
fn a_machine_without_cards_has_none() {
    let Some(machine) = alone() else { return };
    machine.control.set_cards(0);
    assert_eq!(Card::count(), Ok(0));
    assert_eq!(Card::open(0).err(), Some(Error::NoCard { number: 0, count: 0 }));
    machine.control.set_cards(5);
    assert_eq!(Card::count(), Ok(5));
}
