//! Runs one op at once, outside any plan: what op tests use, and the meaning a plan must keep.

#![expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]

use std::collections::HashMap;
use std::ptr::NonNull;

use bireme_ir::{Op, VarKind};

use super::{Infer, Meta, OpView, Run, Share};
use crate::tensor::{Dims, List, SelectedRows, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// The meta of a value: all its dimensions are known.
pub fn meta_of(value: &Value) -> Meta {
    if let Value::Tensor(tensor) = value
        && let Some(list) = tensor.list()
    {
        return list.meta(tensor.dtype());
    }
    let (kind, tensor, rows) = match value {
        Value::Tensor(tensor) => (VarKind::LodTensor, tensor, None),
        Value::Rows(rows) => (VarKind::SelectedRows, &rows.value, Some(rows.height)),
    };
    let mut dims: Vec<i64> = tensor.dims().iter().map(|dim| *dim as i64).collect();
    if let (Some(height), Some(first)) = (rows, dims.first_mut()) {
        *first = height as i64;
    }
    Meta { kind, dtype: tensor.dtype(), dims, lod_level: tensor.lod().len() as u32 }
}

/// Gives `value` the shape that a rule inferred; dimensions left open become 0 for the kernel to
/// set.
pub fn shape_like(value: &mut Value, meta: &Meta) {
    if meta.kind == VarKind::SelectedRows {
        if value.rows().is_none() {
            *value = Value::Rows(SelectedRows::empty(meta.dtype));
        }
        return;
    }
    if !meta.kind.is_tensor() {
        *value = Tensor::of_list(meta.dtype, List::empty(meta.kind)).into();
        return;
    }
    let dims: Vec<usize> = meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
    match value {
        Value::Tensor(tensor) => tensor.resize(meta.dtype, Dims::new(&dims)),
        Value::Rows(_) => *value = Value::Tensor(Tensor::zeros(meta.dtype, Dims::new(&dims))),
    }
}

/// Runs `op` on the variables in `values`, and puts its outputs there.
///
/// # Errors
/// When an input is missing, or shape rule or kernel refuse the inputs.
pub fn run_once(op: &Op, values: &mut HashMap<String, Value>) -> Result<()> {
    let view = OpView::new(op)?;
    view.check_aliases().map_err(|error| error.in_op(op))?;
    let mut metas = Vec::new();
    let mut lod = Vec::new();
    for name in view.flat_inputs() {
        let value = values.get(name).ok_or_else(|| Error::NotInitialized { var: name.clone() })?;
        metas.push(meta_of(value));
    }
    let lod_source = view.def.lod_from.and_then(|slot| op.inputs_of(slot).first());
    if let Some(Value::Tensor(tensor)) = lod_source.and_then(|name| values.get(name)) {
        lod.clone_from(tensor.lod());
    }
    let shapes = Infer::run(&view, &metas).map_err(|error| error.in_op(op))?;
    let mut kernel = view.kernel().map_err(|error| error.in_op(op))?;
    for (name, meta) in view.flat_outputs().zip(&shapes) {
        let value =
            values.entry(name.clone()).or_insert_with(|| Value::Tensor(Tensor::empty(meta.dtype)));
        // An output that continues an input already has its shape; touching it could lose it.
        if meta_of(value) != *meta {
            shape_like(value, meta);
            // A plan's buffers hold what was there before; a kernel that counts on zeros must fail.
            if let Value::Tensor(tensor) = &mut *value
                && cfg!(debug_assertions)
                && meta.kind.is_tensor()
            {
                tensor.as_mut_bytes().fill(0xab);
            }
        }
        if let (Value::Tensor(tensor), false) = (value, op.input_vars().any(|var| var == name)) {
            tensor.set_lod(&lod);
        }
    }
    // One pointer for each value, whether it is an input, an output or both: two would exclude each other.
    let pointers: HashMap<&str, NonNull<Value>> =
        values.iter_mut().map(|(name, value)| (name.as_str(), NonNull::from(value))).collect();
    let inputs: Vec<_> = view.flat_inputs().map(|name| pointers[name.as_str()]).collect();
    // Outputs that nobody wants have one name, but are different variables.
    let mut unwanted = vec![Value::Tensor(Tensor::empty(bireme_ir::DType::F32)); shapes.len()];
    let mut outputs = Vec::with_capacity(unwanted.len());
    for ((name, shape), value) in view.flat_outputs().zip(&shapes).zip(&mut unwanted) {
        if name == bireme_ir::EMPTY_VAR {
            shape_like(value, shape);
            outputs.push(NonNull::from(value));
        } else {
            outputs.push(pointers[name.as_str()]);
        }
    }
    // SAFETY: `values` is borrowed for the call, and aliases were checked above.
    let run = unsafe { Run::new(&inputs, &outputs, Share::WHOLE, 0) };
    kernel(&run).map_err(|error| error.in_op(op))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_forward_and_gradient() {
        let op = Op::new("mul").input("X", ["x"]).input("Y", ["w"]).output("Out", ["out"]);
        let mut values: HashMap<String, Value> = HashMap::new();
        let tensor = |dims: [usize; 2], values: &[f32]| Tensor::from_slice(dims, values).unwrap();
        values.insert("x".into(), tensor([1, 2], &[1.0, 2.0]).into());
        values.insert("w".into(), tensor([2, 2], &[1.0, 2.0, 3.0, 4.0]).into());
        run_once(&op, &mut values).unwrap();
        assert_eq!(values["out"].tensor().unwrap().as_slice::<f32>().unwrap(), [7.0, 10.0]);
        values.insert("out@GRAD".into(), tensor([1, 2], &[1.0, 1.0]).into());
        for grad in OpView::new(&op).unwrap().def.grad.ops(&OpView::new(&op).unwrap()).unwrap() {
            run_once(&grad, &mut values).unwrap();
        }
        assert_eq!(values["x@GRAD"].tensor().unwrap().as_slice::<f32>().unwrap(), [3.0, 7.0]);
        let message = run_once(
            &Op::new("mul").input("X", ["x"]).input("Y", ["x"]).output("Out", ["y"]),
            &mut values,
        );
        assert_eq!(
            message.unwrap_err().to_string(),
            "op `mul` (`y`): `X` [1, 2] has 2 columns, but `Y` [1, 2] has 1 rows"
        );
    }
}
