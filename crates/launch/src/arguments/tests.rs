//! Command lines as people write them, and what is said about those that make no sense.

use expect_test::{Expect, expect, expect_file};

use super::*;

fn parsed(line: &str, variables: &[(&str, &str)]) -> Result<Request, Usage> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let variables =
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    parse(&words, &variables, Flavor::Fleetrun, "fleetrun")
}

#[track_caller]
fn options(line: &str, variables: &[(&str, &str)]) -> Options {
    match parsed(line, variables) {
        Ok(Request::Launch(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn refused(line: &str, expected: Expect) {
    match parsed(line, &[]) {
        Err(Usage(problem)) => expected.assert_eq(&problem),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn flags_are_written_in_four_ways_and_end_at_the_script() {
    for line in [
        "--worker_num=2 --log_dir=out t.py --worker_num 9 -h",
        "--worker-num 2 --log-dir out t.py --worker_num 9 -h",
        "--trainer_num=2 --log_dir out -- t.py --worker_num 9 -h",
    ] {
        let options = options(line, &[]);
        assert_eq!((options.worker_num, options.log_dir.to_str()), (Some(2), Some("out")));
        assert_eq!(options.program.name, "t.py");
        assert_eq!(options.program.arguments, ["--worker_num", "9", "-h"]);
    }
}

#[test]
fn lists_have_addresses_ports_and_stages() {
    let options = options(
        "--servers=10.0.0.1:6170,[::1]:6171 --workers=10.0.0.1,host:7 \
         --heter_workers=a:1,b:2;c:3 --heter_devices=gpu;cpu t.py",
        &[],
    );
    let text = |list: &[Endpoint]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(text(&options.servers), ["10.0.0.1:6170", "[::1]:6171"]);
    assert_eq!(text(&options.workers), ["10.0.0.1", "host:7"]);
    assert_eq!(text(&options.heter_workers[1]), ["c:3"]);
    assert_eq!(options.heter_devices, ["gpu", "cpu"]);
}

#[test]
fn variables_come_before_flags_and_that_is_said() {
    let variables =
        [("PADDLE_NNODES", "2"), ("PADDLE_MASTER", "10.0.0.1:6789"), ("PADDLE_TRAINER_ID", "1")];
    let options = options("--nnodes=1 t.py", &variables);
    assert_eq!((options.nnodes, options.rank), (Some((2, 2)), Some(1)));
    assert_eq!(options.master.unwrap().to_string(), "10.0.0.1:6789");
    assert_eq!(
        options.given.warnings,
        ["the variable PADDLE_NNODES=2 comes before --nnodes=1; unset it if that is not meant"]
    );
}

#[test]
fn the_machines_of_paddlecloud_are_taken_from_its_variables() {
    let cloud = [
        ("PADDLE_TRAINERS", "10.0.0.1,10.0.0.2"),
        ("POD_IP", "10.0.0.2"),
        ("PADDLE_TRAINER_ID", "1"),
        ("TRAINER_PORTS_NUM", "8"),
    ];
    let options = options("t.py", &cloud);
    assert_eq!((options.ips.len(), options.cloud), (2, true));
    assert_eq!(options.host.as_deref(), Some("10.0.0.2"));
    refused(
        "--use_paddlecloud t.py",
        expect![
            "`--use_paddlecloud`: the variable `PADDLE_TRAINERS` is not set, so this is not PaddleCloud; name the machines with `--ips`"
        ],
    );
}

#[test]
fn restarts_follow_from_two_flags() {
    let restarts = |line: &str| options(&format!("{line} t.py"), &[]).max_restart;
    assert_eq!(restarts(""), 0);
    assert_eq!(restarts("--max_restart=5"), 5);
    assert_eq!(restarts("--elastic_level 1"), 3);
    assert_eq!(restarts("--elastic_level=-1"), 0);
    assert_eq!(restarts("--elastic_level=1 --max_restart=2"), 2);
}

#[test]
fn launch_ps_has_defaults_of_its_own() {
    let words = ["t.py".into()];
    let request = parse(&words, &Variables::new(), Flavor::LaunchPs, "launch_ps").unwrap();
    let Request::Launch(options) = request else { panic!() };
    assert_eq!((options.server_num, options.worker_num), (Some(2), Some(2)));
    assert_eq!(options.log_dir.to_str(), Some("logs"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    refused("", expect!["no script was given: fleetrun [FLAGS] SCRIPT.py [ARGUMENTS]"]);
    refused(
        "--worker_nums=2 t.py",
        expect!["unknown flag `--worker_nums`: did you mean `--worker_num`?"],
    );
    refused(
        "--quux=2 t.py",
        expect![
            "unknown flag `--quux`: flags of the script come after the script; `--help` lists those of the launcher"
        ],
    );
    refused(
        "-x t.py",
        expect![
            "unknown flag `-x`: flags of the script come after the script; `--help` lists those of the launcher"
        ],
    );
    refused("--worker_num", expect!["`--worker_num` needs a value: `--worker_num N`"]);
    refused("--worker_num=two t.py", expect!["`--worker_num=two`: is not a whole number in range"]);
    refused("--worker_num=0 t.py", expect!["`--worker_num=0`: must be at least 1"]);
    refused("--server_num=-1 t.py", expect!["`--server_num=-1`: is not a whole number in range"]);
    refused("--server_num=9999999 t.py", expect!["`--server_num=9999999`: must be at most 100000"]);
    refused(
        "--http_port=70000 t.py",
        expect!["`--http_port=70000`: is not a port: write a number from 1 to 65535"],
    );
    refused(
        "--worker_num=1 --trainer_num=2 t.py",
        expect!["`--worker_num=1` and `--trainer_num=2` contradict each other: leave one out"],
    );
    refused(
        "--servers=a:1,,b:2 t.py",
        expect!["`--servers=a:1,,b:2`: `` is no address: write IP:PORT, separated by commas"],
    );
    refused(
        "--servers=a:port t.py",
        expect!["`--servers=a:port`: the port of `a:port` is not a number from 1 to 65535"],
    );
    refused(
        "--ips=a:6170,b t.py",
        expect![
            "`--ips=a:6170,b`: `a:6170` has a port: write addresses alone, and the first port as `--start_port`"
        ],
    );
    refused(
        "--ips=a,a t.py",
        expect![
            "`--ips=a,a`: a is there twice: a machine is named once, and `--nproc_per_node` says how many processes it runs"
        ],
    );
    refused(
        "--gpus=0,0 t.py",
        expect![
            "`--gpus=0,0`: GPU 0 is there twice; two processes of a collective job cannot share a GPU"
        ],
    );
    refused(
        "--gpus=zero t.py",
        expect!["`--gpus=zero`: must be numbers of GPUs, separated by commas: `0,1`"],
    );
    refused(
        "--gpus=0,,1 t.py",
        expect!["`--gpus=0,,1`: must be numbers of GPUs, separated by commas: `0,1`"],
    );
    refused(
        "--nnodes=3:2 t.py",
        expect![
            "`--nnodes=3:2`: must be a number of machines, `2`, or the least and the most, `2:4`"
        ],
    );
    refused(
        "--heter_worker_num=1;x t.py",
        expect![
            "`--heter_worker_num=1;x`: must be a number of at least 1 for each stage, as in `1;2`"
        ],
    );
    refused(
        "--heter_devices=xpu t.py",
        expect![
            "`--heter_devices=xpu`: `xpu` is no device of this version: write `cpu` or `gpu` for each stage"
        ],
    );
    refused(
        "--run_mode=rpc t.py",
        expect!["`--run_mode=rpc`: `paddle.distributed.rpc` is not in this version"],
    );
    refused(
        "--run_mode=both t.py",
        expect!["`--run_mode=both`: must be collective, ps or ps-heter"],
    );
    refused(
        "--log_level=loud t.py",
        expect!["`--log_level=loud`: must be DEBUG, INFO, WARNING or ERROR"],
    );
    refused(
        "--elastic_level=-1 --max_restart=2 t.py",
        expect![
            "`--elastic_level=-1` and `--max_restart=2` contradict each other: the first asks for no restarts; leave it out, or write `--max_restart=0`"
        ],
    );
    refused(
        "--elastic_level=0 t.py",
        expect![
            "`--elastic_level=0`: must be -1 (no restarts) or 1 (failed processes are started again); a job whose other machines wait for a new one is not in this version"
        ],
    );
    refused(
        "--backend=nccl t.py",
        expect![
            "`--backend=nccl`: processes reduce over the network of their CPUs in this version: write `gloo`, or leave it out"
        ],
    );
    refused(
        "--master=etcd://a:1 t.py",
        expect![
            "`--master=etcd://a:1`: machines meet without etcd: write the address of the first machine as IP:PORT"
        ],
    );
    refused(
        "--rank=-2 t.py",
        expect!["`--rank=-2`: is not a number of a machine: write 0 for the first"],
    );
}

#[test]
fn what_is_not_there_is_refused_with_advice() {
    refused(
        "--xpus=0 t.py",
        expect![
            "`--xpus` is not available: only GPUs can be chosen, with `--gpus`; leave it out to train on CPUs"
        ],
    );
    refused(
        "--auto_tuner_json=a t.py",
        expect![
            "`--auto_tuner_json` is not available: there is no tuner that tries settings out; leave it out"
        ],
    );
    refused(
        "--elastic_server=a:1 t.py",
        expect![
            "`--elastic_server` is not available: machines meet at `--master`, without etcd, and their number is fixed; use `--master`, `--nnodes` and `--max_restart`"
        ],
    );
    refused(
        "--coordinator-num=1 t.py",
        expect![
            "`--coordinator-num` is not available: federated training is not in this version; leave it out"
        ],
    );
    refused(
        "-m models.train",
        expect![
            "`-m` is for a YAML file of a training (`-m config.yaml`); to run a Python module write `fleetrun … python -m bireme -m models.train`"
        ],
    );
}

#[test]
fn a_yaml_file_is_trained_by_bireme() {
    let Ok(Request::Launch(options)) =
        parsed("--server_num=1 -m config.yaml -o runner.epochs=2", &[])
    else {
        panic!("a job")
    };
    let words = ["train", "-m", "config.yaml", "-o", "runner.epochs=2"].map(OsString::from);
    assert_eq!(options.program, Program { name: "bireme".into(), arguments: words.to_vec() });
}

#[test]
fn the_help_is_readable() {
    let Ok(Request::Help(text)) = parsed("--worker_num=2 --help", &[]) else { panic!() };
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    expect_file!["help.txt"].assert_eq(&text);
}

/// The tables of flags in docs/launcher.md are those of the code.
#[test]
fn the_reference_of_flags_is_current() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/launcher.md");
    const BEGIN: &str = "<!-- flags: written from the code -->\n";
    const END: &str = "<!-- end of flags -->\n";
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let current = format!("{before}{BEGIN}{}\n{END}{after}", reference());
    expect_file!["../../../../docs/launcher.md"].assert_eq(&current);
}

/// The bounded form of the fuzz target `launch_args`.
#[test]
fn any_words_are_a_request_or_a_usage_error() {
    const WORDS: [&str; 24] = [
        "--worker_num",
        "--worker_num=2",
        "--server_num=-1",
        "--servers=127.0.0.1:0,:9,[::1]:70000",
        "--workers",
        "127.0.0.1:8000",
        "--nnodes=1:3:5",
        "--nproc_per_node",
        "18446744073709551616",
        "--master=::",
        "--rank=",
        "--heter_worker_num=1;2;",
        "--heter_workers=a:1;b:2",
        "--ips=,",
        "--log_dir",
        "--run_mode=ps",
        "--wörker",
        "--=",
        "--",
        "-",
        "-m",
        "",
        "t.py",
        "--elastic_timeout=1e999",
    ];
    let mut state = 7_u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) as usize % end
    };
    for _ in 0..5000 {
        let words: Vec<OsString> =
            (0..below(7)).map(|_| OsString::from(WORDS[below(WORDS.len())])).collect();
        let flavor = if below(2) == 0 { Flavor::Fleetrun } else { Flavor::LaunchPs };
        if let Err(Usage(problem)) = parse(&words, &Variables::new(), flavor, "fleetrun") {
            assert!(!problem.is_empty(), "{words:?}");
        }
    }
}
