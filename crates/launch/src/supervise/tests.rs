//! Whole jobs of small shell scripts.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::job::{Mode, Process};

/// A process of a test.
pub(super) fn process(role: Role, rank: usize) -> Process {
    let name = format!("{role} {rank}");
    Process {
        role,
        rank,
        local_rank: rank,
        node: 0,
        endpoint: "127.0.0.1:0".to_owned(),
        variables: vec![("WHO".to_owned(), name)],
        removed: vec!["PADDLE_TRAINER_ID".to_owned()],
    }
}

/// A job of a test.
pub(super) fn job(mode: Mode, processes: Vec<Process>) -> Job {
    Job {
        mode,
        id: "default".to_owned(),
        nodes: vec!["127.0.0.1".to_owned()],
        node: 0,
        processes,
        command: Vec::new(),
        log_dir: std::env::temp_dir(),
        max_restart: 0,
    }
}

/// One server and `workers` workers that run `script`, which finds its role in `$WHO` and the logs
/// in `$LOGS`.
pub(super) fn shell(script: &str, workers: usize, folder: &Path) -> Job {
    let mut processes = vec![process(Role::Server, 0)];
    processes.extend((0..workers).map(|rank| process(Role::Worker, rank)));
    let log_dir = folder.join("log");
    for process in &mut processes {
        process.variables.push(("LOGS".to_owned(), log_dir.display().to_string()));
    }
    let command = ["sh", "-c", script].map(OsString::from).to_vec();
    Job { command, log_dir, ..job(Mode::Servers, processes) }
}

/// Waits until the server has written something.
const SERVER_WRITES: &str = "until grep -q . $LOGS/serverlog.0; do sleep 0.01; done";

pub(super) fn options() -> Options {
    Options { screen: Screen::captured(Level::Debug), signals: false, ..Options::default() }
}

#[test]
fn servers_end_after_their_workers() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo $WHO; case $WHO in server*) exec sleep 600;; esac; {SERVER_WRITES}");
    let (job, options) = (shell(&script, 2, folder.path()), options());
    let outcome = run(&job, &options).unwrap();
    let (out, messages) = options.screen.seen();
    assert_eq!(outcome, Outcome { code: 0, failure: None }, "{messages}");
    assert_eq!(out, "[worker 0] worker 0\n");
    let all = "all workers exit, going to finish parameter server and heter_worker.";
    assert!(messages.contains(all) && messages.contains("all parameter server are killed"));
    for (log, text) in [("serverlog.0", "server 0\n"), ("workerlog.1", "worker 1\n")] {
        assert_eq!(std::fs::read_to_string(job.log_dir.join(log)).unwrap(), text);
    }
}

#[test]
fn the_first_to_fail_decides() {
    let folder = tempfile::tempdir().unwrap();
    let script = "case $WHO in 'worker 1') echo no such file; exit 3;; *) exec sleep 600;; esac";
    let (job, options) = (shell(script, 2, folder.path()), options());
    let started = Instant::now();
    let outcome = run(&job, &options).unwrap();
    assert!(started.elapsed() < LONG);
    let failure = outcome.failure.unwrap();
    assert_eq!((outcome.code, failure.role, failure.rank), (3, Role::Worker, 1));
    let messages = options.screen.seen().1;
    assert!(messages.contains("error: worker 1 (of 2) ended with exit code 3"), "{messages}");
    assert!(
        messages.contains("\nno such file\n") && messages.contains("workerlog.1"),
        "{messages}"
    );
}

#[test]
fn who_only_heard_of_a_failure_is_not_blamed() {
    let folder = tempfile::tempdir().unwrap();
    // The server fails first, but because of worker 1, which waits until the launcher knows.
    let script = "case $WHO in \
                  server*) echo $$ > $LOGS/pid.new; mv $LOGS/pid.new $LOGS/pid; \
                  echo 'server 0: trainer 1 is lost: it ended with an error'; exit 1;; \
                  'worker 1') until [ -e $LOGS/pid ]; do sleep 0.01; done; \
                  while kill -0 $(cat $LOGS/pid) 2> $LOGS/gone; do sleep 0.01; done; \
                  echo KeyError; exit 4;; *) exec sleep 600;; esac";
    let (job, options) = (shell(script, 2, folder.path()), options());
    let outcome = run(&job, &options).unwrap();
    assert_eq!(outcome.code, 4, "{}", options.screen.seen().1);
    let messages = options.screen.seen().1;
    assert!(messages.contains("as a consequence: server 0 ended with exit code 1"), "{messages}");
}

/// A server that says at once that it has lost worker 1, and a worker 0 that ends at once.
const LOST: &str = r#"case $WHO in server*) \
    echo '{"lost":[{"role":"trainer","rank":1,"why":"silent"}]}' > /proc/self/fd/$BIREME_STATUS_FD; \
    exec sleep 600;; 'worker 0') exit 0;; esac; "#;

#[test]
fn a_worker_that_its_server_has_lost_is_named_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let job = shell(&format!("{LOST} exec sleep 600"), 2, folder.path());
    let options = Options { lost_grace: Some(Duration::from_millis(300)), ..options() };
    let outcome = run(&job, &options).unwrap();
    let messages = options.screen.seen().1;
    let failure = outcome.failure.unwrap();
    assert_eq!((outcome.code, failure.role, failure.rank), (137, Role::Worker, 1), "{messages}");
    for expected in [
        "warning: worker 1 still runs, but server 0 has lost it (silent)",
        "error: worker 1 (of 2) is stuck: server 0 has lost it (silent), and has used no CPU for",
        "workerlog.1",
    ] {
        assert!(messages.contains(expected), "{messages}");
    }
}

#[test]
fn a_lost_worker_that_ends_by_itself_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    // It waits until the launcher has spoken of it: the launcher writes into no log, so the test
    // gives it a grace that it never reaches.
    let job = shell(&format!("{LOST} {SERVER_WRITES}"), 2, folder.path());
    let script = job.command[2].to_str().unwrap().replace("exec sleep", "echo told; exec sleep");
    let job = Job { command: ["sh", "-c", &script].map(OsString::from).to_vec(), ..job };
    let options = options();
    let outcome = run(&job, &options).unwrap();
    assert_eq!(outcome, Outcome { code: 0, failure: None }, "{}", options.screen.seen().1);
}

#[test]
fn a_worker_that_hangs_is_started_again_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let again = "test $BIREME_RESTART -gt 0 && exit 0; \
                 echo '{\"mode\":\"async\"}' > /proc/self/fd/$BIREME_STATUS_FD; exec sleep 600";
    let job = Job { max_restart: 1, ..shell(&format!("{LOST} {again}"), 2, folder.path()) };
    let options = Options { lost_grace: Some(Duration::from_millis(300)), ..options() };
    let outcome = run(&job, &options).unwrap();
    let messages = options.screen.seen().1;
    assert_eq!(outcome, Outcome { code: 0, failure: None }, "{messages}");
    assert!(messages.contains("worker 1 is started again"), "{messages}");
}

#[test]
fn the_loss_of_a_process_is_not_charged_to_the_one_that_was_started_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    // The server notices late: the new process runs, and has not joined.
    let script = r#"case $WHO in server*) until [ -e $LOGS/second ]; do sleep 0.01; done; \
        echo '{"lost":[{"role":"trainer","rank":1,"why":"silent","process":"process '$(cat $LOGS/first)'"}]}' \
        > /proc/self/fd/$BIREME_STATUS_FD; exec sleep 600;; 'worker 0') exit 0;; esac; \
        if [ $BIREME_RESTART = 0 ]; then echo $$ > $LOGS/first; \
        echo '{"mode":"async"}' > /proc/self/fd/$BIREME_STATUS_FD; exit 1; fi; \
        touch $LOGS/second; exec sleep 1"#;
    let job = Job { max_restart: 1, ..shell(script, 2, folder.path()) };
    let options = Options { lost_grace: Some(Duration::from_millis(200)), ..options() };
    let outcome = run(&job, &options).unwrap();
    let messages = options.screen.seen().1;
    assert_eq!(outcome, Outcome { code: 0, failure: None }, "{messages}");
    assert!(!messages.contains("still runs"), "{messages}");
}

#[test]
fn what_a_process_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    // One grandchild in the worker's session, one that left it.
    let script = "case $WHO in server*) exec sleep 600;; esac; \
                  sleep 601 & echo $!; setsid sleep 602 & echo $!; sleep 0.1; exit 5";
    let (job, options) = (shell(script, 1, folder.path()), options());
    assert_eq!(run(&job, &options).unwrap().code, 5);
    let log = std::fs::read_to_string(job.log_dir.join("workerlog.0")).unwrap();
    let pids: Vec<i32> = log.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    let left = system::processes();
    let left = left.iter().filter(|entry| !entry.is_dead);
    assert_eq!(left.filter(|entry| pids.contains(&entry.pid.as_raw_nonzero().get())).count(), 0);
}

/// A pipe in the file system into which scripts write their numbers, one a line.
struct Roll {
    lines: std::io::Lines<std::io::BufReader<std::fs::File>>,
    path: std::path::PathBuf,
}

impl Roll {
    fn new(folder: &Path) -> Roll {
        use std::io::BufRead;
        let path = folder.join("roll");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Opened for both, so that it never ends.
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        Roll { lines: std::io::BufReader::new(file).lines(), path }
    }

    /// The next `count` numbers.
    fn call(&mut self, count: usize) -> Vec<rustix::process::Pid> {
        let numbers = self.lines.by_ref().take(count).map(|line| line.unwrap().parse().unwrap());
        numbers.map(|number| rustix::process::Pid::from_raw(number).unwrap()).collect()
    }
}

/// Every process writes its own number and those of two descendants, then sleeps.
fn sleepers(roll: &Path) -> String {
    let roll = roll.display();
    format!("sleep 601 & setsid sleep 602 & echo $! >> {roll}; echo $$ >> {roll}; exec sleep 603")
}

/// Whether all of these have ended by `until`; looks again and again.
fn all_gone(pids: &[rustix::process::Pid], until: Instant) -> bool {
    loop {
        let left = system::processes();
        if !left.iter().any(|entry| pids.contains(&entry.pid) && !entry.is_dead) {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// No wait of a test on a machine with other work is longer.
const LONG: Duration = Duration::from_secs(30);

/// Kills one process of a job after the other, and looks how the job ends, in less than `bound`.
fn kill_one_by_one(rounds: usize, bound: Duration) {
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let mut roll = Roll::new(folder.path());
        let job = shell(&sleepers(&roll.path), 2, folder.path());
        let options = options();
        std::thread::scope(|scope| {
            let watched = scope.spawn(|| run(&job, &options));
            let pids = roll.call(6);
            let leaders: Vec<_> = system::processes()
                .into_iter()
                .filter(|entry| {
                    pids.contains(&entry.pid)
                        && entry.parent == rustix::process::getpid().as_raw_nonzero().get()
                })
                .collect();
            assert_eq!(leaders.len(), 3);
            let killed = Instant::now();
            rustix::process::kill_process(leaders[round % 3].pid, rustix::process::Signal::KILL)
                .unwrap();
            let outcome = watched.join().unwrap().unwrap();
            assert!(killed.elapsed() < bound, "round {round}: {:?}", killed.elapsed());
            let messages = options.screen.seen().1;
            assert_eq!(outcome.code, 137, "round {round}: {messages}");
            assert!(messages.contains("was ended by signal 9 (SIGKILL)"), "{messages}");
            assert!(all_gone(&pids, Instant::now() + bound), "round {round}");
        });
    }
}

#[test]
fn a_killed_process_ends_the_job() {
    kill_one_by_one(6, LONG);
}

#[test]
#[ignore = "a hundred jobs, on an idle machine"]
fn a_killed_process_ends_the_job_a_hundred_times() {
    kill_one_by_one(100, Duration::from_secs(2));
}

/// The launcher of the tests below: this test binary, started again.
#[test]
#[ignore = "the other tests start it"]
fn launcher() {
    let Ok(folder) = std::env::var("LAUNCH_TEST_FOLDER") else { return };
    let folder = Path::new(&folder);
    let script = std::fs::read_to_string(folder.join("script")).unwrap();
    let job = shell(&script, 2, folder);
    let options = Options { patience: Duration::from_millis(500), ..Options::default() };
    let outcome = run(&job, &options).unwrap();
    std::process::exit(outcome.code.into());
}

fn start_launcher(folder: &Path, script: &str) -> std::process::Child {
    std::fs::write(folder.join("script"), script).unwrap();
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "supervise::tests::launcher", "--ignored", "--nocapture"])
        .env("LAUNCH_TEST_FOLDER", folder)
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(folder.join("messages")).unwrap())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_launcher_leaves_nobody_behind() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let mut roll = Roll::new(folder.path());
        let mut launcher = start_launcher(folder.path(), &sleepers(&roll.path));
        let pids = roll.call(6);
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        assert!(all_gone(&pids, Instant::now() + LONG));
    }
}

#[test]
fn signals_end_the_job_and_a_second_one_forces_it() {
    use rustix::process::{Pid, Signal};
    let stubborn = "trap '' INT TERM; ";
    for (signal, code, begin) in
        [(Signal::INT, 130, ""), (Signal::TERM, 143, ""), (Signal::TERM, 143, stubborn)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut roll = Roll::new(folder.path());
        let script = format!("{begin}{}", sleepers(&roll.path));
        let mut launcher = start_launcher(folder.path(), &script);
        let pids = roll.call(6);
        let own = Pid::from_child(&launcher);
        rustix::process::kill_process(own, signal).unwrap();
        rustix::process::kill_process(own, signal).ok();
        assert_eq!(launcher.wait().unwrap().code(), Some(code));
        assert!(all_gone(&pids, Instant::now() + LONG));
        let messages = std::fs::read_to_string(folder.path().join("messages")).unwrap();
        let number = code - 128;
        assert!(messages.contains(&format!("Terminating with signal {number}\n")), "{messages}");
    }
}

#[test]
fn a_failed_job_is_started_again_as_often_as_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo run $BIREME_RESTART; case $WHO in server*) exec sleep 600;; \
                  'worker 0') [ $BIREME_RESTART -ge 2 ] || exit 7;; esac";
    let mut job = shell(script, 2, folder.path());
    job.max_restart = 3;
    let options = options();
    let outcome = run(&job, &options).unwrap();
    let (out, messages) = options.screen.seen();
    assert_eq!(outcome.code, 0, "{messages}");
    assert_eq!(out, "[worker 0] run 0\n[worker 0] run 1\n[worker 0] run 2\n");
    assert!(messages.contains("all processes are started again; restarts left: 1"), "{messages}");

    job.max_restart = 1;
    let last = run(&job, &options).unwrap();
    assert_eq!(last.code, 7);
    assert!(options.screen.seen().1.contains("not started again: all 1 restarts are used up"));
}

#[test]
fn a_trainer_that_nobody_waits_for_is_started_alone() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "echo run $BIREME_RESTART; \
         case $WHO in server*) exec sleep 600;; 'worker 1') {SERVER_WRITES}; \
         eval \"echo '{{\\\"mode\\\":\\\"async\\\"}}' >&$BIREME_STATUS_FD\"; \
         [ $BIREME_RESTART = 1 ] || kill -9 $$;; esac"
    );
    let mut job = shell(&script, 2, folder.path());
    job.max_restart = 3;
    job.command[0] = "bash".into();
    let options = options();
    let outcome = run(&job, &options).unwrap();
    let messages = options.screen.seen().1;
    assert_eq!(outcome.code, 0, "{messages}");
    assert!(messages.contains("worker 1 is started again; restarts left: 2"), "{messages}");
    let server = std::fs::read_to_string(job.log_dir.join("serverlog.0")).unwrap();
    assert_eq!(server, "run 0\n");
}

#[test]
fn another_machine_can_end_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::new().unwrap();
    let options = Options { stop: Some(stop.clone()), ..options() };
    let job = shell("exec sleep 600", 1, folder.path());
    stop.end(9, "error: node 1 failed");
    assert_eq!(run(&job, &options).unwrap(), Outcome { code: 9, failure: None });
    assert!(options.screen.seen().1.contains("error: node 1 failed"));
}
