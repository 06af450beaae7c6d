//! From an environment, or a program, to a group of ranks.

use std::sync::Arc;

use bireme_collective::{Config, Group};
use bireme_comm::{Interrupt, Transport};
use bireme_ir::{Attr, Op, Program, Var};

use crate::environment::variables as v;
use crate::settings::{check_guarded, network, settings};
use crate::{Environment, Error, Result, RoleMaker};

/// Who the ranks of a job are, and which of them this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The number of this process.
    pub rank: usize,
    /// All endpoints, in the order of ranks.
    pub endpoints: Vec<String>,
}

/// The group of all ranks of the job that the environment describes (`PADDLE_TRAINER_ENDPOINTS`,
/// `PADDLE_TRAINER_ID`); a process without a launcher is a group of its own. Waits for ranks that
/// are not there yet.
///
/// # Errors
/// When the environment contradicts itself, or a rank cannot be reached in time.
pub fn connect_group(environment: &Environment, interrupt: Option<Interrupt>) -> Result<Group> {
    check_no_servers(environment)?;
    let role = RoleMaker::collective(environment)?;
    let ranks = Ranks { rank: role.index() as usize, endpoints: role.worker_endpoints().to_vec() };
    connect_ranks(&ranks, environment, interrupt)
}

/// The group of these ranks; the environment says how they reach each other.
///
/// # Errors
/// When settings contradict each other, or a rank cannot be reached in time.
pub fn connect_ranks(
    ranks: &Ranks,
    environment: &Environment,
    interrupt: Option<Interrupt>,
) -> Result<Group> {
    if ranks.endpoints.len() < 2 {
        return Ok(Group::alone());
    }
    let mut settings = settings(environment)?;
    settings.interrupt = interrupt;
    if let Some(own) = ranks.endpoints.get(ranks.rank) {
        check_guarded(own, &settings, environment)?;
    }
    let config = Config { settings, ..Config::new(ranks.rank, ranks.endpoints.clone()) };
    let transport: Arc<dyn Transport> = Arc::new(network(environment));
    Ok(Group::connect(&config, &transport)?)
}

/// In a job with servers every process runs the script, servers too: ranks of a group are none of
/// them, and would get in each other's way at the same endpoints.
fn check_no_servers(environment: &Environment) -> Result<()> {
    if environment.servers.as_ref().is_none_or(Vec::is_empty) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "this script is collective (`init_parallel_env`, or `fleet.init` with `is_collective`), but \
         its job has parameter servers (`{}`): start it without servers, that is without \
         `--server_num` and `--servers`",
        v::SERVERS.name
    )))
}

/// Whether a program talks to other ranks.
pub fn is_collective(program: &Program) -> bool {
    let ops = program.blocks.iter().flat_map(|block| &block.ops);
    ops.map(|op| op.kind.as_str()).any(|kind| {
        kind.starts_with("c_")
            || matches!(kind, "gen_nccl_id" | "alltoall" | "barrier" | "send_v2" | "recv_v2")
    })
}

/// The ranks that a startup program names, if it does.
///
/// # Errors
/// When its own endpoint is not where its rank says.
pub fn ranks_of(program: &Program) -> Result<Option<Ranks>> {
    let ops = &program.global().ops;
    if let Some(op) = ops.iter().find(|op| op.kind == "gen_nccl_id") {
        return Ok(Some(Ranks { rank: rank(op, "trainer_id")?, endpoints: texts(op, "trainers") }));
    }
    let Some(op) = ops.iter().find(|op| op.kind == "c_gen_nccl_id") else { return Ok(None) };
    let (rank, mut endpoints) = (rank(op, "rank")?, texts(op, "other_endpoints"));
    if rank > endpoints.len() {
        return Err(Error::Config(format!(
            "the program is that of rank {rank}, but names {} other ranks",
            endpoints.len()
        )));
    }
    let own = match op.attrs.get("endpoint") {
        Some(Attr::String(own)) => own.clone(),
        _ => String::new(),
    };
    endpoints.insert(rank, own);
    Ok(Some(Ranks { rank, endpoints }))
}

/// A program that gives all ranks the parameters that rank 0 has of `main`.
pub fn broadcast_program(main: &Program) -> Program {
    let mut program = Program::new();
    let params: Vec<Var> = main.global().parameters().cloned().collect();
    let global = program.global_mut();
    for param in params {
        let name = param.name.as_str();
        let op = Op::new("c_broadcast").input("X", [name]).output("Out", [name]);
        global.ops.push(op.attr("ring_id", 0).attr("root", 0));
        global.add_var(param);
    }
    program
}

fn rank(op: &Op, name: &str) -> Result<usize> {
    let rank = match op.attrs.get(name) {
        Some(Attr::Int(rank)) => usize::try_from(*rank).ok(),
        Some(Attr::Long(rank)) => usize::try_from(*rank).ok(),
        _ => Some(0),
    };
    rank.ok_or_else(|| Error::Config(format!("`{name}` of `{}` is no rank", op.kind)))
}

fn texts(op: &Op, name: &str) -> Vec<String> {
    match op.attrs.get(name) {
        Some(Attr::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_launcher_is_a_group_of_its_own() {
        let group = connect_group(&Environment::default(), None).unwrap();
        assert_eq!((group.rank(), group.size()), (0, 1));
    }

    #[test]
    fn a_collective_script_is_no_part_of_a_job_with_servers() {
        let environment = Environment::of([
            ("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:6170,127.0.0.1:6171"),
            ("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:6180"),
            ("TRAINING_ROLE", "PSERVER"),
        ]);
        let error = connect_group(&environment.unwrap(), None).unwrap_err().to_string();
        assert!(error.contains("this script is collective"), "{error}");
        assert!(error.contains("without `--server_num`"), "{error}");
    }

    #[test]
    fn a_startup_program_names_its_ranks() {
        let mut program = Program::new();
        assert!(!is_collective(&program) && ranks_of(&program).unwrap().is_none());
        let op = Op::new("c_gen_nccl_id").attr("rank", 1).attr("endpoint", "b:2");
        program.global_mut().ops.push(op.attr("other_endpoints", vec!["a:1".to_owned()]));
        let expected = Ranks { rank: 1, endpoints: vec!["a:1".into(), "b:2".into()] };
        assert_eq!(ranks_of(&program).unwrap(), Some(expected.clone()));
        let op = Op::new("gen_nccl_id").attr("trainer_id", 1);
        program.global_mut().ops = vec![op.attr("trainers", expected.endpoints.clone())];
        assert_eq!(ranks_of(&program).unwrap(), Some(expected));
        assert!(is_collective(&program));
    }
}
