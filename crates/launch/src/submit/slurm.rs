//! A script for `sbatch`: one `fleetrun` on every node, started by `srun`.
//!
//! Addresses, ports and the secret are found when the job starts, so that one script can be
//! submitted many times, also at the same time on the same nodes.

use std::fmt::Write;

use anyhow::{Result, bail};
use bireme_fleet::shell::quoted;

use super::{Description, Queue, Resources, Work, check};

/// Finds the address of each node; a name that leads to the machine itself (127.0.1.1 on Debian)
/// would lead others to themselves.
const ADDRESSES: &str = r#"
# Jobs on the same node at the same time have numbers near each other.
port=$(( 10000 + (SLURM_JOB_ID % 200) * 100 ))

# The nodes, by addresses that all of them can reach.
address() {
    local found
    found=$(getent ahostsv4 "$1" | awk '$1 !~ /^127\./ { print $1; exit }')
    if [[ -z "$found" && "$1" == "${SLURMD_NODENAME:-}" ]]; then
        found=$(hostname -I | awk '{ print $1 }')
    fi
    if [[ -z "$found" ]]; then
        echo "error: no address of node $1 is known here" >&2
        return 1
    fi
    echo "$found"
}
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
if (( ${#hosts[@]} != nodes )); then
    echo "error: the job needs $nodes nodes, but Slurm gave ${#hosts[@]}" >&2
    exit 1
fi
addresses=()
for host in "${hosts[@]}"; do
    found=$(address "$host")
    addresses+=("$found")
done
"#;

/// Runs the step in the background, so that the shell can pass signals on while it waits.
const STEP: &str = r#"
# srun hands signals on to every fleetrun, which ends its processes; Slurm sends TERM a minute
# before the time is up, `scancel --batch --signal=TERM` does it by hand.
trap 'signalled=1; kill -TERM "$step" 2>/dev/null || true' TERM INT
signalled=1
while (( signalled )); do
    # A signal ends the wait, but not the step.
    signalled=0 status=0
    wait "$step" || status=$?
done
exit "$status"
"#;

/// The script.
pub(super) fn script(job: &Description, queue: &Queue) -> Result<String> {
    let nodes = match job.work {
        Work::Servers { nodes, .. } => nodes.unwrap_or(1),
        Work::Collective { nodes, .. } => nodes,
    };
    let mut out = header(job, queue, nodes)?;
    out.push_str("\nset -euo pipefail\n");
    let _ = writeln!(out, "nodes={nodes}");
    out.push_str("\n# What the processes prove to each other that they know.\n");
    out.push_str("BIREME_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \\n')\n");
    out.push_str("export BIREME_JOB_SECRET\n");
    let _ = writeln!(out, "export SYS_JOB_ID={}-\"$SLURM_JOB_ID\"", job.name);
    for (name, value) in &job.variables {
        let _ = writeln!(out, "export {name}={}", quoted(value));
    }
    if let Some(folder) = &job.folder {
        let _ = writeln!(out, "cd {}", quoted(folder));
    }
    let flags = match job.work {
        Work::Servers { servers, workers, .. } => {
            out.push_str(ADDRESSES);
            lists(&mut out, servers, workers);
            vec!["--servers=\"$servers\"".to_owned(), "--workers=\"$workers\"".to_owned()]
        }
        Work::Collective { nodes, processes } => {
            let mut flags = vec![format!("--nproc_per_node={processes}")];
            if nodes > 1 {
                out.push_str(ADDRESSES);
                flags.push("--master=\"${addresses[0]}:$port\"".to_owned());
                flags.push(format!("--nnodes={nodes}"));
            }
            flags
        }
    };
    step(&mut out, job, &flags, nodes);
    out.push_str(STEP);
    Ok(out)
}

fn header(job: &Description, queue: &Queue, nodes: u32) -> Result<String> {
    let mut out = "#!/bin/bash\n".to_owned();
    let mut option = |text: String| {
        let _ = writeln!(out, "#SBATCH {text}");
    };
    option(format!("--job-name={}", job.name));
    option(format!("--nodes={nodes}"));
    option("--ntasks-per-node=1".to_owned());
    let Resources { cpus, memory } = &job.resources;
    if let Some(cpus) = cpus {
        let count = check::quantity(cpus, "`--cpus`")?;
        if count.fract() != 0.0 {
            bail!("`--cpus` is `{cpus}`, but Slurm gives whole processors");
        }
        option(format!("--cpus-per-task={count}"));
    }
    if let Some(memory) = memory {
        option(format!("--mem={}M", (check::bytes(memory)? / 1048576.0).ceil()));
    }
    if let Some(seconds) = job.time_limit_s {
        let minutes = seconds.div_ceil(60);
        option(format!("--time={:02}:{:02}:00", minutes / 60, minutes % 60));
    }
    for (name, value) in [("partition", &queue.partition), ("account", &queue.account)] {
        if let Some(value) = value {
            let fits = |c: char| c.is_ascii_alphanumeric() || "_-.,".contains(c);
            if value.is_empty() || !value.chars().all(fits) {
                bail!("`--{name}` is `{value}`, which is no name of a {name}");
            }
            option(format!("--{name}={value}"));
        }
    }
    option(format!("--output={}-%j.log", job.name));
    option("--open-mode=append".to_owned());
    option("--signal=B:TERM@60".to_owned());
    // A node that dies takes its fleetrun along; then Slurm may start the job again.
    let requeue = if job.max_restart > 0 { "--requeue" } else { "--no-requeue" };
    option(requeue.to_owned());
    Ok(out)
}

/// Spreads servers and workers over the nodes, each in turn.
fn lists(out: &mut String, servers: u32, workers: u32) {
    out.push_str("\n# Servers and workers go round the nodes.\nservers='' workers=''\n");
    let mut list = |name: &str, count: u32, first: u32| {
        let offset = if first == 0 { String::new() } else { format!(" + {first}") };
        let _ = write!(
            out,
            "for (( i = 0; i < {count}; i++ )); do\n    \
             {name}+=\"${{{name}:+,}}${{addresses[i % nodes]}}:$(( port{offset} + i ))\"\ndone\n"
        );
    };
    list("servers", servers, 0);
    list("workers", workers, servers);
}

fn step(out: &mut String, job: &Description, flags: &[String], nodes: u32) {
    // Every node has logs of its own, also where all see the same files.
    let mut inner = "exec fleetrun --log_dir=\"log/$SLURM_JOB_ID/node$SLURM_NODEID\"".to_owned();
    if nodes > 1 && matches!(job.work, Work::Collective { .. }) {
        inner.push_str(" --rank=\"$SLURM_NODEID\"");
    }
    inner.push_str(" \"$@\"");
    out.push_str("\n# --kill-on-bad-exit: a node that failed ends the others.\n");
    out.push_str("# shellcheck disable=SC2016 # the task's shell knows its node\n");
    // srun does not take over the processors that sbatch was asked for.
    let cpus = match job.resources.cpus {
        Some(_) => " --cpus-per-task=\"$SLURM_CPUS_PER_TASK\"",
        None => "",
    };
    let _ = write!(
        out,
        "srun --kill-on-bad-exit=1 --ntasks-per-node=1 --nodes=\"$nodes\"{cpus} \\\n    \
         bash -c '{inner}' fleetrun \\\n    \
         --job_id={} --max_restart={}",
        job.name, job.max_restart
    );
    for flag in flags {
        let _ = write!(out, " \\\n    {flag}");
    }
    let command: Vec<String> = job.command.iter().map(|arg| quoted(arg)).collect();
    let _ = writeln!(out, " \\\n    {} &\nstep=$!", command.join(" "));
}
