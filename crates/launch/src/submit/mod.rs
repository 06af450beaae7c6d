//! The same job for other schedulers: Kubernetes manifests and Slurm scripts, as text.
//!
//! A [`Description`] is what the user asked for, as typed; [`Description::kubernetes`] and
//! [`Description::slurm`] check all of it before they print a line, so that a cluster never sees
//! a manifest it would refuse.

mod check;
mod kubernetes;
mod pod;
mod slurm;
#[cfg(test)]
mod tests;
mod yaml;

use anyhow::{Result, bail};

pub use check::name_of_script;

/// A job to be run by a scheduler.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name, a DNS label that starts with a letter: names of pods are made from it.
    pub name: String,
    /// What its processes are.
    pub work: Work,
    /// Script or executable, and its arguments.
    pub command: Vec<String>,
    /// What the processes prove to each other that they know (`BIREME_JOB_SECRET`).
    pub secret: Secret,
    /// Processors and memory of a worker, or of a node of a collective job.
    pub resources: Resources,
    /// Those of a server, where they differ.
    pub server_resources: Resources,
    /// Variables for every process.
    pub variables: Vec<(String, String)>,
    /// Where the command runs; without it, where the image or the submitter is.
    pub folder: Option<String>,
    /// How often what failed may be started again.
    pub max_restart: u32,
    /// Seconds after which the job is ended.
    pub time_limit_s: Option<u64>,
}

/// The processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Workers with parameter servers.
    Servers {
        /// Servers of the job.
        servers: u32,
        /// Workers of the job.
        workers: u32,
        /// Machines; only Slurm needs to know, Kubernetes places each pod by itself.
        nodes: Option<u32>,
    },
    /// Equal workers that reduce among themselves.
    Collective {
        /// Machines (pods).
        nodes: u32,
        /// Workers on each of them.
        processes: u32,
    },
}

/// Where the secret of a job is.
#[derive(Clone, Debug)]
pub enum Secret {
    /// Here.
    Text(String),
    /// In a Secret of the cluster, under the key `BIREME_JOB_SECRET`.
    Named(String),
}

/// What a process needs, as Kubernetes quantities; nothing where it was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Processors: `4`, `500m`.
    pub cpus: Option<String>,
    /// Memory: `8Gi`.
    pub memory: Option<String>,
}

/// What only Kubernetes needs to know.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The container image.
    pub image: String,
    /// Where it runs; without it, where `kubectl` is pointed at.
    pub namespace: Option<String>,
    /// Claims and folders of the machine that every pod sees.
    pub volumes: Vec<Volume>,
    /// The port of every process that others connect to.
    pub port: u16,
    /// Seconds until a finished job is removed.
    pub ttl_s: u32,
    /// A JobSet instead of Jobs.
    pub jobset: bool,
}

/// A folder in the pods.
#[derive(Clone, Debug)]
pub struct Volume {
    /// What is there.
    pub source: VolumeSource,
    /// Where it is seen.
    pub path: String,
    /// Whether it cannot be written.
    pub read_only: bool,
}

/// What a volume shows.
#[derive(Clone, Debug)]
pub enum VolumeSource {
    /// A PersistentVolumeClaim.
    Claim(String),
    /// A folder of the machine.
    Host(String),
}

/// What only Slurm needs to know.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
}

impl Description {
    /// Kubernetes manifests, for `kubectl apply -f -`.
    ///
    /// # Errors
    /// When something in the description cannot be; says what, and how it should be.
    pub fn kubernetes(&self, cluster: &Cluster) -> Result<String> {
        check::job(self)?;
        check::cluster(self, cluster)?;
        kubernetes::manifests(self, cluster)
    }

    /// A script for `sbatch`.
    ///
    /// # Errors
    /// As [`Description::kubernetes`].
    pub fn slurm(&self, queue: &Queue) -> Result<String> {
        check::job(self)?;
        if matches!(self.secret, Secret::Named(_)) {
            bail!("a Slurm job makes its secret when it starts: leave out `--secret`");
        }
        if self.server_resources != Resources::default() {
            bail!(
                "on Slurm servers and workers share the nodes: say what a node needs by `--cpus` \
                 and `--memory`"
            );
        }
        slurm::script(self, queue)
    }
}

impl Resources {
    /// These, and `others` for what they leave open.
    fn or(&self, others: &Resources) -> Resources {
        Resources {
            cpus: self.cpus.clone().or_else(|| others.cpus.clone()),
            memory: self.memory.clone().or_else(|| others.memory.clone()),
        }
    }
}

/// A volume from `CLAIM:/path[:ro]`, or `/folder:/path[:ro]` of the machine.
///
/// # Errors
/// When it is not of this form.
pub fn volume(text: &str, of_host: bool) -> Result<Volume> {
    let form = if of_host { "/folder:/path[:ro]" } else { "CLAIM:/path[:ro]" };
    let mut parts = text.split(':');
    let (Some(source), Some(path)) = (parts.next(), parts.next()) else {
        bail!("`{text}` is not of the form `{form}`");
    };
    let read_only = match (parts.next(), parts.next()) {
        (None, _) => false,
        (Some("ro"), None) => true,
        (Some("rw"), None) => false,
        _ => bail!("`{text}` is not of the form `{form}`"),
    };
    if !path.starts_with('/') || (of_host && !source.starts_with('/')) {
        bail!("`{text}` is not of the form `{form}`: folders begin with `/`");
    }
    let source = match of_host {
        true => VolumeSource::Host(source.to_owned()),
        false => {
            check::dns_label(source, "the claim")?;
            VolumeSource::Claim(source.to_owned())
        }
    };
    Ok(Volume { source, path: path.to_owned(), read_only })
}
