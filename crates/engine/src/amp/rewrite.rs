//! Inserts casts into a forward program, so that some of its ops compute with 16 bits.
//!
//! A white op reads everything as 16 bits, a black one everything as 32. A gray op follows the ops that computed what it
//! reads: black ones first, then white ones; parameters and fed data follow along. A variable is cast once for all its
//! readers.

use std::collections::{HashMap, HashSet};

use bireme_ir::{Attr, Block, DType, EMPTY_VAR, Op, OpRole, Program, Var, VarKind};

use super::{Amp, Color, Level};
use crate::graph::infer_into;
use crate::op::is_half;
use crate::{Error, Result};

/// What became of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Ops that compute with 16 bits.
    pub halves: usize,
    /// Casts that were inserted.
    pub casts: usize,
    /// Parameters that are of 16 bits now (level O2).
    pub parameters: Vec<String>,
}

/// Slots of these ops stay of 32 bits: statistics and what they are scaled by.
const KEEPS: &[(&str, &[&str])] = &[
    ("batch_norm", &["Scale", "Bias", "Mean", "Variance", "MomentumTensor"]),
    ("layer_norm", &["Scale", "Bias"]),
];

/// Inserts casts into `main`, which holds no gradients yet, and gives parameters of 16 bits their type in `startup`. A
/// program that an op refuses is left as it was.
///
/// # Errors
/// When the program has gradients already, or an op refuses what it would read.
pub fn rewrite(main: &mut Program, startup: &mut Program, amp: &Amp) -> Result<Rewritten> {
    let is_backward = |op: &&Op| matches!(op.op_role().base(), OpRole::BACKWARD | OpRole::OPTIMIZE);
    if let Some(op) = main.global().ops.iter().find(is_backward) {
        return Err(Error::kernel(format!(
            "mixed precision is for programs without gradients, but this one has `{}` already: rewrite it \
             before `minimize`, and once",
            op.kind
        )));
    }
    let fixed = used_in_conditions(main);
    let mut block = main.global().clone();
    let mut pass = Pass {
        amp,
        fixed: &fixed,
        made: HashMap::new(),
        casts: HashMap::new(),
        rewritten: Rewritten::default(),
    };
    let ops = std::mem::take(&mut block.ops);
    if amp.level == Level::O2 {
        pass.rewritten.parameters = narrow_parameters(&mut block, &ops, &pass);
    }
    for op in ops {
        pass.op(&mut block, op)?;
    }
    let rewritten = pass.rewritten;
    *main.global_mut() = block;
    initialise_narrow(startup, &rewritten.parameters, amp.dtype);
    Ok(rewritten)
}

/// How a variable came to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    White,
    Black,
}

struct Pass<'a> {
    amp: &'a Amp,
    /// Variables that ops inside conditions use, which are left alone.
    fixed: &'a HashSet<String>,
    /// Who computed a variable; nothing for fed data, parameters and what follows from them alone.
    made: HashMap<String, Made>,
    /// The cast of a variable to a type.
    casts: HashMap<(String, DType), String>,
    rewritten: Rewritten,
}

impl Pass<'_> {
    /// Appends `op` with the casts that it needs.
    fn op(&mut self, block: &mut Block, mut op: Op) -> Result<()> {
        let verdict = self.verdict(block, &op);
        match verdict {
            Some(Made::White) => {
                self.cast_inputs(block, &mut op, self.amp.dtype)?;
                self.rewritten.halves += 1;
            }
            Some(Made::Black) => self.cast_inputs(block, &mut op, DType::F32)?,
            None => {}
        }
        // A cast of the user's own reads what may be of another type now.
        if op.kind == "cast"
            && let Some(x) = op.inputs_of("X").first().and_then(|x| block.var(x))
        {
            op.attrs.insert("in_dtype".to_owned(), Attr::Int(x.dtype.code()));
        }
        let is_narrow = |name: &String| block.var(name).is_some_and(|var| is_half(var.dtype));
        if op.input_vars().chain(op.output_vars()).any(is_narrow) {
            infer_into(block, &op)?;
        }
        let made = if op.kind == "cast" { self.made_by_cast(block, &op) } else { verdict };
        for out in op.output_vars() {
            // What was cast of it before is stale.
            self.casts.retain(|(name, _), _| name != out);
            match made {
                Some(made) => self.made.insert(out.clone(), made),
                None => self.made.remove(out),
            };
        }
        block.ops.push(op);
        Ok(())
    }

    /// What a cast of the user's own says: who widens wants 32 bits, who narrows 16.
    fn made_by_cast(&self, block: &Block, op: &Op) -> Option<Made> {
        let dtype =
            |name: Option<&String>| name.and_then(|name| block.var(name)).map(|var| var.dtype);
        let x = op.inputs_of("X").first();
        match (dtype(x)?, dtype(op.outputs_of("Out").first())?) {
            (_, to) if is_half(to) => Some(Made::White),
            (from, DType::F32) if is_half(from) => Some(Made::Black),
            _ => self.made.get(x?).copied(),
        }
    }

    /// Whether `op` computes with 16 bits or with 32; `None` where it does not matter.
    fn verdict(&self, block: &Block, op: &Op) -> Option<Made> {
        let mut inputs = op.input_vars().filter_map(|name| block.var(name));
        if op.op_role().base() != OpRole::FORWARD || !inputs.any(is_cast) {
            return None;
        }
        if !self.may_be_white(block, op) {
            return Some(Made::Black);
        }
        match self.amp.lists.color(&op.kind) {
            Color::White => Some(Made::White),
            Color::Black => Some(Made::Black),
            Color::Gray => {
                let of: Vec<Made> =
                    op.input_vars().filter_map(|name| self.made.get(name)).copied().collect();
                let first = if of.contains(&Made::Black) { Made::Black } else { Made::White };
                of.contains(&first).then_some(first)
            }
        }
    }

    /// Whether nothing that `op` uses has to stay of 32 bits.
    fn may_be_white(&self, block: &Block, op: &Op) -> bool {
        let lists = &self.amp.lists;
        let is_free = |name: &String| !lists.is_black_var(name) && !self.fixed.contains(name);
        let kept = kept_slots(&op.kind);
        let is_own = |name: &String| block.var(name).is_none_or(|var| !var.persistable);
        let outputs =
            op.outputs.iter().filter(|(slot, _)| kept.is_empty() || *slot == "Y" || *slot == "Out");
        let has_block = op.attrs.values().any(|attr| matches!(attr, Attr::Block(_)));
        !has_block
            && op.input_vars().chain(op.output_vars()).all(is_free)
            && outputs.flat_map(|(_, vars)| vars).all(is_own)
    }

    /// Lets `op` read its floats of 16 and 32 bits as `dtype`.
    fn cast_inputs(&mut self, block: &mut Block, op: &mut Op, dtype: DType) -> Result<()> {
        if op.kind == "cast" {
            return Ok(());
        }
        let kept = kept_slots(&op.kind);
        let slots: Vec<String> = op.inputs.keys().cloned().collect();
        for slot in slots.iter().filter(|slot| !kept.contains(&slot.as_str())) {
            let mut vars = op.inputs_of(slot).to_vec();
            for name in &mut vars {
                let Some(var) = block.var(name).filter(|var| is_cast(var) && var.dtype != dtype)
                else {
                    continue;
                };
                let var = var.clone();
                *name = self.cast(block, op, &var, dtype)?;
            }
            op.inputs.insert(slot.clone(), vars);
        }
        Ok(())
    }

    /// The name of `var` as `dtype`, for which a cast may have to be appended.
    fn cast(&mut self, block: &mut Block, reader: &Op, var: &Var, dtype: DType) -> Result<String> {
        let key = (var.name.clone(), dtype);
        if let Some(name) = self.casts.get(&key) {
            return Ok(name.clone());
        }
        let name = fresh(block, &format!("{}.cast_{}", var.name, short(dtype)));
        let mut op = Op::new("cast")
            .input("X", [var.name.as_str()])
            .output("Out", [name.as_str()])
            .attr("in_dtype", var.dtype.code())
            .attr("out_dtype", dtype.code())
            .role(OpRole::FORWARD);
        op.site.clone_from(&reader.site);
        if let Some(device) = reader.attrs.get("op_device") {
            op.attrs.insert("op_device".to_owned(), device.clone());
        }
        let mut made = Var::tensor(&name, dtype, var.shape.clone());
        (made.lod_level, made.stop_gradient) = (var.lod_level, var.stop_gradient);
        block.add_var(made);
        infer_into(block, &op)?;
        block.ops.push(op);
        self.rewritten.casts += 1;
        self.casts.insert(key, name.clone());
        Ok(name)
    }
}

/// Whether casts are about this variable: a dense tensor of 16 or 32 bits.
fn is_cast(var: &Var) -> bool {
    var.kind == VarKind::LodTensor && (var.dtype == DType::F32 || is_half(var.dtype))
}

/// Slots of an op type that stay of 32 bits.
pub(crate) fn kept_slots(kind: &str) -> &'static [&'static str] {
    KEEPS.iter().find(|(op, _)| *op == kind).map_or(&[], |(_, slots)| slots)
}

/// What Paddle's names of casts end in.
fn short(dtype: DType) -> &'static str {
    match dtype {
        DType::BF16 => "bf16",
        DType::F16 => "fp16",
        _ => "fp32",
    }
}

/// `name`, or the first of `name_1`, `name_2` that is free.
fn fresh(block: &Block, name: &str) -> String {
    let taken = |name: &String| block.var(name).is_some();
    let mut candidates = (1..).map(|number| format!("{name}_{number}"));
    if block.var(name).is_none() {
        name.to_owned()
    } else {
        candidates.find(|name| !taken(name)).unwrap_or_else(|| name.to_owned())
    }
}

/// Variables of the program that ops in other blocks use: they refer to them by name, and are not rewritten.
fn used_in_conditions(program: &Program) -> HashSet<String> {
    let inner = program.blocks.iter().skip(1).flat_map(|block| &block.ops);
    inner.flat_map(|op| op.input_vars().chain(op.output_vars())).cloned().collect()
}

/// Declares the parameters that only 16-bit ops will read as such; returns their names.
fn narrow_parameters(block: &mut Block, ops: &[Op], pass: &Pass<'_>) -> Vec<String> {
    // What ops would do with parameters as they are. Types of 16 bits change no verdict.
    let mut trial = block.clone();
    let mut trial_pass = Pass {
        amp: pass.amp,
        fixed: pass.fixed,
        made: HashMap::new(),
        casts: HashMap::new(),
        rewritten: Rewritten::default(),
    };
    let mut wide: HashSet<String> = pass.fixed.clone();
    let mut narrow: HashSet<String> = HashSet::new();
    for op in ops {
        let verdict = trial_pass.verdict(&trial, op);
        let kept = kept_slots(&op.kind);
        for (slot, vars) in &op.inputs {
            let is_narrow = verdict == Some(Made::White) && !kept.contains(&slot.as_str());
            (if is_narrow { &mut narrow } else { &mut wide }).extend(vars.iter().cloned());
        }
        // A program that does not fit is refused when it is rewritten in earnest.
        if trial_pass.op(&mut trial, op.clone()).is_err() {
            break;
        }
    }
    let is_narrow = |var: &&Var| {
        var.is_parameter()
            && is_cast(var)
            && narrow.contains(&var.name)
            && !wide.contains(&var.name)
    };
    let mut names: Vec<String> =
        block.vars.values().filter(is_narrow).map(|var| var.name.clone()).collect();
    names.sort();
    for name in &names {
        if let Some(var) = block.vars.get_mut(name) {
            var.dtype = pass.amp.dtype;
        }
    }
    names
}

/// Lets the ops that give parameters their first values give them 16 bits.
fn initialise_narrow(startup: &mut Program, parameters: &[String], dtype: DType) {
    let block = startup.global_mut();
    let names: HashSet<&String> = parameters.iter().collect();
    for name in &names {
        if let Some(var) = block.vars.get_mut(name.as_str()) {
            var.dtype = dtype;
        }
    }
    for op in &mut block.ops {
        let writes = op.output_vars().any(|out| *out != EMPTY_VAR && names.contains(out));
        if writes && op.attrs.contains_key("dtype") {
            op.attrs.insert("dtype".to_owned(), Attr::Int(dtype.code()));
        }
    }
}
