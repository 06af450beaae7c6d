//! What every optimizer's file needs.

pub(super) use bireme_ir::Op;

pub(super) use super::declare::{optimizer, rule, slots, update_kernel};
pub(super) use super::step::MASTER;
pub(super) use super::{Absent, Optimizer, Real, Step};
pub(super) use crate::Result;
pub(super) use crate::op::{Kernel, OpDef, OpView, attr};
