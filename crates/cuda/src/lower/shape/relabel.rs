//! The same elements in the same order under another shape; and what the shape is.

use bytemuck::{Pod, Zeroable};

use crate::lower::lowering::Lowering;
use crate::lower::{Outcome, host};

/// `XShape` has no elements, so there is nothing to do for it.
pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    copy(l, "X", "Out")
}

pub(super) fn gradient(l: &mut Lowering<'_>) -> Outcome {
    copy(l, "Out@GRAD", "X@GRAD")
}

fn copy(l: &mut Lowering<'_>, from: &str, to: &str) -> Outcome {
    let (x, out) = (l.input(from)?.dense()?, l.output(to)?);
    if x.bytes() != out.bytes() {
        return host();
    }
    l.copy(x.at, out.at, x.bytes());
    Ok(())
}

/// A few numbers that are known now.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Numbers([i64; 16]);

/// The dimensions of a tensor, as a tensor.
pub(super) fn shape(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("Input")?, l.output("Out")?);
    let mut numbers = Numbers::zeroed();
    if out.numel() != x.dims.len() || x.dims.len() > numbers.0.len() {
        return host();
    }
    let wide = match out.suffix()? {
        "i32" => 0i32,
        "i64" => 1,
        _ => return host(),
    };
    for (number, dim) in numbers.0.iter_mut().zip(&x.dims) {
        *number = *dim as i64;
    }
    if !x.dims.is_empty() {
        let launch = l.kernel("write_numbers", [1, 1, 1], 32).var(&out).value(wide);
        launch.value(x.dims.len() as i32).value(numbers).launch();
    }
    Ok(())
}
