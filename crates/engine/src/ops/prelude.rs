//! What nearly every op file needs: the contract of an op, tensors, numbers, errors.

pub(in crate::ops) use bireme_ir::{AttrSpec, DType};
pub(in crate::ops) use half::{bf16, f16};

pub(in crate::ops) use crate::number::{Number, Real, fold_of, sum_of, sum_of_pairs};
pub(in crate::ops) use crate::op::{
    AttrKind, Flow, Formula, GradRule, Gradient, In, InOut, Infer, Kernel, Meta, OpDef, OpView,
    Out, Run, Slot, SplitRule, SplitView, Spread, attr, default_op, float_kernel, not_float,
    same_dim, second,
};
pub(in crate::ops) use crate::simd::{vectorized, vectorized_for};
pub(in crate::ops) use crate::tensor::{Dims, Element, List, MAX_RANK, SelectedRows, Tensor};
pub(in crate::ops) use crate::value::Value;
pub(in crate::ops) use crate::{Error, Result, dispatch};
