//! Elements by a condition, or by where they stand.

use bireme_ir::DType;

use super::positions::Indices;
use crate::lower::constant::bits;
use crate::lower::divider::divider;
use crate::lower::lowering::Lowering;
use crate::lower::walk::{MAX_COUNT, Path, bits_of, word};
use crate::lower::{Outcome, Var, host};

pub(super) fn choose(l: &mut Lowering<'_>) -> Outcome {
    let (condition, x, y) = (l.input("Condition")?, l.input("X")?.dense()?, l.input("Y")?.dense()?);
    let out = l.output("Out")?;
    if x.dims != y.dims || x.numel() != condition.numel() || x.dtype != y.dtype {
        return host();
    }
    keep(l, &condition, (Some(&x), Some(&y)), &out)
}

pub(super) fn choose_grad(l: &mut Lowering<'_>) -> Outcome {
    let (condition, dout) = (l.input("Condition")?, l.input("Out@GRAD")?.dense()?);
    if let Some(dx) = l.wanted_output("X@GRAD") {
        keep(l, &condition, (Some(&dout), None), &dx)?;
    }
    if let Some(dy) = l.wanted_output("Y@GRAD") {
        keep(l, &condition, (None, Some(&dout)), &dy)?;
    }
    Ok(())
}

/// The first where the condition holds, else the second; what is not there counts as zero.
fn keep(
    l: &mut Lowering<'_>,
    condition: &Var,
    (x, y): (Option<&Var>, Option<&Var>),
    out: &Var,
) -> Outcome {
    if !matches!(condition.dtype, DType::Bool | DType::U8) || condition.numel() != out.numel() {
        return host();
    }
    let launch = l.over(format!("choose_{}", word(out.dtype.size())), out.numel());
    launch.var(condition).maybe(x).maybe(y).var(out).size(out.numel()).launch();
    Ok(())
}

pub(super) fn one_hot(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["depth_tensor"])?;
    let (x, out, depth) = (l.input("X")?, l.output("Out")?, l.op.i64("depth")?);
    let (ids, lenient) = (Indices::of(&x)?, l.op.bool("allow_out_of_range")?);
    let (size, one) = (out.dtype.size(), bits(out.dtype, 1.0)?);
    let fits = depth > 0 && out.numel() == ids.count * depth as usize;
    if !fits || out.numel() >= MAX_COUNT || matches!(out.dtype, DType::I8 | DType::I16) {
        return host();
    }
    let launch = l.over(format!("one_hot_{}", word(size)), out.numel()).at(ids.at).value(ids.wide);
    let launch = launch.var(&out).value(out.numel() as u32).value(divider(depth as usize));
    bits_of(launch, size, one).value(i32::from(lenient)).complaint().launch();
    Ok(())
}

pub(super) fn tril_triu(l: &mut Lowering<'_>, from: &str, to: &str) -> Outcome {
    let (x, out) = (l.input(from)?.dense()?, l.output(to)?);
    let (diagonal, lower) = (l.op.i64("diagonal")?, l.op.bool("lower")?);
    let [.., rows, columns] = *x.dims.as_slice() else { return host() };
    if x.numel() >= MAX_COUNT {
        return host();
    }
    let launch = l.over(format!("triangle_{}", word(x.dtype.size())), x.numel()).var(&x).var(&out);
    let launch = launch.value(x.numel() as u32).value(divider(rows));
    let launch = launch.value(divider(columns)).value(diagonal);
    launch.value(i32::from(lower)).launch();
    Ok(())
}

/// The diagonal of a matrix of shape `matrix`, as a path from it to a list.
fn diagonal(matrix: &[usize], offset: i64) -> Path {
    let (rows, columns) = (matrix[0] as i64, matrix[1] as i64);
    let (down, right) = ((-offset).max(0), offset.max(0));
    let count = (rows - down).min(columns - right).max(0) as usize;
    let mut path = Path { from: down * columns + right, ..Path::default() };
    path.axis(count, columns + 1, 1);
    path
}

fn to_matrix(list: &Path) -> Path {
    let mut path = Path { from: list.to, to: list.from, ..Path::default() };
    list.axes.iter().for_each(|axis| path.axis(axis.len, axis.to, axis.from));
    path
}

pub(super) fn diag(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, offset) = (l.input("X")?.dense()?, l.output("Out")?, l.op.i64("offset")?);
    let size = x.dtype.size();
    if x.dims.len() == 2 {
        return l.move_along(&diagonal(&x.dims, offset), x.at, out.at, size);
    }
    let padding = bits(out.dtype, l.op.f64("padding_value")?)?;
    if padding == 0 {
        l.clear(out.at, out.bytes());
    } else {
        let mut all = Path::default();
        all.axis(out.numel(), 0, 1);
        l.fill_along(&all, out.at, size, padding)?;
    }
    l.move_along(&to_matrix(&diagonal(&out.dims, offset)), x.at, out.at, size)
}

pub(super) fn diag_grad(l: &mut Lowering<'_>) -> Outcome {
    let (dout, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let (offset, size) = (l.op.i64("offset")?, dx.dtype.size());
    if dx.dims.len() == 2 {
        let list = diagonal(&dx.dims, offset);
        if list.count() != dout.numel() {
            return host();
        }
        l.clear(dx.at, dx.bytes());
        return l.move_along(&to_matrix(&list), dout.at, dx.at, size);
    }
    if dout.dims.len() != 2 || diagonal(&dout.dims, offset).count() != dx.numel() {
        return host();
    }
    l.move_along(&diagonal(&dout.dims, offset), dout.at, dx.at, size)
}

pub(super) fn sequence_mask(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["MaxLenTensor"])?;
    let (x, out, width) = (l.input("X")?, l.output("Y")?, l.op.i64("maxlen")?);
    let kind = match x.suffix()? {
        "i32" => 0i32,
        "i64" => 1,
        "f32" => 2,
        "f64" => 3,
        _ => return host(),
    };
    let (size, one) = (out.dtype.size(), bits(out.dtype, 1.0)?);
    let fits = width >= 0 && out.numel() == x.numel() * width as usize;
    if !fits || out.numel() >= MAX_COUNT || !matches!(size, 1 | 4 | 8) {
        return host();
    }
    let launch = l.over(format!("sequence_mask_{}", word(size)), out.numel()).var(&x).value(kind);
    let launch = launch.var(&out).value(out.numel() as u32).value(divider(width as usize));
    bits_of(launch, size, one).launch();
    Ok(())
}
