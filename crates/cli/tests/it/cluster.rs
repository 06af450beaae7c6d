//! `bireme train` as a cluster of processes: the same model as one process, one display, and
//! nothing left running whatever happens.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bireme_engine::{Scope, io};

use crate::{bireme, finish};

/// No wait of a test takes longer.
const LONG: Duration = Duration::from_secs(120);
const SMALL: [&str; 7] = ["train", "--samples", "3000", "--batch-size", "256", "--rows", "2000"];

/// Trains a small model into `output`, and returns the command's stdout.
fn train(folder: &Path, output: &str, flags: &[&str]) -> String {
    let args = [&SMALL[..], &["--threads", "2", "--output", output], flags].concat();
    let ran = bireme(folder, &args, "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("samples/s"), "{}", ran.stderr);
    ran.stdout
}

/// The largest difference between parameters of two models.
fn difference(one: &Path, two: &Path) -> f64 {
    let [one, two] = [one, two].map(|path| {
        let scope = Scope::new();
        io::load_inference_model(path, &scope).unwrap();
        scope
    });
    let mut largest = 0.0f64;
    assert!(!one.names().is_empty());
    for name in one.names() {
        let [a, b] = [&one, &two].map(|scope| scope.get(&name).unwrap().to_f64_vec());
        assert_eq!(a.len(), b.len(), "{name}");
        largest = a.iter().zip(&b).fold(largest, |most, (a, b)| most.max((a - b).abs()));
    }
    largest
}

#[test]
fn a_cluster_in_sync_trains_the_model_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).join("model");
    train(folder.path(), "local", &["--local"]);
    train(folder.path(), "cluster", &[]);
    train(folder.path(), "again", &[]);
    train(folder.path(), "larger", &["--servers", "3", "--workers", "2"]);
    let far = difference(&path("local"), &path("cluster"));
    assert!(far < 1e-5, "{far}");
    let bytes = |name: &str| fs::read(path(name).with_extension("pdiparams")).unwrap();
    assert!(bytes("cluster") == bytes("again"), "the same run twice");
    assert!(bytes("cluster") == bytes("larger"), "servers do not matter");
}

/// The AUC on data that training did not see.
fn auc(stdout: &str) -> f64 {
    let line = stdout.lines().find_map(|line| line.strip_prefix("AUC"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect(stdout)
}

/// Trainers that do not wait for each other make more and smaller steps, and may do better.
#[test]
fn every_mode_reaches_the_auc_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let size = ["--samples", "60000", "--rows", "5000", "--batch-size", "128", "--threads", "2"];
    let train = |output: &str, flags: &[&str]| {
        let args = [&["train", "--output", output][..], &size, flags].concat();
        let ran = bireme(folder.path(), &args, "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        auc(&ran.stdout)
    };
    let local = train("local", &["--local"]);
    assert!(local > 0.75, "{local}");
    for mode in ["async", "half_async", "geo", "hybrid"] {
        let auc = train(mode, &["--mode", mode]);
        assert!(auc > local - 0.005, "{mode}: {auc}, one process: {local}");
        let sample = fs::read_to_string(folder.path().join(mode).join("sample.txt")).unwrap();
        let ran = bireme(folder.path(), &["predict", &format!("{mode}/model")], &sample);
        assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 100), "{}", ran.stderr);
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, code, reason) in [
        (&["--parallel", "threads"][..], 1, "add `--local`"),
        (&["--servers", "0", "--workers", "2"], 1, "raise `--servers`"),
        (&["--servers", "0", "--mode", "async"], 1, "raise `--servers`"),
        (&["--batch-size", "1"], 1, "a batch of 1 is too small for 2 trainers"),
        (&["--samples", "1"], 1, "1 samples are too few for 2 trainers"),
        (&["--local", "--mode", "sync"], 2, "cannot be used with"),
        (&["--mode", "fast"], 2, "half_async"),
        (&["--workers", "0"], 2, "must be at least 1"),
        (&["--servers", "65"], 2, "must be at most 64"),
    ] {
        let ran = bireme(folder.path(), &[&["train"], flags].concat(), "");
        assert_eq!(ran.code, Some(code), "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "`{reason}` in: {}", ran.stderr);
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was written");
}

/// A cluster that trains for long, and its members.
struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start() -> Running {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_bireme"))
            .args(["train", "--samples", "2000", "--epochs", "100000", "--rows", "2000"])
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // The first trainer says so, when all of them have begun.
        while !line.starts_with("training") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it trained");
        }
        Running { child, stderr, _folder: folder }
    }

    /// The process numbers of members with this role.
    fn members(&self, role: &str) -> Vec<u32> {
        let role = format!("TRAINING_ROLE={role}");
        children(self.child.id())
            .into_iter()
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|pair| pair == role.as_bytes())
            })
            .collect()
    }

    /// Waits for the end; returns the exit code and what was written to stderr since the start.
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + LONG;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the cluster does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The name, in parentheses, may hold anything.
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            fields.split_whitespace().nth(1) == Some(&parent.to_string())
        })
        .collect()
}

fn kill(pid: u32) {
    let ran = finish(Command::new("kill").args(["-9", &pid.to_string()]), "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// Waits until none of these processes runs.
fn gone(pids: &[u32]) {
    let deadline = Instant::now() + LONG;
    let runs = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // One that nobody has asked for its exit code yet runs no longer.
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while pids.iter().any(runs) {
        assert!(Instant::now() < deadline, "some of {pids:?} still run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_death_of_a_member_ends_the_cluster_with_its_name() {
    for (role, name) in [("TRAINER", "error: worker "), ("PSERVER", "error: server 0 (of 1)")] {
        let running = Running::start();
        let members = [running.members("PSERVER"), running.members("TRAINER")].concat();
        assert_eq!(members.len(), 3);
        kill(running.members(role)[0]);
        let (code, stderr) = running.end();
        assert_eq!(code, Some(128 + 9), "{stderr}");
        let expected = [name, "SIGKILL"];
        assert!(expected.iter().all(|part| stderr.contains(part)), "{stderr}");
        gone(&members);
    }
}

#[test]
fn members_do_not_outlive_the_process_that_started_them() {
    let running = Running::start();
    let members = [running.members("PSERVER"), running.members("TRAINER")].concat();
    assert_eq!(members.len(), 3);
    kill(running.child.id());
    assert_eq!(running.end().0, None);
    gone(&members);
}
