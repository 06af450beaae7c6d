//! `fleetrun` as a user meets it: command lines of Paddle's guides, and the messages about wrong
//! ones. Ports, times and folders are made equal before a run is compared.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use expect_test::{Expect, expect, expect_file};
use tempfile::TempDir;

/// Stands for a Python interpreter with Bireme: says who it is, and serves until it is ended.
const PYTHON: &str = r#"#!/bin/sh
[ "$1" = -c ] && exit 0
shift 3
case "$TRAINING_ROLE" in
    TRAINER) echo "trainer $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM" ;;
    *) echo "$TRAINING_ROLE at $POD_IP:$PADDLE_PORT" ;;
esac
echo "gpus: selected ${FLAGS_selected_gpus--} visible ${CUDA_VISIBLE_DEVICES--} all ${PADDLE_WORLD_DEVICE_IDS:--}"
[ -n "$STAGE_ID" ] && echo "stage $STAGE_ID of $STAGE_NUM on $HETER_DEVICE_TYPE"
echo "runs: $*"
case "$TRAINING_ROLE" in PSERVER|HETER_TRAINER) exec sleep 600 ;; esac
for log in $WAIT_FOR; do
    until grep -q runs: "$PADDLE_LOG_DIR/$log" 2>/dev/null; do sleep 0.01; done
done
exit ${EXIT:-0}
"#;

/// A folder with a script and a fake interpreter.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train.py"), "import paddle\n").unwrap();
        let python = folder.path().join("python");
        fs::write(&python, PYTHON).unwrap();
        fs::set_permissions(&python, Permissions::from_mode(0o755)).unwrap();
        Desk { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, line: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleetrun"));
        command.args(line.split_whitespace()).current_dir(self.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("PYTHON", self.path().join("python")).env("OMP_NUM_THREADS", "1");
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str, variables: &[(&str, &str)]) -> Output {
        self.command(line, variables).output().unwrap()
    }

    /// Exit code, both streams and all logs, as one text.
    fn story(&self, output: &Output, logs: &str) -> String {
        let text = |bytes: &[u8]| self.equal(&String::from_utf8_lossy(bytes));
        let mut story = format!(
            "exit code {:?}\n== stdout\n{}== stderr\n{}",
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr)
        );
        let mut names: Vec<_> = fs::read_dir(self.path().join(logs))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        names.sort();
        for name in names.iter().filter(|name| name.is_file()) {
            let content = fs::read(name).unwrap();
            let file = name.file_name().unwrap().to_str().unwrap();
            story += &format!("== {logs}/{file}\n{}\n", text(&content).trim_end());
        }
        story
    }

    /// The text without what differs between two runs.
    fn equal(&self, text: &str) -> String {
        let folder = self.path().to_str().unwrap();
        // Said on a machine without GPUs alone.
        let lines = text.lines().filter(|line| !line.contains("this machine has no NVIDIA GPU"));
        let lines = lines.map(|line| {
            // A value that was cut to its last characters begins anywhere in the folder's name.
            match line.split_once("PADDLE_GLOO_FS_PATH") {
                Some((before, _)) if line.trim_start().starts_with('|') => {
                    format!("{before}PADDLE_GLOO_FS_PATH …\n")
                }
                _ => format!("{}\n", numbers(&line.replace(folder, "FOLDER"))),
            }
        });
        lines.collect()
    }
}

/// Replaces ports, dates, places and numbers of processes.
fn numbers(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        words.push(match word {
            date if digits == 8 && date.matches('-').count() == 2 => "DATE".to_owned(),
            time if digits == 9 && time.contains(',') && time.contains(':') => "TIME".to_owned(),
            place if place.contains(".rs:") && place.ends_with(']') => "PLACE]".to_owned(),
            other => ports(other),
        });
    }
    words.join(" ")
}

/// Numbers of five digits, and those after a colon, are ports.
fn ports(word: &str) -> String {
    let mut text = String::new();
    let mut number = String::new();
    for character in word.chars().chain([' ']) {
        if character.is_ascii_digit() {
            number.push(character);
            continue;
        }
        match number.len() >= 4 {
            true => text += "PORT",
            false => text += &number,
        }
        number.clear();
        text.push(character);
    }
    text.trim_end_matches(' ').to_owned()
}

/// The first of some ports that are free now, for tests that must name ports. They lie below those
/// that the system gives to whoever asks for any, and each call has its own.
fn free_ports() -> u16 {
    const COUNT: u16 = 20;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 900).unwrap();
    loop {
        let at = first + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + at % 1000 * COUNT;
        let taken = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_err();
        if !(port..port + COUNT).any(taken) {
            return port;
        }
    }
}

macro_rules! snapshot {
    ($name:literal, $line:expr, $variables:expr) => {{
        let desk = Desk::new();
        let output = desk.run($line, $variables);
        expect_file![concat!("launcher/", $name, ".txt")].assert_eq(&desk.story(&output, "log"));
    }};
}

#[test]
fn one_gpu() {
    snapshot!("gpu_flag", "--gpus=0 train.py", &[]);
    snapshot!("gpu_variable", "train.py", &[("CUDA_VISIBLE_DEVICES", "0")]);
}

#[test]
fn four_gpus() {
    snapshot!("gpus_flag", "--gpus=0,1,2,3 train.py", &[]);
    snapshot!("gpus_variable", "train.py", &[("CUDA_VISIBLE_DEVICES", "0,1,2,3")]);
}

#[test]
fn processes_on_cpus() {
    snapshot!("cpus", "--nproc_per_node=2 train.py --lr 0.1", &[("CUDA_VISIBLE_DEVICES", "")]);
}

#[test]
fn a_server_and_four_workers() {
    let wait = [("WAIT_FOR", "serverlog.0")];
    snapshot!("servers", "--server_num=1 --worker_num=4 train.py", &wait);
}

#[test]
fn the_guide_of_recommenders() {
    let desk = Desk::new();
    fs::create_dir(desk.path().join("tools")).unwrap();
    fs::write(desk.path().join("tools/static_ps_trainer.py"), "").unwrap();
    let line = "--worker_num=1 --server_num=1 tools/static_ps_trainer.py -m \
                models/rank/dnn/config.yaml";
    let output = desk.run(line, &[("WAIT_FOR", "serverlog.0")]);
    expect_file!["launcher/recommender.txt"].assert_eq(&desk.story(&output, "log"));
}

#[test]
fn workers_with_servers_share_gpus() {
    let wait = ("WAIT_FOR", "serverlog.0 serverlog.1");
    let line = "--server_num=2 --worker_num=4 train.py";
    snapshot!("servers_gpus", line, &[wait, ("CUDA_VISIBLE_DEVICES", "0,1,2,3")]);
    let line = "--server_num=2 --worker_num=2 train.py";
    snapshot!("servers_one_gpu", line, &[wait, ("CUDA_VISIBLE_DEVICES", "0")]);
}

#[test]
fn heterogeneous_workers() {
    let wait = ("WAIT_FOR", "serverlog.0 serverlog.1 heterlog.0 heterlog.1");
    let line = "--server_num=2 --worker_num=2 --heter_worker_num=2 train.py";
    snapshot!("heter", line, &[wait, ("CUDA_VISIBLE_DEVICES", "0,1")]);
}

/// Runs one command line on two machines, which are two addresses of the loopback.
fn two_machines(line: &str, variables: &[(&str, &str)]) -> [(Desk, Output); 2] {
    let start = |address: &str| {
        let desk = Desk::new();
        let mut command = desk.command(line, variables);
        command.env("POD_IP", address).env("BIREME_JOB_SECRET", "a long random text");
        (desk, command.spawn().unwrap())
    };
    [start("127.0.0.1"), start("127.0.0.2")]
        .map(|(desk, child)| (desk, child.wait_with_output().unwrap()))
}

#[test]
fn collective_jobs_of_two_machines() {
    let first = free_ports();
    let start = first.to_string();
    let line =
        format!("--ips=127.0.0.1,127.0.0.2 --gpus 0,1,2,3 --http_port={} train.py", first + 9);
    let [one, two] = two_machines(&line, &[("FLAGS_START_PORT", start.as_str())]);
    expect_file!["launcher/ips_first.txt"].assert_eq(&one.0.story(&one.1, "log"));
    expect_file!["launcher/ips_second.txt"].assert_eq(&two.0.story(&two.1, "log"));
}

#[test]
fn servers_and_workers_of_two_machines() {
    let first = free_ports();
    let port = |index: u16| (first + index).to_string();
    let http = port(9);
    let variables = [("PADDLE_GLOO_PORT", http.as_str()), ("WAIT_FOR", "serverlog.0")];
    let line = format!(
        "--servers=127.0.0.1:{},127.0.0.2:{} --workers=127.0.0.1:{},127.0.0.2:{} train.py",
        port(0),
        port(1),
        port(2),
        port(3)
    );
    let [one, two] = two_machines(&line, &variables);
    expect_file!["launcher/lists_first.txt"].assert_eq(&one.0.story(&one.1, "log"));
    expect_file!["launcher/lists_second.txt"].assert_eq(&two.0.story(&two.1, "log"));
}

/// The guide's eight trainers, four on each machine, each with a GPU of its own.
#[test]
fn eight_workers_of_two_machines() {
    let first = free_ports();
    let endpoint = |index: u16, host: u16| format!("127.0.0.{host}:{}", first + index);
    let workers: Vec<_> = (2..10).map(|at| endpoint(at, at / 6 + 1)).collect();
    let line = format!(
        "--servers={},{} --workers={} train.py",
        endpoint(0, 1),
        endpoint(1, 2),
        workers.join(",")
    );
    let http = (first + 10).to_string();
    let variables = [
        ("PADDLE_GLOO_PORT", http.as_str()),
        ("WAIT_FOR", "serverlog.0"),
        ("CUDA_VISIBLE_DEVICES", "0,1,2,3"),
    ];
    let [one, two] = two_machines(&line, &variables);
    expect_file!["launcher/eight_first.txt"].assert_eq(&one.0.story(&one.1, "log"));
    expect_file!["launcher/eight_second.txt"].assert_eq(&two.0.story(&two.1, "log"));
}

#[test]
fn a_list_of_heterogeneous_workers() {
    let desk = Desk::new();
    let first = free_ports();
    let line = format!(
        "--servers=127.0.0.1:{} --workers=127.0.0.1:{} --heter_workers=127.0.0.1:{},127.0.0.1:{} \
         --heter_devices=cpu --http_port={} train.py",
        first,
        first + 1,
        first + 2,
        first + 3,
        first + 4
    );
    let wait = ("WAIT_FOR", "serverlog.0 heterlog.0 heterlog.1");
    let output = desk.run(&line, &[wait]);
    expect_file!["launcher/heter_list.txt"].assert_eq(&desk.story(&output, "log"));
}

#[test]
fn a_list_of_workers_without_ports() {
    let desk = Desk::new();
    let line =
        format!("--servers=127.0.0.1:{} --workers=127.0.0.1,127.0.0.1 train.py", free_ports());
    let output = desk.run(&line, &[("WAIT_FOR", "serverlog.0")]);
    expect_file!["launcher/workers_without_ports.txt"].assert_eq(&desk.story(&output, "log"));
}

#[test]
fn bireme_is_found_beside_fleetrun() {
    let desk = Desk::new();
    let output = desk.run("--worker_num=1 --server_num=1 bireme --version", &[("PATH", "")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.ends_with("[worker 0] bireme 0.1.0\n"), "{stdout}");
}

#[test]
fn bireme_launch_is_fleetrun() {
    let desk = Desk::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bireme"));
    let args = ["launch", "--nproc-per-node=2", "train.py", "-h", "--lr=1"];
    command.args(args).current_dir(desk.path()).env("PYTHON", desk.path().join("python"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("[worker 0] runs: train.py -h --lr=1\n"), "{stdout}");
    let output =
        Command::new(env!("CARGO_BIN_EXE_bireme")).args(["launch", "--help"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("Usage: bireme launch [FLAGS] SCRIPT.py"), "{stdout}");
}

#[test]
fn a_failed_worker_gives_its_exit_code() {
    let desk = Desk::new();
    let output = desk.run("--nproc_per_node=1 train.py", &[("EXIT", "7")]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

#[test]
fn less_is_said_when_less_is_wanted() {
    let desk = Desk::new();
    let output = desk.run("--log_level=WARNING train.py", &[]);
    expect![[r#"
        exit code 0
        == stdout
        [worker 0] trainer 0 of 1
        [worker 0] gpus: selected - visible - all -
        [worker 0] runs: train.py
        == stderr
        == log/endpoints.log
        PADDLE_TRAINER_ENDPOINTS: 
        127.0.0.1:PORT
        == log/workerlog.0
        trainer 0 of 1
        gpus: selected - visible - all -
        runs: train.py
    "#]]
    .assert_eq(&desk.story(&output, "log"));
}

/// A command line that must be refused before anything starts.
#[track_caller]
fn refused(line: &str, variables: &[(&str, &str)], expected: Expect) {
    let desk = Desk::new();
    fs::create_dir(desk.path().join("model")).unwrap();
    fs::write(desk.path().join("plain"), "").unwrap();
    fs::write(desk.path().join("config.yaml"), "model: dnn\n").unwrap();
    let output = desk.run(line, variables);
    let stderr = desk.equal(&String::from_utf8(output.stderr).unwrap());
    expected.assert_eq(&format!("{} {stderr}", output.status.code().unwrap()));
    assert!(!desk.path().join("log").exists(), "nothing was written");
}

#[test]
fn programs_that_cannot_run() {
    refused(
        "trian.py",
        &[],
        expect![[r#"
        1 error: there is no script `trian.py`; did you mean `train.py`?
    "#]],
    );
    refused(
        "elsewhere/job.py",
        &[],
        expect![[r#"
        1 error: there is no script `elsewhere/job.py`: check the path, which begins in the current folder
    "#]],
    );
    refused(
        "model",
        &[],
        expect![[r#"
        1 error: `model` is a folder: name the program in it
    "#]],
    );
    refused(
        "plain",
        &[],
        expect![[r#"
        1 error: `plain` is not executable: `chmod +x` it, or end its name in .py if it is a Python script
    "#]],
    );
    refused(
        "config.yaml",
        &[],
        expect![[r#"
        1 error: `config.yaml` is a configuration, which is trained by `-m config.yaml`
    "#]],
    );
    refused(
        "train.py",
        &[("PYTHON", "no-such-python")],
        expect![[r#"
        1 error: cannot run the interpreter `no-such-python` for the script (No such file or directory (os error 2)): set `PYTHON` to the interpreter of the environment where it is installed (`pip install .` in the sources of Bireme installs it)
    "#]],
    );
}

#[test]
fn command_lines_that_make_no_sense() {
    refused(
        "",
        &[],
        expect![[r#"
        2 error: no script was given: fleetrun [FLAGS] SCRIPT.py [ARGUMENTS]

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--worker_nums=2 train.py",
        &[],
        expect![[r#"
        2 error: unknown flag `--worker_nums`: did you mean `--worker_num`?

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--worker_num=two train.py",
        &[],
        expect![[r#"
        2 error: `--worker_num=two`: is not a whole number in range

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--xpus=0,1 train.py",
        &[],
        expect![[r#"
        2 error: `--xpus` is not available: only GPUs can be chosen, with `--gpus`; leave it out to train on CPUs

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--print_config=0 --nnodes=2 train.py",
        &[],
        expect![[r#"
        2 error: `--nnodes=2` asks for several machines, but not where they meet: add `--master=IP:PORT` with an address of the first machine and a free port of it, the same on all machines

        For the flags, try `fleetrun --help`.
    "#]],
    );
}

#[test]
fn jobs_that_contradict_themselves() {
    refused(
        "--server_num=1 train.py",
        &[],
        expect![[r#"
        2 error: The setting of Parameter-Server must have worker_num or workers: add `--worker_num=2`, or `--workers=IP,…`

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--server_num=2 --servers=127.0.0.1:1 --workers=127.0.0.1 train.py",
        &[],
        expect![[r#"
        2 error: The server_num and servers doesn't match. Expect servers endpoints num epual to server_num, but received servers enpoint num: 1 and server_num 2: correct one, or leave `--server_num` out

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--server_num=1 --worker_num=1 --nproc_per_node=2 train.py",
        &[],
        expect![[r#"
        2 error: Only one mode(Collective or Parameter-Server) can be selected at the same time, but more than one configuration was received: `--nproc_per_node` is for collective jobs: write `--worker_num` for trainers with servers

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--servers=127.0.0.1:7164,127.0.0.1:7164 --workers=127.0.0.1 train.py",
        &[],
        expect![[r#"
            2 error: the endpoint 127.0.0.1:PORT is given to two processes, the first of which is server 0: write another port

            For the flags, try `fleetrun --help`.
        "#]],
    );
    let gpus = [("CUDA_VISIBLE_DEVICES", "0,1,2,3")];
    refused(
        "--nproc_per_node=3 train.py",
        &gpus,
        expect![[r#"
        2 error: `--nproc_per_node=3` does not divide the 4 GPUs (0,1,2,3): every process needs the same number of them; choose GPUs with `--gpus`, or set CUDA_VISIBLE_DEVICES to nothing to train on CPUs

        For the flags, try `fleetrun --help`.
    "#]],
    );
    refused(
        "--gpus=4 train.py",
        &gpus,
        expect![[r#"
        2 error: Can't find your gpus 4 in CUDA_VISIBLE_DEVICES[0,1,2,3]: choose among these with `--gpus`, or unset CUDA_VISIBLE_DEVICES

        For the flags, try `fleetrun --help`.
    "#]],
    );
}

#[test]
fn jobs_that_do_not_fit_this_machine() {
    let pod = [("POD_IP", "192.0.2.9")];
    refused(
        "--ips=192.0.2.1,192.0.2.2 train.py",
        &pod,
        expect![[r#"
        1 error: `POD_IP` (or `--host`) says that this machine is 192.0.2.9, which is not in --ips: 192.0.2.1, 192.0.2.2; start the command on the machines of the list, or set `POD_IP` to the address under which the others reach this one
    "#]],
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!(
        "--servers=127.0.0.1:{} --workers=127.0.0.1 train.py",
        taken.local_addr().unwrap().port()
    );
    let desk = Desk::new();
    let output = desk.run(&line, &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let owner = format!("(process {}): end that process, or write another", std::process::id());
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("is taken by `") && stderr.contains(&owner), "{stderr}");
}
