//! Cuts the program of a stage at the ops between stages: what runs before the next stage is asked,
//! what runs after its answer, and what ends a step.

use std::collections::{BTreeSet, HashSet};

use bireme_engine::graph::ProgramHandle;
use bireme_ir::{Attr, Op, Program};

use crate::{Error, Mode, Result};

/// Whether `program` is that of a trainer which heter workers help.
pub fn is_heter_trainer(program: &Program) -> bool {
    has(program, "send_and_recv") && !is_heter_worker(program)
}

/// Whether `program` is that of a heter worker.
pub fn is_heter_worker(program: &Program) -> bool {
    has(program, "heter_listen_and_serv")
}

fn has(program: &Program, kind: &str) -> bool {
    program.global().ops.iter().any(|op| op.kind == kind)
}

/// What a stage's program says about the stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageConfig {
    /// From 1, as people count; the trainers' is 1.
    pub stage: u32,
    /// The rank of this process among all that train.
    pub rank: u32,
    /// Processes of every stage.
    pub counts: Vec<u32>,
    /// Into how many micro-batches a batch is cut.
    pub micro_batches: u32,
    /// How they keep time with the servers.
    pub mode: Mode,
    /// Where this heter worker listens; empty for a trainer.
    pub endpoint: String,
    /// Workers of the next stage; none in the last.
    pub next: Vec<String>,
}

impl StageConfig {
    /// Number of trainers.
    pub fn trainers(&self) -> u32 {
        self.counts.first().copied().unwrap_or(1)
    }

    /// The number of this process within its stage.
    pub fn index(&self) -> u32 {
        self.rank - self.first_rank(self.stage)
    }

    /// Workers of this stage.
    pub fn workers(&self) -> usize {
        self.counts.get(self.stage as usize - 1).map_or(1, |count| *count as usize)
    }

    /// The lowest rank of a stage.
    pub(super) fn first_rank(&self, stage: u32) -> u32 {
        self.counts.iter().take(stage.saturating_sub(1) as usize).sum()
    }

    /// Whether a step is one update of all trainers.
    pub(super) fn is_sync(&self) -> bool {
        self.mode.waits_for_all()
    }
}

/// The parts of a stage's program.
pub(super) struct Sections {
    pub(super) config: StageConfig,
    /// Until the next stage is asked; in the last stage everything but the tail.
    pub(super) forward: Section,
    /// After the next stage's answer; none in the last stage.
    pub(super) backward: Option<Section>,
    /// Barriers and pulls, once a step.
    pub(super) tail: Option<Section>,
    /// What the previous stage wants back.
    pub(super) answers: Vec<String>,
    /// What the next stage is sent.
    pub(super) sends: Vec<String>,
    /// What the backward section reads of what came before it, the next stage's answer included.
    pub(super) saved: Vec<String>,
    /// The whole program of the stage.
    pub(super) whole: Program,
    /// Pieces that are no gradients: they are sent as they are, once a step.
    pub(super) as_is: HashSet<String>,
}

/// A part of a program that an executor can run.
pub(super) struct Section {
    pub(super) program: ProgramHandle,
    /// What its ops write.
    pub(super) writes: BTreeSet<String>,
    /// What they read and do not write, persistable variables aside: its feeds.
    pub(super) reads: BTreeSet<String>,
}

impl Sections {
    /// Cuts `program`.
    ///
    /// # Errors
    /// When it is not that of a stage.
    pub(super) fn of(program: &Program) -> Result<Sections> {
        let ops = &program.global().ops;
        let listen = ops.iter().find(|op| op.kind == "heter_listen_and_serv");
        let asks = ops.iter().position(|op| op.kind == "send_and_recv");
        let ask = asks.map(|at| &ops[at]);
        let Some(between) = listen.or(ask) else {
            return Err(Error::Config(
                "this is not the program of a stage: it has neither `heter_listen_and_serv` nor \
                 `send_and_recv`"
                    .to_owned(),
            ));
        };
        let config = config(between, listen, ask)?;
        let is_tail = |op: &&Op| matches!(op.kind.as_str(), "send_barrier" | "recv");
        let tail_at = ops.iter().position(|op| is_tail(&op)).unwrap_or(ops.len());
        let work = |from: usize, to: usize| -> Vec<Op> {
            let stays = |op: &&Op| op.kind != "heter_listen_and_serv" && op.kind != "send_and_recv";
            ops[from..to].iter().filter(stays).cloned().collect()
        };
        let middle = asks.unwrap_or(tail_at);
        let forward = section(program, work(0, middle));
        let backward = asks.map(|at| section(program, work(at, tail_at)));
        let tail = (tail_at < ops.len()).then(|| tail(program, work(tail_at, ops.len())));
        let saved = backward.iter().flat_map(|section| section.reads.iter().cloned()).collect();
        Ok(Sections {
            answers: listen.map_or_else(Vec::new, |op| strings(op, "answer_varnames").to_vec()),
            sends: ask.map_or_else(Vec::new, |op| op.inputs_of("X").to_vec()),
            saved,
            whole: program.clone(),
            as_is: as_is(ops),
            config,
            forward,
            backward,
            tail,
        })
    }

    /// The declaration of a variable, where this stage has it: whether it has a row for each sample.
    pub(super) fn is_by_row(&self, name: &str) -> bool {
        self.forward.program.read(|program| {
            let var = program.global().var(name);
            var.is_some_and(|var| var.shape.first() == Some(&-1))
        })
    }
}

fn config(op: &Op, listen: Option<&Op>, ask: Option<&Op>) -> Result<StageConfig> {
    let wrong = |name: &str| {
        Error::Config(format!("attribute `{name}` of `{}` is missing or no count", op.kind))
    };
    let number = |name: &str| match op.attrs.get(name) {
        Some(Attr::Int(value)) => u32::try_from(*value).map_err(|_| wrong(name)),
        _ => Err(wrong(name)),
    };
    let counts = match op.attrs.get("stage_trainers") {
        Some(Attr::Ints(counts)) => counts.iter().map(|count| u32::try_from(*count).ok()).collect(),
        _ => None,
    };
    let counts: Vec<u32> = counts.ok_or_else(|| wrong("stage_trainers"))?;
    let mode = number("distributed_mode")?;
    let mode = i32::try_from(mode).ok().and_then(Mode::from_code);
    let config = StageConfig {
        stage: number("stage_id")?.max(1),
        rank: number("trainer_id")?,
        micro_batches: number("micro_batches")?.max(1),
        mode: mode.ok_or_else(|| wrong("distributed_mode"))?,
        endpoint: match listen.and_then(|op| op.attrs.get("endpoint")) {
            Some(Attr::String(endpoint)) => endpoint.clone(),
            _ => String::new(),
        },
        next: ask.map_or_else(Vec::new, |op| strings(op, "next_endpoints").to_vec()),
        counts,
    };
    let fits = config.stage as usize <= config.counts.len()
        && config.rank >= config.first_rank(config.stage)
        && (config.index() as usize) < config.workers();
    if fits { Ok(config) } else { Err(wrong("trainer_id")) }
}

fn strings<'a>(op: &'a Op, name: &str) -> &'a [String] {
    match op.attrs.get(name) {
        Some(Attr::Strings(texts)) => texts,
        _ => &[],
    }
}

/// A program of these ops, whose feeds are what none of them writes.
fn section(whole: &Program, ops: Vec<Op>) -> Section {
    let mut program = whole.clone();
    program.global_mut().ops = ops;
    let writes: BTreeSet<String> =
        program.global().ops.iter().flat_map(Op::output_vars).cloned().collect();
    let global = program.global();
    let given = |name: &&String| {
        !writes.contains(*name) && global.var(name).is_some_and(|var| !var.persistable)
    };
    let reads: BTreeSet<String> =
        global.ops.iter().flat_map(Op::input_vars).filter(given).cloned().collect();
    for var in program.global_mut().vars.values_mut() {
        var.need_check_feed = reads.contains(&var.name);
    }
    Section { program: ProgramHandle::new(program), writes, reads }
}

/// As [`section`]; what its ops wait for has happened before it runs.
fn tail(whole: &Program, mut ops: Vec<Op>) -> Section {
    let mut written: HashSet<String> = HashSet::new();
    for op in &mut ops {
        if op.kind != "concat"
            && let Some(after) = op.inputs.get_mut("X")
        {
            after.retain(|dummy| written.contains(dummy));
        }
        written.extend(op.output_vars().cloned());
    }
    section(whole, ops)
}

/// What is sent and is no gradient: counters of steps, learning rates.
fn as_is(ops: &[Op]) -> HashSet<String> {
    let plain = |op: &&Op| {
        op.kind == "send" && op.attrs.get("use_send_handler") == Some(&Attr::Bool(false))
    };
    ops.iter().filter(plain).flat_map(|op| strings(op, "send_varnames")).cloned().collect()
}
