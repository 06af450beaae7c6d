//! `bireme submit` as a user types it; what it prints is held word for word in `bireme-launch`.

use super::bireme;

fn submit(args: &[&str]) -> super::Ran {
    let folder = tempfile::tempdir().unwrap();
    bireme(folder.path(), &[&["submit"], args].concat(), "")
}

#[test]
fn the_same_options_make_manifests_and_scripts() {
    let job = ["--server_num=2", "--worker-num", "4", "jobs/Train_CTR.py", "--lr", "0.1"];
    let printed = submit(&[&["--k8s", "--image", "train:1"], &job[..]].concat());
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    assert_eq!(printed.stdout.matches("\nkind: Job\n").count(), 2, "{}", printed.stdout);
    assert!(printed.stdout.contains("name: train-ctr-worker\n"), "{}", printed.stdout);
    assert!(printed.stdout.contains("- \"--lr\"\n"), "{}", printed.stdout);
    // Every job has a secret of its own.
    let secret = |text: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with("BIREME_JOB_SECRET: "));
        line.unwrap().trim().trim_start_matches("BIREME_JOB_SECRET: ").to_owned()
    };
    let again = submit(&[&["--k8s", "--image", "train:1"], &job[..]].concat());
    assert!(secret(&printed.stdout).len() >= 64);
    assert_ne!(secret(&printed.stdout), secret(&again.stdout));
    let script = submit(&[&["--slurm", "--nnodes=2"], &job[..]].concat());
    assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""));
    assert!(script.stdout.starts_with("#!/bin/bash\n#SBATCH --job-name=train-ctr\n"));
}

#[test]
fn wrong_options_say_what_to_do() {
    let fails = |args: &[&str], code: i32, text: &str| {
        let ran = submit(args);
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(text), "`{text}` in: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    };
    fails(&["--k8s", "train.py"], 1, "add `--image`");
    fails(&["--k8s", "--image=a", "--server_num=1", "train.py"], 1, "add `--worker_num`");
    fails(&["--k8s", "--image=a", "--worker_num=1", "train.py"], 1, "add `--server_num`");
    fails(&["--slurm", "--cpus=half", "train.py"], 1, "which is no quantity");
    fails(&["--k8s", "--image=a", "--env=NAME", "train.py"], 1, "is not of the form `NAME=VALUE`");
    fails(&["--k8s", "--image=a", "--name=My_Job", "train.py"], 1, "`my-job` would do");
    fails(&["train.py"], 2, "--k8s");
    fails(&["--slurm", "--image=a", "train.py"], 2, "cannot be used with");
    fails(&["--slurm"], 2, "<COMMAND>");
}
