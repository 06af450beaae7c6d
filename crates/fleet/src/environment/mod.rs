//! The environment of a process, read once into a typed struct.
//!
//! What the variables mean together (roles, settings) is decided by who uses them; here a value
//! is only parsed, and one that cannot be is an error that names the variable.

pub mod variables;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bireme_comm::Path;
pub use bireme_ps::worker::CommunicatorFlags;

use crate::{Error, Result};
use variables::{self as v, Variable};

/// What the environment says about this process and its job.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `TRAINING_ROLE`.
    pub training_role: Option<String>,
    /// `PADDLE_PSERVERS_IP_PORT_LIST`.
    pub servers: Option<Vec<String>>,
    /// `PADDLE_TRAINERS_NUM`.
    pub trainers: Option<u32>,
    /// `PADDLE_TRAINER_ID`.
    pub trainer_id: Option<u32>,
    /// `PADDLE_TRAINER_ENDPOINTS`.
    pub trainer_endpoints: Vec<String>,
    /// `POD_IP`.
    pub pod_ip: Option<String>,
    /// `PADDLE_PORT`.
    pub port: Option<u16>,
    /// `PADDLE_PSERVER_ID`.
    pub server_id: Option<u32>,
    /// `PADDLE_CURRENT_ENDPOINT`.
    pub current_endpoint: Option<String>,
    /// `PADDLE_RANK_IN_NODE`.
    pub rank_in_node: Option<u32>,
    /// `PADDLE_LOCAL_DEVICE_IDS`.
    pub local_devices: Option<String>,
    /// `PADDLE_WORLD_DEVICE_IDS`.
    pub world_devices: Option<String>,
    /// `SYS_JOB_ID`.
    pub job_id: Option<String>,
    /// The heter workers of the job.
    pub heter: HeterNames,
    /// The names of older jobs.
    pub old: OldNames,
    /// Variables of jobs that this version does not run, where they are set: name and value.
    pub refused: Vec<(&'static str, String)>,
    /// How processes reach each other.
    pub rpc: Rpc,
    /// `CPU_NUM`.
    pub cpu_num: Option<u32>,
    /// `FLAGS_communicator_*`.
    pub communicator: CommunicatorFlags,
    /// What the launcher says about itself.
    pub launcher: Launcher,
    /// `BIREME_GPUBOX_MEMORY`.
    pub gpubox_memory: Option<usize>,
}

/// What a launcher tells its processes, as far as there is one.
#[derive(Clone, Debug, Default)]
pub struct Launcher {
    /// `BIREME_STATUS_FD`.
    pub status_fd: Option<u32>,
    /// `BIREME_JOB_DIR`.
    pub job_dir: Option<PathBuf>,
    /// `BIREME_RESTART`.
    pub restarts: u32,
    /// Whether `KUBERNETES_SERVICE_HOST` is set.
    pub is_in_kubernetes: bool,
}

impl Launcher {
    /// Whether somebody starts the processes of the job, and starts again those that fail.
    pub fn is_managed(&self) -> bool {
        self.job_dir.is_some() || self.is_in_kubernetes
    }
}

/// Variables of jobs with heter workers.
#[derive(Clone, Debug, Default)]
pub struct HeterNames {
    /// `PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST`.
    pub all: Option<Vec<String>>,
    /// `PADDLE_HETER_TRAINER_IP_PORT_LIST`.
    pub old: Option<Vec<String>>,
    /// `PADDLE_STAGE_TRAINERS_NUM`.
    pub counts: Option<String>,
    /// `STAGE_ID`.
    pub stage: Option<u32>,
    /// `STAGE_NUM`.
    pub stages: Option<u32>,
    /// `HETER_DEVICE_TYPE`.
    pub device: Option<String>,
    /// `PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST`.
    pub next: Option<Vec<String>>,
}

/// Variables of jobs written for early versions of Paddle.
#[derive(Clone, Debug, Default)]
pub struct OldNames {
    /// `PADDLE_TRAINING_ROLE`.
    pub training_role: Option<String>,
    /// `PADDLE_PSERVER_IPS`.
    pub server_ips: Option<Vec<String>>,
    /// `PADDLE_PSERVERS`.
    pub servers: Option<Vec<String>>,
    /// `PADDLE_PSERVER_PORT`.
    pub server_port: Option<u16>,
    /// `PADDLE_TRAINERS`: a number, or addresses for a launcher.
    pub trainers: Option<String>,
    /// `PADDLE_NUM_TRAINERS`.
    pub num_trainers: Option<u32>,
    /// `PADDLE_CURRENT_IP`.
    pub current_ip: Option<String>,
}

/// How the processes of a job reach each other, as far as the environment says.
#[derive(Clone, Default)]
pub struct Rpc {
    /// `BIREME_JOB_SECRET`.
    pub secret: Option<String>,
    /// `BIREME_SAVE_ROOTS`.
    pub save_roots: Vec<PathBuf>,
    /// `BIREME_BIND`.
    pub bind: Option<String>,
    /// `BIREME_TRANSPORT`.
    pub transport: Path,
    /// `BIREME_TLS_CERT`.
    pub tls_cert: Option<String>,
    /// `BIREME_TLS_KEY`.
    pub tls_key: Option<String>,
    /// `BIREME_TLS_CA`.
    pub tls_ca: Option<String>,
    /// `BIREME_TLS_NAME`.
    pub tls_name: Option<String>,
    /// `FLAGS_rpc_deadline`.
    pub deadline: Option<Duration>,
    /// `FLAGS_rpc_retry_times`.
    pub retries: Option<u32>,
    /// `FLAGS_rpc_send_thread_num`.
    pub send_threads: Option<u32>,
    /// `FLAGS_rpc_get_thread_num`.
    pub get_threads: Option<u32>,
    /// `FLAGS_rpc_prefetch_thread_num`.
    pub prefetch_threads: Option<u32>,
    /// `BIREME_HEARTBEAT`.
    pub heartbeat: Option<Duration>,
    /// `BIREME_HEARTBEAT_TIMEOUT`.
    pub heartbeat_timeout: Option<Duration>,
    /// The least important log lines to write.
    pub log: Option<String>,
}

impl fmt::Debug for Rpc {
    /// All but the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rpc")
            .field("secret", &self.secret.as_ref().map(|_| "…"))
            .field("transport", &self.transport)
            .field("tls", &self.tls_cert)
            .field("deadline", &self.deadline)
            .field("retries", &self.retries)
            .field("heartbeat", &self.heartbeat)
            .field("heartbeat_timeout", &self.heartbeat_timeout)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// The environment of this process.
    ///
    /// # Errors
    /// When a value cannot be parsed; names the variable and the value.
    pub fn read() -> Result<Environment> {
        let mut values = Values::default();
        for variable in v::GROUPS.iter().flat_map(|group| group.variables) {
            let Some(value) = std::env::var_os(variable.name) else { continue };
            let text = value.into_string().map_err(|value| {
                let shown = value.to_string_lossy().into_owned();
                wrong(variable, &shown, "is not valid text")
            })?;
            values.0.insert(variable.name, text);
        }
        values.parse()
    }

    /// An environment of these names and values; names that are not in the table are left out.
    ///
    /// # Errors
    /// As [`Environment::read`].
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Environment> {
        let known = |name: &str| {
            v::GROUPS.iter().flat_map(|group| group.variables).find(|known| known.name == name)
        };
        let mut values = Values::default();
        for (name, value) in pairs {
            if let Some(variable) = known(name) {
                values.0.insert(variable.name, value.to_owned());
            }
        }
        values.parse()
    }
}

/// What is set, as text.
#[derive(Default)]
struct Values(HashMap<&'static str, String>);

impl Values {
    fn parse(&self) -> Result<Environment> {
        let refused = [&v::COORDINATORS];
        Ok(Environment {
            training_role: self.text(&v::TRAINING_ROLE),
            servers: self.list(&v::SERVERS),
            trainers: self.number(&v::TRAINERS_NUM)?,
            trainer_id: self.number(&v::TRAINER_ID)?,
            trainer_endpoints: self.list(&v::TRAINER_ENDPOINTS).unwrap_or_default(),
            pod_ip: self.text(&v::POD_IP),
            port: self.number(&v::PORT)?,
            server_id: self.number(&v::SERVER_ID)?,
            current_endpoint: self.text(&v::CURRENT_ENDPOINT),
            rank_in_node: self.number(&v::RANK_IN_NODE)?,
            local_devices: self.text(&v::LOCAL_DEVICES),
            world_devices: self.text(&v::WORLD_DEVICES),
            job_id: self.text(&v::JOB_ID),
            heter: HeterNames {
                all: self.list(&v::HETER_TRAINERS),
                old: self.list(&v::OLD_HETER_TRAINERS),
                counts: self.text(&v::STAGE_TRAINERS_NUM),
                stage: self.number(&v::STAGE_ID)?,
                stages: self.number(&v::STAGE_NUM)?,
                device: self.text(&v::HETER_DEVICE_TYPE),
                next: self.list(&v::NEXT_STAGE),
            },
            old: OldNames {
                training_role: self.text(&v::OLD_ROLE),
                server_ips: self.list(&v::OLD_SERVER_IPS),
                servers: self.list(&v::OLD_SERVERS),
                server_port: self.number(&v::OLD_SERVER_PORT)?,
                trainers: self.text(&v::OLD_TRAINERS),
                num_trainers: self.number(&v::OLD_NUM_TRAINERS)?,
                current_ip: self.text(&v::OLD_CURRENT_IP),
            },
            refused: refused
                .iter()
                .filter_map(|variable| Some((variable.name, self.text(variable)?)))
                .collect(),
            rpc: self.rpc()?,
            cpu_num: self.count(&v::CPU_NUM)?,
            communicator: CommunicatorFlags {
                max_merge_var_num: self.count(&v::MAX_MERGE_VAR_NUM)?,
                send_queue_size: self.count(&v::SEND_QUEUE_SIZE)?,
                independent_recv_thread: self.switch(&v::INDEPENDENT_RECV)?,
                min_send_grad_num_before_recv: self.count(&v::MIN_SEND_BEFORE_RECV)?,
                thread_pool_size: self.count(&v::THREAD_POOL_SIZE)?,
                send_wait_times: self.number(&v::SEND_WAIT_TIMES)?,
                is_sgd_optimizer: self.switch(&v::IS_SGD)?,
                look_ahead: self.switch(&v::LOOK_AHEAD)?,
                check_finite: self.switch(&v::CHECK_FINITE)?,
            },
            launcher: Launcher {
                status_fd: self.number(&v::STATUS_FD)?,
                job_dir: self.text(&v::JOB_DIR).map(PathBuf::from),
                restarts: self.number(&v::RESTART)?.unwrap_or(0),
                is_in_kubernetes: self.text(&v::KUBERNETES).is_some(),
            },
            gpubox_memory: self.number(&v::GPUBOX_MEMORY)?,
        })
    }

    fn rpc(&self) -> Result<Rpc> {
        let deadline: Option<u64> = self.number(&v::RPC_DEADLINE)?;
        Ok(Rpc {
            secret: self.text(&v::JOB_SECRET),
            save_roots: self.text(&v::SAVE_ROOTS).map_or_else(Vec::new, |text| {
                std::env::split_paths(&text).filter(|root| !root.as_os_str().is_empty()).collect()
            }),
            bind: self.text(&v::BIND),
            transport: match self.text(&v::TRANSPORT) {
                None => Path::Auto,
                Some(text) => Path::from_env_text(&text).ok_or_else(|| {
                    wrong(&v::TRANSPORT, &text, "must be `auto`, `tcp` or `unix`")
                })?,
            },
            tls_cert: self.text(&v::TLS_CERT),
            tls_key: self.text(&v::TLS_KEY),
            tls_ca: self.text(&v::TLS_CA),
            tls_name: self.text(&v::TLS_NAME),
            deadline: match deadline {
                Some(0) => return Err(wrong(&v::RPC_DEADLINE, "0", "must be above 0")),
                other => other.map(Duration::from_millis),
            },
            retries: self.number(&v::RPC_RETRY_TIMES)?,
            send_threads: self.count(&v::RPC_SEND_THREADS)?,
            get_threads: self.count(&v::RPC_GET_THREADS)?,
            prefetch_threads: self.count(&v::RPC_PREFETCH_THREADS)?,
            heartbeat: self.seconds(&v::HEARTBEAT)?,
            heartbeat_timeout: self.seconds(&v::HEARTBEAT_TIMEOUT)?,
            log: self.text(&v::LOG),
        })
    }

    /// The value, unless it is empty.
    fn text(&self, variable: &Variable) -> Option<String> {
        let text = self.0.get(variable.name)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn list(&self, variable: &Variable) -> Option<Vec<String>> {
        let text = self.text(variable)?;
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Some(parts.map(str::to_owned).collect())
    }

    fn number<T: FromStr>(&self, variable: &Variable) -> Result<Option<T>> {
        let Some(text) = self.text(variable) else { return Ok(None) };
        let problem = "is not a whole number in range";
        text.parse().map(Some).map_err(|_| wrong(variable, &text, problem))
    }

    /// A number above zero.
    fn count<T: FromStr + From<u8> + PartialEq>(&self, variable: &Variable) -> Result<Option<T>> {
        match self.number(variable)? {
            Some(zero) if zero == T::from(0) => Err(wrong(variable, "0", "must be at least 1")),
            other => Ok(other),
        }
    }

    fn seconds(&self, variable: &Variable) -> Result<Option<Duration>> {
        let Some(text) = self.text(variable) else { return Ok(None) };
        let parsed = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
        let duration = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        duration.map(Some).ok_or_else(|| wrong(variable, &text, "is not a number of seconds"))
    }

    fn switch(&self, variable: &Variable) -> Result<Option<bool>> {
        let Some(text) = self.text(variable) else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" => Ok(Some(true)),
            "0" | "false" => Ok(Some(false)),
            _ => Err(wrong(variable, &text, "must be 1 or 0")),
        }
    }
}

fn wrong(variable: &Variable, value: &str, problem: &str) -> Error {
    let name = variable.name;
    Error::Config(format!("the environment variable `{name}` is `{value}`, which {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_once_and_named_when_wrong() {
        let environment = Environment::of([
            ("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:6174, 127.0.0.1:6175"),
            ("PADDLE_TRAINERS_NUM", "2"),
            ("PADDLE_TRAINER_ID", ""),
            ("FLAGS_rpc_deadline", "5000"),
            ("FLAGS_communicator_independent_recv_thread", "False"),
            ("BIREME_HEARTBEAT_TIMEOUT", "2.5"),
            ("BIREME_JOB_SECRET", "hush"),
            ("HOME", "elsewhere"),
        ])
        .unwrap();
        assert_eq!(environment.servers.as_ref().unwrap().len(), 2);
        assert_eq!((environment.trainers, environment.trainer_id), (Some(2), None));
        assert_eq!(environment.rpc.deadline, Some(Duration::from_secs(5)));
        assert_eq!(environment.communicator.independent_recv_thread, Some(false));
        assert_eq!(environment.rpc.heartbeat_timeout, Some(Duration::from_millis(2500)));
        assert!(!format!("{environment:?}").contains("hush"));
    }

    #[test]
    fn wrong_values_name_variable_and_value() {
        for (name, value, problem) in [
            ("PADDLE_TRAINERS_NUM", "two", "is not a whole number in range"),
            ("PADDLE_TRAINER_ID", "-1", "is not a whole number in range"),
            ("PADDLE_PORT", "65536", "is not a whole number in range"),
            ("CPU_NUM", "0", "must be at least 1"),
            ("FLAGS_rpc_deadline", "0", "must be above 0"),
            ("BIREME_HEARTBEAT", "inf", "is not a number of seconds"),
            ("BIREME_TRANSPORT", "udp", "must be `auto`, `tcp` or `unix`"),
            ("FLAGS_communicator_is_sgd_optimizer", "maybe", "must be 1 or 0"),
        ] {
            let error = Environment::of([(name, value)]).unwrap_err().to_string();
            let expected =
                format!("the environment variable `{name}` is `{value}`, which {problem}");
            assert_eq!(error, expected);
        }
    }
}
