//! The front of this crate: a program and a cluster in, the programs of its roles out.

use std::fmt::Write as _;

use bireme_ir::Program;

use crate::edit::Edit;
use crate::heter::{self, Heter, Place};
use crate::plan::{Piece, Plan};
use crate::{
    Config, Distribution, Error, Mode, Result, geo, gpubox, server, sparse, startup, trainer,
};

/// Splits programs as its [`Config`] says.
#[derive(Clone, Debug, Default)]
pub struct Transpiler {
    config: Config,
}

/// A program split for parameter servers, as one trainer sees it.
#[derive(Clone, Debug)]
pub struct Transpiled {
    plan: Plan,
    /// The trainer's program before it was cut into stages, if it was.
    whole: Option<Program>,
    trainer_program: Program,
    trainer_startup: Program,
}

/// Where a trained parameter lives.
#[derive(Clone, Copy, Debug)]
pub struct Located<'a> {
    /// The parameter.
    pub param: &'a str,
    /// Its pieces, in order.
    pub pieces: &'a [Piece],
    /// Whether trainers look its rows up, and never hold all of them.
    pub is_table: bool,
}

impl Transpiler {
    /// A transpiler with these settings.
    ///
    /// # Errors
    /// When they do not go together.
    pub fn new(config: Config) -> Result<Transpiler> {
        config.check()?;
        Ok(Transpiler { config })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Splits `program` and `startup` for the servers at `pservers` and `trainers` trainers.
    ///
    /// Every role of a job must be given the same programs and the same cluster: placements are
    /// computed by each for itself, and come out the same. Servers may give any `trainer_id`; a
    /// trainer whose number is too large is refused when it connects.
    ///
    /// # Errors
    /// When the cluster makes no sense, or the program cannot be distributed.
    pub fn transpile(
        &self,
        trainer_id: usize,
        program: &Program,
        startup: &Program,
        pservers: &[String],
        trainers: usize,
        sync_mode: bool,
    ) -> Result<Transpiled> {
        let plan = self.plan((trainer_id, trainers), pservers, (program, startup), sync_mode)?;
        let trainer_program = match plan.mode {
            Mode::Geo => geo::build(&plan),
            _ => trainer::build(&plan),
        };
        Ok(Transpiled::new(plan, None, trainer_program))
    }

    /// As [`Transpiler::transpile`], with the part of the program that is on another device than
    /// the CPU, or on several, given to heter workers; the trainer's programs of the result are
    /// those of `place`. Servers may give any place.
    ///
    /// # Errors
    /// Also when the devices of the program do not fit the stages of the cluster.
    #[expect(clippy::too_many_arguments, reason = "those of `transpile`, and the heter workers")]
    pub fn transpile_heter(
        &self,
        place: Place,
        program: &Program,
        startup: &Program,
        pservers: &[String],
        trainers: usize,
        heter: &Heter,
        sync_mode: bool,
    ) -> Result<Transpiled> {
        let plan = self.plan((0, trainers), pservers, (program, startup), sync_mode)?;
        let plan = plan.with_heter(heter, place)?;
        let whole = trainer::build(&plan);
        let hetero = plan.hetero.as_ref().expect("it has just been given");
        let trainer_program = heter::build(&plan, hetero, &whole)?;
        Ok(Transpiled::new(plan, Some(whole), trainer_program))
    }

    /// The programs of a GPUBox job: trainer `rank` of so many, which hold the rows of a pass as variables
    /// of their own and update everything themselves, and servers with the tables. Every embedding with
    /// sparse gradients is a table of keys then.
    ///
    /// # Errors
    /// When the cluster makes no sense, or the program cannot be trained so.
    pub fn transpile_gpubox(
        &self,
        (rank, ranks): (usize, usize),
        program: &Program,
        startup: &Program,
        pservers: &[String],
    ) -> Result<Transpiled> {
        let mut config = self.config.clone();
        config.set_mode(Mode::Sync);
        // The trainer has whole parameters, and so have the servers.
        config.slice_var_up = false;
        let keyed = gpubox::with_keyed_tables(program);
        let plan = Plan::new(&config, Mode::Sync, (rank, ranks), pservers, (&keyed, startup))?;
        let (trainer_program, trainer_startup) = gpubox::build(&plan)?;
        Ok(Transpiled { plan, whole: None, trainer_program, trainer_startup })
    }

    fn plan(
        &self,
        (trainer_id, trainers): (usize, usize),
        pservers: &[String],
        programs: (&Program, &Program),
        sync_mode: bool,
    ) -> Result<Plan> {
        if self.config.mode != Distribution::Pserver {
            return Err(Error::Config(format!(
                "mode {:?} has no servers: use `transpile_collective`",
                self.config.mode
            )));
        }
        let mode = self.config.distributed_mode(sync_mode)?;
        Plan::new(&self.config, mode, (trainer_id, trainers), pservers, programs)
    }
}

impl Transpiled {
    fn new(plan: Plan, whole: Option<Program>, mut trainer_program: Program) -> Transpiled {
        let mut trainer_startup = startup::trainer(&plan, &trainer_program);
        plan.stamp(&mut trainer_program);
        plan.stamp(&mut trainer_startup);
        Transpiled { plan, whole, trainer_program, trainer_startup }
    }

    /// The fingerprint of the program before it was split: lines that are the same for every role of
    /// a job, see [`Program::fingerprint`].
    pub fn fingerprint(&self) -> Vec<String> {
        self.plan.fingerprint()
    }

    /// What the trainer runs each step.
    pub fn trainer_program(&self) -> &Program {
        &self.trainer_program
    }

    /// The trainer's program with the parts of all stages: it names every parameter that servers
    /// hold. The trainer's program itself where there are no heter workers.
    pub fn whole_program(&self) -> &Program {
        self.whole.as_ref().unwrap_or(&self.trainer_program)
    }

    /// What the trainer runs first.
    pub fn trainer_startup(&self) -> &Program {
        &self.trainer_startup
    }

    /// What the server at `endpoint` runs.
    ///
    /// # Errors
    /// When it is none of the servers, or its program cannot be written.
    pub fn pserver_program(&self, endpoint: &str) -> Result<Program> {
        server::build(&self.plan, self.server(endpoint)?)
    }

    /// What the server at `endpoint` runs first.
    ///
    /// # Errors
    /// As [`Transpiled::pserver_program`].
    pub fn startup_program(&self, endpoint: &str) -> Result<Program> {
        let server = self.server(endpoint)?;
        let main = server::build(&self.plan, server)?;
        Ok(startup::server(&self.plan, server, &main))
    }

    /// `program`, another one over the same tables (for evaluation, say), with its lookups asking
    /// the servers, as those of the trainer's program do.
    pub fn with_remote_lookups(&self, program: &Program) -> Program {
        let mut program = program.clone();
        for table in &self.plan.tables {
            let table = sparse::in_program(&program, table);
            let attrs = trainer::table_attrs(&self.plan, &table);
            let mut edit = Edit::new(&program.global().ops);
            let common = |op| self.plan.remote(op);
            sparse::rewrite(&mut edit, &program, &table, &attrs, common);
            program.global_mut().ops = edit.finish();
        }
        program
    }

    /// The servers, in order.
    pub fn endpoints(&self) -> &[String] {
        &self.plan.endpoints
    }

    /// How trainers and servers keep step.
    pub fn mode(&self) -> Mode {
        self.plan.mode
    }

    /// Where each parameter that is cut lives, in the order of the updates.
    pub fn located(&self) -> impl Iterator<Item = Located<'_>> {
        self.plan.placed.iter().map(|placed| Located {
            param: &placed.update.param.name,
            pieces: &placed.pieces,
            is_table: placed.is_table,
        })
    }

    /// Tables with any 64-bit key, which all servers share.
    pub fn keyed_tables(&self) -> impl Iterator<Item = &str> {
        self.plan.keyed().map(|(table, _)| table.name.as_str())
    }

    /// The placement in words, one line a piece; empty unless the settings ask for it.
    pub fn log(&self) -> String {
        let mut log = String::new();
        if !self.plan.config.print_log {
            return log;
        }
        for placed in &self.plan.placed {
            for piece in &placed.pieces {
                let dims: Vec<String> = piece.shape.iter().map(i64::to_string).collect();
                // Writing to a string cannot fail.
                let _ = writeln!(
                    log,
                    "{} ({}) {} -> {}",
                    piece.name,
                    dims.join(", "),
                    placed.update.param.dtype,
                    self.plan.endpoint(piece)
                );
            }
        }
        for name in self.keyed_tables() {
            let _ = writeln!(log, "{name} (any key) -> {}", self.plan.endpoints.join(", "));
        }
        log
    }

    fn server(&self, endpoint: &str) -> Result<usize> {
        let found = self.plan.endpoints.iter().position(|server| server == endpoint);
        found.ok_or_else(|| {
            Error::Config(format!(
                "`{endpoint}` is none of the servers {}",
                self.plan.endpoints.join(", ")
            ))
        })
    }
}
