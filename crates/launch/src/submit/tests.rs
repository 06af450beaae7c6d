//! Manifests and scripts word for word (`tests/golden`, which `cargo xtask submit` holds against
//! the official schemas), what is refused, and the Slurm script run with a cluster that is played.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use expect_test::{ExpectFile, expect_file};

use super::*;

fn description(work: Work) -> Description {
    Description {
        name: "ctr".to_owned(),
        work,
        command: ["train.py", "--epochs", "3", "$(HOME)/it's"].map(str::to_owned).to_vec(),
        secret: Secret::Text("0123456789abcdef".to_owned()),
        resources: Resources::default(),
        server_resources: Resources::default(),
        variables: Vec::new(),
        folder: None,
        max_restart: 0,
        time_limit_s: None,
    }
}

fn cluster() -> Cluster {
    Cluster {
        image: "registry.example.com/team/train:1.0".to_owned(),
        namespace: None,
        volumes: Vec::new(),
        port: 6174,
        ttl_s: 86400,
        jobset: false,
    }
}

const SERVERS: Work = Work::Servers { servers: 2, workers: 3, nodes: None };
const COLLECTIVE: Work = Work::Collective { nodes: 2, processes: 4 };

/// A job with everything that can be said.
fn rich(work: Work) -> (Description, Cluster) {
    let resources = |cpus: &str, memory: &str| Resources {
        cpus: Some(cpus.to_owned()),
        memory: Some(memory.to_owned()),
    };
    let job = Description {
        resources: resources("4", "8Gi"),
        server_resources: match work {
            Work::Servers { .. } => resources("1500m", "64Gi"),
            Work::Collective { .. } => Resources::default(),
        },
        variables: vec![
            ("FLAGS_rpc_deadline".to_owned(), "60000".to_owned()),
            ("NOTE".to_owned(), "yes: \"$(HOME)\"".to_owned()),
        ],
        folder: Some("/workspace".to_owned()),
        max_restart: 3,
        time_limit_s: Some(7200),
        secret: Secret::Named("ctr-shared".to_owned()),
        ..description(work)
    };
    let volumes =
        vec![volume("criteo:/data:ro", false).unwrap(), volume("/scratch:/scratch", true).unwrap()];
    let namespace = Some("ads".to_owned());
    (job, Cluster { volumes, namespace, ..cluster() })
}

#[test]
fn manifests_are_as_they_were() {
    let check = |job: &Description, cluster: &Cluster, golden: ExpectFile| {
        golden.assert_eq(&job.kubernetes(cluster).unwrap());
    };
    let plain = cluster();
    let set = Cluster { jobset: true, ..cluster() };
    check(&description(SERVERS), &plain, expect_file!["../../tests/golden/servers.yaml"]);
    check(&description(COLLECTIVE), &plain, expect_file!["../../tests/golden/collective.yaml"]);
    check(&description(SERVERS), &set, expect_file!["../../tests/golden/servers_set.yaml"]);
    let one = description(Work::Collective { nodes: 1, processes: 8 });
    check(&one, &plain, expect_file!["../../tests/golden/one_pod.yaml"]);
    let (job, cluster) = rich(SERVERS);
    check(&job, &cluster, expect_file!["../../tests/golden/servers_rich.yaml"]);
    let (job, cluster) = rich(COLLECTIVE);
    let cluster = Cluster { jobset: true, ..cluster };
    check(&job, &cluster, expect_file!["../../tests/golden/collective_set_rich.yaml"]);
}

#[test]
fn slurm_scripts_are_as_they_were() {
    let script = |job: &Description, queue: &Queue| job.slurm(queue).unwrap();
    let servers = description(Work::Servers { servers: 2, workers: 3, nodes: Some(2) });
    expect_file!["../../tests/golden/servers.sh"].assert_eq(&script(&servers, &Queue::default()));
    let (job, _) = rich(COLLECTIVE);
    let job = Description { secret: Secret::Text(String::new()), ..job };
    let queue = Queue { partition: Some("cpu".to_owned()), account: Some("ads".to_owned()) };
    expect_file!["../../tests/golden/collective_rich.sh"].assert_eq(&script(&job, &queue));
    let one = description(Work::Collective { nodes: 1, processes: 8 });
    expect_file!["../../tests/golden/one_node.sh"].assert_eq(&script(&one, &Queue::default()));
}

/// The parts of the schemas that the manifests rely on; `cargo xtask submit` checks all of them.
#[test]
fn every_document_says_what_it_is_and_pods_find_each_other() {
    let text = description(SERVERS).kubernetes(&cluster()).unwrap();
    let documents: Vec<&str> = text.split("---\n").collect();
    let kinds: Vec<&str> = documents
        .iter()
        .filter_map(|text| text.lines().find(|line| line.starts_with("kind:")))
        .collect();
    assert_eq!(kinds, ["kind: Secret", "kind: Service", "kind: Job", "kind: Job"]);
    for document in &documents {
        assert!(document.starts_with("apiVersion: "), "{document}");
        assert!(document.contains("\nmetadata:\n  name: ctr"), "{document}");
    }
    // Names of pods: Job, index, and the Service as their domain.
    assert!(documents[1].contains("name: ctr\n") && documents[1].contains("clusterIP: None"));
    assert!(documents[2].contains("name: ctr-server\n"));
    for job in &documents[2..] {
        assert!(job.contains("\"ctr-server-0.ctr:6174,ctr-server-1.ctr:6174\""), "{job}");
        assert!(job.contains("subdomain: ctr\n") && job.contains("restartPolicy: Never"));
        assert!(job.contains("\"$$(HOME)/it's\""), "{job}");
    }
}

#[track_caller]
fn refused(change: impl Fn(&mut Description, &mut Cluster), text: &str) {
    let (mut job, mut cluster) = (description(SERVERS), cluster());
    change(&mut job, &mut cluster);
    let error = format!("{:#}", job.kubernetes(&cluster).unwrap_err());
    assert!(error.contains(text), "`{text}` in: {error}");
}

#[test]
fn what_a_cluster_would_refuse_is_refused_here() {
    refused(|job, _| job.name = "My_Job".to_owned(), "`my-job` would do");
    refused(|job, _| job.name = "9lives".to_owned(), "`lives` would do");
    refused(|job, _| job.name = "a".repeat(41), "at most 40");
    refused(|job, _| job.command.clear(), "no script was given");
    refused(|job, _| job.resources.cpus = Some("four".to_owned()), "no quantity");
    refused(|job, _| job.resources.cpus = Some("0".to_owned()), "no quantity");
    refused(|job, _| job.resources.memory = Some("16".to_owned()), "is the unit missing");
    refused(|job, _| job.server_resources.memory = Some("1.Gi".to_owned()), "no quantity");
    refused(|job, _| job.variables = vec![("A-B".to_owned(), String::new())], "letters, digits");
    let own = |job: &mut Description, _: &mut Cluster| {
        job.variables = vec![("POD_IP".to_owned(), "1".to_owned())];
    };
    refused(own, "sets this variable");
    refused(|_, cluster| cluster.image = "a b".to_owned(), "is no image");
    refused(|_, cluster| cluster.namespace = Some("Ads".to_owned()), "`ads` would do");
    refused(|_, cluster| cluster.port = 80, "from 1024 on");
    let nodes = Work::Servers { servers: 1, workers: 1, nodes: Some(1) };
    refused(|job, _| job.work = nodes, "leave out `--nnodes`");
    let none = Work::Servers { servers: 0, workers: 1, nodes: None };
    refused(|job, _| job.work = none, "`--server_num` is 0");
    for wrong in ["data", "data:relative", "Data:/x", "data:/x:wo", "data:/x:ro:y"] {
        assert!(volume(wrong, false).is_err(), "{wrong}");
    }
    assert!(volume("data:/x", true).is_err());
    assert_eq!(name_of_script("jobs/Train_CTR.py"), "train-ctr");
    assert_eq!(name_of_script("./7.py"), "bireme");
}

#[test]
fn slurm_refuses_what_it_cannot_give() {
    let refused = |job: Description, queue: &Queue, text: &str| {
        let error = format!("{:#}", job.slurm(queue).unwrap_err());
        assert!(error.contains(text), "`{text}` in: {error}");
    };
    let mut job = description(COLLECTIVE);
    job.resources.cpus = Some("1500m".to_owned());
    refused(job.clone(), &Queue::default(), "whole processors");
    job.resources.cpus = None;
    let queue = Queue { partition: Some("a b".to_owned()), account: None };
    refused(job.clone(), &queue, "is no name of a partition");
    job.secret = Secret::Named("mine".to_owned());
    refused(job, &Queue::default(), "leave out `--secret`");
    let idle = description(Work::Servers { servers: 1, workers: 1, nodes: Some(3) });
    refused(idle, &Queue::default(), "some would be idle");
}

/// Runs a script as Slurm would, with two nodes that are this machine.
fn play(script: &str, fleetrun: &str) -> (Option<i32>, Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("scontrol", "[[ \"$1 $2 $3\" == 'show hostnames n[1-2]' ]] && printf 'n1\\nn2\\n'");
    program("getent", "case $2 in n1) echo 127.0.1.1;; n2) echo '10.0.0.2 STREAM n2';; esac");
    program("hostname", "echo 10.0.0.1 fe80::1");
    // Two tasks at once; the step fails as its worst task, and hands TERM on.
    program(
        "srun",
        "while [[ $1 == --* ]]; do shift; done\n\
         trap 'again=1; kill -TERM \"${tasks[@]}\"' TERM\n\
         for id in 0 1; do SLURM_NODEID=$id \"$@\" & tasks+=($!); done\n\
         code=0\n\
         for task in \"${tasks[@]}\"; do\n\
             again=1; while (( again )); do again=0; wait \"$task\"; got=$?; done\n\
             (( got > code )) && code=$got\n\
         done\n\
         exit $code",
    );
    program("fleetrun", fleetrun);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", script, "job.sh"])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("SLURM_JOB_NODELIST", "n[1-2]")
        .env("SLURM_JOB_ID", "12345")
        .env("SLURMD_NODENAME", "n1")
        .env("SLURM_CPUS_PER_TASK", "4")
        .output()
        .unwrap();
    let seen = |id: usize| read(&folder.path().join(format!("node{id}")));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), vec![seen(0), seen(1)], stderr)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Writes down what it was started with.
const NOTE: &str = "printf '%s\\n' \"$@\" \"secret ${#BIREME_JOB_SECRET}\" > node$SLURM_NODEID";

#[test]
fn a_slurm_job_starts_fleetrun_on_every_node() {
    let job = description(Work::Servers { servers: 2, workers: 3, nodes: Some(2) });
    let script = job.slurm(&Queue::default()).unwrap();
    let (code, nodes, stderr) = play(&script, NOTE);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let lists = "--job_id=ctr\n--max_restart=0\n\
                 --servers=10.0.0.1:24500,10.0.0.2:24501\n\
                 --workers=10.0.0.1:24502,10.0.0.2:24503,10.0.0.1:24504\n\
                 train.py\n--epochs\n3\n$(HOME)/it's\nsecret 64\n";
    assert_eq!(nodes[0], format!("--log_dir=log/12345/node0\n{lists}"));
    assert_eq!(nodes[1], format!("--log_dir=log/12345/node1\n{lists}"));
}

#[test]
fn a_collective_slurm_job_names_its_master() {
    let script = description(COLLECTIVE).slurm(&Queue::default()).unwrap();
    let (code, nodes, stderr) = play(&script, NOTE);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let start = "--log_dir=log/12345/node1\n--rank=1\n--job_id=ctr\n--max_restart=0\n\
                 --nproc_per_node=4\n--master=10.0.0.1:24500\n--nnodes=2\ntrain.py\n";
    assert!(nodes[1].starts_with(start), "{}", nodes[1]);
}

#[test]
fn a_slurm_job_passes_failures_and_signals_on() {
    let script = description(COLLECTIVE).slurm(&Queue::default()).unwrap();
    let (code, ..) = play(&script, "exit $(( SLURM_NODEID * 7 ))");
    assert_eq!(code, Some(7));
    // Each fleetrun waits for TERM and ends with 9; when both are there, and the batch shell catches
    // the signal (bit 14 of SigCgt), node 1 sends it there.
    let waits = r#"
        sleep 60 & child=$!
        trap 'echo ended > node$SLURM_NODEID; kill $child; exit 9' TERM
        mkfifo ready 2>/dev/null
        if [[ $SLURM_NODEID == 0 ]]; then
            echo > ready
        else
            read -r < ready
            batch=$(awk '/^PPid/ { print $2 }' /proc/$PPID/status)
            until (( 0x$(awk '/^SigCgt/ { print $2 }' /proc/$batch/status) & 0x4000 )); do :; done
            kill -TERM "$batch"
        fi
        wait $child"#;
    let (code, nodes, stderr) = play(&script, waits);
    assert_eq!(
        (code, nodes[0].as_str(), nodes[1].as_str()),
        (Some(9), "ended\n", "ended\n"),
        "{stderr}"
    );
}

#[test]
fn a_slurm_job_on_too_few_nodes_says_so() {
    let job = description(Work::Collective { nodes: 3, processes: 1 });
    let (code, _, stderr) = play(&job.slurm(&Queue::default()).unwrap(), NOTE);
    assert_eq!(code, Some(1));
    assert_eq!(stderr, "error: the job needs 3 nodes, but Slurm gave 2\n");
}
