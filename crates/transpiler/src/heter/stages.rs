//! Which stage each op of a program belongs to.
//!
//! A forward op says its device, and a new stage begins where the device changes; an op that says
//! none goes with the op before it. A gradient op belongs to the stage of its forward op, which is
//! the one that computed the variable whose gradient it reads. What adds up the parts of a gradient
//! belongs to the earliest stage that has a part: gradients travel towards the trainers.

use std::collections::{BTreeSet, HashMap};

use bireme_ir::{Attr, Op, OpRole, Program};

use crate::analysis::{Analysis, is_lr};
use crate::sparse::Table;
use crate::{Error, Result};

/// The stages of a program.
#[derive(Clone, Debug)]
pub(crate) struct Stages {
    /// How many there are.
    pub(crate) count: usize,
    /// The stage that writes each variable.
    of_var: HashMap<String, usize>,
}

const GUARD: &str = "put the layers of the heter workers under \
                     `with paddle.static.device_guard(\"gpu\")`, whatever their device is";

impl Stages {
    /// Finds the stages of `program`, of which the cluster has `wanted`.
    ///
    /// # Errors
    /// When it has another number of them, or an op cannot be given to one.
    pub(crate) fn find(program: &Program, analysis: &Analysis, wanted: usize) -> Result<Stages> {
        let ops = &program.global().ops;
        let mut search = Search { forward: HashMap::new(), backward: HashMap::new() };
        let (mut stage, mut device) = (0, "cpu");
        let mut starts = Vec::new();
        for (index, op) in ops.iter().enumerate().filter(|(_, op)| is_forward(op)) {
            if let Some(named) = device_of(op)
                && named != device
            {
                (stage, device) = (stage + 1, named);
                starts.push(describe(index, op, named));
            }
            search.forward.extend(op.output_vars().map(|out| (out.as_str(), stage)));
        }
        let count = stage + 1;
        if count == 1 {
            return Err(Error::Config(format!(
                "the job has heter workers, but no op of the program is theirs: {GUARD}"
            )));
        }
        if count != wanted {
            return Err(Error::Config(format!(
                "the cluster has {wanted} stages, but the devices of the program make {count}: a \
                 new one begins at {}",
                starts.join(", ")
            )));
        }
        for (index, op) in ops.iter().enumerate().filter(|(_, op)| !is_forward(op)) {
            let clips = analysis.clip_ops.contains(&index);
            if analysis.on_server.contains(&index) && !clips {
                continue;
            }
            let stage = search.stage_of(op, clips)?;
            search.backward.extend(op.output_vars().map(|out| (out.as_str(), stage)));
        }
        let both = search.forward.iter().chain(&search.backward);
        let of_var = both.map(|(name, stage)| ((*name).to_owned(), *stage)).collect();
        Ok(Stages { count, of_var })
    }

    /// The stage that writes `var`; trainers feed what nobody writes.
    pub(crate) fn of(&self, var: &str) -> Option<usize> {
        self.of_var.get(var).copied()
    }

    /// That trainers alone look rows of tables up.
    ///
    /// # Errors
    /// Names the table that is looked up elsewhere.
    pub(crate) fn check_tables(&self, program: &Program, tables: &[Table]) -> Result<()> {
        let ops = &program.global().ops;
        for table in tables {
            let rows = table.lookups.iter().flat_map(|index| ops[*index].outputs_of("Out"));
            if let Some(stage) = rows.filter_map(|rows| self.of(rows)).find(|stage| *stage > 0) {
                return Err(Error::Config(format!(
                    "table `{}` is looked up in stage {}, by heter workers: tables are the \
                     trainers', so put the embedding outside the guard, or under \
                     `device_guard(\"cpu\")` before it",
                    table.name,
                    stage + 1
                )));
            }
        }
        Ok(())
    }
}

/// Whether `op` computes the prediction, the loss or a metric.
pub(crate) fn is_forward(op: &Op) -> bool {
    op.op_role().base() == OpRole::FORWARD || is_lr(op)
}

/// The kind of device that `op` names: `gpu` of `gpu:0`.
fn device_of(op: &Op) -> Option<&str> {
    match op.attrs.get("op_device") {
        Some(Attr::String(device)) if !device.is_empty() && !is_lr(op) => device.split(':').next(),
        _ => None,
    }
}

fn describe(index: usize, op: &Op, device: &str) -> String {
    let site = op.site.as_ref().map_or_else(String::new, |site| format!(" at {site}"));
    format!("op {index} `{}`{site} (`{device}`)", op.kind)
}

/// The variable that a gradient belongs to: `x` of `x@GRAD@RENAME@block0@1`.
fn base(name: &str) -> Option<&str> {
    name.split_once("@GRAD").map(|(base, _)| base)
}

struct Search<'a> {
    forward: HashMap<&'a str, usize>,
    backward: HashMap<&'a str, usize>,
}

impl<'a> Search<'a> {
    fn stage_of(&self, op: &'a Op, clips: bool) -> Result<usize> {
        let grads: Vec<&str> = op
            .input_vars()
            .map(String::as_str)
            .filter(|var| base(var).is_some() || self.backward.contains_key(var))
            .collect();
        let written: BTreeSet<usize> =
            grads.iter().filter_map(|var| self.backward.get(var).copied()).collect();
        if clips && written.len() > 1 {
            return Err(Error::Config(format!(
                "op `{}` clips by gradients of several stages, which no process has together: use \
                 `ClipGradByNorm` or `ClipGradByValue`, which look at one gradient",
                op.kind
            )));
        }
        let earliest = written.first().copied();
        let of_forward = |var: &&str| self.forward.get(base(var)?).copied();
        let adds_up = op.kind == "sum"
            && op.output_vars().all(|out| grads.iter().all(|part| base(part) == base(out)));
        let found = match (adds_up, grads.is_empty()) {
            (true, _) => earliest,
            (false, false) => grads.iter().filter_map(of_forward).max().or(earliest),
            (false, true) => op.output_vars().map(String::as_str).find_map(|out| of_forward(&out)),
        };
        Ok(found.unwrap_or(0))
    }
}
