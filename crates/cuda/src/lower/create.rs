//! Ops that make tensors: constants, copies, other element types.

use std::collections::HashMap;

use bireme_engine::device::ROW_ROOM;
use bireme_engine::op::run_once;
use bireme_ir::{DType, Op};
use bytemuck::{Pod, Zeroable};

use super::broadcast::threads;
use super::lowering::suffix;
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::{Many, Ref};

/// The ops of this file. `range` and `linspace` have shapes that only values tell.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("assign", assign),
    ("assign_value", assign_value),
    ("cast", cast),
    ("eye", eye),
    ("fill_any_like", fill_like),
    ("fill_constant", fill_constant),
    ("fill_constant_batch_size_like", fill_like),
    ("fill_zeros_like", fill_zeros),
];

/// Bytes that one kernel stores that has them as an argument.
const STORED_AT_ONCE: usize = 1024;

/// Bytes of a constant beyond which the host keeps it.
const MAX_STORED: usize = 64 * STORED_AT_ONCE;

fn assign(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?, l.output("Out")?);
    match (x.selected, out.selected) {
        (None, None) => l.copy(x.at, out.at, x.bytes()),
        (Some(from), Some(to)) => {
            l.select("Out", from.count);
            l.copy(from.rows, to.rows, from.count * size_of::<i64>());
            l.copy(x.at, out.at, from.count * x.width() * x.dtype.size());
        }
        _ => return host(),
    }
    Ok(())
}

fn cast(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    if x.dtype == DType::F32 && matches!(out.dtype, DType::BF16 | DType::F16) {
        return narrow(l, &x, &out);
    }
    convert(l, &x, out.at, out.dtype)
}

/// Elements that a thread of `narrow` takes, and tensors of one launch, as in `kernels/create.cu`.
const NARROWED: usize = 8;
const MANY_NARROWED: usize = 64;

/// What a kernel knows of a tensor that becomes one of 16 bits.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Narrowed {
    count: i64,
    first_block: u32,
    unused: u32,
}

/// To 16 bits: what all weights of a net need at the beginning of a step, so many can be done at once. Zeros behind a
/// matrix go with it.
fn narrow(l: &mut Lowering<'_>, x: &Var, out: &Var) -> Outcome {
    let count = match x.dims[..] {
        [rows, width] if x.zeros_follow => {
            l.zeros_follow("Out");
            rows.next_multiple_of(ROW_ROOM) * width
        }
        _ => x.numel(),
    };
    let suffix = out.suffix()?;
    let many = Many {
        name: format!("narrow_many_{suffix}"),
        targets: 1,
        room: 1,
        most: MANY_NARROWED,
        block_word: Some(std::mem::offset_of!(Narrowed, first_block) / 8),
    };
    let Ok(blocks) = u32::try_from(count.div_ceil(256 * NARROWED)) else { return host() };
    let launch = l.kernel(format!("narrow_{suffix}"), [blocks, 1, 1], 256).many(many);
    let narrowed = Narrowed { count: count as i64, first_block: 0, unused: 0 };
    launch.refs([x.at, out.at], 2).value(narrowed).value(1u32).launch();
    Ok(())
}

/// Where the elements of `x` are found as elements of type `dtype`: in place, or converted.
pub(super) fn cast_to(l: &mut Lowering<'_>, x: &Var, dtype: DType) -> Outcome<Ref> {
    if x.dtype == dtype {
        return Ok(x.at);
    }
    let to = l.scratch(x.numel() * dtype.size());
    convert(l, x, to, dtype)?;
    Ok(to)
}

fn convert(l: &mut Lowering<'_>, x: &Var, to: Ref, dtype: DType) -> Outcome {
    // A truth value is a byte, 0 or 1.
    let is_byte = (x.dtype, dtype) == (DType::Bool, DType::U8);
    if x.dtype == dtype || is_byte {
        l.copy(x.at, to, x.bytes());
        return Ok(());
    }
    let from = if x.dtype == DType::Bool { DType::U8 } else { x.dtype };
    let name = format!("cast_{}_{}", suffix(from)?, suffix(dtype)?);
    let (n, both_float) = (x.numel(), x.dtype.is_float() && dtype.is_float());
    let size = x.dtype.size().max(dtype.size());
    let count = if both_float { threads(n, size) } else { n };
    l.over(name, count).var(x).at(to).size(n).launch();
    Ok(())
}

/// The output of an op without inputs, computed by the host once.
fn computed(op: &Op) -> Outcome<Vec<u8>> {
    let op = Op { inputs: Default::default(), ..op.clone() }.output("Out", ["out"]);
    let mut values = HashMap::new();
    // What is wrong with the attributes, the host says.
    if run_once(&op, &mut values).is_err() {
        return host();
    }
    match values.get("out").and_then(|value| value.tensor().ok()) {
        Some(tensor) => Ok(tensor.as_bytes().to_vec()),
        None => host(),
    }
}

fn assign_value(l: &mut Lowering<'_>) -> Outcome {
    let out = l.output("Out")?;
    if out.bytes() > MAX_STORED {
        return host();
    }
    let bytes = computed(l.op.op)?;
    store(l, &bytes, &out)
}

/// Writes bytes that are known now.
fn store(l: &mut Lowering<'_>, bytes: &[u8], out: &Var) -> Outcome {
    if bytes.len() != out.bytes() {
        return host();
    }
    for (index, chunk) in bytes.chunks(STORED_AT_ONCE).enumerate() {
        let mut argument = [0u8; STORED_AT_ONCE];
        argument[..chunk.len()].copy_from_slice(chunk);
        let launch = l.over("store_bytes", chunk.len()).at(out.at.plus(index * STORED_AT_ONCE));
        launch.size(chunk.len()).value(argument).launch();
    }
    Ok(())
}

/// The value that a constant is filled with, as `fill_constant` reads it from the attributes.
fn value_of(l: &Lowering<'_>, dtype: DType) -> Outcome<Vec<u8>> {
    let mut op = Op::new("fill_constant").attr("dtype", dtype.code()).attr("shape", vec![1i64]);
    for name in ["value", "str_value"] {
        if let Some(value) = l.op.maybe_attr(name) {
            op = op.attr(name, value);
        }
    }
    computed(&op)
}

fn fill_constant(l: &mut Lowering<'_>) -> Outcome {
    let out = l.output("Out")?;
    let has_shape = l.maybe_input("ShapeTensor").is_some();
    if has_shape || !l.inputs("ShapeTensorList").is_empty() {
        return host();
    }
    match l.maybe_input("ValueTensor") {
        None => fill_like(l),
        Some(value) if value.numel() == 0 => host(),
        Some(value) => {
            let first = Var { dims: Vec::new(), ..value.dense()? };
            let (size, bytes) = (out.dtype.size() as u32, out.bytes());
            let first = cast_to(l, &first, out.dtype)?;
            let launch = l.over("repeat_bytes", bytes).at(first).var(&out);
            launch.size(bytes).value(size).launch();
            Ok(())
        }
    }
}

/// The shape is what was inferred; the value is an attribute.
fn fill_like(l: &mut Lowering<'_>) -> Outcome {
    let out = l.output("Out")?.dense()?;
    let element = value_of(l, out.dtype)?;
    fill(l, &out, &element);
    Ok(())
}

fn fill(l: &mut Lowering<'_>, out: &Var, element: &[u8]) {
    let mut pattern = [0u8; 8];
    for (at, byte) in pattern.iter_mut().enumerate() {
        *byte = element[at % element.len()];
    }
    if pattern == [0; 8] {
        return l.clear(out.at, out.bytes());
    }
    let bytes = out.bytes();
    let launch = l.over("fill_bytes", threads(bytes, 1)).var(out).size(bytes);
    launch.value(u64::from_ne_bytes(pattern)).launch();
}

fn fill_zeros(l: &mut Lowering<'_>) -> Outcome {
    let out = l.output("Out")?.dense()?;
    l.clear(out.at, out.bytes());
    Ok(())
}

fn eye(l: &mut Lowering<'_>) -> Outcome {
    let out = l.output("Out")?;
    let [rows, columns] = out.dims[..] else { return host() };
    let one = computed(&Op::new("eye").attr("num_rows", 1i64).attr("dtype", out.dtype.code()))?;
    let size = out.dtype.size();
    l.clear(out.at, out.bytes());
    let mut bits = [0u8; 8];
    bits[..size].copy_from_slice(&one[..size]);
    let count = rows.min(columns);
    let launch = l.over("fill_diagonal", count).var(&out).size(count).size((columns + 1) * size);
    launch.value(size as u32).value(u64::from_ne_bytes(bits)).launch();
    Ok(())
}
