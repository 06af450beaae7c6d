//! Ranks that are processes of their own and stop without a word.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bireme_collective::{Config, Group, Reduce};
use bireme_comm::Settings;

use crate::ranks::{Way, settings};

/// Tells the process that runs the ignored test below what it is: `RANK ENDPOINTS MEMORY`.
const RANK: &str = "BIREME_COLLECTIVE_TEST_RANK";

fn hasty() -> Settings {
    Settings { heartbeat_timeout: Duration::from_secs(4), ..settings() }
}

fn join(rank: usize, endpoints: &[String], shared_memory: bool) -> Group {
    let config = Config::new(rank, endpoints.to_vec());
    let config = Config { settings: hasty(), shared_memory, ..config };
    Group::connect(&config, &Way::Unix.transport()).unwrap()
}

/// Reduces until it fails; the error.
fn reduce_for_ever(group: &Group) -> String {
    let mut data = vec![1.0f32; 10_000];
    loop {
        if let Err(error) = group.all_reduce(&mut data, Reduce::Max) {
            return error.to_string();
        }
    }
}

/// Not a test: the other ranks of the tests below.
#[test]
#[ignore = "runs in a process of its own, started by other tests"]
fn other_rank() {
    let Ok(what) = std::env::var(RANK) else { return };
    let words: Vec<&str> = what.split(' ').collect();
    let endpoints: Vec<_> = words[1].split(',').map(str::to_string).collect();
    let group = join(words[0].parse().unwrap(), &endpoints, words[2] == "true");
    println!("\nerror {}", reduce_for_ever(&group));
}

/// Ends the process when the test ends, however it does.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guard {
    fn start(rank: usize, endpoints: &[String], shared_memory: bool) -> Guard {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::other_rank", "--ignored", "--nocapture"]);
        let what = format!("{rank} {} {shared_memory}", endpoints.join(","));
        command.env(RANK, what).stdout(Stdio::piped());
        Guard(command.spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn error(&mut self) -> String {
        let output = BufReader::new(self.0.stdout.take().unwrap());
        // To the end: a process that cannot print complains.
        let lines: Vec<_> = output.lines().map_while(Result::ok).collect();
        lines.iter().find_map(|line| line.strip_prefix("error ")).unwrap().to_string()
    }
}

#[test]
fn a_rank_that_is_stopped_or_killed_is_named_on_all_others() {
    for (signal, shared_memory) in
        [("-STOP", true), ("-KILL", true), ("-STOP", false), ("-KILL", false)]
    {
        let (endpoints, _held) = Way::Unix.endpoints(3);
        let victim = Guard::start(1, &endpoints, shared_memory);
        let mut other = Guard::start(2, &endpoints, shared_memory);
        let group = join(0, &endpoints, shared_memory);
        for _ in 0..20 {
            group.all_reduce(&mut vec![1.0f32; 10_000], Reduce::Max).unwrap();
        }
        victim.signal(signal);
        let start = Instant::now();
        let culprit = format!("trainer 1 ({}) is lost", endpoints[1]);
        for text in [reduce_for_ever(&group), other.error()] {
            assert!(text.contains(&culprit), "{signal} {shared_memory}: {text}");
        }
        assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    }
}
