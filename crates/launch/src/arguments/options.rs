//! The flags, checked one by one and typed; what they mean together is `plan`'s to say.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bireme_fleet::environment::variables as v;

use super::{Flavor, Given, Program, Usage, Variables, usage};

/// A job has at most so many processes in each role: more is a slip of the finger.
const MOST_PROCESSES: usize = 100_000;

/// What the user asks for.
#[derive(Debug)]
pub struct Options {
    /// `--run_mode`.
    pub run_mode: Option<RunMode>,
    /// `--job_id`.
    pub job_id: Option<String>,
    /// `--server_num`.
    pub server_num: Option<usize>,
    /// `--worker_num`.
    pub worker_num: Option<usize>,
    /// `--heter_worker_num`, for each stage after the trainers.
    pub heter_worker_num: Vec<usize>,
    /// `--servers`.
    pub servers: Vec<Endpoint>,
    /// `--workers`.
    pub workers: Vec<Endpoint>,
    /// `--heter_workers`, for each stage after the trainers.
    pub heter_workers: Vec<Vec<Endpoint>>,
    /// `--heter_devices`, for each stage after the trainers.
    pub heter_devices: Vec<String>,
    /// `--nproc_per_node`.
    pub nproc_per_node: Option<usize>,
    /// `--gpus`.
    pub gpus: Option<Vec<String>>,
    /// `--ips`, or PaddleCloud's machines.
    pub ips: Vec<String>,
    /// Whether the machines are PaddleCloud's.
    pub cloud: bool,
    /// `--master`.
    pub master: Option<Endpoint>,
    /// `--nnodes`: the least and the most machines.
    pub nnodes: Option<(usize, usize)>,
    /// `--rank`, of this machine.
    pub rank: Option<usize>,
    /// `--host` or `POD_IP`.
    pub host: Option<String>,
    /// `--sort_ip`.
    pub sort_ip: bool,
    /// `--elastic_timeout`: how long a job that may be larger waits for more machines.
    pub wait: Option<Duration>,
    /// `--start_port` or `FLAGS_START_PORT`.
    pub start_port: Option<u16>,
    /// `--http_port`.
    pub http_port: Option<u16>,
    /// `--gloo_port`.
    pub gloo_port: Option<u16>,
    /// `--with_gloo`.
    pub with_gloo: String,
    /// How often failed processes are started again: `--max_restart` and `--elastic_level`.
    pub max_restart: u32,
    /// `--log_dir`.
    pub log_dir: PathBuf,
    /// `--log_level`.
    pub log_level: Level,
    /// `--log_overwrite`.
    pub log_overwrite: bool,
    /// `--print_config`.
    pub print_config: bool,
    /// What to run.
    pub program: Program,
    /// The flags as written.
    pub(crate) given: Given,
}

/// `--run_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// `collective`.
    Collective,
    /// `ps`.
    Ps,
    /// `ps-heter`.
    PsHeter,
}

/// How important a line of the launcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details.
    Debug,
    /// What happens.
    Info,
    /// What may be wrong.
    Warning,
    /// What is.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
        })
    }
}

/// An address, with its port if that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// Its port.
    pub port: Option<u16>,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => f.write_str(&join(&self.host, port)),
            None => f.write_str(&self.host),
        }
    }
}

/// `host:port`, with brackets where the host is an IPv6 address.
pub fn join(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

impl Options {
    pub(super) fn new(
        given: Given,
        program: Program,
        variables: &Variables,
        flavor: Flavor,
    ) -> Result<Options, Usage> {
        let read = Reader { given: &given, variables };
        let old = flavor == Flavor::LaunchPs;
        let or_two = |count: Option<usize>, list: &[Endpoint]| match count {
            None if old && list.is_empty() => Some(2),
            count => count,
        };
        let servers = read.endpoints("servers")?;
        let workers = read.endpoints("workers")?;
        let default_log = if old { "logs" } else { "log" };
        let cloud = read.cloud()?;
        read.backend()?;
        read.switch("legacy")?;
        Ok(Options {
            run_mode: read.run_mode()?,
            job_id: given.text("job_id").map(str::to_owned),
            server_num: or_two(read.count("server_num")?, &servers),
            worker_num: or_two(read.count("worker_num")?, &workers),
            heter_worker_num: read.heter_worker_num()?,
            heter_workers: read.stages()?,
            heter_devices: read.heter_devices()?,
            servers,
            workers,
            nproc_per_node: read.count("nproc_per_node")?,
            gpus: read.gpus()?,
            ips: match &cloud {
                Some(ips) if given.text("ips").is_none() => ips.clone(),
                _ => read.ips()?,
            },
            cloud: cloud.is_some() && given.text("ips").is_none(),
            master: read.master()?,
            nnodes: read.nnodes()?,
            rank: match read.rank()? {
                None if given.text("master").is_some() => read.machine_of_cloud()?,
                rank => rank,
            },
            host: given.text("host").map(str::to_owned),
            sort_ip: read.switch("sort_ip")?.unwrap_or(false),
            wait: read.seconds("elastic_timeout")?,
            start_port: match read.port("start_port")? {
                None => read.variable_port(v::FLAGS_START_PORT.name)?,
                port => port,
            },
            http_port: read.port("http_port")?,
            gloo_port: read.port("gloo_port")?,
            with_gloo: read.with_gloo()?,
            max_restart: read.restarts()?,
            log_dir: given.text("log_dir").unwrap_or(default_log).into(),
            log_level: read.level()?,
            log_overwrite: read.switch("log_overwrite")?.unwrap_or(false),
            print_config: read.switch("print_config")?.unwrap_or(true),
            program,
            given,
        })
    }

    /// Whether a flag was given, by its first name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.text(name).is_some()
    }
}

/// Reads single values.
struct Reader<'a> {
    given: &'a Given,
    variables: &'a Variables,
}

impl Reader<'_> {
    /// The value, unless it is empty: `--servers=""` is Paddle's way to say none.
    fn text(&self, name: &str) -> Option<&str> {
        self.given.text(name).map(str::trim).filter(|text| !text.is_empty())
    }

    fn wrong<T>(&self, name: &str, problem: &str) -> Result<T, Usage> {
        usage!("`{}`: {problem}", self.given.written(name))
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Usage> {
        let Some(text) = self.given.text(name) else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => self.wrong(name, "is not a whole number in range"),
        }
    }

    fn count(&self, name: &str) -> Result<Option<usize>, Usage> {
        match self.number(name)? {
            Some(0) => self.wrong(name, "must be at least 1"),
            Some(count) if count > MOST_PROCESSES => {
                self.wrong(name, &format!("must be at most {MOST_PROCESSES}"))
            }
            count => Ok(count),
        }
    }

    fn port(&self, name: &str) -> Result<Option<u16>, Usage> {
        match self.number::<u16>(name) {
            Ok(Some(0)) | Err(_) => {
                self.wrong(name, "is not a port: write a number from 1 to 65535")
            }
            port => port,
        }
    }

    fn variable_port(&self, name: &str) -> Result<Option<u16>, Usage> {
        let Some(text) = self.variables.get(name).map(|text| text.trim()) else { return Ok(None) };
        match text.parse() {
            _ if text.is_empty() => Ok(None),
            Ok(0) | Err(_) => usage!("the variable `{name}` is `{text}`, which is not a port"),
            Ok(port) => Ok(Some(port)),
        }
    }

    fn switch(&self, name: &str) -> Result<Option<bool>, Usage> {
        let Some(text) = self.given.text(name) else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(Some(true)),
            "false" | "0" | "no" | "off" => Ok(Some(false)),
            _ => self.wrong(name, "must be true or false"),
        }
    }

    fn seconds(&self, name: &str) -> Result<Option<Duration>, Usage> {
        let Some(text) = self.given.text(name) else { return Ok(None) };
        let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
        match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(seconds) => Ok(Some(seconds)),
            None => self.wrong(name, "is not a number of seconds above 0"),
        }
    }

    fn endpoints(&self, name: &str) -> Result<Vec<Endpoint>, Usage> {
        let Some(text) = self.text(name) else { return Ok(Vec::new()) };
        text.split(',').map(|part| self.endpoint(name, part.trim())).collect()
    }

    fn endpoint(&self, name: &str, text: &str) -> Result<Endpoint, Usage> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or(rest))),
            // An IPv6 address without brackets has no port.
            None if text.matches(':').count() > 1 => (text, None),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return self.wrong(
                name,
                &format!("`{text}` is no address: write IP:PORT, separated by commas"),
            );
        }
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => {
                return self
                    .wrong(name, &format!("the port of `{text}` is not a number from 1 to 65535"));
            }
        };
        Ok(Endpoint { host: host.to_owned(), port })
    }

    fn stages(&self) -> Result<Vec<Vec<Endpoint>>, Usage> {
        let Some(text) = self.text("heter_workers") else { return Ok(Vec::new()) };
        let stage = |stage: &str| {
            stage.split(',').map(|part| self.endpoint("heter_workers", part.trim())).collect()
        };
        text.split(';').map(stage).collect()
    }

    fn heter_worker_num(&self) -> Result<Vec<usize>, Usage> {
        let name = "heter_worker_num";
        let Some(text) = self.text(name) else { return Ok(Vec::new()) };
        let count = |part: &str| match part.trim().parse() {
            Ok(count) if (1..=MOST_PROCESSES).contains(&count) => Ok(count),
            _ => self.wrong(name, "must be a number of at least 1 for each stage, as in `1;2`"),
        };
        text.split(';').map(count).collect()
    }

    fn heter_devices(&self) -> Result<Vec<String>, Usage> {
        let name = "heter_devices";
        let Some(text) = self.text(name) else { return Ok(Vec::new()) };
        let device = |part: &str| match part.trim() {
            device @ ("cpu" | "gpu") => Ok(device.to_owned()),
            other => self.wrong(
                name,
                &format!(
                    "`{other}` is no device of this version: write `cpu` or `gpu` for each stage"
                ),
            ),
        };
        text.split(';').map(device).collect()
    }

    fn gpus(&self) -> Result<Option<Vec<String>>, Usage> {
        let Some(text) = self.text("gpus") else { return Ok(None) };
        let ids: Vec<String> = text.split(',').map(|id| id.trim().to_owned()).collect();
        for (index, id) in ids.iter().enumerate() {
            let is_number = !id.is_empty() && id.chars().all(|c| c.is_ascii_digit());
            // CUDA's own names of a GPU and of a part of one.
            if !is_number && !id.starts_with("GPU-") && !id.starts_with("MIG-") {
                return self.wrong("gpus", "must be numbers of GPUs, separated by commas: `0,1`");
            }
            if ids[..index].contains(id) {
                return self.wrong("gpus", &format!("GPU {id} is there twice; two processes of a collective job cannot share a GPU"));
            }
        }
        Ok(Some(ids))
    }

    fn ips(&self) -> Result<Vec<String>, Usage> {
        let mut hosts: Vec<String> = Vec::new();
        for endpoint in self.endpoints("ips")? {
            if endpoint.port.is_some() {
                return self.wrong("ips", &format!("`{endpoint}` has a port: write addresses alone, and the first port as `--start_port`"));
            }
            if hosts.contains(&endpoint.host) {
                return self.wrong("ips", &format!("{endpoint} is there twice: a machine is named once, and `--nproc_per_node` says how many processes it runs"));
            }
            hosts.push(endpoint.host);
        }
        Ok(hosts)
    }

    /// PaddleCloud's machines, where it started this launcher.
    fn cloud(&self) -> Result<Option<Vec<String>>, Usage> {
        let variables = [v::OLD_TRAINERS, v::POD_IP, v::TRAINER_ID, v::TRAINER_PORTS_NUM];
        let value =
            |name| self.variables.get(name).map(|text| text.trim()).filter(|t| !t.is_empty());
        let missing = variables.iter().find(|variable| value(variable.name).is_none());
        match (missing, self.switch("use_paddlecloud")?) {
            (Some(missing), Some(true)) => usage!(
                "`--use_paddlecloud`: the variable `{}` is not set, so this is not PaddleCloud; \
                 name the machines with `--ips`",
                missing.name
            ),
            (Some(_), _) => Ok(None),
            (None, _) => {
                let list = value(v::OLD_TRAINERS.name).unwrap_or_default();
                Ok(Some(list.split(',').map(|ip| ip.trim().to_owned()).collect()))
            }
        }
    }

    fn master(&self) -> Result<Option<Endpoint>, Usage> {
        let Some(text) = self.text("master") else { return Ok(None) };
        let bare = text.strip_prefix("http://").unwrap_or(text);
        if text.starts_with("etcd://") {
            return self.wrong(
                "master",
                "machines meet without etcd: write the address of the first machine as IP:PORT",
            );
        }
        self.endpoint("master", bare).map(Some)
    }

    /// `2`, or `2:4` for a job that starts with two machines if no more than that come.
    fn nnodes(&self) -> Result<Option<(usize, usize)>, Usage> {
        let name = "nnodes";
        let Some(text) = self.text(name) else { return Ok(None) };
        let (least, most) = text.split_once(':').unwrap_or((text, text));
        match (least.trim().parse(), most.trim().parse()) {
            (Ok(least), Ok(most)) if (1..=most).contains(&least) && most <= MOST_PROCESSES => {
                Ok(Some((least, most)))
            }
            _ => self
                .wrong(name, "must be a number of machines, `2`, or the least and the most, `2:4`"),
        }
    }

    /// `-1` is Paddle's way to say that it is to be found out.
    fn rank(&self) -> Result<Option<usize>, Usage> {
        match self.number::<i64>("rank")? {
            None | Some(-1) => Ok(None),
            Some(rank) => match usize::try_from(rank) {
                Ok(rank) => Ok(Some(rank)),
                Err(_) => self.wrong("rank", "is not a number of a machine: write 0 for the first"),
            },
        }
    }

    /// `PADDLE_TRAINER_ID`, which is set for launchers by schedulers.
    fn machine_of_cloud(&self) -> Result<Option<usize>, Usage> {
        let name = v::TRAINER_ID.name;
        match self.variables.get(name).map(|text| text.trim()) {
            None | Some("" | "-1") => Ok(None),
            Some(text) => match text.parse() {
                Ok(rank) => Ok(Some(rank)),
                Err(_) => usage!("the variable `{name}` is `{text}`, which is no number"),
            },
        }
    }

    fn with_gloo(&self) -> Result<String, Usage> {
        match self.text("with_gloo") {
            None => Ok("0".to_owned()),
            Some(value @ ("0" | "1" | "2")) => Ok(value.to_owned()),
            Some(_) => self.wrong("with_gloo", "must be 0, 1 or 2"),
        }
    }

    fn restarts(&self) -> Result<u32, Usage> {
        let restarts = self.number::<u32>("max_restart")?;
        match self.number::<i32>("elastic_level")? {
            None => Ok(restarts.unwrap_or(0)),
            Some(1) => Ok(restarts.unwrap_or(3)),
            Some(-1) => match restarts {
                None | Some(0) => Ok(0),
                Some(_) => usage!(
                    "`{}` and `{}` contradict each other: the first asks for no restarts; leave \
                     it out, or write `--max_restart=0`",
                    self.given.written("elastic_level"),
                    self.given.written("max_restart")
                ),
            },
            Some(_) => self.wrong(
                "elastic_level",
                "must be -1 (no restarts) or 1 (failed processes are started again); a job whose \
                 other machines wait for a new one is not in this version",
            ),
        }
    }

    fn level(&self) -> Result<Level, Usage> {
        let Some(text) = self.text("log_level") else { return Ok(Level::Info) };
        match text.to_ascii_uppercase().as_str() {
            "DEBUG" | "10" => Ok(Level::Debug),
            "INFO" | "20" => Ok(Level::Info),
            "WARNING" | "WARN" | "30" => Ok(Level::Warning),
            "ERROR" | "FATAL" | "CRITICAL" | "40" | "50" => Ok(Level::Error),
            _ => self.wrong("log_level", "must be DEBUG, INFO, WARNING or ERROR"),
        }
    }

    fn run_mode(&self) -> Result<Option<RunMode>, Usage> {
        match self.text("run_mode") {
            None => Ok(None),
            Some("collective") => Ok(Some(RunMode::Collective)),
            Some("ps") => Ok(Some(RunMode::Ps)),
            Some("ps-heter") => Ok(Some(RunMode::PsHeter)),
            Some("rpc") => {
                self.wrong("run_mode", "`paddle.distributed.rpc` is not in this version")
            }
            Some(_) => self.wrong("run_mode", "must be collective, ps or ps-heter"),
        }
    }

    fn backend(&self) -> Result<(), Usage> {
        match self.text("backend") {
            None | Some("auto" | "gloo") => Ok(()),
            Some("nccl" | "bkcl" | "hccl" | "cncl" | "heter") => self.wrong(
                "backend",
                "processes reduce over the network of their CPUs in this version: write `gloo`, or leave it out",
            ),
            Some(_) => self.wrong("backend", "must be gloo or auto"),
        }
    }
}
