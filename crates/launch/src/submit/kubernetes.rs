//! Kubernetes manifests: a Secret, a headless Service that gives pods their names, and Indexed
//! Jobs; or a JobSet, which brings its own Service and starts and ends all Jobs together.
//!
//! Servers end by themselves when all workers have finished or are lost, so that two Jobs need
//! nobody who watches them; a JobSet ends them in any case.

use anyhow::{Result, bail};

use super::pod::{self, CONTAINER, SECRET_KEY, Variables};
use super::yaml::{Yaml, map};
use super::{Cluster, Description, Resources, Secret, Work};

/// A list of endpoints must fit into one variable: Linux takes 128 KiB.
const LONGEST_LIST: usize = 120 * 1024;

/// Pods of one kind: a Job of their own.
struct Group {
    /// What its Job is called after the job: nothing in a collective job.
    component: &'static str,
    count: u32,
    resources: Resources,
    variables: Variables,
    command: Vec<String>,
    /// Pods that may fail before the Job has.
    backoff: u32,
}

/// All manifests, one document each.
pub(super) fn manifests(job: &Description, cluster: &Cluster) -> Result<String> {
    let groups = match job.work {
        Work::Servers { servers, workers, .. } => with_servers(job, cluster, servers, workers)?,
        Work::Collective { nodes, processes } => vec![collective(job, cluster, nodes, processes)],
    };
    let mut documents = Vec::new();
    if let Secret::Text(secret) = &job.secret {
        documents.push(secret_document(job, cluster, secret));
    }
    match cluster.jobset {
        true => documents.push(jobset(job, cluster, groups)),
        false => {
            documents.push(service(job, cluster));
            let jobs = groups.into_iter().map(|group| plain_job(job, cluster, group));
            documents.extend(jobs);
        }
    }
    let texts: Vec<String> = documents.iter().map(Yaml::print).collect();
    Ok(texts.join("---\n"))
}

/// The name of a pod in the cluster, `$(VARIABLE)` or a number for its index.
fn host(job: &Description, cluster: &Cluster, component: &str, index: &str) -> String {
    let name = &job.name;
    let dashed = if component.is_empty() { String::new() } else { format!("-{component}") };
    match cluster.jobset {
        // Of the first and only Job of a kind.
        true => format!(
            "{name}{}-0-{index}.{name}",
            if dashed.is_empty() { "-worker" } else { &dashed }
        ),
        false => format!("{name}{dashed}-{index}.{name}"),
    }
}

fn with_servers(
    job: &Description,
    cluster: &Cluster,
    servers: u32,
    workers: u32,
) -> Result<Vec<Group>> {
    let list = |component: &str, count: u32| -> Result<String> {
        let hosts = (0..count).map(|index| {
            format!("{}:{}", host(job, cluster, component, &index.to_string()), cluster.port)
        });
        let list = hosts.collect::<Vec<_>>().join(",");
        if list.len() > LONGEST_LIST {
            bail!("the names of {count} {component}s do not fit into a variable: shorten `--name`");
        }
        Ok(list)
    };
    let (server_list, worker_list) = (list("server", servers)?, list("worker", workers)?);
    let common = |role: &str| {
        Variables::default()
            .text("TRAINING_ROLE", role)
            .text("PADDLE_PSERVERS_IP_PORT_LIST", &server_list)
            .text("PADDLE_TRAINER_ENDPOINTS", &worker_list)
            .text("PADDLE_TRAINERS_NUM", &workers.to_string())
    };
    let place = |variables: Variables, component: &str, index: &str| {
        variables
            .text("POD_IP", &host(job, cluster, component, &format!("$({index})")))
            .text("PADDLE_PORT", &cluster.port.to_string())
    };
    // A pod's name may be unknown to itself for a moment; its address is not.
    let server = common("PSERVER").index("PADDLE_PSERVER_ID");
    let server = place(server, "server", "PADDLE_PSERVER_ID").address("BIREME_BIND");
    let worker = common("TRAINER").index("PADDLE_TRAINER_ID");
    let worker = place(worker, "worker", "PADDLE_TRAINER_ID");
    let group = |component, count, resources, variables| Group {
        component,
        count,
        resources,
        variables,
        command: pod::direct(&job.command),
        backoff: job.max_restart,
    };
    let server_resources = job.server_resources.or(&job.resources);
    Ok(vec![
        group("server", servers, server_resources, server),
        group("worker", workers, job.resources.clone(), worker),
    ])
}

/// One pod a machine, in each of which `fleetrun` starts the workers.
fn collective(job: &Description, cluster: &Cluster, nodes: u32, processes: u32) -> Group {
    let mut command = vec!["fleetrun".to_owned(), format!("--job_id={}", job.name)];
    if nodes > 1 {
        let master = host(job, cluster, "", "0");
        command.push(format!("--master={master}:{}", cluster.port));
        command.push(format!("--nnodes={nodes}"));
        command.push("--rank=$(PADDLE_RANK)".to_owned());
    }
    command.push(format!("--nproc_per_node={processes}"));
    command.push(format!("--max_restart={}", job.max_restart));
    command.extend(job.command.iter().map(|arg| pod::literal(arg)));
    Group {
        component: "",
        count: nodes,
        resources: job.resources.clone(),
        variables: Variables::default().index("PADDLE_RANK").address("POD_IP"),
        command,
        // When one machine fails, the others do too.
        backoff: job.max_restart.saturating_mul(nodes),
    }
}

fn labels(job: &Description, component: Option<&str>) -> Yaml {
    let labels = map! {
        "app.kubernetes.io/name" => "bireme",
        "app.kubernetes.io/instance" => &job.name,
    };
    labels.with_some("app.kubernetes.io/component", component.filter(|part| !part.is_empty()))
}

fn metadata(job: &Description, cluster: &Cluster, name: &str, component: Option<&str>) -> Yaml {
    let metadata = map! { "name" => name };
    metadata
        .with_some("namespace", cluster.namespace.as_ref())
        .with("labels", labels(job, component))
}

fn secret_document(job: &Description, cluster: &Cluster, secret: &str) -> Yaml {
    map! {
        "apiVersion" => "v1",
        "kind" => "Secret",
        "metadata" => metadata(job, cluster, &pod::secret_name(job), None),
        "type" => "Opaque",
        "stringData" => map! { SECRET_KEY => secret },
    }
}

fn service(job: &Description, cluster: &Cluster) -> Yaml {
    let port = map! { "name" => "job", "port" => u32::from(cluster.port) };
    map! {
        "apiVersion" => "v1",
        "kind" => "Service",
        "metadata" => metadata(job, cluster, &job.name, None),
        "spec" => map! {
            "clusterIP" => "None",
            // Pods have names before they are ready: they look for each other while they start.
            "publishNotReadyAddresses" => true,
            "selector" => labels(job, None),
            "ports" => vec![port],
        },
    }
}

fn plain_job(job: &Description, cluster: &Cluster, group: Group) -> Yaml {
    let (name, component) = match group.component {
        "" => (job.name.clone(), None),
        component => (format!("{}-{component}", job.name), Some(component)),
    };
    map! {
        "apiVersion" => "batch/v1",
        "kind" => "Job",
        "metadata" => metadata(job, cluster, &name, component),
        "spec" => job_spec(job, cluster, group).with("ttlSecondsAfterFinished", cluster.ttl_s),
    }
}

fn job_spec(job: &Description, cluster: &Cluster, group: Group) -> Yaml {
    let Group { component, count, resources, variables, command, backoff } = group;
    let labels = labels(job, Some(component));
    // A wrong command line is wrong the next time too; a pod that had to make room is no failure.
    let usage = map! { "containerName" => CONTAINER, "operator" => "In", "values" => vec![Yaml::Number(2)] };
    let moved = map! { "type" => "DisruptionTarget", "status" => "True" };
    let rules = vec![
        map! { "action" => "FailJob", "onExitCodes" => usage },
        map! { "action" => "Ignore", "onPodConditions" => vec![moved] },
    ];
    map! {
        "completionMode" => "Indexed",
        "completions" => count,
        "parallelism" => count,
        "backoffLimit" => backoff,
    }
    .with_some(
        "activeDeadlineSeconds",
        job.time_limit_s.map(|seconds| Yaml::Number(i64::try_from(seconds).unwrap_or(i64::MAX))),
    )
    .with("podFailurePolicy", map! { "rules" => rules })
    .with("template", pod::template(job, cluster, labels, &resources, variables, command))
}

fn jobset(job: &Description, cluster: &Cluster, groups: Vec<Group>) -> Yaml {
    let replicated = |mut group: Group| {
        // A failure starts the whole set again, from the last checkpoint.
        group.backoff = 0;
        let name = if group.component.is_empty() { "worker" } else { group.component };
        map! {
            "name" => name,
            "replicas" => 1_u32,
            "template" => map! { "spec" => job_spec(job, cluster, group) },
        }
    };
    let jobs: Vec<Yaml> = groups.into_iter().map(replicated).collect();
    map! {
        "apiVersion" => "jobset.x-k8s.io/v1alpha2",
        "kind" => "JobSet",
        "metadata" => metadata(job, cluster, &job.name, None),
        "spec" => map! {
            "network" => map! {
                "enableDNSHostnames" => true,
                "subdomain" => &job.name,
                "publishNotReadyAddresses" => true,
            },
            "successPolicy" => map! {
                "operator" => "All",
                "targetReplicatedJobs" => vec![Yaml::from("worker")],
            },
            "failurePolicy" => map! { "maxRestarts" => job.max_restart },
            "ttlSecondsAfterFinished" => cluster.ttl_s,
            "replicatedJobs" => jobs,
        },
    }
}
