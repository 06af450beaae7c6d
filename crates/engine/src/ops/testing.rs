//! What tests of ops share.

pub(in crate::ops) use std::collections::HashMap;

pub(in crate::ops) use bireme_ir::{DType, Op};

pub(in crate::ops) use crate::op::{OpView, run_once};
pub(in crate::ops) use crate::tensor::{SelectedRows, Tensor};
pub(in crate::ops) use crate::value::Value;

/// Runs the gradient ops of `op`.
pub(in crate::ops) fn run_gradient(op: &Op, values: &mut HashMap<String, Value>) {
    let view = OpView::new(op).unwrap();
    for grad in view.def.grad.ops(&view).unwrap() {
        run_once(&grad, values).unwrap();
    }
}
