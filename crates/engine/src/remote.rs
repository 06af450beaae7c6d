//! What a step asks of other processes. The engine puts the questions and knows no network; who
//! answers them is given to the executor ([`crate::Executor::remote`]).
//!
//! The ops that ask are in `ops/remote/`; their kernels prepare a request once and then only call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bireme_ir::{Op, Program};

use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Result};

/// Where a piece of a variable lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Its name on the server: `fc_0.w_0.block1`, `fc_0.w_0@GRAD.block1.trainer_0`.
    pub name: String,
    /// The server, as `ip:port`.
    pub endpoint: String,
}

/// The attributes of a `send` op.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    /// One for each value.
    pub pieces: Vec<Piece>,
    /// Whether values that meet in a queue are added up (counters) rather than averaged.
    pub merge_add: bool,
}

/// A table whose rows live on servers.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRef {
    /// The variable it stands for.
    pub name: String,
    /// Elements in a row.
    pub width: usize,
    /// The id that reads as zeros and is never updated.
    pub padding: Option<i64>,
    /// How rows are spread over servers.
    pub spread: RowSpread,
    /// The servers in order.
    pub endpoints: Vec<String>,
    /// The pieces' names on the servers, in the order of the endpoints.
    pub names: Vec<String>,
}

/// How the rows of a table are spread over servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowSpread {
    /// Server `i` has so many consecutive rows; ids are row numbers.
    Sections(Vec<u64>),
    /// Any 64-bit key; its shard decides.
    Keys {
        /// Shards in all, Paddle's `shard_num`.
        shards: u64,
    },
}

/// Answers what the ops of a trainer's program ask of the parameter servers.
pub trait Remote: Send + Sync {
    /// Op `send`: hands values (gradients, counters) to the servers. May return before they have
    /// them; errors of earlier sends come out of later calls.
    ///
    /// # Errors
    /// When a server is lost or refuses.
    fn send(&self, how: &Sending, values: &[&Value]) -> Result<()>;

    /// Op `send_barrier`: everything sent in this step has arrived, and in sync modes the update
    /// of all trainers has been applied.
    ///
    /// # Errors
    /// When a server or another trainer is lost.
    fn send_barrier(&self, endpoints: &[String]) -> Result<()>;

    /// Op `recv`: current values of parameter pieces, written to `outs`. In async mode the newest
    /// ones that are here already, if any are newer than what `outs` holds. Training threads may
    /// share the memory of `outs`: it is written by [`Tensor::store`] and its kin.
    ///
    /// `versions` says which value of its piece each of `outs` holds, by the number that an earlier
    /// call left there, 0 for none: an output that has the current one is not written. 0 is also
    /// left for a value that has no number.
    ///
    /// # Errors
    /// When a server is lost or does not know a piece.
    fn recv(&self, pieces: &[Piece], outs: &mut [&mut Tensor], versions: &mut [u64]) -> Result<()>;

    /// Op `fetch_barrier`: this trainer has all it asked for in this step.
    ///
    /// # Errors
    /// When a server is lost.
    fn fetch_barrier(&self, endpoints: &[String]) -> Result<()>;

    /// Op `distributed_lookup_table`: row `ids[s][i]` to row `i` of `outs[s]`, for every slot `s`.
    ///
    /// # Errors
    /// When a server is lost, or an id lies outside the table.
    fn pull_rows(&self, table: &TableRef, ids: &[&[i64]], outs: &mut [&mut [f32]]) -> Result<()>;

    /// As [`Remote::pull_rows`], to tensors that have the right sizes: rows that are here already may come in memory of
    /// their own, which takes the place of a tensor's.
    ///
    /// # Errors
    /// As [`Remote::pull_rows`], or when they are not of 32-bit floats.
    fn pull_tensors(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut Tensor],
    ) -> Result<()> {
        let slices = outs.iter_mut().map(|out| out.as_mut_slice::<f32>());
        self.pull_rows(table, ids, &mut slices.collect::<Result<Vec<_>>>()?)
    }

    /// As [`Remote::pull_rows`], for the step after the one that runs, on a thread beside its own. `is_over` says that
    /// everything that the running step sends was handed over, and that its barrier is passed, if it has one. Says
    /// whether it has done so: not before that where the rows must have this step's gradients in them.
    ///
    /// # Errors
    /// As [`Remote::pull_rows`].
    fn pull_ahead(
        &self,
        _table: &TableRef,
        _ids: &[&[i64]],
        _outs: &mut [&mut [f32]],
        _is_over: bool,
    ) -> Result<bool> {
        Ok(false)
    }

    /// A step has waited so long for rows that were pulled ahead: for whoever counts what steps wait for.
    fn waited_for_rows(&self, _time: Duration) {}

    /// Op `distributed_push_sparse`: the gradient of row `ids[s][i]` is row `i` of `grads[s]`;
    /// ids may repeat, their gradients add up. `counts` are show and click of each id, where a
    /// table counts them.
    ///
    /// # Errors
    /// As [`Remote::send`].
    fn push_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> Result<()>;

    /// Op `send` of a geo program, once a step: `params` are this trainer's own copies, which the
    /// exchange with the servers corrects in place; `touched` are the ids that the step looked up
    /// in each table, for parameters that are tables.
    ///
    /// # Errors
    /// When a server is lost.
    fn exchange(&self, params: &mut [GeoParam<'_>]) -> Result<()>;

    /// What this trainer is, for messages: `trainer 1 of 3`.
    fn whoami(&self) -> String;
}

/// The versions of values that a `recv` op has brought ([`Remote::recv`]), for whoever hands them on.
pub(crate) struct Held(Box<[AtomicU64]>);

impl Held {
    /// Of an op that has brought nothing yet.
    pub(crate) fn new(values: usize) -> Held {
        Held((0..values).map(|_| AtomicU64::new(0)).collect())
    }

    /// The version of value `at`; 0 where there is none.
    pub(crate) fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// Takes the versions of all values, and lets them be changed.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut [u64]) -> T) -> T {
        let mut all: Vec<u64> = (0..self.0.len()).map(|at| self.get(at)).collect();
        let done = change(&mut all);
        self.0.iter().zip(all).for_each(|(own, new)| own.store(new, Ordering::Relaxed));
        done
    }
}

/// A lookup in a table of the servers, whose ids a program's caller knows before the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// The table.
    pub table: TableRef,
    /// Variables with ids, all of which are fed.
    pub ids: Vec<String>,
}

/// The lookups of a program in tables of the servers whose ids are among `feeds`.
pub fn lookups(program: &Program, feeds: &[&str]) -> Vec<Lookup> {
    let global = program.global();
    let ops = global.ops.iter().filter(|op| op.kind == "distributed_lookup_table");
    let lookup = |op: &Op| {
        let ids = op.inputs_of("Ids").to_vec();
        let is_known = !ids.is_empty() && ids.iter().all(|name| feeds.contains(&name.as_str()));
        let weights = global.var(op.inputs_of("W").first()?)?;
        let width = usize::try_from(*weights.shape.get(1)?).ok()?;
        // What is wrong with an op is said when it runs.
        let table = crate::ops::remote_table(op).ok().filter(|_| is_known)?;
        Some(Lookup { table: TableRef { width, ..table }, ids })
    };
    ops.filter_map(lookup).collect()
}

/// A parameter of a geo program.
pub struct GeoParam<'a> {
    /// Where its pieces live, with the rows (for tables) or elements (for others) of each.
    pub pieces: &'a [(Piece, u64)],
    /// The trainer's copy; training threads may share its memory, which is reached by
    /// [`Tensor::load`] and [`Tensor::store`].
    pub value: &'a mut Tensor,
    /// Ids looked up in this step, one list for each lookup; `None` for a parameter that is no
    /// table.
    pub touched: Option<&'a [&'a [i64]]>,
}

/// The error of an op that has nobody to ask.
pub(crate) fn not_connected(op: &str) -> Error {
    Error::kernel(format!(
        "`{op}` talks to parameter servers, but this executor is not connected to any: run the \
         program that `get_trainer_program()` or `fleet.main_program` returns, after \
         `fleet.init_worker()`"
    ))
}
