//! Which kind of job a command line asks for, by the rules of Paddle's launcher.

use anyhow::Result;

use crate::arguments::{Options, RunMode, Usage};
use crate::job::Mode;

use super::devices::Devices;
use super::{Note, paddle_name};
use crate::job::Role;

/// Flags that ask for parameter servers.
const SERVERS: [&str; 8] = [
    "worker_num",
    "server_num",
    "heter_worker_num",
    "servers",
    "workers",
    "heter_workers",
    "heter_devices",
    "http_port",
];

/// The kind of job, and how to say it.
pub(super) fn choose(options: &Options, devices: &Devices) -> Result<(Mode, Vec<Note>)> {
    let mut servers: Vec<String> = written(options, &SERVERS);
    // Among machines of a collective job it is the port where they meet.
    if !options.ips.is_empty() {
        servers.retain(|flag| flag != "--http_port");
    }
    let heter = ["heter_worker_num", "heter_workers", "heter_devices"];
    let heter = heter.iter().any(|name| options.has(name));
    let counts = options.server_num.is_some() || options.worker_num.is_some();
    let mode = match options.run_mode {
        Some(RunMode::Collective) => {
            if let Some(flag) = servers.first() {
                let problem = format!(
                    "`--run_mode=collective` and `{flag}` contradict each other: \
                     a collective job has no servers; leave one out"
                );
                return Err(Usage(problem).into());
            }
            Mode::Collective
        }
        Some(RunMode::PsHeter) => Mode::Heter,
        Some(RunMode::Ps) | None if heter => Mode::Heter,
        Some(RunMode::Ps) => Mode::Servers,
        // Defaults of `launch_ps` count, though nobody wrote them.
        None if !servers.is_empty() || counts => Mode::Servers,
        None => Mode::Collective,
    };
    if mode != Mode::Collective {
        one_mode_only(options)?;
        complete(options, mode)?;
    }
    let note = match mode {
        Mode::Collective if options.ips.is_empty() => None,
        Mode::Collective => Some(format!(
            "Run collective mode. gpu arguments:['--ips'], cuda count:{}",
            devices.len()
        )),
        _ => Some(format!(
            "Run parameter-sever mode. pserver arguments:{}, accelerators count:{}",
            list(&servers),
            devices.len()
        )),
    };
    Ok((mode, note.map(Note::Info).into_iter().collect()))
}

fn written(options: &Options, names: &[&str]) -> Vec<String> {
    names.iter().filter(|name| options.has(name)).map(|name| format!("--{name}")).collect()
}

/// A list as Python prints it.
pub(super) fn list(texts: &[String]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| format!("'{text}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// A job with servers is described by its own flags.
fn one_mode_only(options: &Options) -> Result<()> {
    const TEXT: &str = "Only one mode(Collective or Parameter-Server) can be selected at the same \
                        time, but more than one configuration was received";
    // One machine that is this one is what a job without lists has anyway.
    let ips = !options.ips.is_empty() && options.ips != ["127.0.0.1"] && !options.cloud;
    let advice = match (ips, options.nproc_per_node) {
        (true, _) => {
            "`--ips` is for collective jobs: name the machines of this one with `--servers` and \
             `--workers`, or let them meet with `--master` and `--nnodes`"
        }
        (false, Some(_)) => {
            "`--nproc_per_node` is for collective jobs: write `--worker_num` for trainers with \
             servers"
        }
        (false, None) => return Ok(()),
    };
    Err(Usage(format!("{TEXT}: {advice}")).into())
}

/// Servers and workers have to be there, and numbers must agree with lists.
fn complete(options: &Options, mode: Mode) -> Result<()> {
    // Machines that meet have one of each, unless told otherwise; so has `--run_mode=ps` alone.
    let nothing = options.servers.is_empty() && options.workers.is_empty();
    let none = nothing && options.server_num.is_none() && options.worker_num.is_none();
    let defaults = super::must_meet(options) || (none && options.run_mode.is_some());
    let missing = |what: &str, flags: &str| {
        Err(Usage(format!("The setting of Parameter-Server must have {what}: add {flags}")).into())
    };
    if !defaults && options.servers.is_empty() && options.server_num.is_none() {
        return missing("server_num or servers", "`--server_num=1`, or `--servers=IP:PORT,…`");
    }
    if !defaults && options.workers.is_empty() && options.worker_num.is_none() {
        return missing("worker_num or workers", "`--worker_num=2`, or `--workers=IP,…`");
    }
    matching(Role::Server, options.server_num, options.servers.len())?;
    matching(Role::Worker, options.worker_num, options.workers.len())?;
    let counted = options.server_num.is_some() && options.servers.is_empty();
    let listed = !options.workers.is_empty() || !options.heter_workers.is_empty();
    if counted && listed {
        let problem = "`--workers` names machines and `--server_num` counts servers of this one: \
                       name the servers too, with `--servers=IP:PORT,…`";
        return Err(Usage(problem.to_owned()).into());
    }
    if !options.servers.is_empty() && options.workers.is_empty() && several(options) {
        let problem = "`--servers` names several machines and `--worker_num` counts workers of \
                       one: name the workers too, with `--workers=IP,…`";
        return Err(Usage(problem.to_owned()).into());
    }
    if mode == Mode::Heter {
        stages(options)?;
    }
    Ok(())
}

/// Whether `--servers` names more than one machine.
fn several(options: &Options) -> bool {
    options.servers.windows(2).any(|pair| pair[0].host != pair[1].host)
}

fn matching(role: Role, count: Option<usize>, listed: usize) -> Result<()> {
    match count {
        Some(count) if listed > 0 && listed != count => {
            let name = paddle_name(role);
            let list = format!("{name}s");
            Err(Usage(format!(
                "The {name}_num and {list} doesn't match. Expect {list} endpoints num epual to \
                 {name}_num, but received {list} enpoint num: {listed} and {name}_num {count}: \
                 correct one, or leave `--{name}_num` out"
            ))
            .into())
        }
        _ => Ok(()),
    }
}

/// The stages after the trainers.
fn stages(options: &Options) -> Result<()> {
    let (counts, lists) = (&options.heter_worker_num, &options.heter_workers);
    if counts.is_empty() && lists.is_empty() {
        let problem = "The setting of Parameter-Server heter mode must have heter_worker_num or \
                       heter_workers: add `--heter_worker_num=1`, or `--heter_workers=IP:PORT,…`";
        return Err(Usage(problem.to_owned()).into());
    }
    if !counts.is_empty() && !lists.is_empty() {
        if counts.len() != lists.len() {
            let problem = format!(
                "`--heter_worker_num` has {} stages and `--heter_workers` {}: they must be the \
                 same",
                counts.len(),
                lists.len()
            );
            return Err(Usage(problem).into());
        }
        for (count, list) in counts.iter().zip(lists) {
            matching(Role::HeterWorker, Some(*count), list.len())?;
        }
    }
    if lists.is_empty() && !options.servers.is_empty() && several(options) {
        let problem = "`--servers` names several machines and `--heter_worker_num` counts heter \
                       workers of one: name them, with `--heter_workers=IP:PORT,…`";
        return Err(Usage(problem.to_owned()).into());
    }
    let stages = counts.len().max(lists.len());
    if !options.heter_devices.is_empty() && options.heter_devices.len() != stages {
        let problem = format!(
            "`--heter_devices` has {} stages and the heter workers {stages}: write one device for \
             each stage after the trainers",
            options.heter_devices.len()
        );
        return Err(Usage(problem).into());
    }
    Ok(())
}
