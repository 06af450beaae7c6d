//! Cards, memory, streams, events, recordings and kernels.

use std::sync::Arc;

use bireme_cuda::driver::{Card, Error, Event, Pinned, Result, Stream, Timing};

use crate::card::{alone, get, launch, open, put, shared};

fn scale(stream: &Stream, from: u64, to: u64, n: i32, by: f32) -> Result<()> {
    launch!(stream, "probe_scale", 4, 32, 0, from, to, n, by)
}

#[test]
fn a_card_says_what_it_is() {
    let Some(_machine) = shared() else { return };
    assert_eq!(Card::count().unwrap(), 2);
    let card = Card::open(1).unwrap();
    assert_eq!((card.number(), card.name(), card.capability()), (1, "emulated card", (8, 0)));
    assert_eq!((card.multiprocessors(), card.shared_bytes()), (4, 99 << 10));
    assert!(card.is_emulated());
    assert_ne!(card.uuid(), Card::open(0).unwrap().uuid());
    let none = Card::open(2).unwrap_err();
    assert_eq!(none, Error::NoCard { number: 2, count: 2 });
    assert_eq!(none.to_string(), "there is no card 2: this machine has 2");
}

#[test]
fn memory_is_counted_and_given_back() {
    let Some(machine) = alone() else { return };
    let (card, stream) = open(0);
    let memory = stream.allocate(1000).unwrap();
    let figures = card.memory().unwrap();
    assert_eq!((figures.total - figures.free, figures.used), (1000, 1000));
    drop(memory);
    // It is freed when the stream gets there.
    assert_eq!(machine.control.allocated(), 1000);
    stream.synchronize().unwrap();
    assert_eq!(machine.control.allocated(), 0);
    card.trim().unwrap();
}

#[test]
fn bytes_come_back_as_they_went() {
    let Some(machine) = alone() else { return };
    for seed in 0..20 {
        machine.control.seed(seed);
        let (_card, stream) = open(0);
        let values: Vec<u32> = (0..1000).collect();
        let first = put(&stream, &values);
        let second = stream.allocate(4000).unwrap();
        stream.copy(second.whole(), first.whole()).unwrap();
        stream.fill(second.span(0..8).unwrap(), 0xff).unwrap();
        stream.fill_words(second.span(8..16).unwrap(), 7).unwrap();
        let back: Vec<u32> = get(&stream, &second);
        assert_eq!(back[..4], [u32::MAX, u32::MAX, 7, 7]);
        assert_eq!(back[4..], values[4..]);

        // Two columns of a matrix with ten.
        let columns = stream.allocate(100 * 8).unwrap();
        stream.copy_rows((columns.whole(), 8), (first.span(8..4000).unwrap(), 40), 100, 8).unwrap();
        let back: Vec<u32> = get(&stream, &columns);
        assert_eq!(back[..4], [2, 3, 12, 13]);
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let Some(_machine) = shared() else { return };
    let (_card, stream) = open(0);
    let memory = stream.allocate(16).unwrap();
    assert!(memory.span(8..17).is_none());
    assert!(stream.upload(memory.whole(), &[0; 15]).is_err());
    assert!(stream.download(&mut [0; 17], memory.whole()).is_err());
    assert!(stream.copy(memory.whole(), memory.span(0..8).unwrap()).is_err());
    assert!(stream.fill_words(memory.span(0..7).unwrap(), 0).is_err());
    let rows = stream.copy_rows((memory.whole(), 8), (memory.whole(), 8), 3, 8).unwrap_err();
    assert_eq!(
        rows.to_string(),
        "`cuMemcpy2DAsync` failed: 3 rows of 8 bytes, 8 apart, in 16 bytes (code 1)"
    );
    stream.upload(stream.allocate(0).unwrap().whole(), &[]).unwrap();
}

#[test]
fn fresh_memory_holds_a_pattern() {
    let Some(_machine) = shared() else { return };
    let (_card, stream) = open(0);
    let memory = stream.allocate(100).unwrap();
    assert_eq!(get::<u8>(&stream, &memory), [0xcb; 100]);
}

#[test]
fn kernels_give_the_same_bits_in_any_order() {
    let Some(machine) = alone() else { return };
    let mut seen = Vec::new();
    for seed in 0..20 {
        machine.control.seed(seed);
        let (_card, stream) = open(0);
        let values: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
        let from = put(&stream, &values);
        let to = stream.allocate(8 * 4).unwrap();
        launch!(stream, "probe_block_sum", 8, 128, 8 * 4, from.address(), to.address(), 1000i32)
            .unwrap();
        seen.push(get::<u32>(&stream, &to));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    let sums: Vec<f32> = seen[0].iter().map(|&bits| f32::from_bits(bits)).collect();
    for (block, sum) in sums.iter().enumerate() {
        let wanted: f32 =
            (block * 128..1000.min(block * 128 + 128)).map(|i| (i as f32).sin()).sum();
        assert!((sum - wanted).abs() < 1e-4, "{sum} {wanted}");
    }
}

#[test]
fn blocks_run_in_an_order_of_the_seed() {
    if bireme_emulator::FINDS_RACES {
        // What it shows is one.
        return;
    }
    let Some(machine) = alone() else { return };
    let mut last = Vec::new();
    for seed in [1, 2, 3, 4, 5, 1] {
        machine.control.seed(seed);
        let (_card, stream) = open(0);
        let at = put(&stream, &[-1i32]);
        launch!(stream, "probe_last_block", 64, 1, 0, at.address()).unwrap();
        last.push(get::<i32>(&stream, &at)[0]);
    }
    assert_eq!(last[0], last[5]);
    assert!(last.iter().any(|&block| block != last[0]), "{last:?}");
}

#[test]
fn warps_vote() {
    let Some(_machine) = shared() else { return };
    let (_card, stream) = open(0);
    let out = stream.allocate(64 * 3 * 4).unwrap();
    launch!(stream, "probe_votes", 1, 64, 0, out.address()).unwrap();
    for (thread, votes) in get::<i32>(&stream, &out).chunks(3).enumerate() {
        let same = 0x1111_1111u32 << (thread % 4);
        assert_eq!(votes, [22, 0xaaaa_aaaau32.cast_signed(), same.cast_signed()]);
    }
}

#[test]
fn kernels_of_the_crate_are_there() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let from = put(&stream, &[1.0f32, -2.0, 3.0]);
    let to = stream.allocate(12).unwrap();
    let (n, zero) = (3i64, 0.0f64);
    launch!(stream, "relu_f32", 1, 32, 0, from.address(), to.address(), n, zero, zero, zero)
        .unwrap();
    assert_eq!(get::<f32>(&stream, &to), [1.0, 0.0, 3.0]);
    let missing = card.function("no_such_kernel").err().unwrap();
    assert_eq!(
        missing.to_string(),
        "`cuModuleGetFunction` failed: there is no kernel `no_such_kernel` (code 500)"
    );
}

#[test]
fn work_runs_when_it_is_waited_for() {
    let Some(machine) = alone() else { return };
    let (_card, stream) = open(0);
    let before = machine.control.launches();
    let at = put(&stream, &[0i32]);
    for _ in 0..3 {
        launch!(stream, "probe_count", 1, 32, 0, at.address()).unwrap();
    }
    assert_eq!(machine.control.launches(), before);
    assert_eq!(get::<i32>(&stream, &at), [3]);
    assert_eq!(machine.control.launches(), before + 3);
    assert!(stream.is_idle().unwrap());
}

/// Doubles a value on one stream and doubles it again on another.
fn on_two_streams(ordered: bool) -> f32 {
    let (card, first) = open(0);
    let second = Stream::new(&card).unwrap();
    let from = put(&first, &[1.0f32]);
    let to = put(&first, &[0.0f32]);
    first.synchronize().unwrap();
    scale(&first, from.address(), to.address(), 1, 2.0).unwrap();
    if ordered {
        let event = Event::new(&card, Timing::Off).unwrap();
        first.record(&event).unwrap();
        second.wait(&event).unwrap();
    }
    scale(&second, to.address(), to.address(), 1, 2.0).unwrap();
    let value = get::<f32>(&second, &to)[0];
    first.synchronize().unwrap();
    value
}

#[test]
fn a_missing_wait_is_found() {
    let Some(machine) = alone() else { return };
    let mut wrong = 0;
    for seed in 0..20 {
        machine.control.seed(seed);
        wrong += u32::from(on_two_streams(false) != 4.0);
        machine.control.seed(seed);
        assert_eq!(on_two_streams(true), 4.0);
    }
    assert!(wrong > 3, "{wrong} of 20 seeds found it");
}

#[test]
fn page_locked_bytes_are_copied_later() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let memory = stream.allocate(4).unwrap();
    let mut pinned = Pinned::new(&card, 4).unwrap();
    assert_eq!(pinned.as_slice(), [0; 4]);
    pinned.as_mut_slice().copy_from_slice(&[1; 4]);
    // The bytes of the host that are not page-locked are taken at the call.
    let mut plain = [3; 4];
    stream.upload(memory.whole(), &plain).unwrap();
    plain.fill(4);
    assert_eq!(get::<u8>(&stream, &memory), [3; 4]);
    // A safe upload of page-locked bytes waits.
    stream.upload(memory.whole(), pinned.as_slice()).unwrap();
    pinned.as_mut_slice().fill(9);
    assert_eq!(get::<u8>(&stream, &memory), [1; 4]);
    // SAFETY: what is tested is that the bytes are read when the copy runs.
    #[expect(unsafe_code, reason = "copies are waited for later")]
    unsafe {
        stream.upload_later(memory.whole(), &pinned, 0..4).unwrap();
        pinned.as_mut_slice().fill(2);
        let back = Pinned::new(&card, 8).unwrap();
        stream.download_later(&back, 4..8, memory.whole()).unwrap();
        assert_eq!(back.as_slice(), [0; 8]);
        stream.synchronize().unwrap();
        assert_eq!(back.as_slice(), [0, 0, 0, 0, 2, 2, 2, 2]);
        assert!(stream.upload_later(memory.whole(), &pinned, 1..5).is_err());
    }
}

#[test]
fn events_come_and_take_the_time() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let start = Event::new(&card, Timing::On).unwrap();
    let end = Event::new(&card, Timing::On).unwrap();
    assert!(end.is_done().unwrap(), "an event that was never recorded has come");
    let at = put(&stream, &[0i32]);
    stream.record(&start).unwrap();
    for _ in 0..5 {
        launch!(stream, "probe_count", 1, 32, 0, at.address()).unwrap();
    }
    stream.record(&end).unwrap();
    let mut asked = 0;
    while !end.is_done().unwrap() {
        asked += 1;
    }
    assert!(asked > 0);
    assert!(end.milliseconds_since(&start).unwrap() >= 0.0);
    end.synchronize().unwrap();
    let plain = Event::new(&card, Timing::Off).unwrap();
    stream.record(&plain).unwrap();
    plain.synchronize().unwrap();
    assert!(plain.milliseconds_since(&start).is_err());
}

#[test]
fn a_recording_is_replayed_with_its_arguments() {
    let Some(machine) = alone() else { return };
    for seed in 0..20 {
        machine.control.seed(seed);
        let (card, stream) = open(0);
        let from = put(&stream, &[1.0f32, 2.0]);
        let to = put(&stream, &[0.0f32; 2]);
        card.function("probe_scale").unwrap();
        let before = machine.control.launches();
        let graph = stream
            .capture(|| {
                let mut by = 3.0;
                scale(&stream, from.address(), to.address(), 2, by)?;
                by += 1.0;
                scale(&stream, to.address(), to.address(), 1, by)
            })
            .unwrap();
        assert!(!stream.is_recording().unwrap());
        stream.synchronize().unwrap();
        assert_eq!(machine.control.launches(), before);
        for round in 1..4 {
            stream.upload(from.whole(), bytemuck::bytes_of(&[round as f32, 0.5])).unwrap();
            graph.launch(&stream).unwrap();
            assert_eq!(get::<f32>(&stream, &to), [round as f32 * 12.0, 1.5]);
        }
        // It may go while it is replayed.
        graph.launch(&stream).unwrap();
        drop(graph);
        stream.synchronize().unwrap();
    }
}

/// Records a diamond: two branches between a start and an end; `joined` brings the second one back.
fn diamond(card: &Arc<Card>, streams: [&Stream; 2], at: [u64; 3], joined: bool) -> Result<()> {
    let [first, second] = streams;
    let (fork, join) = (Event::new(card, Timing::Off)?, Event::new(card, Timing::Off)?);
    scale(first, at[0], at[0], 1, 2.0)?;
    first.record(&fork)?;
    second.wait(&fork)?;
    scale(first, at[0], at[1], 1, 3.0)?;
    scale(second, at[0], at[2], 1, 5.0)?;
    second.record(&join)?;
    if joined {
        first.wait(&join)?;
        scale(first, at[1], at[1], 1, 2.0)?;
    }
    Ok(())
}

#[test]
fn a_recording_may_fork_and_join() {
    let Some(machine) = alone() else { return };
    for seed in 0..20 {
        machine.control.seed(seed);
        let (card, stream) = open(0);
        let second = Stream::new(&card).unwrap();
        let memory = [put(&stream, &[1.0f32]), put(&stream, &[0.0f32]), put(&stream, &[0.0f32])];
        let at = [0, 1, 2].map(|i: usize| memory[i].address());
        card.function("probe_scale").unwrap();
        let graph = stream.capture(|| diamond(&card, [&stream, &second], at, true)).unwrap();
        graph.launch(&stream).unwrap();
        // A replay on another stream follows the first one.
        graph.launch(&second).unwrap();
        second.synchronize().unwrap();
        assert_eq!([0, 1, 2].map(|i: usize| get::<f32>(&stream, &memory[i])[0]), [4.0, 24.0, 20.0]);

        let unjoined =
            stream.capture(|| diamond(&card, [&stream, &second], at, false)).err().unwrap();
        assert_eq!(
            unjoined.to_string(),
            "`cuStreamEndCapture` failed: capturing stream has unjoined work (code 904)"
        );
        assert!(!second.is_recording().unwrap());
        assert_eq!(get::<f32>(&stream, &memory[0]), [4.0]);
    }
}

#[test]
fn what_a_recording_forbids_fails() {
    let Some(_machine) = shared() else { return };
    let (card, stream) = open(0);
    let memory = put(&stream, &[0u8; 4]);
    stream.synchronize().unwrap();
    let code = |recorded: Result<_>| match recorded.err().unwrap() {
        Error::Call { function, code, .. } => (function, code),
        other => panic!("{other}"),
    };
    assert_eq!(code(stream.capture(|| stream.synchronize())), ("cuStreamSynchronize", 900));
    assert_eq!(code(stream.capture(|| card.synchronize())), ("cuCtxSynchronize", 900));
    assert_eq!(code(stream.capture(|| stream.allocate(16).map(|_| ()))), ("cuMemAllocAsync", 900));
    assert_eq!(
        code(stream.capture(|| Pinned::new(&card, 16).map(|_| ()))),
        ("cuMemHostAlloc", 900)
    );
    assert_eq!(
        code(stream.capture(|| stream.upload(memory.whole(), &[1; 4]))),
        ("cuMemcpyHtoDAsync", 1)
    );
    // An error that the caller hides spoils the recording all the same.
    let hidden = stream.capture(|| {
        let _ = stream.synchronize();
        Ok(())
    });
    assert_eq!(code(hidden), ("cuStreamEndCapture", 901));
    // An event from before the recording is not part of it.
    let outside = Event::new(&card, Timing::Off).unwrap();
    stream.record(&outside).unwrap();
    assert_eq!(code(stream.capture(|| stream.wait(&outside))), ("cuStreamWaitEvent", 905));
    // Nothing of all that is left.
    stream.capture(|| stream.fill(memory.whole(), 7)).unwrap().launch(&stream).unwrap();
    assert_eq!(get::<u8>(&stream, &memory), [7; 4]);
}

#[test]
fn a_panic_ends_the_recording() {
    let Some(_machine) = shared() else { return };
    let (_card, stream) = open(0);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|| panic!("told to"))
    }));
    assert!(caught.is_err());
    assert!(!stream.is_recording().unwrap());
}

#[test]
fn cards_work_apart_and_copy_to_each_other() {
    let Some(machine) = alone() else { return };
    for seed in 0..10 {
        machine.control.seed(seed);
        let ((first, on_first), (_second, on_second)) = (open(0), open(1));
        let from = put(&on_first, &[1.0f32, 2.0]);
        let to = put(&on_second, &[0.0f32; 2]);
        scale(&on_first, from.address(), from.address(), 2, 3.0).unwrap();
        let done = Event::new(&first, Timing::Off).unwrap();
        on_first.record(&done).unwrap();
        on_second.wait(&done).unwrap();
        on_second.copy(to.whole(), from.whole()).unwrap();
        scale(&on_second, to.address(), to.address(), 2, 2.0).unwrap();
        assert_eq!(get::<f32>(&on_second, &to), [6.0, 12.0]);
    }
}

#[test]
fn threads_share_a_card() {
    let Some(_machine) = shared() else { return };
    let card = Card::open(0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let card = &card;
            scope.spawn(move || {
                let stream = Stream::new(card).unwrap();
                let memory = put(&stream, &[thread as f32]);
                for _ in 0..10 {
                    scale(&stream, memory.address(), memory.address(), 1, 2.0).unwrap();
                }
                assert_eq!(get::<f32>(&stream, &memory), [thread as f32 * 1024.0]);
            });
        }
    });
}
