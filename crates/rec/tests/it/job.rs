//! A training in processes of its own: this test binary is started again, and told by its
//! environment to train.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bireme_fleet::Environment;
use bireme_rec::run::{Epoch, Options, train};
use bireme_rec::{Config, Log, zoo};

/// Variables that tell this binary to train.
const CONFIG: &str = "BIREME_REC_TEST_CONFIG";
const RESUME: &str = "BIREME_REC_TEST_RESUME";
/// Milliseconds that every line of the log takes, for a trainer that is slow.
pub(crate) const SLOW: &str = "BIREME_REC_TEST_SLOW";

/// What a process of a job does; a test in name only.
#[test]
#[ignore = "a process that other tests start"]
fn child() {
    let path = std::env::var(CONFIG).expect("a test that starts this process names its config");
    let config = Config::load(Path::new(&path), &[]).unwrap();
    let listening = |endpoint: &str| eprintln!("listening {endpoint}");
    let log = match std::env::var(SLOW) {
        Ok(millis) => Log::to(Slow(Duration::from_millis(millis.parse().unwrap()))),
        Err(_) => Log::stderr(),
    };
    let options = Options {
        resume: std::env::var(RESUME).is_ok(),
        listen: Some(("127.0.0.1:0".to_owned(), Arc::new(listening))),
        log,
        ..Options::default()
    };
    let environment = Environment::read().unwrap();
    match train(&config, &environment, &options) {
        Ok(outcome) => eprintln!("result {}", serde_json::to_string(&outcome.epochs).unwrap()),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

/// A log that takes its time, and the training thread with it.
struct Slow(Duration);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::thread::sleep(self.0);
        std::io::stderr().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A folder with data and a configuration.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
}

impl Setup {
    /// Data of the zoo model `dnn` in some files, and a configuration for it; `more` are keys of
    /// `runner`.
    pub(crate) fn new(files: u64, rows: usize, more: &str) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let dnn = zoo::find("dnn").unwrap();
        for file in 0..files {
            let mut text = Vec::new();
            (dnn.generate)(&mut text, rows, file + 1).unwrap();
            std::fs::write(data.join(format!("part-{file}")), text).unwrap();
        }
        let text = format!(
            "model: dnn\nrunner:\n  train_data_dir: \"{{workspace}}/data\"\n  test_data_dir: \
             \"{{workspace}}/data\"\n  reader_type: QueueDataset\n  use_auc: True\n  \
             model_save_path: \"{{workspace}}/models\"\n  infer_load_path: \
             \"{{workspace}}/models\"\n{more}\nhyper_parameters:\n  optimizer:\n    class: Adam\n    \
             learning_rate: 0.01\n  sparse_feature_number: 6001\n  sparse_feature_dim: 4\n  \
             fc_sizes: [16, 8]\n"
        );
        std::fs::write(folder.path().join("config.yaml"), text).unwrap();
        Setup { folder }
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("config.yaml")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The parameters that an epoch ended with, to the bit.
    pub(crate) fn parameters(&self, epoch: u64) -> Vec<u8> {
        let file = format!("models/{epoch}/rec_inference.pdiparams");
        std::fs::read(self.folder.path().join(file)).unwrap()
    }

    /// Starts a process of a job with these variables.
    pub(crate) fn start(&self, variables: &[(&str, String)], resume: bool) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["job::child", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env_clear().env(CONFIG, self.config()).current_dir(self.folder.path());
        // For pipe commands.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if resume {
            command.env(RESUME, "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stderr.take().unwrap());
        Process { child, lines, seen: Vec::new() }
    }

    /// Starts a server and trainers of a job with servers.
    pub(crate) fn start_cluster(&self, trainers: usize, resume: bool) -> Vec<Process> {
        self.start_uneven(trainers, resume, 0)
    }

    /// The same; each line that the last trainer logs takes so many milliseconds.
    pub(crate) fn start_uneven(&self, trainers: usize, resume: bool, slow: u64) -> Vec<Process> {
        let common = ("PADDLE_TRAINERS_NUM", trainers.to_string());
        let servers = |list: &str| ("PADDLE_PSERVERS_IP_PORT_LIST", list.to_owned());
        let role = |role: &str| ("TRAINING_ROLE", role.to_owned());
        let variables = [
            role("PSERVER"),
            servers("127.0.0.1:1"),
            ("PADDLE_PSERVER_ID", "0".into()),
            common.clone(),
        ];
        let mut server = self.start(&variables, resume);
        let line = server.until(|line| line.starts_with("listening ")).expect("a server listens");
        let endpoint = line.trim_start_matches("listening ").to_owned();
        let mut processes: Vec<Process> = (0..trainers)
            .map(|rank| {
                let id = ("PADDLE_TRAINER_ID", rank.to_string());
                let mut variables = vec![role("TRAINER"), servers(&endpoint), id, common.clone()];
                if slow > 0 && rank + 1 == trainers {
                    variables.push((SLOW, slow.to_string()));
                }
                self.start(&variables, resume)
            })
            .collect();
        processes.push(server);
        processes
    }

    /// Starts the ranks of a job without servers.
    pub(crate) fn start_ranks(&self, ranks: usize, resume: bool) -> Vec<Process> {
        let held: Vec<TcpListener> =
            (0..ranks).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let endpoints: Vec<String> =
            held.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        drop(held);
        let start = |rank: usize| {
            let variables = [
                ("TRAINING_ROLE", "TRAINER".to_owned()),
                ("PADDLE_TRAINERS_NUM", ranks.to_string()),
                ("PADDLE_TRAINER_ID", rank.to_string()),
                ("PADDLE_CURRENT_ENDPOINT", endpoints[rank].clone()),
                ("PADDLE_TRAINER_ENDPOINTS", endpoints.join(",")),
            ];
            self.start(&variables, resume)
        };
        (0..ranks).map(start).collect()
    }

    /// Changes the text of the configuration.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.config()).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(self.config(), text.replacen(from, to, 1)).unwrap();
    }

    /// Runs a job with servers to its end; what its trainer 0 says.
    pub(crate) fn run_cluster(&self, trainers: usize, resume: bool) -> Vec<Epoch> {
        let mut processes = self.start_cluster(trainers, resume);
        let results: Vec<Vec<Epoch>> =
            processes.iter_mut().map(Process::finish).take(trainers).collect();
        drop(processes);
        results[0].clone()
    }
}

fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// A process that trains or serves; ended when it is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    /// The next line that `is_it`; none when the process ends before.
    pub(crate) fn until(&mut self, is_it: impl Fn(&str) -> bool) -> Option<String> {
        loop {
            let line = self.lines.recv().ok()?;
            self.seen.push(line.clone());
            if is_it(&line) {
                return Some(line);
            }
        }
    }

    /// Ends it as a power failure would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end; what it says came out.
    pub(crate) fn finish(&mut self) -> Vec<Epoch> {
        let result = self.until(|line| line.starts_with("result "));
        while let Ok(line) = self.lines.recv() {
            self.seen.push(line);
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}:\n{}", self.seen.join("\n"));
        serde_json::from_str(result.unwrap().trim_start_matches("result ")).unwrap()
    }

    /// Everything that it has said.
    pub(crate) fn said(&self) -> &[String] {
        &self.seen
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What must be the same in two runs: all but the time.
pub(crate) fn comparable(epochs: &[Epoch]) -> Vec<(u64, u64, BTreeMap<String, f64>, u64)> {
    let same =
        |epoch: &Epoch| (epoch.epoch, epoch.loss.to_bits(), epoch.metrics.clone(), epoch.samples);
    epochs.iter().map(same).collect()
}
