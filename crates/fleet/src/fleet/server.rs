//! The server's part of a job.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bireme_comm::{Role as CommRole, Settings, Transport};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope};
use bireme_ir::{Attr, Op, Program};
use bireme_ps::server::{Folders, PsServer};
use bireme_transpiler::Transpiled;

use super::Fleet;
use super::save::text as path_text;
use crate::environment::variables as v;
use crate::report::Lost;
use crate::settings::{check_guarded, folders, network, settings};
use crate::{Environment, Error, Reporter, Result, Role, checkpoint_to_load};

/// What a server starts with.
pub(super) struct Initial {
    pub(super) scope: Scope,
    pub(super) checkpoint: Option<PathBuf>,
}

impl Fleet {
    /// Gives this server's parameters their first values, or those of a checkpoint: in a job that
    /// was started again, without a folder, of the last one that was saved.
    ///
    /// # Errors
    /// When this is no server, the startup program fails, or there is no such folder.
    pub fn init_server(&mut self, checkpoint: Option<&Path>) -> Result<()> {
        self.need_server("init_server")?;
        if let Some(folder) = checkpoint.filter(|folder| !folder.is_dir()) {
            let folder = folder.display();
            return Err(Error::Config(format!("There is no directory named '{folder}'")));
        }
        let checkpoint = checkpoint_to_load(&self.environment, checkpoint);
        let scope = Scope::new();
        let mut executor = Executor::new(Place::Cpu)?.with_scope(scope.clone());
        executor.run(&self.server_startup()?, &[], &[])?;
        self.initial = Some(Initial { scope, checkpoint });
        Ok(())
    }

    /// As [`Fleet::init_server`], with the values of a model that was trained without servers:
    /// parameters, and what of the optimizer's state there is, by name.
    ///
    /// # Errors
    /// When this is no server, the startup program fails, or a parameter is missing or has another
    /// size; for a table with any 64-bit key, which such a model does not have.
    pub fn init_server_from(&mut self, values: &BTreeMap<String, Tensor>) -> Result<()> {
        self.need_server("init_server_from")?;
        let scope = Scope::new();
        let mut executor = Executor::new(Place::Cpu)?.with_scope(scope.clone());
        executor.run(&self.server_startup()?, &[], &[])?;
        let job = self.job()?;
        if let Some(transpiled) = &job.transpiled {
            let server = self.role.index() as usize;
            place_values(transpiled, server, values, &scope).map_err(Error::Config)?;
        }
        self.initial = Some(Initial { scope, checkpoint: None });
        Ok(())
    }

    /// Serves until all trainers have finished; tells `on_listening` the endpoint first.
    ///
    /// # Errors
    /// When [`Fleet::init_server`] was not called, the port is taken, a trainer is lost that
    /// others wait for, or `interrupt` says yes.
    pub fn run_server(
        &mut self,
        interrupt: &dyn Fn() -> bool,
        on_listening: impl FnOnce(&str),
    ) -> Result<()> {
        self.need(Role::Server, "run_server")?;
        let initial = self.initial.take().ok_or_else(|| {
            Error::Config("this server has no parameters: call `init_server` before".to_owned())
        })?;
        let mut program = self.main_program()?.clone();
        self.listen_as_told(&mut program)?;
        let Initial { scope, checkpoint } = initial;
        let (transport, settings) = (Arc::clone(&self.transport), self.settings.clone());
        if self.is_on_network {
            check_guarded(listens_at(&program), &settings, &self.environment)?;
        }
        let folders = folders(&settings, &self.environment, checkpoint.as_deref());
        let from = (checkpoint.as_deref(), &[][..]);
        let is_managed = self.environment.launcher.is_managed();
        let reporter = &self.reporter;
        let around = Around { transport, settings, from, folders, is_managed, reporter };
        serve(&program, &scope, around, interrupt, on_listening)
    }

    /// Has a server's program listen where this process was told to, if it was.
    pub(super) fn listen_as_told(&self, program: &mut Program) -> Result<()> {
        match (&self.bind, &self.environment.rpc.bind) {
            (Some(address), _) => listen_at(program, |_| address.clone()),
            (None, Some(host)) => bind_to(program, host)?,
            (None, None) => {}
        }
        Ok(())
    }
}

/// Puts a server's parts of whole variables into its scope.
fn place_values(
    transpiled: &Transpiled,
    server: usize,
    values: &BTreeMap<String, Tensor>,
    scope: &Scope,
) -> std::result::Result<(), String> {
    if let Some(table) = transpiled.keyed_tables().next() {
        return Err(format!(
            "table `{table}` has any 64-bit key, which a model that was trained without servers \
             does not have: start from one that was trained with servers"
        ));
    }
    let located: Vec<_> = transpiled.located().collect();
    for of_parameter in &located {
        let param = of_parameter.param;
        let whole: i64 = of_parameter.pieces.iter().map(|piece| piece.slice.size).sum();
        let held = values.get(param).ok_or_else(|| format!("the model has no `{param}`"))?;
        if held.numel() as i64 != whole {
            let has = held.numel();
            return Err(format!("`{param}` has {has} elements in the model, and {whole} here"));
        }
        // A state has its parameter's name in front; of two such parameters the longer is meant.
        let owner = |name: &str| {
            let owns = |param: &str| name == param || name.starts_with(&format!("{param}_"));
            let owners = located.iter().filter(|of| owns(of.param));
            owners.max_by_key(|of| of.param.len()).is_some_and(|of| of.param == param)
        };
        let own = values.iter().filter(|(name, _)| owner(name));
        for (name, value) in own {
            for piece in of_parameter.pieces.iter().filter(|piece| piece.server == server) {
                let suffix = piece.name.strip_prefix(param).unwrap_or_default();
                let target = format!("{name}{suffix}");
                let Ok(mut part) = scope.get(&target) else { continue };
                let range = match value.numel() as i64 == whole {
                    true => piece.slice.offset..piece.slice.offset + piece.slice.size,
                    false => 0..value.numel() as i64,
                };
                let width = value.dtype().size() as i64;
                let bytes = value.as_bytes();
                let bytes = bytes.get((range.start * width) as usize..(range.end * width) as usize);
                let fits = part.dtype() == value.dtype();
                match bytes.filter(|bytes| fits && bytes.len() == part.as_bytes().len()) {
                    Some(bytes) => part.as_mut_bytes().copy_from_slice(bytes),
                    None => return Err(format!("`{name}` has another size or type here")),
                }
                scope.set(&target, &part);
            }
        }
    }
    Ok(())
}

/// Serves a server program that a script runs by itself (`exe.run(pserver_program)`): with the
/// values that `scope` holds or those of a checkpoint (of all tables, or of those that are named), on
/// the network and with the settings of the environment.
///
/// # Errors
/// As [`Fleet::run_server`].
pub fn serve_program(
    program: &Program,
    scope: &Scope,
    environment: &Environment,
    from: (Option<&Path>, &[String]),
    interrupt: &dyn Fn() -> bool,
    on_listening: impl FnOnce(&str),
) -> Result<()> {
    let transport = Arc::new(network(environment));
    let settings = settings(environment)?;
    let mut program = program.clone();
    if let Some(host) = &environment.rpc.bind {
        bind_to(&mut program, host)?;
    }
    check_guarded(listens_at(&program), &settings, environment)?;
    let (reporter, folders) = (Reporter::new(environment), folders(&settings, environment, from.0));
    let (is_managed, reporter) = (environment.launcher.is_managed(), &reporter);
    let around = Around { transport, settings, from, folders, is_managed, reporter };
    serve(&program, scope, around, interrupt, on_listening)
}

/// What a server works with beside its program.
struct Around<'a> {
    transport: Arc<dyn Transport>,
    settings: Settings,
    /// The checkpoint to start from, and which of its tables; all where none is named.
    from: (Option<&'a Path>, &'a [String]),
    /// Where trainers may have it save and load.
    folders: Folders,
    /// Whether somebody starts trainers again that fail.
    is_managed: bool,
    reporter: &'a Reporter,
}

fn serve(
    program: &Program,
    scope: &Scope,
    around: Around<'_>,
    interrupt: &dyn Fn() -> bool,
    on_listening: impl FnOnce(&str),
) -> Result<()> {
    let Around { transport, settings, from: (checkpoint, only), folders, is_managed, reporter } =
        around;
    let checkpoint = checkpoint.map(path_text).transpose()?;
    let server =
        PsServer::start_from(program, scope, checkpoint, only, folders, transport, settings)?;
    if is_managed {
        server.set_managed();
    }
    on_listening(server.endpoint());
    Ok(server.run(&|| {
        report_lost(&server, reporter);
        interrupt()
    })?)
}

/// Tells the launcher whom this server has lost, as many as a line of a report has room for.
fn report_lost(server: &PsServer, reporter: &Reporter) {
    const MOST: usize = 16;
    const LONGEST: usize = 100;
    let lost = server.lost().into_iter().take(MOST).map(|lost| Lost {
        role: if lost.who.role == CommRole::HeterWorker { "heter_worker" } else { "trainer" },
        rank: lost.who.rank,
        why: lost.why.chars().take(LONGEST).collect(),
        process: lost.process.chars().take(LONGEST).collect(),
    });
    reporter.lost(lost.collect());
}

/// Where the program of a server, or of a heter worker, listens.
pub(super) fn listens_at(program: &Program) -> &str {
    let serves = |op: &&Op| matches!(&*op.kind, "listen_and_serv" | "heter_listen_and_serv");
    match program.global().ops.iter().find(serves).and_then(|op| op.attrs.get("endpoint")) {
        Some(Attr::String(endpoint)) => endpoint,
        // A program that says nothing listens on the loopback.
        _ => "127.0.0.1:0",
    }
}

/// Has a server program listen at the address of `BIREME_BIND`, at its own port unless that names
/// one.
fn bind_to(program: &mut Program, address: &str) -> Result<()> {
    if address.parse::<SocketAddr>().is_ok() {
        listen_at(program, |_| address.to_owned());
        return Ok(());
    }
    let Ok(ip) = address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() else {
        return Err(Error::Config(format!(
            "the environment variable `{}` is `{address}`, which is no address of a machine: write \
             an IP, with or without a port",
            v::BIND.name
        )));
    };
    listen_at(program, |endpoint| {
        let port = endpoint.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        SocketAddr::new(ip, port.unwrap_or(0)).to_string()
    });
    Ok(())
}

/// Changes where a server program listens.
pub(super) fn listen_at(program: &mut Program, change: impl Fn(&str) -> String) {
    for op in &mut program.global_mut().ops {
        if op.kind == "listen_and_serv" {
            let old = match op.attrs.get("endpoint") {
                Some(Attr::String(endpoint)) => endpoint.clone(),
                _ => String::new(),
            };
            op.attrs.insert("endpoint".into(), Attr::String(change(&old)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_listen_where_others_do_not_know_it() {
        let listens = |bind: &str| -> Result<String> {
            let mut program = Program::default();
            let mut op = Op::new("listen_and_serv");
            op.attrs.insert("endpoint".into(), Attr::String("ctr-server-0.ctr:6174".to_owned()));
            program.global_mut().ops.push(op);
            bind_to(&mut program, bind)?;
            match program.global_mut().ops[0].attrs.get("endpoint") {
                Some(Attr::String(endpoint)) => Ok(endpoint.clone()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(listens("10.1.2.3").unwrap(), "10.1.2.3:6174");
        assert_eq!(listens("fd00::1").unwrap(), "[fd00::1]:6174");
        assert_eq!(listens("0.0.0.0:7000").unwrap(), "0.0.0.0:7000");
        let error = listens("elsewhere").unwrap_err().to_string();
        assert!(error.contains("`BIREME_BIND` is `elsewhere`"), "{error}");
    }
}
