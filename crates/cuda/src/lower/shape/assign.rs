//! A tensor with a part of it replaced: what `x[i] = v` is made of.

use bireme_ir::{Attr, AttrKind, DType, Scalar};

use super::cut::{Bounds, Part, path, reversed};
use crate::lower::constant::bits;
use crate::lower::lowering::Lowering;
use crate::lower::walk::{Path, strides};
use crate::lower::{Outcome, host};

const VALUES: &[&str] = &["StartsTensorList", "EndsTensorList", "StepsTensorList"];

pub(super) fn set_value(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(VALUES)?;
    let (x, out) = (l.input("Input")?.dense()?, l.output("Out")?);
    let parts = assigned(l, &x.dims)?;
    let value = l.maybe_input("ValueTensor");
    let to = match &value {
        Some(value) if value.dtype == x.dtype => filled(l, &parts, &x.dims, &value.dims)?,
        // The host says what is wrong.
        Some(_) => return host(),
        None => reversed(&path(&parts, &x.dims)),
    };
    let number = if value.is_none() { Some(number(l, x.dtype)?) } else { None };
    l.carry_over(&x, &out);
    if to.count() == 0 {
        return Ok(());
    }
    match (value, number) {
        (Some(value), _) => l.move_along(&to, value.at, out.at, out.dtype.size()),
        (None, number) => l.fill_along(&to, out.at, out.dtype.size(), number.unwrap_or(0)),
    }
}

pub(super) fn set_value_grad(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(VALUES)?;
    let dout = l.input("Out@GRAD")?.dense()?;
    let (dx, dvalue) = (l.wanted_output("Input@GRAD"), l.wanted_output("ValueTensor@GRAD"));
    let parts = assigned(l, &dout.dims)?;
    if let Some(dvalue) = dvalue {
        let fills = filled(l, &parts, &dout.dims, &dvalue.dims)?;
        let (mut kept, mut summed) = (Path::default(), Path::default());
        kept.from = fills.to;
        for axis in fills.axes {
            match axis.from {
                0 => summed.axis(axis.len, axis.to, 0),
                step => kept.axis(axis.len, axis.to, step),
            }
        }
        if kept.count() != dvalue.numel() {
            return host();
        }
        l.sum_along(&kept, &summed, dout.at, &dvalue)?;
    }
    if let Some(dx) = dx {
        l.copy(dout.at, dx.at, dout.bytes());
        let to = reversed(&path(&parts, &dout.dims));
        if to.count() > 0 {
            l.fill_along(&to, dx.at, dx.dtype.size(), 0)?;
        }
    }
    Ok(())
}

/// The part that is assigned to.
fn assigned(l: &Lowering<'_>, dims: &[usize]) -> Outcome<Vec<Part>> {
    let bounds = Bounds {
        axes: l.op.longs("axes")?,
        starts: l.op.longs("starts")?,
        ends: l.op.longs("ends")?,
        strides: Some(l.op.longs("steps")?),
        dropped: l.op.longs("decrease_axes")?,
        to_front: true,
    };
    bounds.parts(dims)
}

/// From a value of shape `value`, repeated to fill the part, to the tensor of shape `dims`. The part has no
/// axes that `decrease_axes` names, and an axis of one in front of those that `none_axes` names; the value is
/// laid out along the axes that are left.
fn filled(l: &Lowering<'_>, parts: &[Part], dims: &[usize], value: &[usize]) -> Outcome<Path> {
    let dropped = l.op.longs("decrease_axes")?;
    let is_dropped = |at: usize| {
        dropped.iter().any(|axis| *axis == at as i64 || *axis + dims.len() as i64 == at as i64)
    };
    let none_axes = l.op.longs("none_axes")?;
    let mut none = none_axes.iter().peekable();
    let steps = strides(dims);
    // Each axis of the part: how long it is, and how far it leads in the tensor.
    let mut axes = Vec::new();
    for (at, (part, step)) in parts.iter().zip(&steps).enumerate() {
        if is_dropped(at) {
            if part.count != 1 {
                return host();
            }
            continue;
        }
        // The position among the axes that are left decides, as on the host.
        let position = axes.iter().filter(|(_, _, extra)| !extra).count() as i64;
        while none.next_if(|axis| **axis <= position).is_some() {
            axes.push((1, 0, true));
        }
        axes.push((part.count, part.step * step, false));
    }
    axes.extend(none.map(|_| (1, 0, true)));
    let extra = value.len().saturating_sub(axes.len());
    if value[..extra].iter().any(|dim| *dim != 1) {
        return host();
    }
    let (value, new) = (&value[extra..], (axes.len() + extra).saturating_sub(value.len()));
    let value_steps = strides(value);
    let first = parts.iter().zip(&steps).map(|(part, step)| part.first * step).sum();
    let mut path = Path { from: 0, to: first, axes: Vec::new() };
    for (at, (len, to, _)) in axes.iter().enumerate() {
        let from = match at.checked_sub(new) {
            None => 0,
            Some(at) if value[at] == 1 => 0,
            Some(at) if value[at] == *len => value_steps[at],
            Some(_) => return host(),
        };
        path.axis(*len, from, *to);
    }
    Ok(path)
}

/// The one number in attribute `values`.
fn number(l: &Lowering<'_>, dtype: DType) -> Outcome<u64> {
    let scalar = match l.op.maybe_attr("values").map(|attr| attr.coerce(AttrKind::Scalars)) {
        Some(Some(Attr::Scalars(values))) if values.len() == 1 => values[0],
        // Several numbers would have to be brought to the card first.
        _ => return host(),
    };
    match (dtype, scalar) {
        (DType::Bool | DType::F16 | DType::BF16, _) => host(),
        (DType::I64, Scalar::Long(value)) => Ok(value.cast_unsigned()),
        (_, Scalar::Bool(value)) => bits(dtype, f64::from(u8::from(value))),
        (_, Scalar::Long(value)) => bits(dtype, value as f64),
        (_, Scalar::Float64(value) | Scalar::Complex(value, _)) => bits(dtype, value),
    }
}
