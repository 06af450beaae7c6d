//! 16-bit floats on the host: an op that meets some runs on copies of 32 bits, and what it writes is rounded.
//!
//! A processor has no arithmetic of 16 bits worth the name, so kernels are written for 32 and 64; this is what
//! lets every one of them take `float16` and `bfloat16`, and what cards are compared with. Kernels that move or
//! convert elements of any type say so ([`OpDef::any_width`](super::OpDef::any_width)) and are left alone.

#![expect(unsafe_code, reason = "values of a step are reached by pointer; see `op::Run`")]

use std::ptr::NonNull;

use bireme_ir::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::{Kernel, Run};
use crate::Result;
use crate::tensor::{SelectedRows, Tensor};
use crate::value::Value;

/// Whether elements are floats of 16 bits.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// An attribute that plans give to products: factors of 32 bits are rounded to `bfloat16`.
pub(crate) const ROUND_FACTORS: &str = "round_factors";

/// The kernel, which then also takes floats of 16 bits; with `rounds`, its products round their factors.
pub(super) fn widened(mut kernel: Kernel, rounds: bool) -> Kernel {
    let mut copies = Copies::default();
    Box::new(move |run| {
        if run.inputs.iter().chain(run.outputs).any(holds_halves) {
            copies.run(&mut kernel, run)
        } else if rounds {
            // SAFETY: the same variables for the same kernel; nothing of `run` is used meanwhile.
            let run = unsafe { Run::new(run.inputs, run.outputs, run.share, run.step) };
            kernel(&run.rounding(true))
        } else {
            kernel(run)
        }
    })
}

fn holds_halves(value: &NonNull<Value>) -> bool {
    // SAFETY: valid during the call, and nothing else is held of it.
    is_half(unsafe { value.as_ref() }.dtype())
}

/// What a kernel is given instead of values of 16 bits; kept from step to step for its memory.
#[derive(Default)]
struct Copies {
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

impl Copies {
    fn run(&mut self, kernel: &mut Kernel, run: &Run<'_>) -> Result<()> {
        let empty = || Value::Tensor(Tensor::empty(DType::F32));
        self.inputs.resize_with(run.inputs.len(), empty);
        self.outputs.resize_with(run.outputs.len(), empty);
        let mut inputs = Vec::with_capacity(run.inputs.len());
        for (given, copy) in run.inputs.iter().zip(&mut self.inputs) {
            inputs.push(if holds_halves(given) {
                // SAFETY: valid during the call, and nobody writes an input meanwhile.
                widen(unsafe { given.as_ref() }, copy)?;
                NonNull::from(copy)
            } else {
                *given
            });
        }
        let mut outputs = Vec::with_capacity(run.outputs.len());
        for (given, copy) in run.outputs.iter().zip(&mut self.outputs) {
            let same = run.inputs.iter().position(|input| input == given);
            outputs.push(match same {
                _ if !holds_halves(given) => *given,
                // An op that works in place does so on the copy.
                Some(input) => inputs[input],
                None => {
                    // SAFETY: as above, and this kernel alone reaches an output.
                    shape_like(unsafe { given.as_ref() }, copy);
                    NonNull::from(copy)
                }
            });
        }
        // SAFETY: the copies live in `self` and are each used once; the rest is as the caller promised.
        let wide = unsafe { Run::new(&inputs, &outputs, run.share, run.step) };
        // Factors that are `bfloat16` already lose nothing in products of such.
        let is_bf16 =
            // SAFETY: as in `holds_halves`.
            |value: &NonNull<Value>| unsafe { value.as_ref() }.dtype() == DType::BF16;
        kernel(&wide.rounding(run.inputs.iter().any(is_bf16)))?;
        for (given, made) in
            run.outputs.iter().zip(&outputs).filter(|(given, _)| holds_halves(given))
        {
            // SAFETY: the kernel has done with both, which are different values.
            let (to, made) = unsafe { (&mut *given.as_ptr(), made.as_ref()) };
            narrow(made, to)?;
        }
        Ok(())
    }
}

/// Makes `to` the same numbers in 32 bits.
fn widen(from: &Value, to: &mut Value) -> Result<()> {
    match from {
        Value::Tensor(from) => {
            if to.rows().is_some() {
                *to = Value::Tensor(Tensor::empty(DType::F32));
            }
            let to = to.tensor_mut()?;
            to.set_lod(from.lod());
            widen_tensor(from, to)
        }
        Value::Rows(from) => {
            let to = as_rows(to);
            to.rows.clone_from(&from.rows);
            to.height = from.height;
            widen_tensor(&from.value, &mut to.value)
        }
    }
}

fn widen_tensor(from: &Tensor, to: &mut Tensor) -> Result<()> {
    to.resize(DType::F32, from.dims());
    let to = to.as_mut_slice::<f32>()?;
    if from.dtype() == DType::BF16 {
        let mut halves = vec![bf16::ZERO; to.len()];
        from.load(0, &mut halves)?;
        halves.convert_to_f32_slice(to);
    } else {
        let mut halves = vec![f16::ZERO; to.len()];
        from.load(0, &mut halves)?;
        halves.convert_to_f32_slice(to);
    }
    Ok(())
}

/// Gives `copy` the shape of an output that is about to be written.
fn shape_like(given: &Value, copy: &mut Value) {
    match given {
        Value::Tensor(given) => {
            if copy.rows().is_some() {
                *copy = Value::Tensor(Tensor::empty(DType::F32));
            }
            if let Value::Tensor(copy) = copy {
                copy.resize(DType::F32, given.dims());
                copy.set_lod(given.lod());
            }
        }
        Value::Rows(given) => as_rows(copy).height = given.height,
    }
}

fn as_rows(value: &mut Value) -> &mut SelectedRows {
    if value.rows().is_none() {
        *value = Value::Rows(SelectedRows::empty(DType::F32));
    }
    match value {
        Value::Rows(rows) => rows,
        Value::Tensor(_) => unreachable!("made selected rows above"),
    }
}

/// Makes `to`, which holds floats of 16 bits, what a kernel made of its copy.
fn narrow(made: &Value, to: &mut Value) -> Result<()> {
    let dtype = to.dtype();
    match made {
        Value::Tensor(made) => {
            if to.rows().is_some() {
                *to = Value::Tensor(Tensor::empty(dtype));
            }
            let to = to.tensor_mut()?;
            to.set_lod(made.lod());
            narrow_tensor(made, to, dtype)
        }
        Value::Rows(made) => {
            if to.rows().is_none() {
                *to = Value::Rows(SelectedRows::empty(dtype));
            }
            if let Value::Rows(to) = to {
                to.rows.clone_from(&made.rows);
                to.height = made.height;
                narrow_tensor(&made.value, &mut to.value, dtype)?;
            }
            Ok(())
        }
    }
}

fn narrow_tensor(made: &Tensor, to: &mut Tensor, dtype: DType) -> Result<()> {
    if made.dtype() != DType::F32 {
        // The kernel chose another type by itself.
        to.resize(made.dtype(), made.dims());
        return to.store_bytes(0, made.as_bytes());
    }
    to.resize(dtype, made.dims());
    let made = made.as_slice::<f32>()?;
    if dtype == DType::BF16 {
        let mut halves = vec![bf16::ZERO; made.len()];
        halves.convert_from_f32_slice(made);
        to.store(0, &halves)
    } else {
        let mut halves = vec![f16::ZERO; made.len()];
        halves.convert_from_f32_slice(made);
        to.store(0, &halves)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::op::run_once;
    use bireme_ir::Op;

    fn halves(dims: &[usize], values: &[f32]) -> Value {
        let values: Vec<bf16> = values.iter().map(|x| bf16::from_f32(*x)).collect();
        Tensor::from_slice(dims, &values).unwrap().into()
    }

    #[test]
    fn a_product_of_halves_is_summed_in_full_and_rounded_once() {
        let op = Op::new("mul").input("X", ["x"]).input("Y", ["w"]).output("Out", ["out"]);
        let mut values = HashMap::new();
        values.insert("x".to_owned(), halves(&[1, 3], &[256.0, 1.0, 1.0]));
        values.insert("w".to_owned(), halves(&[3, 1], &[1.0, 1.0, 1.0]));
        run_once(&op, &mut values).unwrap();
        let out = values["out"].tensor().unwrap();
        assert_eq!((out.dtype(), out.to_f64_vec()), (DType::BF16, vec![258.0]));
    }

    #[test]
    fn what_is_updated_in_place_stays_in_place() {
        let op = Op::new("scale").input("X", ["x"]).output("Out", ["x"]).attr("scale", 3.0f32);
        let mut values = HashMap::from([("x".to_owned(), halves(&[2], &[1.0, -2.0]))]);
        run_once(&op, &mut values).unwrap();
        assert_eq!(values["x"].tensor().unwrap().to_f64_vec(), [3.0, -6.0]);
    }

    #[test]
    fn a_type_that_the_op_says_stands() {
        let op = Op::new("cast").input("X", ["x"]).output("Out", ["y"]);
        let op = op.attr("in_dtype", DType::BF16.code()).attr("out_dtype", DType::F16.code());
        let mut values = HashMap::from([("x".to_owned(), halves(&[1], &[1.5]))]);
        run_once(&op, &mut values).unwrap();
        assert_eq!(values["y"].dtype(), DType::F16);
    }
}
