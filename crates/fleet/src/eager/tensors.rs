//! Reductions of tensors of any element type.
//!
//! Types that [`Group`] does not add up travel as wider ones; booleans as bytes, of which the sum
//! is "any" and the product is "all".

use bireme_collective::{Element, Group, Reduce};
use bireme_engine::eager::EagerTensor;
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Error, Result, Value};
use half::{bf16, f16};

/// What becomes of the values of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Their mean, of floats alone.
    Average,
}

/// Who gets the result.
#[derive(Clone, Copy)]
enum Goal {
    All,
    Root(usize),
}

/// Every rank's tensor becomes the reduction of all.
///
/// # Errors
/// When a rank is lost or makes another call, or there is no such reduction of the element type.
pub fn all_reduce(group: &Group, tensor: &mut Tensor, reduction: Reduction) -> Result<()> {
    dispatch(group, tensor, reduction, Goal::All)
}

/// The root's tensor becomes the reduction of all; those of others stay as they are.
///
/// # Errors
/// As [`all_reduce`].
pub fn reduce(group: &Group, tensor: &mut Tensor, reduction: Reduction, root: usize) -> Result<()> {
    if group.rank() == root {
        return dispatch(group, tensor, reduction, Goal::Root(root));
    }
    dispatch(group, &mut tensor.clone(), reduction, Goal::Root(root))
}

/// Every rank gets its part of the reduction of `whole`, which has a part for each.
///
/// # Errors
/// As [`all_reduce`]; when the sizes or types do not fit.
pub fn reduce_scatter(
    group: &Group,
    whole: &Tensor,
    part: &mut Tensor,
    reduction: Reduction,
) -> Result<()> {
    let (dtype, size) = (whole.dtype(), group.size());
    if part.dtype() != dtype || part.numel() * size != whole.numel() {
        return Err(Error::kernel(format!(
            "a {} tensor of {} elements cannot take one of {size} parts of a {dtype} tensor of {}",
            part.dtype(),
            part.numel(),
            whole.numel()
        )));
    }
    macro_rules! scatter {
        ($($variant:ident => $type:ty),*) => {
            match dtype {
                $(DType::$variant => {
                    let op = plain(reduction, dtype)?;
                    let to = part.as_mut_slice::<$type>()?;
                    group.reduce_scatter(whole.as_slice::<$type>()?, to, op).map_err(remote)?;
                    average::<$type>(to, reduction, size);
                    return Ok(());
                })*
                _ => {}
            }
        };
    }
    scatter!(F32 => f32, F64 => f64, I32 => i32, I64 => i64, U8 => u8);
    // Rare types: everybody reduces everything, and takes its part.
    let mut all = whole.clone();
    all_reduce(group, &mut all, reduction)?;
    let bytes = part.as_bytes().len();
    let start = group.rank() * bytes;
    part.as_mut_bytes().copy_from_slice(&all.as_bytes()[start..start + bytes]);
    Ok(())
}

/// Divides the gradients of some tensors, of those that have one.
///
/// # Errors
/// When one is not of floats.
pub fn divide_gradients(tensors: &[EagerTensor], by: usize) -> Result<()> {
    for grad in tensors.iter().filter_map(EagerTensor::grad) {
        let mut value = Value::clone(&*grad.value()?);
        match &mut value {
            Value::Tensor(tensor) => divide(tensor, by)?,
            Value::Rows(rows) => divide(&mut rows.value, by)?,
        }
        grad.replace_on_host(value);
    }
    Ok(())
}

/// Divides a tensor of floats by the number of ranks.
///
/// # Errors
/// When it is not of floats.
pub(super) fn divide(tensor: &mut Tensor, size: usize) -> Result<()> {
    match tensor.dtype() {
        DType::F32 => f32::divide(tensor.as_mut_slice()?, size),
        DType::F64 => f64::divide(tensor.as_mut_slice()?, size),
        DType::F16 => {
            for value in tensor.as_mut_slice::<f16>()? {
                *value = f16::from_f32(value.to_f32() / size as f32);
            }
        }
        DType::BF16 => {
            for value in tensor.as_mut_slice::<bf16>()? {
                *value = bf16::from_f32(value.to_f32() / size as f32);
            }
        }
        dtype => return Err(no_average(dtype)),
    }
    Ok(())
}

fn dispatch(group: &Group, tensor: &mut Tensor, reduction: Reduction, goal: Goal) -> Result<()> {
    let dtype = tensor.dtype();
    let op = plain(reduction, dtype)?;
    let whole = Whole { group, reduction, op, goal };
    match dtype {
        DType::F32 => whole.run::<f32>(tensor.as_mut_slice()?),
        DType::F64 => whole.run::<f64>(tensor.as_mut_slice()?),
        DType::I32 => whole.run::<i32>(tensor.as_mut_slice()?),
        DType::I64 => whole.run::<i64>(tensor.as_mut_slice()?),
        DType::U8 => whole.run::<u8>(tensor.as_mut_slice()?),
        DType::Bool => whole.run::<u8>(tensor.as_mut_bytes()),
        // Sums and products wrap around in the narrow type as they do in the wide one.
        DType::I8 => whole.widened(tensor.as_mut_slice::<i8>()?, i32::from, |wide| wide as i8),
        DType::I16 => whole.widened(tensor.as_mut_slice::<i16>()?, i32::from, |wide| wide as i16),
        DType::F16 => whole.widened(tensor.as_mut_slice::<f16>()?, f16::to_f32, f16::from_f32),
        DType::BF16 => whole.widened(tensor.as_mut_slice::<bf16>()?, bf16::to_f32, bf16::from_f32),
    }
}

/// A reduction of whole tensors.
struct Whole<'a> {
    group: &'a Group,
    reduction: Reduction,
    op: Reduce,
    goal: Goal,
}

impl Whole<'_> {
    fn run<T: Element + Divide>(&self, data: &mut [T]) -> Result<()> {
        match self.goal {
            Goal::All => self.group.all_reduce(data, self.op).map_err(remote)?,
            Goal::Root(root) => self.group.reduce(data, self.op, root).map_err(remote)?,
        }
        average(data, self.reduction, self.group.size());
        Ok(())
    }

    fn widened<N: Copy, W: Element + Divide>(
        &self,
        data: &mut [N],
        widen: impl Fn(N) -> W,
        narrow: impl Fn(W) -> N,
    ) -> Result<()> {
        let mut wide: Vec<W> = data.iter().map(|value| widen(*value)).collect();
        self.run(&mut wide)?;
        for (value, wide) in data.iter_mut().zip(wide) {
            *value = narrow(wide);
        }
        Ok(())
    }
}

/// What the group is asked for.
fn plain(reduction: Reduction, dtype: DType) -> Result<Reduce> {
    Ok(match (reduction, dtype) {
        (Reduction::Sum, DType::Bool) => Reduce::Max,
        (Reduction::Product, DType::Bool) => Reduce::Min,
        (Reduction::Average, dtype) if !dtype.is_float() => return Err(no_average(dtype)),
        (Reduction::Sum | Reduction::Average, _) => Reduce::Sum,
        (Reduction::Product, _) => Reduce::Prod,
        (Reduction::Min, _) => Reduce::Min,
        (Reduction::Max, _) => Reduce::Max,
    })
}

fn no_average(dtype: DType) -> Error {
    Error::kernel(format!("there is no average of {dtype} values: cast them to float32"))
}

/// Division by the number of ranks, where there is one.
trait Divide: Sized {
    fn divide(data: &mut [Self], by: usize);
}

fn average<T: Divide>(data: &mut [T], reduction: Reduction, size: usize) {
    if reduction == Reduction::Average && size > 1 {
        T::divide(data, size);
    }
}

impl Divide for f32 {
    fn divide(data: &mut [f32], by: usize) {
        let share = 1.0 / by as f32;
        data.iter_mut().for_each(|value| *value *= share);
    }
}

impl Divide for f64 {
    fn divide(data: &mut [f64], by: usize) {
        let share = 1.0 / by as f64;
        data.iter_mut().for_each(|value| *value *= share);
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Divide for $type {
            // Refused before anything is sent.
            fn divide(_: &mut [$type], _: usize) {}
        }
    )*};
}

whole_numbers!(i32, i64, u8);

/// The engine's error for one of a group; an interrupt stays one.
pub fn remote(error: bireme_collective::Error) -> Error {
    match error {
        bireme_collective::Error::Interrupted { .. } => Error::Interrupted,
        other => Error::remote(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_alone_keeps_its_values_in_every_type() {
        let group = Group::alone();
        for reduction in [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max] {
            let mut half =
                Tensor::from_slice([2], &[f16::from_f32(1.5), f16::from_f32(-2.0)]).unwrap();
            all_reduce(&group, &mut half, reduction).unwrap();
            assert_eq!(half.to_f64_vec(), [1.5, -2.0]);
            let mut small = Tensor::from_slice([2], &[-100i8, 100]).unwrap();
            reduce(&group, &mut small, reduction, 0).unwrap();
            assert_eq!(small.to_f64_vec(), [-100.0, 100.0]);
        }
    }

    #[test]
    fn whole_numbers_have_no_average() {
        let mut tensor = Tensor::from_slice([1], &[3i64]).unwrap();
        let error = all_reduce(&Group::alone(), &mut tensor, Reduction::Average).unwrap_err();
        assert!(error.to_string().contains("no average of int64 values"), "{error}");
    }

    #[test]
    fn parts_must_fit() {
        let whole = Tensor::from_slice([4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let mut part = Tensor::from_slice([2], &[0.0f32, 0.0]).unwrap();
        let error = reduce_scatter(&Group::alone(), &whole, &mut part, Reduction::Sum).unwrap_err();
        assert!(error.to_string().contains("2 elements cannot take one of 1 parts"), "{error}");
    }
}
