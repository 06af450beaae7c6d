//! `bireme submit`: the job that `fleetrun` would run here, as text for a scheduler.

use std::fs::File;
use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use bireme_launch::submit::{
    Cluster, Description, Queue, Resources, Secret, Work, name_of_script, volume,
};

use super::Outcome;

/// Prints a job for Kubernetes or Slurm, ready to be submitted.
///
/// The options are those of `fleetrun`: `--server_num` and `--worker_num` make a job with parameter
/// servers, `--nnodes` and `--nproc_per_node` a collective one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bireme submit --k8s --image registry/train:1 --server_num 2 --worker_num 4 train.py | kubectl apply -f -
  bireme submit --slurm --nnodes 4 --nproc_per_node 8 --cpus 16 train.py > job.sh && sbatch job.sh")]
pub(super) struct Args {
    /// Print Kubernetes manifests: a Secret, a headless Service and Indexed Jobs.
    #[arg(long, alias = "kubernetes", required_unless_present = "slurm", conflicts_with = "slurm")]
    k8s: bool,
    /// Print a script for `sbatch`.
    #[arg(long)]
    slurm: bool,
    /// Print a JobSet instead of Jobs; the cluster needs its controller.
    #[arg(long, conflicts_with = "slurm")]
    jobset: bool,
    /// Name of the job; made from the name of the script unless given.
    #[arg(long, alias = "job_id")]
    name: Option<String>,
    /// Container image with Bireme and the script.
    #[arg(long, conflicts_with = "slurm")]
    image: Option<String>,
    /// Namespace; that of `kubectl` unless given.
    #[arg(long, conflicts_with = "slurm")]
    namespace: Option<String>,
    /// Number of parameter servers.
    #[arg(long = "server_num", alias = "server-num", value_name = "N")]
    server_num: Option<u32>,
    /// Number of workers of a job with parameter servers.
    #[arg(long = "worker_num", aliases = ["worker-num", "trainer_num", "trainer-num"], value_name = "N")]
    worker_num: Option<u32>,
    /// Number of machines.
    #[arg(long, value_name = "N")]
    nnodes: Option<u32>,
    /// Workers on each machine of a collective job.
    #[arg(long = "nproc_per_node", alias = "nproc-per-node", value_name = "N")]
    nproc_per_node: Option<u32>,
    /// Processors of each pod or node: `4`, `500m`.
    #[arg(long)]
    cpus: Option<String>,
    /// Memory of each pod or node: `16Gi`.
    #[arg(long)]
    memory: Option<String>,
    /// Processors of a server, where they differ.
    #[arg(long = "server_cpus", alias = "server-cpus", requires = "server_num")]
    server_cpus: Option<String>,
    /// Memory of a server, where it differs.
    #[arg(long = "server_memory", alias = "server-memory", requires = "server_num")]
    server_memory: Option<String>,
    /// A variable for every process; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A PersistentVolumeClaim in every pod; may be given several times.
    #[arg(long, value_name = "CLAIM:/PATH[:ro]", conflicts_with = "slurm")]
    pvc: Vec<String>,
    /// A folder of the machine in every pod; may be given several times.
    #[arg(long, value_name = "/FOLDER:/PATH[:ro]", conflicts_with = "slurm")]
    volume: Vec<String>,
    /// Folder in which the script runs.
    #[arg(long, value_name = "FOLDER")]
    workdir: Option<String>,
    /// A Secret of the cluster with the key `BIREME_JOB_SECRET`; a new one unless given.
    #[arg(long, value_name = "NAME", conflicts_with = "slurm")]
    secret: Option<String>,
    /// Port of every process that others connect to.
    #[arg(long, default_value_t = 6174, conflicts_with = "slurm")]
    port: u16,
    /// Seconds until a finished job is removed.
    #[arg(long, default_value_t = 86400, value_name = "SECONDS", conflicts_with = "slurm")]
    ttl: u32,
    /// How often what failed may be started again.
    #[arg(long = "max_restart", alias = "max-restart", default_value_t = 0, value_name = "N")]
    max_restart: u32,
    /// Seconds after which the job is ended.
    #[arg(long = "time_limit", alias = "time-limit", value_name = "SECONDS")]
    time_limit: Option<u64>,
    /// Partition of the Slurm cluster.
    #[arg(long, conflicts_with = "k8s")]
    partition: Option<String>,
    /// Account that Slurm charges.
    #[arg(long, conflicts_with = "k8s")]
    account: Option<String>,
    /// Script or executable, and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// Prints the job.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let job = args.description()?;
    let text = match args.slurm {
        true => {
            let (partition, account) = (args.partition.clone(), args.account.clone());
            job.slurm(&Queue { partition, account })?
        }
        false => job.kubernetes(&args.cluster()?)?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Done)
}

impl Args {
    fn description(&self) -> Result<Description> {
        let script = self.command.first().map_or("", String::as_str);
        let secret = match &self.secret {
            Some(name) => Secret::Named(name.clone()),
            None if self.slurm => Secret::Text(String::new()),
            None => Secret::Text(random_secret()?),
        };
        Ok(Description {
            name: self.name.clone().unwrap_or_else(|| name_of_script(script)),
            work: self.work()?,
            command: self.command.clone(),
            secret,
            resources: Resources { cpus: self.cpus.clone(), memory: self.memory.clone() },
            server_resources: Resources {
                cpus: self.server_cpus.clone(),
                memory: self.server_memory.clone(),
            },
            variables: self.env.iter().map(|text| variable(text)).collect::<Result<_>>()?,
            folder: self.workdir.clone(),
            max_restart: self.max_restart,
            time_limit_s: self.time_limit,
        })
    }

    fn work(&self) -> Result<Work> {
        match (self.server_num, self.worker_num) {
            (Some(servers), Some(workers)) => match self.nproc_per_node {
                None => Ok(Work::Servers { servers, workers, nodes: self.nnodes }),
                Some(_) => bail!(
                    "`--nproc_per_node` is for collective jobs, `--server_num` and `--worker_num` \
                     for those with servers: leave one of them out"
                ),
            },
            (None, None) => Ok(Work::Collective {
                nodes: self.nnodes.unwrap_or(1),
                processes: self.nproc_per_node.unwrap_or(1),
            }),
            (Some(_), None) => {
                bail!("The setting of Parameter-Server must have worker_num: add `--worker_num`")
            }
            (None, Some(_)) => {
                bail!("The setting of Parameter-Server must have server_num: add `--server_num`")
            }
        }
    }

    fn cluster(&self) -> Result<Cluster> {
        let Some(image) = self.image.clone() else {
            bail!("Kubernetes needs a container image with the script: add `--image`");
        };
        let claims = self.pvc.iter().map(|text| volume(text, false));
        let folders = self.volume.iter().map(|text| volume(text, true));
        Ok(Cluster {
            image,
            namespace: self.namespace.clone(),
            volumes: claims.chain(folders).collect::<Result<_>>()?,
            port: self.port,
            ttl_s: self.ttl,
            jobset: self.jobset,
        })
    }
}

fn variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => bail!("`--env {text}` is not of the form `NAME=VALUE`"),
    }
}

fn random_secret() -> Result<String> {
    let mut bytes = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context("cannot read random bytes for the job's secret from /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
