//! What a description may say: names, quantities, counts and variables, as the schedulers take them.

use anyhow::{Result, bail};

use super::{Cluster, Description, Secret, Work};

/// Pods are called `NAME-server-0-1234` and get six more characters; 63 is the limit of a label.
const MAX_NAME: usize = 40;
/// More would not fit into one environment variable as a list of endpoints.
const MAX_PROCESSES: u32 = 2000;

/// Everything that does not depend on the scheduler.
pub(super) fn job(job: &Description) -> Result<()> {
    dns_label(&job.name, "the name of the job")?;
    if job.name.len() > MAX_NAME {
        bail!(
            "the name of the job is {} characters long, but names of pods are made from it: at \
             most {MAX_NAME}",
            job.name.len()
        );
    }
    if job.command.is_empty() {
        bail!("no script was given: name it after the options, as for `fleetrun`");
    }
    counts(job.work)?;
    for resources in [&job.resources, &job.server_resources] {
        if let Some(cpus) = &resources.cpus {
            quantity(cpus, "`--cpus`")?;
        }
        if let Some(memory) = &resources.memory {
            bytes(memory)?;
        }
    }
    for (name, value) in &job.variables {
        variable(name, value)?;
    }
    Ok(())
}

/// What is about Kubernetes.
pub(super) fn cluster(job: &Description, cluster: &Cluster) -> Result<()> {
    let image = &cluster.image;
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        bail!("`{image}` is no image: write `--image registry/name:tag`");
    }
    if let Some(namespace) = &cluster.namespace {
        dns_label(namespace, "the namespace")?;
    }
    if let Secret::Named(name) = &job.secret {
        dns_label(name, "the secret")?;
    }
    if cluster.port < 1024 {
        bail!("port {} is for system services: choose one from 1024 on", cluster.port);
    }
    if let Work::Servers { nodes: Some(_), .. } = job.work {
        bail!(
            "on Kubernetes every server and worker is a pod of its own: leave out `--nnodes`, or \
             leave out `--server_num` for a collective job"
        );
    }
    for (at, volume) in cluster.volumes.iter().enumerate() {
        if cluster.volumes[..at].iter().any(|other| other.path == volume.path) {
            bail!("two volumes are at `{}`", volume.path);
        }
    }
    Ok(())
}

fn counts(work: Work) -> Result<()> {
    let all = match work {
        Work::Servers { servers, workers, nodes } => {
            let processes = servers.saturating_add(workers);
            if let Some(nodes) = nodes.filter(|nodes| *nodes > processes) {
                bail!("there are {nodes} nodes for {processes} processes: some would be idle");
            }
            [("--server_num", servers), ("--worker_num", workers), ("--nnodes", nodes.unwrap_or(1))]
        }
        Work::Collective { nodes, processes } => {
            [("--nnodes", nodes), ("--nproc_per_node", processes), ("", 1)]
        }
    };
    for (flag, count) in all {
        if count == 0 {
            bail!("`{flag}` is 0: it must be at least 1");
        }
        if count > MAX_PROCESSES {
            bail!("`{flag}` is {count}: at most {MAX_PROCESSES}");
        }
    }
    Ok(())
}

/// That a text is a DNS label that starts with a letter, as names of services must.
pub(super) fn dns_label(text: &str, what: &str) -> Result<()> {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = text.len() <= 63
        && text.chars().all(inside)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-');
    if fits {
        return Ok(());
    }
    let advice = match label_of(text) {
        Some(near) => format!("; `{near}` would do"),
        None => String::new(),
    };
    bail!(
        "{what} is `{text}`, but a name in a cluster has small letters, digits and `-`, starts \
         with a letter, does not end with `-` and has at most 63 characters{advice}"
    )
}

/// The nearest label to a text, if there is one.
fn label_of(text: &str) -> Option<String> {
    let small = text.to_ascii_lowercase();
    let letters: String =
        small.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let start = letters.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let label: String = start.chars().take(MAX_NAME).collect();
    let label = label.trim_end_matches('-');
    (!label.is_empty()).then(|| label.to_owned())
}

/// A name for a job that runs this script: `train` for `jobs/train.py`.
pub fn name_of_script(script: &str) -> String {
    let file = script.rsplit('/').next().unwrap_or(script);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    label_of(stem).unwrap_or_else(|| "bireme".to_owned())
}

/// A Kubernetes quantity above zero, in units: `500m` is 0.5.
pub(super) fn quantity(text: &str, what: &str) -> Result<f64> {
    const UNITS: [(&str, f64); 13] = [
        ("Ki", 1024.0),
        ("Mi", 1048576.0),
        ("Gi", 1073741824.0),
        ("Ti", 1099511627776.0),
        ("Pi", 1125899906842624.0),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("Ei", 1152921504606846976.0),
        ("E", 1e18),
    ];
    let (digits, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit).map(|digits| (digits, *factor)))
        .unwrap_or((text, 1.0));
    let plain = !digits.is_empty()
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit());
    match digits.parse::<f64>() {
        Ok(number) if plain && number > 0.0 => Ok(number * factor),
        _ => bail!("{what} is `{text}`, which is no quantity: write `4`, `500m`, `16Gi`"),
    }
}

/// A quantity of memory in bytes; refuses what is too little for any process.
pub(super) fn bytes(text: &str) -> Result<f64> {
    let bytes = quantity(text, "`--memory`")?;
    if bytes < 1048576.0 {
        bail!("`--memory` is `{text}`, less than a megabyte: is the unit missing (`{text}Gi`)?");
    }
    Ok(bytes)
}

/// That a variable can be set, and is not one that the scheduler's part sets.
fn variable(name: &str, value: &str) -> Result<()> {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !starts || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        bail!("`--env {name}={value}`: a variable's name has letters, digits and `_` only");
    }
    if value.contains('\0') {
        bail!("`--env {name}`: a value cannot contain a zero byte");
    }
    const SET: [&str; 13] = [
        "TRAINING_ROLE",
        "PADDLE_PSERVERS_IP_PORT_LIST",
        "PADDLE_TRAINER_ENDPOINTS",
        "PADDLE_TRAINERS_NUM",
        "PADDLE_TRAINER_ID",
        "PADDLE_PSERVER_ID",
        "PADDLE_PORT",
        "PADDLE_RANK",
        "POD_IP",
        "BIREME_BIND",
        "BIREME_JOB_SECRET",
        "SYS_JOB_ID",
        "PADDLE_MASTER",
    ];
    if SET.contains(&name) {
        bail!("`--env {name}`: the job sets this variable for each process by itself");
    }
    Ok(())
}
