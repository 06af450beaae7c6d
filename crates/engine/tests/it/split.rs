//! However a batch is split over workers, every op and its gradient give the same values.
//!
//! Each golden case becomes a program, in many variants: which variables are fed (and so split by
//! rows), kept in the scope (whole), reshaped from a feed with fewer, longer rows, or summed from
//! pieces. One thread must agree with the op run by itself, several threads with one.

use std::collections::HashSet;

use bireme_engine::op::{meta_of, run_once};
use bireme_engine::tensor::{Dims, MAX_RANK, Tensor};
use bireme_engine::{Executor, Place, Result, Value};
use bireme_ir::{DType, EMPTY_VAR, Op, Program, Var, grad_name};

use crate::case::{Case, Values, input_name, named};
use crate::compare::{Tolerance, difference};
use crate::golden::{gradient_ops, report};

const TOLERANCE: Tolerance = Tolerance { rtol: 1e-5, atol: 1e-6 };

/// Tiled inputs have this many rows at most.
const MAX_ROWS: usize = 12;

/// Ends the name of the feed that an input is made from, and of its shape.
const FEED_SUFFIX: &str = ".feed";
const SHAPE_SUFFIX: &str = ".feed_shape";

#[test]
fn a_split_changes_no_value() {
    report(|case| {
        if !is_dense(case) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        let inputs = case.input_values();
        let tiled = tile(&inputs);
        for (data, inputs) in [("as given", Some(inputs)), ("tiled", tiled)] {
            // An op need not take tiled inputs.
            let Some(step) = inputs.and_then(|inputs| Step::new(case, inputs).ok()) else {
                continue;
            };
            for (i, variant) in step.variants().into_iter().enumerate() {
                // Every count for the first, where everything is fed; then one after the other.
                let counts: &[usize] = match i {
                    0 => &[2, 3],
                    _ if i % 2 == 0 || variant.batch == 2 => &[2],
                    _ => &[3],
                };
                let what = step.check(&variant, counts);
                found.extend(what.map(|what| format!("{data}, {variant:?}: {what}")));
            }
        }
        // One report a case is enough to act on, and can be read.
        found.truncate(2);
        Ok(found)
    });
}

/// Sequences and selected rows are never split by rows.
fn is_dense(case: &Case) -> bool {
    let dense = |value: &Value| value.tensor().is_ok_and(|tensor| tensor.lod().is_empty());
    let items = named(&case.inputs).chain(named(&case.targets));
    items.map(|(_, _, item)| item.value()).all(|value| dense(&value))
}

/// The inputs, each repeated until all have the same number of rows.
fn tile(inputs: &Values) -> Option<Values> {
    let rows =
        |value: &Value| value.tensor().ok().filter(|t| !t.dims().is_empty()).map(Tensor::rows);
    let counts: Vec<usize> = inputs.values().filter_map(rows).collect();
    let all = (1..=MAX_ROWS).rev().find(|all| counts.iter().all(|n| *n > 0 && all % n == 0))?;
    let tiled = |value: &Value| match value {
        Value::Tensor(tensor) if !tensor.dims().is_empty() => {
            let mut out = Tensor::zeros(tensor.dtype(), tensor.dims().with_rows(all));
            fill(&mut out, tensor);
            Value::Tensor(out)
        }
        other => other.clone(),
    };
    Some(inputs.iter().map(|(name, value)| (name.clone(), tiled(value))).collect())
}

/// Fills `out` with the elements of `from`, over and over.
fn fill(out: &mut Tensor, from: &Tensor) {
    let bytes = from.as_bytes();
    if !bytes.is_empty() {
        out.as_mut_bytes()
            .chunks_mut(bytes.len())
            .for_each(|out| out.copy_from_slice(&bytes[..out.len()]));
    }
}

/// Where a variable comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    /// The scope: whole.
    Kept,
    /// A feed of that many rows, reshaped unless it has that many: rows.
    Fed,
    /// The sum of a feed of that many slices: partial.
    Pieces,
}

/// How one program is fed.
#[derive(Debug, PartialEq)]
struct Variant {
    batch: usize,
    sources: Vec<(String, Source)>,
}

/// An op and its gradient with the values of everything they read and write.
struct Step {
    ops: Vec<Op>,
    values: Values,
    /// What they read before they write it.
    inputs: Vec<String>,
    /// What they write and somebody compares.
    outputs: Vec<String>,
    /// Inputs that they also write.
    updated: HashSet<String>,
}

impl Step {
    fn new(case: &Case, inputs: Values) -> Result<Step> {
        let op = case.op();
        let mut values = inputs.clone();
        run_once(&op, &mut values)?;
        for (slot, i, target) in named(&case.targets) {
            let name = case.output_name(slot, i);
            let mut tensor = values[&name].tensor()?.clone();
            fill(&mut tensor, target.value().tensor()?);
            values.insert(grad_name(&name), tensor.into());
        }
        let mut ops = vec![op];
        ops.extend(gradient_ops(case, &ops[0], &mut values)?);
        let before = values.clone();
        ops[1..].iter().try_for_each(|op| run_once(op, &mut values))?;
        let mut outputs: Vec<String> =
            named(&case.outputs).map(|(slot, i, _)| case.output_name(slot, i)).collect();
        let gradients = named(&case.grads).map(|(slot, i, _)| grad_name(&input_name(slot, i)));
        outputs.extend(gradients);
        outputs.retain(|name| values.get(name).is_some_and(|value| value.tensor().is_ok()));
        let (mut written, mut read, mut updated) = (HashSet::new(), Vec::new(), HashSet::new());
        for op in &ops {
            for name in op.input_vars().filter(|name| *name != EMPTY_VAR) {
                if !written.contains(name) && !read.contains(name) {
                    read.push(name.clone());
                }
            }
            written.extend(op.output_vars().cloned());
            updated.extend(op.output_vars().filter(|name| read.contains(name)).cloned());
        }
        // The values of inputs are those before the run.
        for (name, value) in before.iter().chain(&inputs) {
            if !updated.contains(name) && read.contains(name) {
                values.insert(name.clone(), value.clone());
            }
        }
        let mut step = Step { ops, values, inputs: read, outputs, updated };
        let starts: Vec<_> =
            step.updated.iter().map(|name| (start_name(name), inputs[name].clone())).collect();
        step.values.extend(starts);
        Ok(step)
    }

    /// What the variable holds before the step.
    fn start(&self, name: &str) -> &Tensor {
        let value = self.values.get(&start_name(name)).unwrap_or_else(|| &self.values[name]);
        value.tensor().unwrap()
    }

    /// Which feeds to try: all that can be split alike, all but one, one alone; whole or in pieces.
    fn variants(&self) -> Vec<Variant> {
        let mut batches: Vec<usize> =
            self.inputs.iter().map(|name| self.start(name).rows()).collect();
        // Inputs of one size may be two rows for each of the batch.
        if batches.iter().all(|rows| *rows == batches[0]) {
            batches.extend(batches.first().map(|rows| rows / 2));
        }
        batches.retain(|rows| *rows >= 2);
        batches.sort_unstable();
        batches.dedup();
        let mut variants = Vec::new();
        for batch in batches {
            let all = |name: &String| self.source(name, batch);
            self.add(&mut variants, batch, all);
            for one in &self.inputs {
                let others = |kept| {
                    move |name: &String| if name == one { kept } else { self.source(name, batch) }
                };
                self.add(&mut variants, batch, others(Source::Kept));
                self.add(&mut variants, batch, others(Source::Pieces));
                self.add(
                    &mut variants,
                    batch,
                    |name| if name == one { all(name) } else { Source::Kept },
                );
            }
            self.add(&mut variants, batch, |name| {
                if name.ends_with(bireme_ir::GRAD_SUFFIX) { Source::Kept } else { all(name) }
            });
        }
        for one in &self.inputs {
            self.add(
                &mut variants,
                3,
                |name| if name == one { Source::Pieces } else { Source::Kept },
            );
        }
        self.add(&mut variants, 3, |_| Source::Pieces);
        variants
    }

    fn source(&self, name: &str, batch: usize) -> Source {
        let tensor = self.start(name);
        let fits =
            !tensor.dims().is_empty() && tensor.rows() > 0 && tensor.rows().is_multiple_of(batch);
        if fits && tensor.numel() > 0 { Source::Fed } else { Source::Kept }
    }

    /// Adds a variant that splits something and is not there yet.
    fn add(&self, variants: &mut Vec<Variant>, batch: usize, source: impl Fn(&String) -> Source) {
        let allowed = |name: &String| match source(name) {
            _ if self.updated.contains(name) => Source::Kept,
            Source::Pieces if !can_be_summed(self.start(name)) => Source::Kept,
            source => source,
        };
        let sources: Vec<_> =
            self.inputs.iter().map(|name| (name.clone(), allowed(name))).collect();
        let variant = Variant { batch, sources };
        let splits = variant.sources.iter().any(|(_, source)| *source != Source::Kept);
        if splits && !variants.contains(&variant) {
            variants.push(variant);
        }
    }

    /// What differs in this variant.
    fn check(&self, variant: &Variant, thread_counts: &[usize]) -> Option<String> {
        let single = match self.run(variant, 1) {
            Ok(single) => single,
            // Shapes in tensors are refused where their length is open.
            Err(error) if error.to_string().contains("must be known") => return None,
            Err(error) => return Some(format!("one thread: {error}")),
        };
        let differs = |expected: &Value, got: &Tensor| {
            difference(expected, &Value::Tensor(got.clone()), TOLERANCE)
        };
        for (name, got) in self.outputs.iter().zip(&single) {
            if let Some(what) = differs(&self.values[name], got) {
                return Some(format!("one thread: `{name}` {what}"));
            }
        }
        for threads in thread_counts {
            let several = match self.run(variant, *threads) {
                Ok(several) => several,
                Err(error) => return Some(format!("{threads} threads: {error}")),
            };
            for ((name, expected), got) in self.outputs.iter().zip(single.iter()).zip(&several) {
                if let Some(what) = differs(&Value::Tensor(expected.clone()), got) {
                    return Some(format!("{threads} threads: `{name}` {what}"));
                }
            }
        }
        None
    }

    fn run(&self, variant: &Variant, threads: usize) -> Result<Vec<Tensor>> {
        let mut program = Program::new();
        let mut executor = Executor::new(Place::Cpu)?.threads(threads);
        let mut feeds: Vec<(String, Tensor)> = Vec::new();
        let batch = variant.batch;
        for (name, source) in &variant.sources {
            let tensor = self.start(name);
            let dims = tensor.dims();
            let from = format!("{name}{FEED_SUFFIX}");
            match source {
                Source::Kept => {
                    let shape: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
                    let mut var = Var::tensor(name, tensor.dtype(), shape);
                    var.persistable = true;
                    program.global_mut().add_var(var);
                    executor.scope().set(name, tensor);
                }
                Source::Fed if dims[0] == batch => feeds.push((name.clone(), tensor.clone())),
                Source::Fed => {
                    let mut feed = tensor.clone();
                    feed.reshape([batch, tensor.numel() / batch])?;
                    let rest = dims[1..].iter().map(|dim| *dim as i32);
                    let shape: Vec<i32> = std::iter::once(-1).chain(rest).collect();
                    let op = Op::new("reshape2").input("X", [&from]).output("Out", [name]);
                    let op =
                        op.output("XShape", [format!("{name}{SHAPE_SUFFIX}")]).attr("shape", shape);
                    program.global_mut().ops.push(op);
                    feeds.push((from, feed));
                }
                Source::Pieces => {
                    let op = Op::new("reduce_sum").input("X", [&from]).output("Out", [name]);
                    program.global_mut().ops.push(op.attr("dim", vec![0]));
                    feeds.push((from, pieces(tensor, batch)));
                }
            }
        }
        for (name, feed) in &feeds {
            let mut shape: Vec<i64> = feed.dims().iter().map(|dim| *dim as i64).collect();
            shape[0] = -1;
            program.global_mut().add_var(Var::tensor(name, feed.dtype(), shape));
        }
        program.global_mut().ops.extend(self.ops.iter().cloned());
        self.declare_rest(&mut program);
        let feeds: Vec<(&str, &Tensor)> = feeds.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let fetches: Vec<&str> = self.outputs.iter().map(String::as_str).collect();
        executor.run(&program, &feeds, &fetches)
    }

    /// Declares what the ops mention and is not declared yet.
    fn declare_rest(&self, program: &mut Program) {
        let block = program.global_mut();
        let mentioned = block.ops.iter().flat_map(|op| op.input_vars().chain(op.output_vars()));
        let rest: Vec<String> =
            mentioned.filter(|name| block.var(name).is_none()).cloned().collect();
        for name in rest {
            let Some(value) = self.values.get(&name) else {
                // The shape that a reshaped feed had.
                let like = block.var(&name.replace(SHAPE_SUFFIX, FEED_SUFFIX));
                let dtype = like.map_or(DType::F32, |var| var.dtype);
                block.add_var(Var::tensor(name, dtype, [0, -1, -1]));
                continue;
            };
            let meta = meta_of(value);
            let mut var = Var::tensor(name, meta.dtype, meta.dims);
            var.kind = meta.kind;
            block.add_var(var);
        }
    }
}

fn start_name(name: &str) -> String {
    format!("{name} before")
}

fn can_be_summed(tensor: &Tensor) -> bool {
    let (dtype, rank) = (tensor.dtype(), tensor.dims().len());
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
        && rank > 0
        && rank < MAX_RANK
        && tensor.numel() > 0
}

/// `count` slices that add up to the tensor, without rounding.
fn pieces(tensor: &Tensor, count: usize) -> Tensor {
    let mut dims = vec![count];
    dims.extend_from_slice(&tensor.dims());
    let mut pieces = Tensor::zeros(tensor.dtype(), Dims::new(&dims));
    bireme_engine::dispatch!(tensor.dtype(), T in [f32, f64, i32, i64] => {
        let whole = tensor.as_slice::<T>().unwrap();
        let slices = pieces.as_mut_slice::<T>().unwrap().chunks_mut(whole.len());
        let mut rest = whole.to_vec();
        for (slice, piece) in slices.enumerate() {
            for (piece, rest) in piece.iter_mut().zip(&mut rest) {
                let half = *rest / (2 as T);
                let halves = slice < 4 && slice + 1 < count && *rest - half + half == *rest;
                *piece = if halves { half } else { *rest };
                // Not by subtraction, which fails for infinity.
                *rest = if halves { *rest - half } else { 0 as T };
            }
        }
    }, else => unreachable!("other types are not summed"));
    pieces
}
