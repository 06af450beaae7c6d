//! Ops that move elements without changing them: joining, cutting, reshaping, repeating.

use crate::op::OpDef;

mod blocks;
mod concat;
pub(in crate::ops) mod dims;
mod expand;
mod flatten;
mod flip;
pub(in crate::ops) mod given;
mod meshgrid;
mod pad;
mod relabel;
mod relocate;
mod reshape;
mod roll;
mod set_value;
mod slice;
mod split;
mod squeeze;
mod stack;
mod tile;
mod transpose;
mod unsqueeze;
pub(in crate::ops) mod walk;

#[cfg(test)]
mod tests;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    concat::DEF,
    concat::GRAD,
    split::DEF,
    stack::STACK,
    stack::STACK_GRAD,
    stack::UNSTACK,
    stack::UNSTACK_GRAD,
    stack::UNBIND,
    reshape::DEF,
    reshape::GRAD,
    reshape::OLD,
    reshape::OLD_GRAD,
    transpose::DEF,
    transpose::GRAD,
    transpose::OLD,
    transpose::OLD_GRAD,
    squeeze::DEF,
    squeeze::GRAD,
    squeeze::OLD,
    squeeze::OLD_GRAD,
    unsqueeze::DEF,
    unsqueeze::GRAD,
    unsqueeze::OLD,
    unsqueeze::OLD_GRAD,
    flatten::RANGE,
    flatten::RANGE_GRAD,
    flatten::DEF,
    flatten::GRAD,
    flatten::OLD,
    flatten::OLD_GRAD,
    expand::DEF,
    expand::GRAD,
    expand::AS,
    expand::AS_GRAD,
    tile::DEF,
    tile::GRAD,
    tile::EXPAND,
    tile::EXPAND_GRAD,
    slice::DEF,
    slice::GRAD,
    slice::STRIDED,
    slice::STRIDED_GRAD,
    flip::DEF,
    roll::DEF,
    roll::GRAD,
    pad::PAD,
    pad::PAD_GRAD,
    pad::PAD2D,
    pad::PAD2D_GRAD,
    pad::PAD3D,
    pad::PAD3D_GRAD,
    meshgrid::DEF,
    meshgrid::GRAD,
    set_value::DEF,
    set_value::GRAD,
];
