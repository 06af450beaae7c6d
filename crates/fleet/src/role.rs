//! Who a process is in a job: a role, a number, and the endpoints of everybody.
//!
//! Checks and texts are Paddle's where Paddle has them; what Paddle would find out by hanging
//! later (a number that is too large, an endpoint without a port) is refused here.

use std::collections::HashSet;

use crate::environment::Environment;
use crate::{Error, Result};

/// What a process does in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Trains; Paddle's word for a trainer.
    Worker,
    /// Holds parameters.
    Server,
}

impl Role {
    /// Paddle's number for it.
    pub fn code(self) -> i32 {
        match self {
            Role::Worker => 1,
            Role::Server => 2,
        }
    }

    /// The role of a number.
    pub fn from_code(code: i32) -> Option<Role> {
        [Role::Worker, Role::Server].into_iter().find(|role| role.code() == code)
    }
}

/// A process's place in its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleMaker {
    role: Role,
    /// Number among the processes of the same role.
    index: u32,
    workers: u32,
    worker_endpoints: Vec<String>,
    server_endpoints: Vec<String>,
    collective: bool,
    distributed: bool,
    rank_in_node: u32,
}

/// What a script says about its process, as Paddle's `UserDefinedRoleMaker` takes it.
#[derive(Clone, Debug)]
pub struct UserDefined {
    /// Number among the processes of the same role, from 0.
    pub current_id: i64,
    /// The role.
    pub role: Role,
    /// Number of trainers; may be left out where `worker_endpoints` tells.
    pub worker_num: Option<i64>,
    /// Endpoints of all servers.
    pub server_endpoints: Vec<String>,
    /// Endpoints of all trainers, which nobody needs to know with servers.
    pub worker_endpoints: Vec<String>,
}

impl RoleMaker {
    /// A role that a script gives its process.
    ///
    /// # Errors
    /// When a number is out of range, or an endpoint is listed twice or is none.
    pub fn user_defined(given: UserDefined) -> Result<RoleMaker> {
        let UserDefined { current_id, role, worker_num, server_endpoints, worker_endpoints } =
            given;
        if server_endpoints.is_empty() {
            return refuse("the length of server_endpoints list must be greater than 0");
        }
        check_distinct(&server_endpoints, "server_endpoints")?;
        check_endpoints(&server_endpoints, "server_endpoints")?;
        check_distinct(&worker_endpoints, "worker_endpoints")?;
        if current_id < 0 {
            return refuse("current_id must be greater than or equal to 0");
        }
        if role == Role::Server && current_id >= server_endpoints.len() as i64 {
            return refuse(
                "if role is Role.SERVER, current_id must be less than or equal to \
                 len(server_endpoints) - 1",
            );
        }
        let listed = worker_endpoints.len();
        let workers = worker_num.unwrap_or(listed as i64);
        if workers <= 0 {
            return refuse("worker_num must be greater than 0");
        }
        if listed > 0 && listed as i64 != workers {
            return refuse(format!("worker_num is {workers}, but worker_endpoints lists {listed}"));
        }
        if role == Role::Worker && current_id >= workers {
            return refuse(format!(
                "current_id is {current_id}, but must be less than worker_num, which is {workers}"
            ));
        }
        let small = |number: i64, what: &str| {
            u32::try_from(number)
                .map_err(|_| Error::Config(format!("{what} is {number}, which is too large")))
        };
        Ok(RoleMaker {
            role,
            index: small(current_id, "current_id")?,
            workers: small(workers, "worker_num")?,
            worker_endpoints,
            server_endpoints,
            collective: false,
            distributed: true,
            rank_in_node: 0,
        })
    }

    /// The role that a launcher gives this process of a job with servers. Without a list of
    /// servers the process is a job of its own.
    ///
    /// # Errors
    /// When a variable that the role needs is missing, or contradicts another; names it.
    pub fn from_environment(environment: &Environment) -> Result<RoleMaker> {
        if let Some((name, value)) = environment.refused.first() {
            return refuse(format!(
                "`{name}` is `{value}`: heterogeneous and federated training are not in this \
                 version, unset it"
            ));
        }
        let Some(servers) = servers(environment)? else {
            return Ok(RoleMaker::alone());
        };
        check_distinct(&servers, "the list of servers")?;
        check_endpoints(&servers, "the list of servers")?;
        let workers = trainers(environment)?;
        let role = training_role(environment)?;
        let index = match role {
            Role::Worker => {
                let id = environment.trainer_id.ok_or_else(|| missing("PADDLE_TRAINER_ID"))?;
                if id >= workers {
                    return refuse(format!(
                        "PADDLE_TRAINER_ID is {id}, but there are {workers} trainers, numbered \
                         from 0"
                    ));
                }
                id
            }
            Role::Server => server_index(environment, &servers)?,
        };
        let worker_endpoints = environment.trainer_endpoints.clone();
        Ok(RoleMaker {
            role,
            index,
            workers,
            worker_endpoints,
            server_endpoints: servers,
            collective: false,
            distributed: true,
            rank_in_node: 0,
        })
    }

    /// The role that a launcher gives this process of a job without servers.
    ///
    /// # Errors
    /// When the process's number does not fit the list of endpoints.
    pub fn collective(environment: &Environment) -> Result<RoleMaker> {
        let listed = &environment.trainer_endpoints;
        let (endpoints, distributed) = match listed.is_empty() {
            true => (vec!["127.0.0.1:6170".to_owned()], false),
            false => (listed.clone(), true),
        };
        check_distinct(&endpoints, "PADDLE_TRAINER_ENDPOINTS")?;
        if let Some(role) = environment.old.training_role.as_deref().filter(|r| *r != "TRAINER") {
            return refuse(format!(
                "PADDLE_TRAINING_ROLE must be TRAINER in collective training, but get {role}, \
                 please check your environment."
            ));
        }
        let workers = u32::try_from(endpoints.len()).expect("endpoints fit into memory");
        let index = environment.trainer_id.unwrap_or(0);
        if index >= workers {
            return refuse(format!(
                "PADDLE_TRAINER_ID is {index}, but PADDLE_TRAINER_ENDPOINTS lists {workers}, \
                 numbered from 0"
            ));
        }
        Ok(RoleMaker {
            role: Role::Worker,
            index,
            workers,
            worker_endpoints: endpoints,
            server_endpoints: Vec::new(),
            collective: true,
            distributed,
            rank_in_node: environment.rank_in_node.unwrap_or(0),
        })
    }

    /// A number that a script gives its process in a job without servers: Paddle's
    /// `UserDefinedCollectiveRoleMaker`.
    ///
    /// # Errors
    /// When the number is out of range, or an endpoint is listed twice or is none.
    pub fn user_defined_collective(
        current_id: i64,
        worker_endpoints: Vec<String>,
    ) -> Result<RoleMaker> {
        if worker_endpoints.is_empty() {
            return refuse("the length of worker_endpoints list must be greater than 0");
        }
        check_distinct(&worker_endpoints, "worker_endpoints")?;
        check_endpoints(&worker_endpoints, "worker_endpoints")?;
        if current_id < 0 {
            return refuse("current_id must be greater than or equal to 0");
        }
        let index = u32::try_from(current_id)
            .ok()
            .filter(|index| (*index as usize) < worker_endpoints.len())
            .ok_or_else(|| {
                let problem = "current_id must be less than or equal to len(worker_endpoints) - 1";
                Error::Config(problem.to_owned())
            })?;
        let own = &worker_endpoints[index as usize];
        let host = |endpoint: &str| endpoint.rsplit_once(':').map(|(host, _)| host.to_owned());
        let before = worker_endpoints[..index as usize].iter();
        let rank_in_node = before.filter(|other| host(other) == host(own)).count();
        Ok(RoleMaker {
            role: Role::Worker,
            index,
            workers: u32::try_from(worker_endpoints.len()).expect("endpoints fit into memory"),
            distributed: worker_endpoints.len() > 1,
            worker_endpoints,
            server_endpoints: Vec::new(),
            collective: true,
            rank_in_node: u32::try_from(rank_in_node).expect("fewer than all"),
        })
    }

    /// The only process of a job.
    pub fn alone() -> RoleMaker {
        RoleMaker {
            role: Role::Worker,
            index: 0,
            workers: 1,
            worker_endpoints: Vec::new(),
            server_endpoints: Vec::new(),
            collective: false,
            distributed: false,
            rank_in_node: 0,
        }
    }

    /// What this process does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Its number among the processes of the same role.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// How many trainers there are.
    pub fn worker_num(&self) -> u32 {
        self.workers
    }

    /// Endpoints of the trainers, as far as they are known.
    pub fn worker_endpoints(&self) -> &[String] {
        &self.worker_endpoints
    }

    /// Endpoints of all servers.
    pub fn server_endpoints(&self) -> &[String] {
        &self.server_endpoints
    }

    /// Whether the job has no servers by its nature.
    pub fn is_collective(&self) -> bool {
        self.collective
    }

    /// Whether there may be other processes; not so without a launcher.
    pub fn is_distributed(&self) -> bool {
        self.distributed
    }

    /// Its number on its machine.
    pub fn rank_in_node(&self) -> u32 {
        self.rank_in_node
    }

    /// Machines that trainers run on.
    pub fn node_num(&self) -> usize {
        let hosts: HashSet<&str> = self
            .worker_endpoints
            .iter()
            .map(|endpoint| endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host))
            .collect();
        hosts.len().max(1)
    }
}

impl std::fmt::Display for RoleMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.role {
            Role::Worker => write!(f, "trainer {} of {}", self.index, self.workers),
            Role::Server => {
                write!(f, "server {} of {}", self.index, self.server_endpoints.len())
            }
        }
    }
}

/// The servers of either generation of variables.
fn servers(environment: &Environment) -> Result<Option<Vec<String>>> {
    let old = &environment.old;
    if environment.servers.is_some() {
        return Ok(environment.servers.clone());
    }
    let (ips, port) = match (&old.server_ips, &old.servers) {
        (Some(ips), _) => (ips, old.server_port.unwrap_or(6174)),
        (None, Some(ips)) if environment.port.is_none() => {
            let listed = ips.iter().all(|ip| ip.contains(':'));
            return if listed { Ok(Some(ips.clone())) } else { Err(missing("PADDLE_PORT")) };
        }
        (None, Some(ips)) => (ips, environment.port.expect("checked above")),
        (None, None) => return Ok(None),
    };
    Ok(Some(ips.iter().map(|ip| format!("{ip}:{port}")).collect()))
}

fn trainers(environment: &Environment) -> Result<u32> {
    let old = &environment.old;
    let count = match (environment.trainers, old.num_trainers, &old.trainers) {
        (Some(count), ..) | (None, Some(count), _) => count,
        (None, None, Some(text)) => text.parse().map_err(|_| {
            Error::Config(format!(
                "the environment variable `PADDLE_TRAINERS` is `{text}`, which is not a whole \
                 number in range"
            ))
        })?,
        (None, None, None) => return Err(missing("PADDLE_TRAINERS_NUM")),
    };
    if count == 0 {
        return refuse("PADDLE_TRAINERS_NUM is 0, but a job needs a trainer");
    }
    Ok(count)
}

fn training_role(environment: &Environment) -> Result<Role> {
    let named = environment.training_role.as_deref().or(environment.old.training_role.as_deref());
    match named {
        Some("TRAINER") => Ok(Role::Worker),
        Some("PSERVER") => Ok(Role::Server),
        Some(refused @ ("HETER_TRAINER" | "COORDINATOR")) => refuse(format!(
            "TRAINING_ROLE is {refused}: heterogeneous and federated training are not in this \
             version"
        )),
        Some(other) => refuse(format!(
            "TRAINING_ROLE must be PSERVER or TRAINER or HETER_TRAINER or COORDINATOR, but get \
             {other}, please check your environment."
        )),
        None => Err(missing("TRAINING_ROLE")),
    }
}

/// This server's position in the list.
fn server_index(environment: &Environment, servers: &[String]) -> Result<u32> {
    if let Some(id) = environment.server_id {
        if id as usize >= servers.len() {
            let count = servers.len();
            return refuse(format!(
                "PADDLE_PSERVER_ID is {id}, but the list of servers has {count}, numbered from 0"
            ));
        }
        return Ok(id);
    }
    let old = &environment.old;
    let own = match (&environment.pod_ip, &old.current_ip) {
        (Some(ip), _) | (None, Some(ip)) if old.server_ips.is_some() => {
            let port = environment.port.or(old.server_port).unwrap_or(6174);
            format!("{ip}:{port}")
        }
        (Some(ip), _) | (None, Some(ip)) => {
            let port = environment.port.ok_or_else(|| missing("PADDLE_PORT"))?;
            format!("{ip}:{port}")
        }
        (None, None) => match (&environment.current_endpoint, old.server_ips.is_some()) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, true) => return Err(missing("PADDLE_CURRENT_IP")),
            (None, false) => return Err(missing("POD_IP")),
        },
    };
    match servers.iter().position(|server| *server == own) {
        Some(index) => Ok(u32::try_from(index).expect("servers fit into memory")),
        None => refuse(format!(
            "this server's endpoint `{own}` is not in the list of servers `{}`: check POD_IP and \
             PADDLE_PORT",
            servers.join(",")
        )),
    }
}

/// That every endpoint is `host:port`.
fn check_endpoints(endpoints: &[String], list: &str) -> Result<()> {
    let fits = |endpoint: &str| {
        endpoint
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    match endpoints.iter().find(|endpoint| !fits(endpoint)) {
        Some(wrong) => refuse(format!("`{wrong}` in {list} is not of the form `ip:port`")),
        None => Ok(()),
    }
}

fn check_distinct(endpoints: &[String], list: &str) -> Result<()> {
    let distinct: HashSet<&String> = endpoints.iter().collect();
    match distinct.len() == endpoints.len() {
        true => Ok(()),
        false => refuse(format!("{list} can't have duplicate elements")),
    }
}

fn missing(variable: &str) -> Error {
    Error::Config(format!("Can not find {variable}, please check your environment."))
}

fn refuse<T>(problem: impl Into<String>) -> Result<T> {
    Err(Error::Config(problem.into()))
}

#[cfg(test)]
mod tests;
