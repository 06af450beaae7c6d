//! Command lines of Paddle's guides, and the jobs that are made of them.

use expect_test::{Expect, expect};

use super::*;
use crate::arguments::{self, Flavor, Request, Usage};
use crate::ports::Ports;

/// Ports from 40000 on, and which fixed ones were asked for.
struct Numbers {
    next: u16,
    fixed: Vec<String>,
}

impl Ports for Numbers {
    fn any(&mut self, _: &str) -> Result<u16> {
        self.next += 1;
        Ok(self.next - 1)
    }

    fn this(&mut self, host: &str, port: u16) -> Result<()> {
        self.fixed.push(format!("{host}:{port}"));
        Ok(())
    }
}

/// A machine with these variables.
struct Here<'a> {
    address: &'a str,
    gpus: usize,
    variables: &'a [(&'a str, &'a str)],
}

const HERE: Here<'static> = Here { address: "10.0.0.1", gpus: 0, variables: &[] };

impl Here<'_> {
    fn parse(&self, line: &str) -> Result<(Options, Facts)> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let variables: Variables = self
            .variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let request = arguments::parse(&words, &variables, Flavor::Fleetrun, "fleetrun")?;
        let Request::Launch(options) = request else { panic!("{line}") };
        let facts = Facts {
            machine: Machine {
                addresses: [self.address.parse().unwrap()].into(),
                hostname: "box".into(),
                given: options.host.clone(),
            },
            variables,
            cores: 8,
            gpus: self.gpus,
            folder: "/srv/job".into(),
            secret: "fresh".into(),
        };
        Ok((*options, facts))
    }

    fn draft(&self, line: &str) -> Result<(Draft, Vec<String>)> {
        let (options, facts) = self.parse(line)?;
        let mut ports = Numbers { next: 40000, fixed: Vec::new() };
        match plan(&options, &facts, None, vec!["run".into()], &mut ports)? {
            Plan::Whole(draft) => Ok((draft, ports.fixed)),
            part => panic!("{part:?}"),
        }
    }

    #[track_caller]
    fn job(&self, line: &str) -> Job {
        self.draft(line).unwrap().0.job
    }

    #[track_caller]
    fn notes(&self, line: &str) -> Vec<String> {
        self.draft(line).unwrap().0.notes.iter().map(|note| format!("{note:?}")).collect()
    }

    /// Everybody in one line each.
    #[track_caller]
    fn check(&self, line: &str, expected: Expect) {
        let (draft, fixed) = self.draft(line).unwrap();
        let mut text = String::new();
        for note in &draft.notes {
            text += &format!("{note:?}\n");
        }
        for process in &draft.job.processes {
            let here = if process.node == draft.job.node { "here" } else { "there" };
            text += &format!(
                "{} at {}, {} {here}\n",
                process.name(),
                process.endpoint,
                process.log_file()
            );
        }
        text += &format!("reserved {fixed:?}\n");
        expected.assert_eq(&text);
    }

    #[track_caller]
    fn refused(&self, line: &str, expected: Expect) {
        let error = self.draft(line).unwrap_err();
        let kind = if error.is::<Usage>() { "usage" } else { "error" };
        expected.assert_eq(&format!("{kind}: {error:#}"));
    }
}

fn value<'a>(process: &'a Process, name: &str) -> &'a str {
    let found = process.variables.iter().find(|(other, _)| other == name);
    found.map_or("-", |(_, value)| value)
}

fn all(process: &Process) -> String {
    process.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[test]
fn servers_and_workers_on_one_machine() {
    HERE.check(
        "--server_num=1 --worker_num=4 train.py",
        expect![[r#"
            Info("Run parameter-sever mode. pserver arguments:['--worker_num', '--server_num'], accelerators count:0")
            Info("launch start with CPUONLY mode")
            Info("OMP_NUM_THREADS=2 for every process, as they share 8 cores; set it to choose another number")
            server 0 at 127.0.0.1:40000, serverlog.0 here
            worker 0 at 127.0.0.1:40001, workerlog.0 here
            worker 1 at 127.0.0.1:40002, workerlog.1 here
            worker 2 at 127.0.0.1:40003, workerlog.2 here
            worker 3 at 127.0.0.1:40004, workerlog.3 here
            reserved []
        "#]],
    );
}

#[test]
fn the_variables_of_servers_and_workers() {
    let job = HERE.job("--server_num=1 --worker_num=2 --job_id=j train.py");
    expect![[r#"
        PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:40000
        PADDLE_TRAINER_ENDPOINTS=127.0.0.1:40001,127.0.0.1:40002
        PADDLE_COORDINATOR_ENDPOINTS=
        PADDLE_PORT=40000
        TRAINING_ROLE=PSERVER
        PADDLE_TRAINERS_NUM=2
        POD_IP=127.0.0.1
        PADDLE_WITH_GLOO=0
        PADDLE_GLOO_RENDEZVOUS=3
        PADDLE_GLOO_FS_PATH=/srv/job/log/gloo
        PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.1:40003
        PADDLE_ROLE=PSERVER
        PADDLE_NNODES=1
        PADDLE_LOG_DIR=/srv/job/log
        POD_NAME=j-0
        SYS_JOB_ID=j
        BIREME_JOB_SECRET=fresh
        OMP_NUM_THREADS=4
    "#]]
    .assert_eq(&all(&job.processes[0]));
    expect![[r#"
        PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:40000
        PADDLE_TRAINER_ENDPOINTS=127.0.0.1:40001,127.0.0.1:40002
        PADDLE_TRAINERS_NUM=2
        TRAINING_ROLE=TRAINER
        PADDLE_COORDINATOR_ENDPOINTS=
        POD_IP=127.0.0.1
        PADDLE_PORT=40002
        PADDLE_TRAINER_ID=1
        PADDLE_WITH_GLOO=0
        PADDLE_GLOO_RENDEZVOUS=3
        PADDLE_GLOO_FS_PATH=/srv/job/log/gloo
        FLAGS_selected_gpus=0
        FLAGS_selected_xpus=0
        CUDA_VISIBLE_DEVICES=0
        XPU_VISIBLE_DEVICES=0
        PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.1:40003
        PADDLE_ROLE=TRAINER
        PADDLE_NNODES=1
        PADDLE_LOG_DIR=/srv/job/log
        POD_NAME=j-0
        SYS_JOB_ID=j
        BIREME_JOB_SECRET=fresh
        OMP_NUM_THREADS=4
    "#]]
    .assert_eq(&all(&job.processes[2]));
    let removed = &job.processes[0].removed;
    assert!(removed.iter().any(|name| name == "http_proxy"));
    assert!(removed.iter().any(|name| name == "PADDLE_TRAINER_ID"), "{removed:?}");
    assert!(!removed.iter().any(|name| name == "PADDLE_PORT"));
}

#[test]
fn lists_of_two_machines_with_and_without_ports() {
    let second = Here { address: "10.0.0.2", ..HERE };
    second.check(
        "--servers=10.0.0.1:6170,10.0.0.2:6171 --workers=10.0.0.1,10.0.0.1,10.0.0.2,10.0.0.2 t.py",
        expect![[r#"
            Info("Run parameter-sever mode. pserver arguments:['--servers', '--workers'], accelerators count:0")
            Info("launch start with CPUONLY mode")
            Info("OMP_NUM_THREADS=4 for every process, as they share 8 cores; set it to choose another number")
            server 0 at 10.0.0.1:6170, serverlog.0 there
            server 1 at 10.0.0.2:6171, serverlog.0 here
            worker 0 at 10.0.0.1:6172, workerlog.0 there
            worker 1 at 10.0.0.1:6173, workerlog.1 there
            worker 2 at 10.0.0.2:6174, workerlog.0 here
            worker 3 at 10.0.0.2:6175, workerlog.1 here
            reserved ["10.0.0.2:6171", "10.0.0.2:6174", "10.0.0.2:6175"]
        "#]],
    );
    let job = second.job("--servers=10.0.0.1:6170 --workers=10.0.0.1:6172,10.0.0.2:6173 t.py");
    assert_eq!(job.nodes, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(job.processes[2].endpoint, "10.0.0.2:6173");
    assert_eq!(value(&job.processes[2], "PADDLE_TRAINER_ID"), "1");
    assert_eq!(value(&job.processes[2], "BIREME_JOB_SECRET"), "-");
}

#[test]
fn workers_without_ports_on_one_machine_get_free_ones() {
    HERE.check(
        "--servers=127.0.0.1:6170 --workers=127.0.0.1,127.0.0.1 t.py",
        expect![[r#"
            Info("Run parameter-sever mode. pserver arguments:['--servers', '--workers'], accelerators count:0")
            Info("launch start with CPUONLY mode")
            Info("OMP_NUM_THREADS=4 for every process, as they share 8 cores; set it to choose another number")
            server 0 at 127.0.0.1:6170, serverlog.0 here
            worker 0 at 127.0.0.1:40000, workerlog.0 here
            worker 1 at 127.0.0.1:40001, workerlog.1 here
            reserved ["127.0.0.1:6170"]
        "#]],
    );
}

#[test]
fn a_start_port_fixes_all_ports() {
    let here =
        Here { variables: &[("FLAGS_START_PORT", "7000"), ("OMP_NUM_THREADS", "1")], ..HERE };
    here.check(
        "--server_num=1 --worker_num=2 t.py",
        expect![[r#"
            Info("Run parameter-sever mode. pserver arguments:['--worker_num', '--server_num'], accelerators count:0")
            Info("launch start with CPUONLY mode")
            server 0 at 127.0.0.1:7000, serverlog.0 here
            worker 0 at 127.0.0.1:7001, workerlog.0 here
            worker 1 at 127.0.0.1:7002, workerlog.1 here
            reserved ["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"]
        "#]],
    );
    let job = here.job("--server_num=1 --worker_num=2 t.py");
    assert_eq!(value(&job.processes[0], "PADDLE_GLOO_HTTP_ENDPOINT"), "127.0.0.1:7003");
    assert_eq!(value(&job.processes[0], "OMP_NUM_THREADS"), "-");
}

#[test]
fn workers_share_the_visible_gpus_and_servers_have_none() {
    let here = Here { variables: &[("CUDA_VISIBLE_DEVICES", "4,5")], ..HERE };
    let job = here.job("--server_num=2 --worker_num=3 train.py");
    let devices: Vec<_> =
        job.processes.iter().map(|process| value(process, "CUDA_VISIBLE_DEVICES")).collect();
    assert_eq!(devices, ["-", "-", "4", "5", "4"]);
    assert_eq!(value(&job.processes[3], "FLAGS_selected_gpus"), "0");
}

#[test]
fn heterogeneous_workers_have_stages() {
    let here = Here { variables: &[("CUDA_VISIBLE_DEVICES", "0,1")], ..HERE };
    let job = here.job("--server_num=1 --worker_num=2 --heter_worker_num=2;1 train.py");
    assert_eq!(job.mode, Mode::Heter);
    let names: Vec<_> = job.processes.iter().map(|process| process.log_file()).collect();
    assert_eq!(
        names,
        ["serverlog.0", "workerlog.0", "workerlog.1", "heterlog.0", "heterlog.1", "heterlog.2"]
    );
    let pick = |process: &Process| -> String {
        let names = [
            "TRAINING_ROLE",
            "STAGE_ID",
            "STAGE_NUM",
            "PADDLE_STAGE_TRAINERS_NUM",
            "HETER_DEVICE_TYPE",
            "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST",
            "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST",
            "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
            "CUDA_VISIBLE_DEVICES",
            "PADDLE_TRAINER_ID",
        ];
        names.iter().map(|name| format!("{name}={}\n", value(process, name))).collect()
    };
    expect![[r#"
        TRAINING_ROLE=TRAINER
        STAGE_ID=1
        STAGE_NUM=3
        PADDLE_STAGE_TRAINERS_NUM=[2, 2, 1]
        HETER_DEVICE_TYPE=cpu
        PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=
        PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:40003,127.0.0.1:40004
        PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:40003,127.0.0.1:40004,127.0.0.1:40005
        CUDA_VISIBLE_DEVICES=1
        PADDLE_TRAINER_ID=1
    "#]]
    .assert_eq(&pick(&job.processes[2]));
    expect![[r#"
        TRAINING_ROLE=HETER_TRAINER
        STAGE_ID=3
        STAGE_NUM=3
        PADDLE_STAGE_TRAINERS_NUM=[2, 2, 1]
        HETER_DEVICE_TYPE=gpu
        PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:40003,127.0.0.1:40004
        PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=
        PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=127.0.0.1:40003,127.0.0.1:40004,127.0.0.1:40005
        CUDA_VISIBLE_DEVICES=0
        PADDLE_TRAINER_ID=-
    "#]]
    .assert_eq(&pick(&job.processes[5]));
    let server = &job.processes[0];
    assert_eq!(
        value(server, "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"),
        "127.0.0.1:40003,127.0.0.1:40004,127.0.0.1:40005"
    );
}

#[test]
fn one_process_for_each_gpu() {
    let count = |here: &Here<'_>, line: &str| here.job(line).processes.len();
    let visible = Here { variables: &[("CUDA_VISIBLE_DEVICES", "0,1,2,3")], ..HERE };
    assert_eq!(count(&HERE, "train.py"), 1);
    assert_eq!(count(&HERE, "--gpus=0 train.py"), 1);
    assert_eq!(count(&HERE, "--gpus=0,1,2,3 train.py"), 4);
    assert_eq!(count(&visible, "train.py"), 4);
    assert_eq!(count(&visible, "--nproc_per_node=2 train.py"), 2);
    assert_eq!(count(&Here { gpus: 8, ..HERE }, "train.py"), 8);
    for off in ["", "-1", "NoDevFiles"] {
        let off = Here { gpus: 8, variables: &[("CUDA_VISIBLE_DEVICES", off)], ..HERE };
        assert_eq!(count(&off, "train.py"), 1);
    }
    let cpu = Here { gpus: 8, variables: &[("BIREME_DEVICE", "cpu")], ..HERE };
    assert_eq!(count(&cpu, "--nproc_per_node=3 train.py"), 3);
}

#[test]
fn processes_share_gpus_where_there_are_more_of_them() {
    let gpus = |here: &Here<'_>, line: &str| -> Vec<String> {
        let job = here.job(line);
        job.processes
            .iter()
            .map(|process| value(process, "FLAGS_selected_gpus").to_owned())
            .collect()
    };
    let two = Here { gpus: 2, ..HERE };
    assert_eq!(gpus(&two, "--gpus=1 --nproc_per_node=2 train.py"), ["1", "1"]);
    assert_eq!(gpus(&two, "--nproc_per_node=4 train.py"), ["0", "1", "0", "1"]);
    assert_eq!(gpus(&two, "--nproc_per_node=1 train.py"), ["0,1"]);
}

#[test]
fn there_are_as_many_emulated_gpus_as_a_job_names() {
    let emulated = Here { variables: &[("BIREME_DEVICE", "emulated")], ..HERE };
    let job = emulated.job("--gpus=0,3 train.py");
    assert_eq!(value(&job.processes[1], "BIREME_EMULATED_CARDS"), "4");
    let chosen = [("BIREME_DEVICE", "emulated"), ("BIREME_EMULATED_CARDS", "8")];
    let job = Here { variables: &chosen, ..HERE }.job("--gpus=0,3 train.py");
    assert!(!job.processes[1].variables.iter().any(|(name, _)| name == "BIREME_EMULATED_CARDS"));
}

#[test]
fn a_machine_without_gpus_says_what_to_set() {
    let notes = |here: &Here<'_>, line: &str| here.notes(line).join("\n");
    let said = notes(&HERE, "--gpus=0,1 train.py");
    assert!(said.contains("GPU 0,1 cannot be used"), "{said}");
    assert!(said.contains("set BIREME_DEVICE=cpu to train on CPUs"), "{said}");
    let cpu = Here { variables: &[("BIREME_DEVICE", "cpu")], ..HERE };
    assert!(!notes(&cpu, "--gpus=0,1 train.py").contains("cannot be used"));
    let one = Here { gpus: 1, ..HERE };
    assert!(!notes(&one, "--gpus=0 train.py").contains("cannot be used"));
    let said = notes(&one, "--gpus=0,1,2 train.py");
    assert!(
        said.contains("GPU 1,2 cannot be used, as this machine has 1, numbered from 0"),
        "{said}"
    );
    assert!(!notes(&Here { gpus: 2, ..HERE }, "--gpus=0,1 train.py").contains("cannot be used"));
    assert!(!notes(&HERE, "train.py").contains("cannot be used"));
}

#[test]
fn the_variables_of_a_collective_job() {
    let here = Here { variables: &[("CUDA_VISIBLE_DEVICES", "4,5,6,7")], ..HERE };
    let job = here.job("--gpus=6,7,4,5 --nproc_per_node=2 train.py");
    expect![[r#"
        PADDLE_TRAINER_ID=1
        PADDLE_CURRENT_ENDPOINT=127.0.0.1:40001
        PADDLE_TRAINERS_NUM=2
        PADDLE_TRAINER_ENDPOINTS=127.0.0.1:40000,127.0.0.1:40001
        PADDLE_RANK_IN_NODE=1
        PADDLE_LOCAL_DEVICE_IDS=0,1
        PADDLE_WORLD_DEVICE_IDS=2:3,0:1
        FLAGS_selected_gpus=0,1
        FLAGS_selected_accelerators=0,1
        PADDLE_WITH_GLOO=0
        PADDLE_GLOO_RENDEZVOUS=3
        PADDLE_GLOO_FS_PATH=/srv/job/log/gloo
        PADDLE_DISTRI_BACKEND=gloo
        PADDLE_GLOBAL_SIZE=2
        PADDLE_GLOBAL_RANK=1
        PADDLE_LOCAL_SIZE=2
        PADDLE_LOCAL_RANK=1
        PADDLE_MASTER=127.0.0.1:40002
        TRAINING_ROLE=TRAINER
        PADDLE_ROLE=TRAINER
        PADDLE_NNODES=1
        PADDLE_LOG_DIR=/srv/job/log
        POD_NAME=default-0
        BIREME_JOB_SECRET=fresh
        OMP_NUM_THREADS=4
    "#]]
    .assert_eq(&all(&job.processes[1]));
}

#[test]
fn machines_of_a_collective_job() {
    let second = Here { address: "10.0.0.2", ..HERE };
    second.check(
        "--ips=10.0.0.1,10.0.0.2 --gpus=0,1 train.py",
        expect![[r#"
            Info("Run collective mode. gpu arguments:['--ips'], cuda count:2")
            Info("OMP_NUM_THREADS=4 for every process, as they share 8 cores; set it to choose another number")
            Warning("GPU 0,1 cannot be used, as this machine has no NVIDIA GPU: a process that asks for one ends; set BIREME_DEVICE=cpu to train on CPUs")
            worker 0 at 10.0.0.1:6070, workerlog.0 there
            worker 1 at 10.0.0.1:6071, workerlog.1 there
            worker 2 at 10.0.0.2:6070, workerlog.0 here
            worker 3 at 10.0.0.2:6071, workerlog.1 here
            reserved ["10.0.0.2:6070", "10.0.0.2:6071"]
        "#]],
    );
    let told = Here { address: "10.9.9.9", variables: &[("POD_IP", "10.0.0.1")], ..HERE };
    assert_eq!(told.job("--ips=10.0.0.1,10.0.0.2 train.py").node, 0);
    assert_eq!(HERE.job("--ips=10.9.0.1,10.9.0.2 --rank=1 train.py").node, 1);
    let cloud = Here {
        variables: &[
            ("PADDLE_TRAINERS", "10.0.0.1,10.0.0.2"),
            ("POD_IP", "10.0.0.2"),
            ("PADDLE_TRAINER_ID", "1"),
            ("TRAINER_PORTS_NUM", "8"),
        ],
        ..HERE
    };
    let job = cloud.job("--nproc_per_node=2 train.py");
    assert_eq!((job.node, job.processes[3].endpoint.as_str()), (1, "10.0.0.2:6171"));
}

#[test]
fn machines_that_meet_make_one_job_of_what_each_brings() {
    let (options, facts) = HERE
        .parse(
            "--master=10.0.0.1:6789 --nnodes=2 --server_num=1 --worker_num=2 \
                --heter_worker_num=1;1 train.py",
        )
        .unwrap();
    assert!(must_meet(&options));
    let mut ports = Numbers { next: 40000, fixed: Vec::new() };
    let planned = plan(&options, &facts, Some("10.0.0.1"), Vec::new(), &mut ports).unwrap();
    let Plan::Part { mode, seats } = planned else { panic!() };
    assert_eq!(seats.len(), 5);
    let card = |address: &str, seats: &[Seat]| Card {
        address: address.into(),
        rank: None,
        must_match: Vec::new(),
        should_match: Vec::new(),
        seats: seats.to_vec(),
        secret: Default::default(),
    };
    let cards = [card("10.0.0.2", &seats), card("10.0.0.1", &seats)];
    let job = met(&options, &facts, mode, &cards, 1, Vec::new()).unwrap().job;
    let text: Vec<_> = job
        .processes
        .iter()
        .map(|process| format!("{} {} {}", process.name(), process.endpoint, process.log_file()))
        .collect();
    assert_eq!(
        text,
        [
            "server 0 10.0.0.2:40000 serverlog.0",
            "server 1 10.0.0.1:40000 serverlog.0",
            "worker 0 10.0.0.2:40001 workerlog.0",
            "worker 1 10.0.0.2:40002 workerlog.1",
            "worker 2 10.0.0.1:40001 workerlog.0",
            "worker 3 10.0.0.1:40002 workerlog.1",
            "heter worker 0 10.0.0.2:40003 heterlog.0",
            "heter worker 1 10.0.0.1:40003 heterlog.0",
            "heter worker 2 10.0.0.2:40004 heterlog.1",
            "heter worker 3 10.0.0.1:40004 heterlog.1",
        ]
    );
    assert_eq!(value(&job.processes[6], "STAGE_ID"), "2");
    assert_eq!(value(&job.processes[8], "STAGE_ID"), "3");
    assert_eq!(job.local().count(), 5);
}

#[test]
fn what_contradicts_itself_is_refused() {
    HERE.refused("--server_num=1 t.py", expect![["usage: The setting of Parameter-Server must have worker_num or workers: add `--worker_num=2`, or `--workers=IP,…`"]]);
    HERE.refused("--worker_num=1 t.py", expect![["usage: The setting of Parameter-Server must have server_num or servers: add `--server_num=1`, or `--servers=IP:PORT,…`"]]);
    HERE.refused("--server_num=3 --servers=10.0.0.1:1,10.0.0.1:2 --workers=10.0.0.1 t.py", expect![["usage: The server_num and servers doesn't match. Expect servers endpoints num epual to server_num, but received servers enpoint num: 2 and server_num 3: correct one, or leave `--server_num` out"]]);
    HERE.refused("--servers=10.0.0.1:1 --workers=10.0.0.1 --worker_num=2 t.py", expect![["usage: The worker_num and workers doesn't match. Expect workers endpoints num epual to worker_num, but received workers enpoint num: 1 and worker_num 2: correct one, or leave `--worker_num` out"]]);
    HERE.refused("--run_mode=ps-heter --server_num=1 --worker_num=1 t.py", expect![["usage: The setting of Parameter-Server heter mode must have heter_worker_num or heter_workers: add `--heter_worker_num=1`, or `--heter_workers=IP:PORT,…`"]]);
    HERE.refused("--server_num=1 --worker_num=1 --heter_worker_num=1;1 --heter_devices=cpu t.py", expect![["usage: `--heter_devices` has 1 stages and the heter workers 2: write one device for each stage after the trainers"]]);
    HERE.refused("--server_num=1 --worker_num=1 --nproc_per_node=2 t.py", expect![["usage: Only one mode(Collective or Parameter-Server) can be selected at the same time, but more than one configuration was received: `--nproc_per_node` is for collective jobs: write `--worker_num` for trainers with servers"]]);
    HERE.refused("--server_num=1 --worker_num=1 --ips=10.0.0.1,10.0.0.2 t.py", expect![["usage: Only one mode(Collective or Parameter-Server) can be selected at the same time, but more than one configuration was received: `--ips` is for collective jobs: name the machines of this one with `--servers` and `--workers`, or let them meet with `--master` and `--nnodes`"]]);
    HERE.refused("--run_mode=collective --server_num=1 t.py", expect![["usage: `--run_mode=collective` and `--server_num` contradict each other: a collective job has no servers; leave one out"]]);
    HERE.refused("--server_num=1 --workers=10.0.0.1 t.py", expect![["usage: `--workers` names machines and `--server_num` counts servers of this one: name the servers too, with `--servers=IP:PORT,…`"]]);
    HERE.refused("--servers=10.0.0.1:1,10.0.0.2:1 --worker_num=2 t.py", expect![["usage: `--servers` names several machines and `--worker_num` counts workers of one: name the workers too, with `--workers=IP,…`"]]);
    HERE.refused("--servers=10.0.0.1:1,10.0.0.1:1 --workers=10.0.0.1 t.py", expect![["usage: the endpoint 10.0.0.1:1 is given to two processes, the first of which is server 0: write another port"]]);
    HERE.refused("--servers=10.0.0.1,10.0.0.2 --workers=10.0.0.1 t.py", expect![["usage: server 10.0.0.1 has no port, and the other machines have to know it: write 10.0.0.1:PORT"]]);
    HERE.refused(
        "--ips=10.0.0.1,10.0.0.2 --nnodes=3 t.py",
        expect![["usage: `--nnodes=3` and a list of 2 machines do not match: correct one of them"]],
    );
    HERE.refused(
        "--ips=10.0.0.1,10.0.0.2 --rank=2 t.py",
        expect![["usage: `--rank=2`: --ips names 2 machines, 0 to 1"]],
    );
    HERE.refused(
        "--nproc_per_node=3 --start_port=65534 t.py",
        expect![["usage: `--start_port=65534` leaves no port for process 2: write a lower one"]],
    );
}

#[test]
fn what_contradicts_the_machine_is_refused() {
    HERE.refused("--ips=10.0.0.8,10.0.0.9 t.py", expect![["error: this machine (`box` with 10.0.0.1) is not in --ips: 10.0.0.8, 10.0.0.9; start the command on the machines of the list, or set `POD_IP` to the address under which the others reach this one"]]);
    let gpus = Here { variables: &[("CUDA_VISIBLE_DEVICES", "0,1,2,3")], ..HERE };
    gpus.refused("--nproc_per_node=3 t.py", expect![["usage: `--nproc_per_node=3` does not divide the 4 GPUs (0,1,2,3): every process needs the same number of them; choose GPUs with `--gpus`, or set CUDA_VISIBLE_DEVICES to nothing to train on CPUs"]]);
    gpus.refused("--gpus=4 t.py", expect![["usage: Can't find your gpus 4 in CUDA_VISIBLE_DEVICES[0,1,2,3]: choose among these with `--gpus`, or unset CUDA_VISIBLE_DEVICES"]]);
}
