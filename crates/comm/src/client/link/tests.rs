//! One link, and what it counts.

use super::super::shared::tests::connected;
use super::*;
use crate::Settings;

#[test]
fn an_idle_link_does_not_use_up_the_time_of_the_next_request() {
    // No ping shows meanwhile that the connection works.
    let (heartbeat, heartbeat_timeout) = (Duration::from_secs(60), Duration::from_secs(600));
    let settings = Settings { heartbeat, heartbeat_timeout, ..Settings::default() };
    let (_server, shared) = connected(settings);
    let link = Link::start(&shared, 0).unwrap();
    let broken = |link: &Link| {
        let state = lock(&link.state);
        (state.cuts, state.cut_since.is_some())
    };
    let break_it = |link: &Link| {
        let mut state = lock(&link.state);
        (state.cuts, state.cut_since) = (9, Some(Instant::now()));
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
