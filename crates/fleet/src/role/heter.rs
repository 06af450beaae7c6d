//! The heter workers of a job, by the environment of a launcher.

use bireme_transpiler::Place;

use super::{Role, check_distinct, check_endpoints, missing, refuse};
use crate::Result;
use crate::environment::{Environment, HeterNames};

/// Endpoints of the heter workers of each stage after the first.
pub(super) fn stages(
    environment: &Environment,
    role: Role,
    trainers: u32,
) -> Result<Vec<Vec<String>>> {
    let names = &environment.heter;
    let (all, is_old) = match (&names.all, &names.old) {
        (Some(all), _) => (all, false),
        (None, Some(all)) => (all, true),
        (None, None) if role == Role::HeterWorker => {
            return Err(missing("PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST"));
        }
        (None, None) => return Ok(Vec::new()),
    };
    let counts = match &names.counts {
        Some(text) => counts(text, trainers, all.len())?,
        // Servers of Paddle's own launcher, and jobs that know two stages only, are not told.
        None if is_old || role == Role::Server => vec![all.len()],
        None => return Err(missing("PADDLE_STAGE_TRAINERS_NUM")),
    };
    let mut rest = all.as_slice();
    let mut stages = Vec::with_capacity(counts.len());
    for count in counts {
        let (stage, after) = rest.split_at(count);
        stages.push(stage.to_vec());
        rest = after;
    }
    check(&stages)?;
    check_stage(names, role, &stages, is_old)?;
    check_device(names)?;
    Ok(stages)
}

/// Workers of each stage after the first, from `[2, 1, 1]`.
fn counts(text: &str, trainers: u32, workers: usize) -> Result<Vec<usize>> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
    let counts: Option<Vec<usize>> = numbers.map(|number| number.parse().ok()).collect();
    let counts = counts.unwrap_or_default();
    match counts.split_first() {
        Some((first, rest))
            if *first == trainers as usize
                && rest.iter().all(|count| *count > 0)
                && rest.iter().sum::<usize>() == workers =>
        {
            Ok(rest.to_vec())
        }
        _ => refuse(format!(
            "PADDLE_STAGE_TRAINERS_NUM is `{text}`, but there are {trainers} trainers, which are \
             its first number, and {workers} endpoints in PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST, \
             which the others add up to"
        )),
    }
}

/// That what the launcher says about this process's stage fits the lists.
fn check_stage(names: &HeterNames, role: Role, stages: &[Vec<String>], is_old: bool) -> Result<()> {
    if role == Role::Server || is_old {
        return Ok(());
    }
    let stage = names.stage.ok_or_else(|| missing("STAGE_ID"))?;
    let count = names.stages.ok_or_else(|| missing("STAGE_NUM"))?;
    if count as usize != stages.len() + 1 {
        return refuse(format!(
            "STAGE_NUM is {count}, but PADDLE_STAGE_TRAINERS_NUM has {} stages",
            stages.len() + 1
        ));
    }
    let fits = match role {
        Role::Worker => stage == 1,
        _ => (2..=count).contains(&stage),
    };
    if !fits {
        return refuse(format!(
            "STAGE_ID is {stage}, but trainers are stage 1 and heter workers 2 to {count}"
        ));
    }
    let next = stages.get(stage as usize - 1);
    match (&names.next, next) {
        (Some(said), Some(next)) if said != next => refuse(format!(
            "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST is `{}`, but by the other lists stage {} is `{}`",
            said.join(","),
            stage + 1,
            next.join(",")
        )),
        _ => Ok(()),
    }
}

/// That the device is one that Paddle knows.
fn check_device(names: &HeterNames) -> Result<()> {
    match names.device.as_deref() {
        None | Some("cpu" | "gpu") => Ok(()),
        Some("xpu") => {
            tracing::warn!("HETER_DEVICE_TYPE is xpu, but this stage runs on the CPU");
            Ok(())
        }
        Some(_) => refuse("HETER_DEVICE_TYPE should be cpu,gpu or xpu"),
    }
}

/// That no endpoint is there twice, and all are endpoints.
pub(super) fn check(stages: &[Vec<String>]) -> Result<()> {
    let all: Vec<String> = stages.concat();
    check_distinct(&all, "the list of heter workers")?;
    check_endpoints(&all, "the list of heter workers")?;
    match stages.iter().any(Vec::is_empty) {
        true => refuse("every stage after the first needs at least one heter worker"),
        false => Ok(()),
    }
}

/// This heter worker's position in the list of all.
pub(super) fn index(environment: &Environment, stages: &[Vec<String>]) -> Result<u32> {
    let ip = environment.pod_ip.as_ref().ok_or_else(|| missing("POD_IP"))?;
    let port = environment.port.ok_or_else(|| missing("PADDLE_PORT"))?;
    let (own, all) = (format!("{ip}:{port}"), stages.concat());
    let found = all.iter().position(|endpoint| *endpoint == own);
    let Some(index) = found else {
        return refuse(format!(
            "this heter worker's endpoint `{own}` is not in the list of heter workers `{}`: check \
             POD_IP and PADDLE_PORT",
            all.join(",")
        ));
    };
    let stage = place(index, stages).stage + 1;
    match environment.heter.stage {
        Some(said) if said as usize != stage => refuse(format!(
            "STAGE_ID is {said}, but this heter worker's endpoint `{own}` is in stage {stage}"
        )),
        _ => Ok(u32::try_from(index).expect("endpoints fit into memory")),
    }
}

/// Stage and number there of heter worker `index` of all stages.
pub(super) fn place(mut index: usize, stages: &[Vec<String>]) -> Place {
    for (stage, workers) in stages.iter().enumerate() {
        if index < workers.len() {
            return Place { stage: stage + 1, index };
        }
        index -= workers.len();
    }
    Place { stage: stages.len(), index }
}
