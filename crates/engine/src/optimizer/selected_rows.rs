//! `merge_selected_rows` and `get_tensor_from_selected_rows`: what clipping by a global norm needs
//! of sparse gradients, whose norm is that of their merged rows.

use bireme_ir::VarKind;

use super::merge_rows::RowMergers;
use crate::op::{Infer, Kernel, OpDef, OpView, Slot};
use crate::value::Value;
use crate::{Error, Result, dispatch};

pub(super) const MERGE: OpDef = OpDef::new("merge_selected_rows", merge)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .like(&[("Out", "X")]);

pub(super) const GET_TENSOR: OpDef = OpDef::new("get_tensor_from_selected_rows", get_tensor)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer_tensor);

/// As many rows as are selected, which only data will tell.
fn infer_tensor(cx: &mut Infer<'_>) -> Result<()> {
    let mut out = cx.input("X")?.clone();
    if out.kind == VarKind::SelectedRows {
        out.kind = VarKind::LodTensor;
        if let Some(rows) = out.dims.first_mut() {
            *rows = -1;
        }
    }
    cx.set("Out", out);
    Ok(())
}

fn merge(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let mut mergers = RowMergers::default();
    Ok(Box::new(move |run| {
        let Value::Rows(x) = run.value(x) else { return Err(not_rows()) };
        let dtype = x.value.dtype();
        let out = run.out_rows(&mut out, dtype);
        out.height = x.height;
        dispatch!(dtype, T in [f32, f64] => {
            let merged = mergers.of::<T>().merge(x, x.height)?;
            out.rows.clear();
            out.rows.extend_from_slice(merged.rows);
            out.value.resize(dtype, x.value.dims().with_rows(merged.rows.len()));
            out.value.as_mut_slice::<T>()?.copy_from_slice(merged.values);
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add up {dtype} rows"))))
    }))
}

fn get_tensor(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let Value::Rows(x) = run.value(x) else { return Err(not_rows()) };
        run.out(&mut out)?.copy_from(&x.value);
        Ok(())
    }))
}

fn not_rows() -> Error {
    Error::kernel("`X` must hold selected rows, but it is a dense tensor")
}
