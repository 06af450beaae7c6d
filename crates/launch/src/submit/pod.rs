//! The pod of a process: its container, variables, volumes and needs.

use super::yaml::{Yaml, map};
use super::{Cluster, Description, Resources, Secret, Volume, VolumeSource};

/// The container's name, which rules about exit codes refer to.
pub(super) const CONTAINER: &str = "main";
/// The key of the secret, in the Secret and in the environment.
pub(super) const SECRET_KEY: &str = "BIREME_JOB_SECRET";
/// Where an Indexed Job says which of its pods this is.
const INDEX: &str = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
/// Pods of a job start when their machines have room and the image, so that they wait long for each
/// other; a peer that dies is noticed by its missing signs of life, long before this.
const PATIENCE: [(&str, &str); 2] =
    [("FLAGS_rpc_deadline", "900000"), ("BIREME_START_TIMEOUT", "900")];

/// Variables of a container, in the order in which they may refer to each other.
#[derive(Default)]
pub(super) struct Variables(Vec<Yaml>);

impl Variables {
    /// A variable with a text in which `$(NAME)` means an earlier variable.
    pub(super) fn text(mut self, name: &str, value: &str) -> Variables {
        self.0.push(map! { "name" => name, "value" => value });
        self
    }

    /// The number of this pod among those of its Job.
    pub(super) fn index(self, name: &str) -> Variables {
        self.field(name, INDEX)
    }

    /// The pod's own address.
    pub(super) fn address(self, name: &str) -> Variables {
        self.field(name, "status.podIP")
    }

    fn field(mut self, name: &str, path: &str) -> Variables {
        let source = map! { "fieldRef" => map! { "fieldPath" => path } };
        self.0.push(map! { "name" => name, "valueFrom" => source });
        self
    }

    fn secret(mut self, secret: &str) -> Variables {
        let key = map! { "name" => secret, "key" => SECRET_KEY };
        let source = map! { "secretKeyRef" => key };
        self.0.push(map! { "name" => SECRET_KEY, "valueFrom" => source });
        self
    }
}

/// The name of the Secret with the job's secret.
pub(super) fn secret_name(job: &Description) -> String {
    match &job.secret {
        Secret::Text(_) => format!("{}-secret", job.name),
        Secret::Named(name) => name.clone(),
    }
}

/// What a pod's container runs: a script under Bireme's Python, an executable as it is.
pub(super) fn direct(command: &[String]) -> Vec<String> {
    let script = command.first().is_some_and(|first| first.ends_with(".py"));
    let prefix: &[&str] = if script { &["python", "-u", "-m", "bireme"] } else { &[] };
    prefix.iter().map(ToString::to_string).chain(command.iter().map(|arg| literal(arg))).collect()
}

/// A text that Kubernetes leaves as it is: `$(NAME)` and `$$` would be replaced.
pub(super) fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// The template of a pod.
pub(super) fn template(
    job: &Description,
    cluster: &Cluster,
    labels: Yaml,
    resources: &Resources,
    variables: Variables,
    command: Vec<String>,
) -> Yaml {
    let mut variables = variables.text("SYS_JOB_ID", &job.name).secret(&secret_name(job));
    for (name, value) in PATIENCE {
        if !job.variables.iter().any(|(given, _)| given == name) {
            variables = variables.text(name, value);
        }
    }
    for (name, value) in &job.variables {
        variables = variables.text(name, &literal(value));
    }
    let container = map! {
        "name" => CONTAINER,
        "image" => &cluster.image,
        "command" => command.into_iter().map(Yaml::from).collect::<Vec<_>>(),
    };
    let container = container
        .with_some("workingDir", job.folder.as_ref())
        .with("env", variables.0)
        .with_some("resources", needs(resources))
        .with("volumeMounts", mounts(&cluster.volumes));
    let spec = map! {
        "subdomain" => &job.name,
        "restartPolicy" => "Never",
        "automountServiceAccountToken" => false,
        "enableServiceLinks" => false,
        "containers" => vec![container],
        "volumes" => volumes(&cluster.volumes),
    };
    map! { "metadata" => map! { "labels" => labels }, "spec" => spec }
}

/// The same request and limit of memory, so that a process is never killed for what it was
/// promised; processors without a limit, since throttling helps nobody.
fn needs(resources: &Resources) -> Option<Yaml> {
    let Resources { cpus, memory } = resources;
    if cpus.is_none() && memory.is_none() {
        return None;
    }
    let requests = map! {}.with_some("cpu", cpus.as_ref()).with_some("memory", memory.as_ref());
    let limits = memory.as_ref().map(|memory| map! { "memory" => memory });
    Some(map! { "requests" => requests }.with_some("limits", limits))
}

fn mounts(volumes: &[Volume]) -> Vec<Yaml> {
    let shared = map! { "name" => "shm", "mountPath" => "/dev/shm" };
    let given = volumes.iter().enumerate().map(|(at, volume)| {
        let mount = map! { "name" => format!("volume-{at}"), "mountPath" => &volume.path };
        mount.with_some("readOnly", volume.read_only.then_some(true))
    });
    std::iter::once(shared).chain(given).collect()
}

fn volumes(volumes: &[Volume]) -> Vec<Yaml> {
    // The 64 MB that a container has for shared memory are too few for processes that share
    // batches and gradients.
    let shared = map! { "name" => "shm", "emptyDir" => map! { "medium" => "Memory" } };
    let given = volumes.iter().enumerate().map(|(at, volume)| {
        let named = map! { "name" => format!("volume-{at}") };
        match &volume.source {
            VolumeSource::Claim(claim) => {
                let claim = map! { "claimName" => claim };
                let claim = claim.with_some("readOnly", volume.read_only.then_some(true));
                named.with("persistentVolumeClaim", claim)
            }
            VolumeSource::Host(path) => named.with("hostPath", map! { "path" => path }),
        }
    });
    std::iter::once(shared).chain(given).collect()
}
