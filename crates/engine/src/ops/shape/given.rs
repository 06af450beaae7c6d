//! Integers that an op takes from an attribute, from one tensor, or from a list of tensors: the
//! shape of `reshape2`, the bounds of `slice`.

use crate::ops::prelude::*;

/// Where the integers come from.
#[derive(Default)]
pub(in crate::ops) struct Given {
    attr: Vec<i64>,
    tensor: Option<(In, &'static str)>,
    list: Vec<In>,
    /// The values of this step, when they come from tensors.
    now: Vec<i64>,
}

impl Given {
    /// From attribute `attr`, unless input slot `tensor` or `list` is filled.
    pub(in crate::ops) fn new(
        op: &OpView<'_>,
        attr: &str,
        tensor: &'static str,
        list: &str,
    ) -> Result<Given> {
        let given = Given::attr(op, attr)?;
        let list = op.inputs(list);
        let tensor = op.maybe_input(tensor).map(|input| (input, tensor));
        Ok(Given { tensor: tensor.filter(|_| list.is_empty()), list, ..given })
    }

    /// From attribute `attr`, unless input slot `list` is filled.
    pub(in crate::ops) fn or_list(op: &OpView<'_>, attr: &str, list: &str) -> Result<Given> {
        Ok(Given { list: op.inputs(list), ..Given::attr(op, attr)? })
    }

    /// From attribute `attr` only.
    pub(in crate::ops) fn attr(op: &OpView<'_>, attr: &str) -> Result<Given> {
        let values = if op.maybe_attr(attr).is_some() { op.longs(attr)? } else { Vec::new() };
        Ok(Given::fixed(values))
    }

    /// These values.
    pub(in crate::ops) fn fixed(values: Vec<i64>) -> Given {
        Given { attr: values, ..Given::default() }
    }

    /// The values, when they are known before anything runs.
    pub(in crate::ops) fn known(&self) -> Option<&[i64]> {
        (self.tensor.is_none() && self.list.is_empty()).then_some(self.attr.as_slice())
    }

    /// How many values there will be, as far as shapes tell.
    pub(in crate::ops) fn count(&self, cx: &Infer<'_>) -> Result<usize> {
        match self.tensor {
            Some((_, slot)) => match cx.input(slot)?.numel() {
                Some(count) => Ok(count as usize),
                None => Err(Error::kernel(format!("the length of `{slot}` must be known"))),
            },
            None if self.list.is_empty() => Ok(self.attr.len()),
            None => Ok(self.list.len()),
        }
    }

    /// Each value where it is known, -1 where a tensor will tell.
    pub(in crate::ops) fn guess(&self, cx: &Infer<'_>) -> Result<Vec<i64>> {
        let count = self.count(cx)?;
        // Paddle's front keeps the constants of a mixed list in the attribute.
        let kept = self.attr.len() == count && self.tensor.is_none();
        let guess = |i: usize| if kept && self.attr[i] > 0 { self.attr[i] } else { -1 };
        Ok(self.known().map_or_else(|| (0..count).map(guess).collect(), <[i64]>::to_vec))
    }

    /// The values of this step.
    pub(in crate::ops) fn read(&mut self, run: &Run<'_>) -> Result<&[i64]> {
        if self.known().is_some() {
            return Ok(&self.attr);
        }
        self.now.clear();
        for input in self.tensor.iter().map(|(input, _)| input).chain(&self.list) {
            extend_integers(&mut self.now, run.tensor(*input)?)?;
        }
        Ok(&self.now)
    }
}

/// Appends the elements of an integer tensor.
pub(in crate::ops) fn extend_integers(values: &mut Vec<i64>, tensor: &Tensor) -> Result<()> {
    match tensor.dtype() {
        DType::I32 => values.extend(tensor.as_slice::<i32>()?.iter().map(|v| i64::from(*v))),
        DType::I64 => values.extend(tensor.as_slice::<i64>()?),
        other => return Err(Error::kernel(format!("expected int32 or int64, not {other}"))),
    }
    Ok(())
}

/// The one integer in a tensor: an axis, a count.
pub(in crate::ops) fn integer(tensor: &Tensor) -> Result<i64> {
    let first = match tensor.dtype() {
        DType::I32 => tensor.as_slice::<i32>()?.first().map(|v| i64::from(*v)),
        DType::I64 => tensor.as_slice::<i64>()?.first().copied(),
        other => return Err(Error::kernel(format!("expected int32 or int64, not {other}"))),
    };
    first.ok_or_else(|| Error::kernel("an empty tensor stands for a number"))
}

/// The first element of a tensor that stands for a number, whatever its type.
pub(in crate::ops) fn first_number(tensor: &Tensor) -> Option<f64> {
    dispatch!(tensor.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
        tensor.as_slice::<T>().ok()?.first().map(|first| first.to_f64())
    }, else => None)
}
