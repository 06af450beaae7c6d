//! A job's log under all orders of joining, leaving, failing and ending.

use super::*;

fn card(address: &str) -> Card {
    Card {
        address: address.into(),
        rank: None,
        must_match: vec![("--servers".into(), "a:1".into())],
        should_match: Vec::new(),
        seats: Vec::new(),
        secret: Default::default(),
    }
}

fn listed(nodes: &[&str]) -> Board {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    Board::new(Expected::Listed(nodes.clone()), card(&nodes[0]), 0)
}

fn counted(least: usize, most: usize, by_address: bool) -> Board {
    let patience = Duration::from_secs(30);
    Board::new(Expected::Counted { least, most, by_address, patience }, card("host"), 0)
}

/// A job of two nodes, `a` (1) and `b` (2), that has started.
fn started(restarts: u32) -> Board {
    let mut board = listed(&["a", "b"]);
    board.restarts = restarts;
    board.join(2, card("b"), Instant::now());
    board.join(1, card("a"), Instant::now());
    board
}

fn order(board: &Board) -> Vec<String> {
    match board.log.last() {
        Some(Entry::Started(cards)) => cards.iter().map(|(_, card)| card.address.clone()).collect(),
        other => panic!("not started: {other:?}"),
    }
}

#[test]
fn the_list_decides_the_order_and_arrival_does_not() {
    let board = started(0);
    assert_eq!(board.log[..2], [Entry::Joined("b".into()), Entry::Joined("a".into())]);
    assert_eq!(order(&board), ["a", "b"]);
    assert_eq!(board.log_from(2).len(), 1);
    assert!(board.log_from(99).is_empty());
}

#[test]
fn different_commands_are_named_and_end_it_for_all() {
    let mut board = listed(&["a", "b"]);
    board.join(1, card("a"), Instant::now());
    let other = Card { must_match: vec![("--servers".into(), "b:2".into())], ..card("b") };
    let expected = "node b was started with `--servers=b:2`, but node a with `--servers=a:1`: start \
                    the same command on all nodes";
    assert_eq!(board.join(2, other, Instant::now()), Joining::Refused(expected.into()));
    assert_eq!(board.log.last(), Some(&Entry::Refused(expected.into())));
    let (ours, theirs) = unequal(&[], &[("--job_id".into(), "x".into())]).unwrap();
    assert_eq!((ours.as_str(), theirs.as_str()), ("without `--job_id`", "with `--job_id=x`"));
}

#[test]
fn mild_differences_are_told() {
    let mut board = listed(&["a", "b"]);
    let other = Card { should_match: vec![("script".into(), "x.py".into())], ..card("b") };
    assert_eq!(board.join(2, other, Instant::now()), Joining::Accepted);
    assert!(matches!(&board.log[1], Entry::Note(note) if note.contains("`script=x.py`")));
}

#[test]
fn a_node_joins_once() {
    let mut board = listed(&["a", "b"]);
    let now = Instant::now();
    assert_eq!(board.join(1, card("a"), now), Joining::Accepted);
    assert_eq!(board.join(1, card("a"), now), Joining::Accepted, "a repeated request");
    assert_eq!(board.join(9, card("a"), now), Joining::Twice);
    board.lost(1, "killed");
    assert_eq!(board.log.last(), Some(&Entry::Left("a".into())));
    assert_eq!(board.join(9, card("a"), now), Joining::Accepted);
    assert!(matches!(board.join(3, card("c"), now), Joining::Refused(_)));
    board.join(2, card("b"), now);
    assert_eq!(order(&board), ["a", "b"]);
    assert!(
        matches!(board.join(4, card("b"), now), Joining::Refused(text) if text.contains("already runs on a, b"))
    );
}

#[test]
fn ranks_are_given_by_wish_then_by_arrival_or_address() {
    let now = Instant::now();
    let mut board = counted(4, 4, false);
    board.join(1, card("10.0.0.9"), now);
    board.join(2, Card { rank: Some(0), ..card("10.0.0.10") }, now);
    board.join(3, Card { rank: Some(2), ..card("10.0.0.1") }, now);
    board.join(4, card("10.0.0.2"), now);
    assert_eq!(order(&board), ["10.0.0.10", "10.0.0.9", "10.0.0.1", "10.0.0.2"]);
    let mut board = counted(3, 3, true);
    for (session, address) in [(1, "10.0.0.9"), (2, "10.0.0.10"), (3, "10.0.0.1")] {
        board.join(session, card(address), now);
    }
    assert_eq!(order(&board), ["10.0.0.1", "10.0.0.9", "10.0.0.10"]);
}

#[test]
fn a_rank_is_taken_once_and_exists() {
    let mut board = counted(2, 2, false);
    board.join(1, Card { rank: Some(1), ..card("x") }, Instant::now());
    let Joining::Refused(problem) =
        board.join(2, Card { rank: Some(1), ..card("y") }, Instant::now())
    else {
        panic!("taken twice")
    };
    assert_eq!(problem, "nodes x and y were both started with `--rank 1`");
    let mut board = counted(2, 2, false);
    let joining = board.join(1, Card { rank: Some(2), ..card("x") }, Instant::now());
    assert!(matches!(joining, Joining::Refused(text) if text.contains("ranks end at 1")));
}

#[test]
fn fewer_nodes_start_when_no_more_come() {
    let start = Instant::now();
    let mut board = counted(1, 3, false);
    board.tick(start + Duration::from_secs(99), false);
    assert!(board.log.is_empty(), "nobody is here");
    board.join(1, card("a"), start);
    board.tick(start + Duration::from_secs(29), false);
    board.join(2, card("b"), start + Duration::from_secs(29));
    board.tick(start + Duration::from_secs(31), false);
    assert_eq!(board.log.len(), 2, "the clock starts with the last arrival");
    board.tick(start + Duration::from_secs(59), false);
    assert_eq!(order(&board), ["a", "b"]);
}

#[test]
fn the_first_failure_is_the_last_word() {
    let mut board = started(0);
    let first = Failure::of_node("a", "broke");
    board.failed(first.clone(), Instant::now());
    board.failed(Failure::of_node("b", "broke too"), Instant::now());
    board.lost(2, "silent");
    board.workers_done(1);
    assert_eq!(board.log_from(3), [Entry::Failed(first)]);
}

#[test]
fn workers_are_done_when_those_of_all_nodes_are() {
    let mut board = started(0);
    board.workers_done(1);
    assert_eq!(board.log.len(), 3);
    board.workers_done(2);
    assert_eq!(board.log_from(3), [Entry::WorkersDone]);
    assert!(!board.only_left(1));
    board.leave(2);
    assert!(board.only_left(1));
    assert_eq!(board.log.len(), 4, "leaving after the end is no news");
}

#[test]
fn who_is_lost_or_leaves_early_ends_the_job() {
    let mut board = started(0);
    board.lost(2, "silent");
    let lost = Entry::Lost { node: "b".into(), why: "silent".into() };
    assert_eq!(board.log_from(3), [lost]);
    let mut board = started(0);
    board.leave(2);
    assert!(
        matches!(board.log.last(), Some(Entry::Failed(failure)) if failure.to_string().starts_with("node b left before"))
    );
}

#[test]
fn giving_up_counts_only_before_the_start() {
    let mut board = started(0);
    board.refuse("too late".into());
    assert_eq!(board.log.len(), 3);
    let mut board = listed(&["a", "b"]);
    board.refuse("b did not come".into());
    assert_eq!(board.log, [Entry::Refused("b did not come".into())]);
    assert!(matches!(board.join(1, card("a"), Instant::now()), Joining::Refused(_)));
}

#[test]
fn a_restart_waits_until_all_have_stopped() {
    let mut board = started(1);
    let failure =
        Failure { process: Some((crate::job::Role::Worker, 0)), ..Failure::of_node("a", "broke") };
    board.workers_done(2);
    board.failed(failure.clone(), Instant::now());
    board.failed(Failure::of_node("b", "was ended by its launcher"), Instant::now());
    let checkpoint = Some("saved/step10".to_owned());
    board.stopped(1, 1, checkpoint.clone());
    board.stopped(1, 1, None);
    assert_eq!(board.log_from(3), [Entry::Restart { round: 1, failure: failure.clone() }]);
    board.stopped(2, 1, None);
    assert_eq!(board.log_from(4), [Entry::Begin { round: 1, checkpoint }]);
    board.workers_done(1);
    assert_eq!(board.log.len(), 5, "done in the round before does not count");
    board.failed(failure.clone(), Instant::now());
    assert_eq!(board.log_from(5), [Entry::Failed(failure)], "no restart is left");
}

#[test]
fn who_blames_another_is_believed_for_a_while() {
    let now = Instant::now();
    let hearsay = Failure { hearsay: true, ..Failure::of_node("a", "lost its peer") };
    let mut board = started(0);
    board.failed(hearsay.clone(), now);
    board.tick(now, false);
    assert_eq!(board.log.len(), 3);
    let cause = Failure::of_node("b", "broke");
    board.failed(cause.clone(), now);
    board.tick(now + HEARSAY, false);
    assert_eq!(board.log_from(3), [Entry::Failed(cause)]);
    let mut board = started(0);
    board.failed(hearsay.clone(), now);
    board.tick(now + HEARSAY, true);
    assert_eq!(board.log.len(), 3, "a node is silent");
    board.tick(now + HEARSAY, false);
    assert_eq!(board.log_from(3), [Entry::Failed(hearsay)], "nobody else failed");
}
