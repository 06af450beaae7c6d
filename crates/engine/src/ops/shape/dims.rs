//! Arithmetic on dimensions that shape rules and kernels of several families share.

use crate::ops::prelude::*;

/// The most elements a tensor may have: the size of more in bytes fits no address.
const MAX_ELEMENTS: i64 = i64::MAX / 16;

/// The dimensions, if a tensor can have them; shape rules that make new ones end with this.
pub(in crate::ops) fn ranked(dims: Vec<i64>) -> Result<Vec<i64>> {
    check(&dims).map(|()| dims)
}

fn check(dims: &[i64]) -> Result<()> {
    if dims.len() > MAX_RANK {
        let problem = format!("a tensor has at most {MAX_RANK} dimensions, not {}", dims.len());
        return Err(Error::kernel(problem));
    }
    if product(dims) > MAX_ELEMENTS {
        return Err(Error::kernel(format!("a tensor of shape {dims:?} is too large")));
    }
    Ok(())
}

/// Known dimensions in the form of a shape rule.
pub(in crate::ops) fn signed(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|dim| *dim as i64).collect()
}

/// The result of a shape rule on known dimensions, for a kernel that sizes its own output.
pub(in crate::ops) fn sized(dims: &[i64]) -> Result<Dims> {
    check(dims)?;
    let mut known = [0; MAX_RANK];
    for (known, dim) in known.iter_mut().zip(dims) {
        *known = usize::try_from(*dim)
            .map_err(|_| Error::kernel(format!("shape {dims:?} has a negative dimension")))?;
    }
    Ok(Dims::new(&known[..dims.len()]))
}

/// The product, or -1 when a factor is unknown.
pub(in crate::ops) fn product(dims: &[i64]) -> i64 {
    if dims.contains(&-1) { -1 } else { dims.iter().fold(1, |all, dim| all.saturating_mul(*dim)) }
}

/// An axis of a tensor of `rank` dimensions, counted from the end when negative.
pub(in crate::ops) fn axis_in(axis: i64, rank: usize) -> Result<usize> {
    let positive = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&positive) {
        return Ok(positive as usize);
    }
    Err(Error::kernel(format!("axis {axis} lies outside a tensor of rank {rank}")))
}

/// Rows that stay rows keep their sequences; otherwise the output has none.
pub(in crate::ops) fn keep_lod(x: &Tensor, out: &mut Tensor) {
    let kept = if x.rows() == out.rows() { x.lod().as_slice() } else { &[] };
    out.set_lod(kept);
}
