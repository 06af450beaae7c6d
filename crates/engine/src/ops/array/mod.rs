//! Tensor arrays: lists of tensors that a program writes and reads by number.
//!
//! To the engine an array is a value like any other: writing makes a new array, whose items are those of the old one,
//! shared, and the one that was written. Paddle's programs name only the array that is written; the plan adds the one
//! that is continued as slot `Array`.

use bireme_ir::VarKind;

use crate::ops::prelude::*;
use crate::tensor::not_a_list;

mod array_length;
mod empty_array;
mod read_from_array;
mod to_tensor;
mod write_to_array;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    array_length::DEF,
    empty_array::DEF,
    read_from_array::DEF,
    to_tensor::DEF,
    write_to_array::DEF,
];

/// The place that `I` names.
fn place(run: &Run<'_>, i: In) -> Result<usize> {
    let i = run.tensor(i)?;
    let number = match (i.numel(), i.dtype()) {
        (1, DType::I64) => i.as_slice::<i64>()?[0],
        (1, DType::I32) => i64::from(i.as_slice::<i32>()?[0]),
        (_, dtype) => {
            return Err(Error::kernel(format!(
                "`I` must be one whole number, not {dtype} of shape {}",
                i.dims()
            )));
        }
    };
    let place = usize::try_from(number).ok().filter(|place| *place < 1 << 24);
    place.ok_or_else(|| Error::kernel(format!("`I` is {number}, which is no place of an array")))
}

/// What an array's items are like.
fn items(array: &Meta) -> Result<Meta> {
    match array.kind {
        VarKind::LodTensorArray if array.is_unwritten_list() => Err(Error::kernel(
            "the shape of the array's items is not known: nothing is written to it before, or \
             items with different numbers of dimensions",
        )),
        VarKind::LodTensorArray => Ok(Meta { kind: VarKind::LodTensor, ..array.clone() }),
        _ => Err(not_a_list()),
    }
}

/// The items of the array in `x`.
fn list<'a>(run: &Run<'a>, x: In) -> Result<&'a List> {
    run.tensor(x)?.list().ok_or_else(not_a_list)
}
