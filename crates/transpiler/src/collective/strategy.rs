//! What a strategy of fleet makes of a program: gradients reduced in buckets, merged over steps, or
//! parameters averaged now and then.

use bireme_ir::{Op, OpRole, Program, Var};

use super::buckets::Buckets;
use super::{Job, in_place};
use crate::analysis::is_optimizer;
use crate::edit::Edit;
use crate::{CollectiveMode, Error, Result};

/// How collective trainers train, beyond the defaults of a [`crate::Config`].
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveStrategy {
    /// Whether gradients are reduced in buckets rather than one by one. Yes.
    pub fuse: bool,
    /// The size of a bucket. 32 MB.
    pub bucket_mb: f64,
    /// Whether gradients are averaged over ranks rather than added up. Yes.
    pub average: bool,
    /// Updates every so many steps. Off.
    pub gradient_merge: Option<GradientMerge>,
    /// Updates on its own, and averages parameters now and then. Off.
    pub local_sgd: Option<LocalSgd>,
}

/// An update for the gradients of several steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientMerge {
    /// Steps to an update.
    pub k_steps: i32,
    /// Whether their gradients are averaged rather than added up.
    pub average: bool,
}

/// Parameters are averaged every so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSgd {
    /// Steps between two averages.
    pub k_steps: i32,
    /// The step up to which they are averaged every time.
    pub begin_step: i32,
}

impl Default for CollectiveStrategy {
    fn default() -> CollectiveStrategy {
        CollectiveStrategy {
            fuse: true,
            bucket_mb: 32.0,
            average: true,
            gradient_merge: None,
            local_sgd: None,
        }
    }
}

impl CollectiveStrategy {
    /// That the settings make sense together.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<()> {
        let error = |problem: String| Err(Error::Config(problem));
        if !self.bucket_mb.is_finite() || self.bucket_mb < 0.0 {
            return error(format!("`fuse_grad_size_in_MB` is {}, no size", self.bucket_mb));
        }
        let counts = [
            ("k_steps` of `gradient_merge_configs", self.gradient_merge.map(|merge| merge.k_steps)),
            ("k_steps` of `localsgd_configs", self.local_sgd.map(|local| local.k_steps)),
            ("begin_step` of `localsgd_configs", self.local_sgd.map(|local| local.begin_step)),
        ];
        for (name, value) in counts {
            if let Some(value) = value.filter(|value| *value < 1) {
                return error(format!("`{name}` is {value}, but must be at least 1"));
            }
        }
        if self.gradient_merge.is_some() && self.local_sgd.is_some() {
            let problem = "`gradient_merge` and `localsgd` exclude each other: choose one";
            return error(problem.to_owned());
        }
        Ok(())
    }

    /// The programs of rank `rank` of those at `endpoints`. One rank reduces with nobody, but merges
    /// gradients all the same.
    ///
    /// # Errors
    /// When the settings make no sense, or there is no such rank.
    pub fn rewrite(
        &self,
        rank: usize,
        endpoints: &[String],
        main: &Program,
        startup: &Program,
    ) -> Result<(Program, Program)> {
        let main = self.rewrite_main(endpoints.len(), main)?;
        let mut startup = startup.clone();
        if rank >= endpoints.len() {
            let ranks = endpoints.len();
            return Err(Error::Config(format!("there is no rank {rank} among {ranks}")));
        }
        if endpoints.len() > 1 {
            let mode = CollectiveMode::GradAllReduce;
            startup = Job { mode, rings: 1, rank, endpoints }.startup(&startup);
        }
        self.fill_counters(&mut startup);
        Ok((main, startup))
    }

    /// The main program alone, for one of `ranks` ranks that have the same parameters already: what
    /// a `ParallelExecutor` makes of a program of `nccl2` mode.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn rewrite_main(&self, ranks: usize, main: &Program) -> Result<Program> {
        self.check()?;
        let mut program = main.clone();
        if let Some(local) = self.local_sgd {
            if ranks > 1 {
                local.rewrite(&mut program, ranks, self);
            }
            return Ok(program);
        }
        if self.average && ranks > 1 {
            scale_loss(&mut program, ranks);
        }
        match self.gradient_merge {
            Some(merge) => merge.rewrite(&mut program, ranks, self),
            None if ranks > 1 => reduce(&mut program, self),
            None => {}
        }
        Ok(program)
    }

    fn fill_counters(&self, startup: &mut Program) {
        if self.gradient_merge.is_some() {
            super::merge::count_from_zero(startup, super::merge::STEP);
        }
        if self.local_sgd.is_some() {
            super::merge::count_from_zero(startup, super::local_sgd::STEP);
        }
    }
}

/// Divides the gradient of the loss by the number of ranks: the sums of gradients are then means.
fn scale_loss(program: &mut Program, ranks: usize) {
    let ops = &program.global().ops;
    let mut edit = Edit::new(ops);
    for (index, op) in ops.iter().enumerate() {
        let of_loss = op.op_role().0 == OpRole::BACKWARD.0 | OpRole::LOSS.0;
        if let Some(grad) = op.output_vars().next().filter(|_| of_loss) {
            let op = in_place("scale", grad).attr("scale", 1.0 / ranks as f32);
            edit.after(index, op.role(OpRole::BACKWARD));
        }
    }
    program.global_mut().ops = edit.finish();
}

/// Reduces gradients while the backward pass goes on.
fn reduce(program: &mut Program, strategy: &CollectiveStrategy) {
    let buckets = Buckets::of_gradients(program, strategy);
    let ops = &program.global().ops;
    let first = ops.iter().position(is_optimizer).unwrap_or(ops.len());
    let mut edit = Edit::new(ops);
    let tickets = start_and_wait(&mut edit, &buckets, first, 1.0);
    for grad in &buckets.sparse {
        edit.before(first, all_gather(grad, OpRole::BACKWARD));
    }
    let ops = edit.finish();
    let global = program.global_mut();
    global.ops = ops;
    for ticket in tickets {
        global.add_var(ticket);
    }
}

/// Reduces gradients, each with its parameter and the op that makes it, in buckets, and multiplies them by
/// `scale`; op `before` is the first that reads them then. Returns the variables that this takes.
pub(crate) fn reduced(
    edit: &mut Edit,
    made: Vec<(String, &Var, usize)>,
    before: usize,
    scale: f32,
) -> Vec<Var> {
    let buckets = Buckets::of_made(made, &CollectiveStrategy::default());
    start_and_wait(edit, &buckets, before, scale)
}

/// Starts each bucket where it is made, and waits for all before op `before`.
fn start_and_wait(edit: &mut Edit, buckets: &Buckets, before: usize, scale: f32) -> Vec<Var> {
    let mut tickets = Vec::new();
    let last = buckets.dense.len().saturating_sub(1);
    for (number, bucket) in buckets.dense.iter().enumerate() {
        // The last has nothing left to run beside.
        if number < last {
            let ticket = Var::tensor(format!("@BUCKET@{number}"), bireme_ir::DType::I64, [1]);
            edit.after(bucket.after, bucket.start(&ticket.name));
            edit.before(before, bucket.wait(scale).input("Ticket", [ticket.name.as_str()]));
            tickets.push(ticket);
        } else {
            edit.before(before, bucket.wait(scale));
        }
    }
    tickets
}

/// The rows of all ranks.
pub(super) fn all_gather(grad: &str, role: OpRole) -> Op {
    in_place("c_allreduce_sum", grad).attr("ring_id", 0).attr("use_calc_stream", true).role(role)
}
