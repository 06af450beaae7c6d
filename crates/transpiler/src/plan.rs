//! The split of one program: what lives where, and under which names. All programs of all roles
//! are written from it, so they agree.

use std::collections::BTreeSet;
use std::ops::Range;

use bireme_ir::{Op, OpRole, Program, Var};

use crate::analysis::{Analysis, Update, analyse};
use crate::heter::{Heter, Place, Stages};
use crate::placement::{Dispatcher, shuffle};
use crate::slice::{Slice, slice_variable};
use crate::sparse::{Spread, Table, find_tables};
use crate::startup::can_slice;
use crate::{Config, Error, Mode, Result, names};

/// A slice of a parameter on its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its name there: the parameter's, or `<param>.block<k>`.
    pub name: String,
    /// The name of its gradient there, without a trainer.
    pub grad: String,
    /// The server, by its place among the endpoints.
    pub server: usize,
    /// Which elements of the parameter it is.
    pub slice: Slice,
    /// Its shape.
    pub shape: Vec<i64>,
    /// What names of other variables that belong to it end with: nothing, or `.block<k>`.
    pub(crate) suffix: String,
}

/// A parameter and its pieces.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) update: Update,
    pub(crate) pieces: Vec<Piece>,
    /// Whether trainers hold no rows of it, only look them up.
    pub(crate) is_table: bool,
}

/// The stages of a heterogeneous job, and the process whose programs are written.
#[derive(Clone, Debug)]
pub(crate) struct Hetero {
    pub(crate) heter: Heter,
    pub(crate) place: Place,
    pub(crate) stages: Stages,
}

/// Everything that the programs of all roles are written from.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) mode: Mode,
    /// The rank of the process among all that train.
    pub(crate) trainer_id: usize,
    /// Those that read data; heter workers are not among them.
    pub(crate) trainers: usize,
    pub(crate) endpoints: Vec<String>,
    pub(crate) program: Program,
    pub(crate) startup: Program,
    pub(crate) analysis: Analysis,
    /// Parameters that are cut, in the order of their updates.
    pub(crate) placed: Vec<Placed>,
    /// Tables that trainers look rows up in; none in geo mode.
    pub(crate) tables: Vec<Table>,
    /// The stages, where heter workers run a part of the program.
    pub(crate) hetero: Option<Hetero>,
}

impl Plan {
    /// Places the parameters of `program`.
    ///
    /// # Errors
    /// When it cannot be distributed.
    pub(crate) fn new(
        config: &Config,
        mode: Mode,
        (trainer_id, trainers): (usize, usize),
        endpoints: &[String],
        programs: (&Program, &Program),
    ) -> Result<Plan> {
        check_cluster(trainers, endpoints)?;
        let (program, startup) = programs;
        let analysis = analyse(program)?;
        let tables = match mode.sends_deltas() {
            true => Vec::new(),
            false => find_tables(program, &analysis)?,
        };
        let mut plan = Plan {
            config: config.clone(),
            mode,
            trainer_id,
            trainers,
            endpoints: endpoints.to_vec(),
            program: program.clone(),
            startup: startup.clone(),
            analysis,
            placed: Vec::new(),
            tables,
            hetero: None,
        };
        plan.place();
        Ok(plan)
    }

    /// Gives a part of the program to heter workers, and writes the programs of `place`.
    ///
    /// # Errors
    /// When the program cannot be cut into the stages of the cluster.
    pub(crate) fn with_heter(mut self, heter: &Heter, place: Place) -> Result<Plan> {
        let config = |problem: String| Err(Error::Config(problem));
        if self.mode.sends_deltas() {
            return config(
                "trainers of geo mode run the whole program by themselves: train in another mode \
                 with heter workers"
                    .to_owned(),
            );
        }
        heter.check(self.trainers, self.has_barriers())?;
        let stages = Stages::find(&self.program, &self.analysis, heter.stages.len() + 1)?;
        stages.check_tables(&self.program, &self.tables)?;
        if heter.micro_batches > 1 && !self.analysis.clip_ops.is_empty() {
            return config(format!(
                "gradients are clipped, but with {} micro-batches no process has the gradient of a \
                 batch before it is sent: set `accumulate_steps` to 1, or do without clipping",
                heter.micro_batches
            ));
        }
        self.trainer_id = heter.rank(place, self.trainers);
        self.hetero = Some(Hetero { heter: heter.clone(), place, stages });
        Ok(self)
    }

    fn place(&mut self) {
        let cut: Vec<Placed> = self
            .analysis
            .updates
            .iter()
            .filter(|update| {
                self.table(&update.param.name).is_none_or(|t| t.spread == Spread::Rows)
            })
            .map(|update| Placed {
                update: update.clone(),
                pieces: self.cut(update),
                is_table: self.table(&update.param.name).is_some(),
            })
            .collect();
        self.placed = cut;
        // Weights and biases alternate in a program; without slices, servers would be given one
        // kind each. Only the order of placement is shuffled, not that of the programs.
        let mut order: Vec<usize> = (0..self.placed.len()).collect();
        if !self.config.slice_var_up {
            shuffle(&mut order, self.program.random_seed as u32);
        }
        let mut dispatcher = Dispatcher::new(self.config.split_method, self.endpoints.len());
        for index in order {
            for piece in &mut self.placed[index].pieces {
                piece.server = dispatcher.dispatch(&piece.name);
            }
        }
    }

    fn cut(&self, update: &Update) -> Vec<Piece> {
        let param = &update.param;
        let whole = update.whole || !can_slice(&self.startup, update);
        let count = if self.config.slice_var_up && !whole { self.endpoints.len() } else { 1 };
        let slices = slice_variable(&param.shape, count, self.config.min_block_size);
        let several = slices.len() > 1;
        let piece = |slice: Slice| {
            let suffix = if several { names::block("", slice.index) } else { String::new() };
            Piece {
                name: format!("{}{suffix}", param.name),
                grad: format!("{}{suffix}", update.grad.name),
                server: 0,
                slice,
                shape: slice.shape(&param.shape),
                suffix,
            }
        };
        slices.into_iter().map(piece).collect()
    }

    /// The table `name` that trainers look rows up in.
    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Keyed tables with their updates.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = (&Table, Option<&Update>)> {
        self.tables.iter().filter(|table| table.spread == Spread::Keys).map(|table| {
            let update = self.analysis.updates.iter().find(|u| u.param.name == table.name);
            (table, update)
        })
    }

    /// Whether servers add up one gradient of each trainer for `placed`.
    pub(crate) fn is_summed(&self, placed: &Placed) -> bool {
        self.mode.merges_at_barrier(placed.update.is_sparse()) && self.pushers(placed).len() > 1
    }

    /// The ranks of those who send gradients of `placed`.
    pub(crate) fn pushers(&self, placed: &Placed) -> Range<usize> {
        match &self.hetero {
            None => 0..self.trainers,
            Some(hetero) => {
                let stage = hetero.stages.of(&placed.update.grad.name).unwrap_or(0);
                hetero.heter.ranks(stage, self.trainers)
            }
        }
    }

    /// All that train: trainers and heter workers.
    pub(crate) fn members(&self) -> usize {
        self.trainers + self.heter_workers()
    }

    /// Heter workers of all stages.
    pub(crate) fn heter_workers(&self) -> usize {
        self.hetero.as_ref().map_or(0, |hetero| hetero.heter.workers())
    }

    /// Whether trainers wait for one another.
    pub(crate) fn has_barriers(&self) -> bool {
        self.mode.waits_for_all()
    }

    /// Whether servers count the steps of learning-rate schedules from what trainers send.
    pub(crate) fn counts_steps(&self) -> bool {
        self.mode.applies_at_once()
    }

    /// Learning rates whose values trainer 0 sends to the servers.
    pub(crate) fn sent_rates(&self) -> Vec<&String> {
        let set = self.analysis.rates.iter().filter(|_| self.config.learning_rate_from_trainer);
        set.chain(&self.analysis.computed_rates).collect()
    }

    /// Positions of ops that leave the trainer.
    pub(crate) fn leaving(&self) -> BTreeSet<usize> {
        let analysis = &self.analysis;
        // A constant that both sides read stays; so does a schedule whose rate the model reads.
        let mut leaving: BTreeSet<usize> =
            analysis.on_server.difference(&analysis.clip_ops).copied().collect();
        let ops = &self.program.global().ops;
        let written: BTreeSet<&String> =
            analysis.lr_ops.iter().flat_map(|index| ops[*index].output_vars()).collect();
        let stays = |index: &usize| !leaving.contains(index) && !analysis.lr_ops.contains(index);
        let needed = (0..ops.len())
            .filter(stays)
            .any(|index| ops[index].input_vars().any(|var| written.contains(var)));
        if !needed {
            leaving.extend(&analysis.lr_ops);
        }
        leaving
    }

    /// Gives `op` what every op of a trainer that talks to servers says.
    pub(crate) fn remote(&self, op: Op) -> Op {
        let op = op
            .attr("distributed_mode", self.mode.code())
            .attr("trainer_id", self.trainer_id as i32)
            .attr("trainers", self.members() as i32)
            .role(OpRole::RPC);
        match self.heter_workers() {
            0 => op,
            workers => op.attr("heter_workers", workers as i32),
        }
    }

    /// The fingerprint of the program, which all processes of a job compare. Learning rates that
    /// trainers set have no first value that counts.
    pub(crate) fn fingerprint(&self) -> Vec<String> {
        let is_set = self.config.learning_rate_from_trainer;
        self.program.fingerprint((!is_set).then_some(&self.startup))
    }

    /// Writes the fingerprint into the first op of a trainer's program that talks to servers: one
    /// is enough for whoever connects it.
    pub(crate) fn stamp(&self, program: &mut Program) {
        let ops = program.blocks.iter_mut().flat_map(|block| &mut block.ops);
        if let Some(op) = ops.into_iter().find(|op| op.attrs.contains_key("trainer_id")) {
            op.attrs.insert("fingerprint".to_owned(), self.fingerprint().into());
        }
    }

    /// The endpoint of `piece`.
    pub(crate) fn endpoint(&self, piece: &Piece) -> String {
        self.endpoints[piece.server].clone()
    }

    /// An empty program with the seed and versions of the original.
    pub(crate) fn empty_program(&self, like: &Program) -> Program {
        Program {
            version: like.version,
            op_versions: like.op_versions.clone(),
            random_seed: like.random_seed,
            ..Program::new()
        }
    }
}

impl Piece {
    /// `var`, a variable of the parameter's shape or none that is cut, as this piece has it.
    pub(crate) fn var(&self, var: &Var, param: &Var) -> Var {
        let mut var = var.clone();
        var.name.push_str(&self.suffix);
        if var.shape == param.shape {
            var.shape.clone_from(&self.shape);
        }
        var
    }
}

fn check_cluster(trainers: usize, endpoints: &[String]) -> Result<()> {
    let config = |problem: String| Err(Error::Config(problem));
    if endpoints.is_empty() {
        return config("`pservers` names no server: give it as `ip:port,ip:port`".to_owned());
    }
    if let Some(twice) = endpoints.iter().enumerate().find(|(i, ep)| endpoints[..*i].contains(ep)) {
        return config(format!("`pservers` names `{}` twice", twice.1));
    }
    if trainers == 0 || i32::try_from(trainers).is_err() {
        return config(format!("`trainers` is {trainers}, but there must be at least one"));
    }
    Ok(())
}
