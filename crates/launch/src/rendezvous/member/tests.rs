//! Whole meetings in one process, over a network in memory.

use std::thread;

use bireme_comm::Memory;

use super::*;
use crate::job::Role;
use crate::rendezvous::{JobSecret, Seat};

/// No wait of these tests is longer.
const BOUND: Duration = Duration::from_secs(60);

fn config(address: &str, nodes: &[&str]) -> Config {
    let place = if address == nodes[0] { Place::Here } else { Place::There };
    Config {
        endpoint: format!("{}:6767", nodes[0]),
        place,
        expected: Expected::Listed(nodes.iter().map(ToString::to_string).collect()),
        card: Card {
            address: address.into(),
            rank: None,
            must_match: vec![("--ips".into(), nodes.join(","))],
            should_match: Vec::new(),
            seats: vec![Seat { role: Role::Worker, port: 6070, devices: String::new() }],
            secret: JobSecret(format!("made by {address}")),
        },
        restarts: 0,
        start_timeout: BOUND,
        settings: Settings {
            heartbeat: Duration::from_millis(100),
            heartbeat_timeout: Duration::from_secs(2),
            deadline: BOUND,
            ..Settings::default()
        },
        say: Arc::new(|_| {}),
        interrupt: None,
    }
}

type Joined = JoinHandle<Result<Membership>>;

fn start(config: Config, network: &Memory) -> Joined {
    let transport: Arc<dyn Transport> = Arc::new(network.clone());
    thread::spawn(move || join(&config, &transport))
}

fn meet(configs: Vec<Config>, network: &Memory) -> Vec<Membership> {
    let joined: Vec<_> = configs.into_iter().map(|config| start(config, network)).collect();
    joined.into_iter().map(|node| node.join().unwrap().unwrap()).collect()
}

fn problem(node: Joined) -> String {
    node.join().unwrap().err().expect("it cannot join").to_string()
}

const THREE: [&str; 3] = ["a", "b", "c"];

fn three(network: &Memory, restarts: u32) -> Vec<Membership> {
    let configs =
        THREE.iter().rev().map(|node| Config { restarts, ..config(node, &THREE) }).collect();
    let mut nodes = meet(configs, network);
    nodes.reverse();
    nodes
}

#[test]
fn nodes_meet_whoever_is_first_and_end_together() {
    let network = Memory::new(0);
    let nodes = three(&network, 0);
    for (index, node) in nodes.iter().enumerate() {
        assert_eq!(node.node(), index);
        let addresses: Vec<_> = node.roster().iter().map(|card| card.address.as_str()).collect();
        assert_eq!(addresses, THREE);
        assert_eq!(node.secret(), Some("made by a"), "all have that of the first node");
        assert!(!format!("{:?}", node.roster()).contains("made by"));
    }
    nodes[1].local_workers_done();
    nodes[0].local_workers_done();
    assert_eq!(nodes[2].next_event(Duration::from_millis(20)), None);
    nodes[2].local_workers_done();
    for node in &nodes {
        assert_eq!(node.next_event(BOUND), Some(Event::AllWorkersDone));
    }
    // The host first: it waits for the others by itself.
    nodes.iter().for_each(|node| node.leave());
}

#[test]
fn whoever_has_not_joined_hears_nothing_and_ends_nothing() {
    let network = Memory::new(0);
    let nodes = three(&network, 0);
    let transport: Arc<dyn Transport> = Arc::new(network.clone());
    let settings = config("a", &THREE).settings;
    let stranger = Client::connect(transport, "a:6767", IDENTITY, IDENTITY, settings).unwrap();
    for request in [Request::Watch(0), Request::Failed(Failure::of_node("x", "lies"))] {
        let asked = stranger.call(Lane::Send, 0, request.name(), &[&encode(&request)], true);
        assert!(asked.unwrap_err().to_string().contains("nodes that have joined"));
    }
    nodes.iter().for_each(|node| node.local_workers_done());
    for node in &nodes {
        assert_eq!(node.next_event(BOUND), Some(Event::AllWorkersDone));
        node.leave();
    }
}

#[test]
fn the_first_failure_is_told_to_all() {
    let nodes = three(&Memory::new(0), 0);
    let failure = Failure {
        process: Some((Role::Worker, 2)),
        tail: vec!["ValueError: no".into()],
        ..Failure::of_node("c", "exited with code 3")
    };
    nodes[2].local_failed(&failure);
    for node in &nodes {
        assert_eq!(node.next_event(BOUND), Some(Event::Failed(failure.clone())));
        node.local_failed(&Failure::of_node("a", "was ended"));
    }
}

#[test]
fn a_restart_begins_when_all_have_stopped() {
    let nodes = three(&Memory::new(0), 1);
    let failure = Failure { process: Some((Role::Worker, 1)), ..Failure::of_node("b", "broke") };
    nodes[1].local_failed(&failure);
    for node in &nodes {
        let restart = Event::Restart { round: 1, failure: failure.clone() };
        assert_eq!(node.next_event(BOUND), Some(restart));
        node.local_stopped(1, (node.node() == 1).then(|| "saved".to_owned()));
    }
    for node in &nodes {
        let checkpoint = Some("saved".to_owned());
        assert_eq!(node.next_event(BOUND), Some(Event::Begin { round: 1, checkpoint }));
        node.local_workers_done();
    }
    assert_eq!(nodes[0].next_event(BOUND), Some(Event::AllWorkersDone));
}

#[test]
fn a_lost_host_is_named() {
    let network = Memory::new(0);
    let nodes = three(&network, 0);
    network.restart("a:6767");
    let Some(Event::NodeLost { node, why }) = nodes[1].next_event(BOUND) else {
        panic!("not lost")
    };
    assert_eq!(node, "a");
    assert!(why.contains("nothing listens there any more"), "{why}");
}

#[test]
fn a_node_that_goes_before_the_end_is_named() {
    let mut nodes = three(&Memory::new(0), 0);
    drop(nodes.pop());
    let Some(Event::Failed(failure)) = nodes[0].next_event(BOUND) else { panic!("not told") };
    assert!(failure.to_string().starts_with("node c left before the job was done"));
}

#[test]
fn a_node_that_never_comes_is_named_to_all() {
    let network = Memory::new(0);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    let mut host = config("a", &THREE);
    host.start_timeout = Duration::from_secs(5);
    host.say = Arc::new(move |line| heard.lock().unwrap().push(line.to_owned()));
    let (host, other) = (start(host, &network), start(config("b", &THREE), &network));
    let expected = "1 of 3 nodes did not come: c (within 5 s, which `BIREME_START_TIMEOUT` sets): \
                    start the same command on the others, or check that a:6767 can be reached from \
                    there";
    assert_eq!(problem(host), expected);
    assert_eq!(problem(other), expected);
    let lines = lines.lock().unwrap();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("waiting for 1 of 3 nodes: c ("), "{line}");
    assert!(line.ends_with(" s of 5 s)"), "{line}");
}

#[test]
fn a_host_that_never_comes_is_named() {
    let mut member = config("b", &THREE);
    member.start_timeout = Duration::from_millis(200);
    let problem = problem(start(member, &Memory::new(0)));
    assert!(problem.starts_with("node a did not open the rendezvous at a:6767"), "{problem}");
}

#[test]
fn different_commands_end_the_wait_of_all() {
    let network = Memory::new(0);
    let mut other = config("b", &THREE);
    other.card.must_match = vec![("--ips".into(), "a,b".into())];
    let host = start(config("a", &THREE), &network);
    let other = start(other, &network);
    let expected = "node b was started with `--ips=a,b`, but node a with `--ips=a,b,c`";
    assert!(problem(other).starts_with(expected));
    assert!(problem(host).starts_with(expected));
}

#[test]
fn a_wrong_secret_is_refused_at_once() {
    let network = Memory::new(0);
    let mut host = config("a", &THREE);
    host.start_timeout = Duration::from_secs(2);
    let host = start(host, &network);
    let mut other = config("b", &THREE);
    other.settings.secret = bireme_comm::Secret::new(b"other");
    let problem_here = problem(start(other, &network));
    assert!(problem_here.contains("`BIREME_JOB_SECRET`"), "{problem_here}");
    assert!(problem(host).starts_with("2 of 3 nodes did not come: b, c"));
}

#[test]
fn two_nodes_with_one_address_are_refused() {
    let network = Memory::new(0);
    let first = start(config("b", &THREE), &network);
    let mut host = config("a", &THREE);
    host.start_timeout = Duration::from_secs(5);
    let host = start(host, &network);
    let second = start(config("b", &THREE), &network);
    let (first, second) = (problem(first), problem(second));
    let twice = "a node with the address b takes part already";
    assert!(first.starts_with(twice) != second.starts_with(twice), "{first}; {second}");
    assert!(problem(host).starts_with("1 of 3 nodes did not come: c"));
}

#[test]
fn counted_nodes_have_ranks_and_more_are_refused() {
    let network = Memory::new(0);
    let counted = |address: &str, rank| {
        let mut config = config(address, &["a"]);
        config.place = if address == "a" { Place::Here } else { Place::There };
        let patience = Duration::from_secs(1);
        config.expected = Expected::Counted { least: 3, most: 3, by_address: false, patience };
        config.card.rank = rank;
        config
    };
    let nodes = meet(vec![counted("a", None), counted("x", Some(0)), counted("y", None)], &network);
    assert_eq!(nodes[1].node(), 0);
    assert_eq!(nodes[0].roster()[0].address, "x");
    let late = problem(start(counted("z", None), &network));
    assert!(late.contains("the job already runs on"), "{late}");
}

#[test]
fn an_interrupted_wait_ends() {
    let mut member = config("b", &THREE);
    member.interrupt = Some(Interrupt::new(|| true));
    let problem = problem(start(member, &Memory::new(0)));
    assert_eq!(problem, "interrupted while waiting for other nodes");
}

#[test]
fn a_taken_port_is_named() {
    let network = Memory::new(0);
    let _taken = network.listen("a:6767").unwrap();
    let problem = problem(start(config("a", &THREE), &network));
    assert!(problem.contains("a:6767, is taken by another program"), "{problem}");
}
