//! Writes the text form; `text.rs` describes it.

use std::fmt::{self, Display, Formatter, Write};

use super::is_bare;
use crate::{Attr, Block, DType, Op, Param, Program, Regularizer, Scalar, Slots, Var};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.version != 0 {
            writeln!(f, "version {}", self.version)?;
        }
        if !self.op_versions.is_empty() {
            f.write_str("op_versions {")?;
            separated(f, &self.op_versions, |f, (op, version)| {
                name(f, op)?;
                write!(f, ": {version}")
            })?;
            f.write_str("}\n")?;
        }
        if self.random_seed != 0 {
            writeln!(f, "random_seed {}", self.random_seed)?;
        }
        self.blocks.iter().try_for_each(|block| writeln!(f, "{block}"))
    }
}

impl Display for Block {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{ // block {}", self.idx)?;
        if let Some(parent) = self.parent {
            write!(f, ", parent {parent}")?;
        }
        if let Some(forward) = self.forward {
            write!(f, ", forward {forward}")?;
        }
        f.write_str("\n")?;
        for (declared, var) in &self.vars {
            debug_assert_eq!(declared, &var.name, "a block knows a variable by its own name");
            writeln!(f, "    {var}")?;
        }
        if !self.vars.is_empty() && !self.ops.is_empty() {
            f.write_str("\n")?;
        }
        for op in &self.ops {
            writeln!(f, "    {op}")?;
        }
        f.write_str("}")
    }
}

impl Display for Var {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.persistable {
            f.write_str("persist ")?;
        }
        f.write_str(match &self.param {
            Some(param) if param.trainable => "trainable param ",
            Some(_) => "param ",
            None => "var ",
        })?;
        name(f, &self.name)?;
        write!(f, " : {}", self.kind.name())?;
        // Like Paddle, tensors show these three always and other kinds only what is not default.
        if self.kind.is_tensor() || !self.shape.is_empty() {
            f.write_str(".shape(")?;
            separated(f, &self.shape, |f, dim| write!(f, "{dim}"))?;
            f.write_str(")")?;
        }
        if self.kind.is_tensor() || self.dtype != DType::F32 {
            write!(f, ".dtype({})", self.dtype)?;
        }
        if self.kind.is_tensor() || self.stop_gradient {
            write!(f, ".stop_gradient({})", truth(self.stop_gradient))?;
        }
        if self.lod_level != 0 {
            write!(f, ".lod_level({})", self.lod_level)?;
        }
        if self.need_check_feed {
            f.write_str(".need_check_feed(True)")?;
        }
        self.param.as_ref().map_or(Ok(()), |param| param_fields(f, param))
    }
}

fn param_fields(f: &mut Formatter<'_>, param: &Param) -> fmt::Result {
    if param.learning_rate != 1.0 {
        f.write_str(".learning_rate(")?;
        float(f, param.learning_rate)?;
        f.write_str(")")?;
    }
    if let Some(regularizer) = &param.regularizer {
        let (kind, coeff) = match regularizer {
            Regularizer::L1(coeff) => ("L1", coeff),
            Regularizer::L2(coeff) => ("L2", coeff),
        };
        write!(f, ".regularizer({kind}, ")?;
        float(f, *coeff)?;
        f.write_str(")")?;
    }
    if !param.need_clip {
        f.write_str(".need_clip(False)")?;
    }
    Ok(())
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_target {
            f.write_str("target ")?;
        }
        slots(f, &self.outputs)?;
        f.write_str(" = ")?;
        name(f, &self.kind)?;
        f.write_str("(inputs=")?;
        slots(f, &self.inputs)?;
        for (attr, value) in &self.attrs {
            f.write_str(", ")?;
            name(f, attr)?;
            write!(f, " = {value}")?;
        }
        f.write_str(")")?;
        // A line break would end the comment, so control characters become spaces.
        let site = self.site.as_ref().map(|site| site.replace(char::is_control, " "));
        match site.as_deref().map(str::trim) {
            None | Some("") => Ok(()),
            Some(site) => write!(f, "  # at {site}"),
        }
    }
}

impl Display for Attr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Int(value) => write!(f, "{value}"),
            Attr::Long(value) => long(f, *value),
            Attr::Float(value) => float(f, *value),
            Attr::Float64(value) => double(f, *value),
            Attr::String(value) => quoted(f, value),
            Attr::Bool(value) => f.write_str(truth(*value)),
            Attr::Block(idx) => write!(f, "block[{idx}]"),
            Attr::Var(var) => list(f, "var", [var], |f, var| quoted(f, var)),
            Attr::Scalar(value) => {
                f.write_str("scalar(")?;
                scalar(f, *value)?;
                f.write_str(")")
            }
            Attr::Ints(values) => list(f, prefix("ints", values), values, |f, v| write!(f, "{v}")),
            Attr::Longs(values) => list(f, prefix("longs", values), values, |f, v| long(f, *v)),
            Attr::Floats(values) => list(f, prefix("floats", values), values, |f, v| float(f, *v)),
            Attr::Float64s(values) => {
                list(f, prefix("float64s", values), values, |f, v| double(f, *v))
            }
            Attr::Strings(values) => {
                list(f, prefix("strings", values), values, |f, v| quoted(f, v))
            }
            Attr::Bools(values) => {
                list(f, prefix("bools", values), values, |f, v| f.write_str(truth(*v)))
            }
            Attr::Blocks(values) => list(f, "blocks", values, |f, v| write!(f, "{v}")),
            Attr::Vars(values) => list(f, "vars", values, |f, v| quoted(f, v)),
            Attr::Scalars(values) => list(f, "scalars", values, |f, v| scalar(f, *v)),
        }
    }
}

/// The type in front of a list whose elements do not show it: an empty one.
fn prefix<T>(kind: &'static str, values: &[T]) -> &'static str {
    if values.is_empty() { kind } else { "" }
}

fn slots(f: &mut Formatter<'_>, slots: &Slots) -> fmt::Result {
    f.write_str("{")?;
    separated(f, slots, |f, (slot, vars)| {
        name(f, slot)?;
        list(f, "=", vars, |f, var| quoted(f, var))
    })?;
    f.write_str("}")
}

fn list<T>(
    f: &mut Formatter<'_>,
    before: &str,
    items: impl IntoIterator<Item = T>,
    item: impl Fn(&mut Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{before}[")?;
    separated(f, items, item)?;
    f.write_str("]")
}

fn separated<T>(
    f: &mut Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    item: impl Fn(&mut Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (i, value) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        item(f, value)?;
    }
    Ok(())
}

fn name(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    if is_bare(name) { f.write_str(name) } else { quoted(f, name) }
}

fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("'")?;
    for c in text.chars() {
        match c {
            '\'' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            // Also the two Unicode line separators, at which editors break lines.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                write!(f, "{}", c.escape_unicode())?;
            }
            c => f.write_char(c)?,
        }
    }
    f.write_str("'")
}

fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn long(f: &mut Formatter<'_>, value: i64) -> fmt::Result {
    write!(f, "{value}L")
}

// `{:?}` gives the shortest text that reads back as the same number, always with a `.` or an `e`.
fn float(f: &mut Formatter<'_>, value: f32) -> fmt::Result {
    if value.is_nan() { f.write_str("nan") } else { write!(f, "{value:?}") }
}

fn real(f: &mut Formatter<'_>, value: f64) -> fmt::Result {
    if value.is_nan() { f.write_str("nan") } else { write!(f, "{value:?}") }
}

fn double(f: &mut Formatter<'_>, value: f64) -> fmt::Result {
    real(f, value)?;
    f.write_str("D")
}

fn scalar(f: &mut Formatter<'_>, value: Scalar) -> fmt::Result {
    match value {
        Scalar::Bool(value) => f.write_str(truth(value)),
        Scalar::Long(value) => write!(f, "{value}"),
        Scalar::Float64(value) => real(f, value),
        Scalar::Complex(re, im) => {
            f.write_str("complex(")?;
            real(f, re)?;
            f.write_str(", ")?;
            real(f, im)?;
            f.write_str(")")
        }
    }
}
