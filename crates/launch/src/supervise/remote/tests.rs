//! One machine among others: what it tells them, and what it does about their news.

use super::*;
use crate::job::Job;
use crate::rendezvous::{self, Alone};
use crate::supervise::tests::{options, shell};
use crate::supervise::{Options, run_with};

#[test]
fn a_failure_elsewhere_is_told_with_its_log() {
    let failure = Failure {
        process: Some((Role::Worker, 1)),
        log: "log/workerlog.0".into(),
        tail: vec!["KeyError: 'x'".into()],
        ..Failure::of_node("10.0.0.2", "ended with exit code 1")
    };
    let text = describe(&failure);
    assert!(text.starts_with(
        "error: worker 1 on node 10.0.0.2 ended with exit code 1\n  log:     log/workerlog.0 \
         on 10.0.0.2\n"
    ));
    assert!(text.contains("\nKeyError: 'x'\n"), "{text}");
}

/// Other machines of a test: what they say is pushed, what they are told is kept.
#[derive(Default)]
struct Others {
    said: Alone,
    told: std::sync::Mutex<Vec<String>>,
}

impl Others {
    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }
}

impl Peers for Others {
    fn local_failed(&self, failure: &rendezvous::Failure) {
        self.tell(format!("failed: {failure}"));
        self.said.local_failed(failure);
    }

    fn local_workers_done(&self) {
        self.tell("done".into());
        self.said.local_workers_done();
    }

    fn local_stopped(&self, round: u32, checkpoint: Option<String>) {
        self.tell(format!("stopped {round}"));
        self.said.local_stopped(round, checkpoint.or_else(|| Some("/shared/step10".into())));
    }

    fn next_event(&self, patience: Duration) -> Option<rendezvous::Event> {
        self.said.next_event(patience)
    }

    fn leave(&self) {
        self.tell("left".into());
    }
}

fn run_among(job: &Job, options: &Options, others: &Arc<Others>) -> Outcome {
    let peers: Arc<dyn Peers> = others.clone();
    run_with(job, options, &peers).unwrap()
}

#[test]
fn other_machines_hear_of_workers_and_failures() {
    let folder = tempfile::tempdir().unwrap();
    let script = "case $WHO in server*) exec sleep 600;; esac";
    let (job, quiet, others) = (shell(script, 2, folder.path()), options(), Arc::default());
    assert_eq!(run_among(&job, &quiet, &others).code, 0, "{}", quiet.screen.seen().1);
    assert_eq!(*others.told.lock().unwrap(), ["done", "left"]);
    let script = "case $WHO in 'worker 1') echo KeyError; exit 3;; *) exec sleep 600;; esac";
    let (job, others) = (shell(script, 2, folder.path()), Arc::default());
    assert_eq!(run_among(&job, &options(), &others).code, 3);
    let told = others.told.lock().unwrap();
    assert_eq!(told[..], ["failed: worker 1 on node 127.0.0.1 ended with exit code 3", "left"]);
}

#[test]
fn what_other_machines_say_ends_the_job_here() {
    let folder = tempfile::tempdir().unwrap();
    let (job, options) = (shell("exec sleep 600", 1, folder.path()), options());
    let others = Arc::<Others>::default();
    others.said.local_failed(&rendezvous::Failure {
        code: 7,
        ..rendezvous::Failure::of_node("10.0.0.2", "broke")
    });
    assert_eq!(run_among(&job, &options, &others).code, 7);
    assert!(options.screen.seen().1.contains("error: node 10.0.0.2 broke"));
}

#[test]
fn all_machines_begin_again_together() {
    let folder = tempfile::tempdir().unwrap();
    let script = "case $WHO in server*) exec sleep 600;; esac; test $BIREME_RESTART -gt 0 || \
                  exec sleep 600; echo from $(cat $BIREME_JOB_DIR/told_checkpoint)";
    let (job, options) = (shell(script, 1, folder.path()), options());
    let others = Arc::<Others>::default();
    others.said.push(rendezvous::Event::Restart {
        round: 1,
        failure: rendezvous::Failure::of_node("10.0.0.2", "broke"),
    });
    assert_eq!(run_among(&job, &options, &others).code, 0, "{}", options.screen.seen().1);
    assert_eq!(*others.told.lock().unwrap(), ["stopped 1", "done", "left"]);
    assert_eq!(options.screen.seen().0, "[worker 0] from /shared/step10\n");
}

#[test]
fn a_lost_worker_of_another_machine_has_time_to_be_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"case $WHO in server*) \
        echo '{"lost":[{"role":"trainer","rank":1,"why":"silent"}]}' > /proc/self/fd/$BIREME_STATUS_FD; \
        exec sleep 600;; esac; exec sleep 1"#;
    let mut job = shell(script, 2, folder.path());
    job.nodes.push("10.0.0.2".to_owned());
    job.processes[2].node = 1;
    let options = Options { lost_grace: Some(Duration::from_millis(200)), ..options() };
    let others = Arc::<Others>::default();
    assert_eq!(run_among(&job, &options, &others).code, 0, "{}", options.screen.seen().1);
    assert_eq!(*others.told.lock().unwrap(), ["done", "left"]);
}
