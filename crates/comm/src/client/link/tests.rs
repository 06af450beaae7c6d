//! One link, and what it counts.

use super::super::shared::tests::connected;
use super::*;
use crate::{Lane, Settings};

#[test]
fn requests_keep_away_from_links_with_calls_without_a_limit() {
    let one = Settings { send_connections: 2, ..Settings::default() };
    let (_server, shared) = connected(one);
    let first = shared.pick(Lane::Send).unwrap();
    first.register(1, true, None);
    let second = shared.pick(Lane::Send).unwrap();
    for _ in 0..3 {
        second.register(1, true, None);
    }
    // What `Link::wait_until_lost` counts: it has less to do, but nobody knows for how long.
    first.long_calls.fetch_add(1, Ordering::Relaxed);
    assert!(Arc::ptr_eq(&shared.pick(Lane::Send).unwrap(), &second));
    first.long_calls.fetch_sub(1, Ordering::Relaxed);
    assert!(Arc::ptr_eq(&shared.pick(Lane::Send).unwrap(), &first));
    shared.close();
}

#[test]
fn a_request_counts_once_wherever_it_is_moved() {
    let (_server, shared) = connected(Settings { max_pending: 2, ..Settings::default() });
    let [from, to] = [0, 1].map(|number| Link::start(&shared, number).unwrap());
    for _ in 0..2 {
        shared.reserve("a request").unwrap();
    }
    // The calls' own threads have the bytes, so that no other sends them.
    let (waits, abandoned) = (from.register(1, true, None), from.register(1, true, None));
    from.abandon(abandoned);
    from.move_to(&to);
    assert_eq!((from.load(), to.load()), (0, 2));
    let (there, number) = lock(&from.state).flights[&waits].moved().unwrap();
    assert!(Arc::ptr_eq(&there, &to) && lock(&from.state).flights.len() == 1);
    // Both are answered, and both give their place back once.
    for number in [number, number + 1] {
        to.settle(&mut lock(&to.state), number, Outcome::Failure("no".into()));
    }
    assert!(from.wait(waits, "a request", None, Until::Deadline).is_err());
    assert_eq!((from.load(), to.load()), (0, 0));
    for _ in 0..2 {
        shared.reserve("a request").unwrap();
    }
    shared.close();
}

#[test]
fn an_idle_link_does_not_use_up_the_time_of_the_next_request() {
    // No ping shows meanwhile that the connection works.
    let (heartbeat, heartbeat_timeout) = (Duration::from_secs(60), Duration::from_secs(600));
    let settings = Settings { heartbeat, heartbeat_timeout, ..Settings::default() };
    let (_server, shared) = connected(settings);
    let link = Link::start(&shared, 0).unwrap();
    let broken = |link: &Link| {
        let state = lock(&link.state);
        (state.broken_in_a_row, state.broken_since.is_some())
    };
    let break_it = |link: &Link| {
        let mut state = lock(&link.state);
        (state.broken_in_a_row, state.broken_since) = (9, Some(Instant::now()));
    };
    break_it(&link);
    shared.reserve("a request").unwrap();
    link.register(1, true, None);
    assert_eq!(broken(&link), (0, false));
    // The next one joins a request that has waited through it all.
    break_it(&link);
    shared.reserve("a request").unwrap();
    link.register(1, true, None);
    assert_eq!(broken(&link), (9, true));
    shared.close();
}
