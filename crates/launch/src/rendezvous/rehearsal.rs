//! A meeting of nodes that say anything at all: what fuzzing and the test below apply to a board.
//!
//! The rule: whatever is said, in whatever order, the first entry that ends a job is the last one of
//! its log, and every message that is read can be written and read again.

use std::time::{Duration, Instant};

use super::board::Board;
use super::member::Expected;
use super::message::{Card, Entry, JobSecret, Request, decode, encode};

/// Applies bytes to a board: each line is a session's number, one byte, and what it says. Wrong messages are
/// errors, which a host answers and forgets.
#[doc(hidden)]
pub fn fuzz_board(bytes: &[u8]) {
    let (kind, said) = bytes.split_first().unwrap_or((&0, &[]));
    let patience = Duration::from_millis(u64::from(kind >> 4));
    let expected = match kind % 3 {
        0 => Expected::Listed(vec!["a".to_owned(), "b".to_owned()]),
        rest => Expected::Counted { least: 1, most: 3, by_address: rest == 1, patience },
    };
    let reference = Card {
        address: "a".to_owned(),
        rank: None,
        must_match: Vec::new(),
        should_match: Vec::new(),
        seats: Vec::new(),
        secret: JobSecret::default(),
    };
    let mut board = Board::new(expected, reference, u32::from(kind & 4));
    let mut now = Instant::now();
    for line in said.split(|byte| *byte == b'\n') {
        let Some((session, message)) = line.split_first() else { continue };
        // An answer of the host, as a member reads it.
        if let Ok(news) = decode::<Vec<Entry>>(message) {
            assert_eq!(decode::<Vec<Entry>>(&encode(&news)).as_ref(), Ok(&news));
        }
        now += Duration::from_millis(100);
        board.tick(now, session & 0x80 != 0);
        let Ok(request) = decode::<Request>(message) else { continue };
        assert_eq!(decode::<Request>(&encode(&request)).as_ref(), Ok(&request));
        apply(&mut board, u64::from(session & 7), request, now);
        let log = board.log_from(0);
        assert!(log.iter().rev().skip(1).all(|entry| !entry.is_last()), "{log:?}");
    }
}

fn apply(board: &mut Board, session: u64, request: Request, now: Instant) {
    match request {
        Request::Join(card) => drop(board.join(session, card, now)),
        Request::Watch(seen) => assert!(board.log_from(seen).len() <= board.log_from(0).len()),
        Request::Failed(failure) => board.failed(failure, now),
        Request::WorkersDone => board.workers_done(session),
        Request::Stopped { round, checkpoint } => board.stopped(session, round, checkpoint),
        Request::GiveUp(problem) => board.refuse(problem),
        Request::Leave => board.leave(session),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::Failure;
    use super::*;

    fn requests() -> impl Strategy<Value = Request> {
        let card = (0u8..4, prop::option::of(0usize..5)).prop_map(|(node, rank)| Card {
            address: char::from(b'a' + node).to_string(),
            rank,
            must_match: Vec::new(),
            should_match: Vec::new(),
            seats: Vec::new(),
            secret: JobSecret::default(),
        });
        let failure = any::<bool>().prop_map(|hearsay| {
            let process = Some((crate::job::Role::Worker, 0));
            Failure { hearsay, process, ..Failure::of_node("a", "broke") }
        });
        prop_oneof![
            card.prop_map(Request::Join),
            any::<usize>().prop_map(Request::Watch),
            failure.prop_map(Request::Failed),
            Just(Request::WorkersDone),
            (0u32..3).prop_map(|round| Request::Stopped { round, checkpoint: None }),
            Just(Request::GiveUp("late".to_owned())),
            Just(Request::Leave),
        ]
    }

    proptest! {
        #[test]
        fn a_job_ends_once_whatever_is_said(
            kind: u8,
            said in prop::collection::vec((any::<u8>(), requests()), 0..40),
        ) {
            let mut bytes = vec![kind];
            for (session, request) in said {
                // A newline is no session.
                bytes.push(if session == b'\n' { 0 } else { session });
                bytes.extend(encode(&request));
                bytes.push(b'\n');
            }
            fuzz_board(&bytes);
        }

        #[test]
        fn any_bytes_are_heard(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_board(&bytes);
        }
    }
}
