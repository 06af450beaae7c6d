//! One attribute to and from its message.

use super::bad;
use crate::proto::{ComplexDesc, OpDescAttr, ScalarDesc};
use crate::{Attr, AttrKind, Result, Scalar};

/// The numbers of `Scalar.Type`.
const BOOLEAN: i32 = 1;
const LONG: i32 = 2;
const FLOAT64: i32 = 3;
const COMPLEX128: i32 = 4;

pub(super) fn write(name: &str, value: &Attr) -> OpDescAttr {
    let mut desc =
        OpDescAttr { name: name.to_owned(), r#type: value.kind().code(), ..OpDescAttr::default() };
    match value {
        Attr::Int(value) => desc.i = Some(*value),
        Attr::Float(value) => desc.f = Some(*value),
        Attr::String(value) => desc.s = Some(value.clone()),
        Attr::Ints(values) => desc.ints.clone_from(values),
        Attr::Floats(values) => desc.floats.clone_from(values),
        Attr::Strings(values) => desc.strings.clone_from(values),
        Attr::Bool(value) => desc.b = Some(*value),
        Attr::Bools(values) => desc.bools.clone_from(values),
        Attr::Block(idx) => desc.block_idx = Some(*idx),
        Attr::Long(value) => desc.l = Some(*value),
        Attr::Blocks(values) => desc.blocks_idx.clone_from(values),
        Attr::Longs(values) => desc.longs.clone_from(values),
        Attr::Float64s(values) => desc.float64s.clone_from(values),
        Attr::Var(var) => desc.var_name = Some(var.clone()),
        Attr::Vars(vars) => desc.vars_name.clone_from(vars),
        Attr::Float64(value) => desc.float64 = Some(*value),
        Attr::Scalar(value) => desc.scalar = Some(write_scalar(*value)),
        Attr::Scalars(values) => {
            desc.scalars = values.iter().map(|value| write_scalar(*value)).collect();
        }
    }
    desc
}

pub(super) fn read(desc: OpDescAttr, place: &dyn Fn() -> String) -> Result<Attr> {
    let Some(kind) = AttrKind::from_code(desc.r#type) else {
        return bad(place(), format!("there is no attribute type with number {}", desc.r#type));
    };
    let scalar = |desc: ScalarDesc| match read_scalar(&desc) {
        Some(scalar) => Ok(scalar),
        None => bad(place(), "its scalar has no value of its own type"),
    };
    let value = match kind {
        AttrKind::Int => desc.i.map(Attr::Int),
        AttrKind::Float => desc.f.map(Attr::Float),
        AttrKind::String => desc.s.map(Attr::String),
        AttrKind::Ints => Some(Attr::Ints(desc.ints)),
        AttrKind::Floats => Some(Attr::Floats(desc.floats)),
        AttrKind::Strings => Some(Attr::Strings(desc.strings)),
        AttrKind::Bool => desc.b.map(Attr::Bool),
        AttrKind::Bools => Some(Attr::Bools(desc.bools)),
        AttrKind::Block => desc.block_idx.map(Attr::Block),
        AttrKind::Long => desc.l.map(Attr::Long),
        AttrKind::Blocks => Some(Attr::Blocks(desc.blocks_idx)),
        AttrKind::Longs => Some(Attr::Longs(desc.longs)),
        AttrKind::Float64s => Some(Attr::Float64s(desc.float64s)),
        AttrKind::Var => desc.var_name.map(Attr::Var),
        AttrKind::Vars => Some(Attr::Vars(desc.vars_name)),
        AttrKind::Float64 => desc.float64.map(Attr::Float64),
        AttrKind::Scalar => desc.scalar.map(scalar).transpose()?.map(Attr::Scalar),
        AttrKind::Scalars => {
            let scalars = desc.scalars.into_iter().map(scalar);
            Some(Attr::Scalars(scalars.collect::<Result<_>>()?))
        }
    };
    value.map_or_else(|| bad(place(), format!("it has no value of its type ({kind})")), Ok)
}

fn write_scalar(value: Scalar) -> ScalarDesc {
    let mut desc = ScalarDesc::default();
    match value {
        Scalar::Bool(value) => (desc.r#type, desc.b) = (BOOLEAN, Some(value)),
        Scalar::Long(value) => (desc.r#type, desc.i) = (LONG, Some(value)),
        Scalar::Float64(value) => (desc.r#type, desc.r) = (FLOAT64, Some(value)),
        Scalar::Complex(r, i) => {
            (desc.r#type, desc.c) = (COMPLEX128, Some(ComplexDesc { r, i }));
        }
    }
    desc
}

fn read_scalar(desc: &ScalarDesc) -> Option<Scalar> {
    match desc.r#type {
        BOOLEAN => desc.b.map(Scalar::Bool),
        LONG => desc.i.map(Scalar::Long),
        FLOAT64 => desc.r.map(Scalar::Float64),
        COMPLEX128 => desc.c.as_ref().map(|c| Scalar::Complex(c.r, c.i)),
        _ => None,
    }
}
