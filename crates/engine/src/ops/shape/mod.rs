//! Ops that move elements without changing them: joining, cutting, reshaping, repeating.

use crate::op::OpDef;

mod blocks;
pub(in crate::ops) mod concat;
pub(in crate::ops) mod dims;
mod expand;
mod flatten;
mod flip;
pub(in crate::ops) mod given;
mod meshgrid;
mod pad;
mod partial;
mod relabel;
mod relocate;
mod reshape;
mod roll;
mod set_value;
mod slice;
mod split;
mod squeeze;
mod stack;
pub(in crate::ops) mod strided_walk;
mod tile;
mod transpose;
mod unsqueeze;

#[cfg(test)]
mod tests;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    concat::DEF,
    split::DEF,
    stack::STACK,
    stack::UNSTACK,
    stack::UNBIND,
    reshape::DEF,
    reshape::OLD,
    transpose::DEF,
    transpose::OLD,
    squeeze::DEF,
    squeeze::OLD,
    unsqueeze::DEF,
    unsqueeze::OLD,
    flatten::RANGE,
    flatten::DEF,
    flatten::OLD,
    expand::DEF,
    expand::AS,
    tile::DEF,
    tile::EXPAND,
    slice::DEF,
    slice::STRIDED,
    flip::DEF,
    roll::DEF,
    pad::PAD,
    pad::PAD2D,
    pad::PAD3D,
    partial::CONCAT,
    partial::SUM,
    meshgrid::DEF,
    meshgrid::GRAD,
    set_value::DEF,
    set_value::GRAD,
];
