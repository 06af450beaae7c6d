//! Rows of a dense tensor: adding to some of them, copying some out, delay compensation.

use bireme_engine::tensor::Tensor;

use crate::message::Array;
use crate::{Error, Result};

/// Adds differences to a parameter: all of it, or some rows.
pub(super) fn add(to: &mut Tensor, delta: &Array<'_>) -> Result<()> {
    if let Ok(values) = to.as_mut_slice::<f32>() {
        return add_as(values, delta, |a, b| *a += b);
    }
    if let Ok(values) = to.as_mut_slice::<f64>() {
        return add_as(values, delta, |a, b| *a += b);
    }
    // Counters of steps.
    if let Ok(values) = to.as_mut_slice::<i64>() {
        return add_as(values, delta, |a, b| *a = a.wrapping_add(b));
    }
    if let Ok(values) = to.as_mut_slice::<i32>() {
        return add_as(values, delta, |a, b| *a = a.wrapping_add(b));
    }
    Err(Error::Request(format!("differences of {} elements cannot be added", to.dtype())))
}

fn add_as<T: bytemuck::Pod>(to: &mut [T], delta: &Array<'_>, plus: fn(&mut T, T)) -> Result<()> {
    let values = elements(delta)?;
    match delta {
        Array::Dense { start, .. } => {
            let to = to.get_mut(*start as usize..).unwrap_or(&mut []);
            to.iter_mut().zip(values).for_each(|(to, value)| plus(to, *value));
        }
        Array::Rows { rows, .. } => {
            let width = values.len() / rows.len().max(1);
            for (row, values) in rows.iter().zip(values.chunks_exact(width.max(1))) {
                let to = to.get_mut(*row as usize * width..).unwrap_or(&mut []);
                to.iter_mut().zip(values).for_each(|(to, value)| plus(to, *value));
            }
        }
    }
    Ok(())
}

fn elements<'a, T: bytemuck::Pod>(array: &Array<'a>) -> Result<&'a [T]> {
    bytemuck::try_cast_slice(array.bytes())
        .map_err(|_| Error::Request("the elements of an array are not aligned".to_owned()))
}

/// Copies rows of `from`, a tensor of f32, one after the other to `out`, which has nothing else.
pub(super) fn copy(from: &Tensor, rows: &[u64], out: &mut Vec<f32>) -> Result<()> {
    let width = from.dims().get(1..).map_or(1, |rest| rest.iter().product::<usize>());
    let (values, height) = (from.as_slice::<f32>()?, from.rows() as u64);
    out.clear();
    out.reserve(rows.len() * width);
    for row in rows {
        if *row >= height {
            return Err(Error::Request(format!(
                "row {row} lies outside a table of {height} rows: are there ids larger than the \
                 table's size?"
            )));
        }
        let start = *row as usize * width;
        out.extend_from_slice(&values[start..start + width]);
    }
    Ok(())
}

/// DC-ASGD: `g + lambda * g * g * (w - backup)`, element by element (Zheng et al. 2017, eq. 10).
pub(super) fn compensate(
    grad: &Array<'_>,
    param: &Tensor,
    backup: &Tensor,
    lambda: f32,
) -> Result<Tensor> {
    let mut out = Tensor::zeros(grad.dtype(), grad.dims());
    out.as_mut_bytes().copy_from_slice(grad.bytes());
    let (now, then) = (param.as_slice::<f32>()?, backup.as_slice::<f32>()?);
    let values = out.as_mut_slice::<f32>()?;
    let towards = |g: &mut f32, at: usize| *g += lambda * *g * *g * (now[at] - then[at]);
    match grad {
        Array::Dense { .. } => values.iter_mut().enumerate().for_each(|(at, g)| towards(g, at)),
        Array::Rows { rows, .. } => {
            let width = values.len() / rows.len().max(1);
            for (row, values) in rows.iter().zip(values.chunks_exact_mut(width.max(1))) {
                let start = *row as usize * width;
                (start..).zip(values).for_each(|(at, g)| towards(g, at));
            }
        }
    }
    Ok(out)
}
