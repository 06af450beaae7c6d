//! `sequence_mask`: for each length in `X`, a row that is 1 as far as the length and 0 behind it.

use crate::ops::prelude::*;
use crate::ops::shape::dims::{ranked, signed, sized};
use crate::ops::shape::given::integer;

pub(super) const DEF: OpDef = OpDef::new("sequence_mask", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("MaxLenTensor")])
    .outputs(&[Slot::one("Y")])
    .attrs(&[attr::int("maxlen", -1), attr::required("out_dtype", AttrKind::Int)])
    .infer(infer)
    .split(SplitRule::Fn(split));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, maxlen) = (cx.input("X")?, cx.op().i64("maxlen")?);
    let known = cx.maybe_input("MaxLenTensor").is_none() && maxlen >= 0;
    let width = if known { maxlen } else { -1 };
    let mut out = x.with_dims(ranked([&x.dims[..], &[width]].concat())?);
    out.lod_level = 0;
    cx.set("Y", out.with_dtype(cx.op().dtype("out_dtype")?));
    Ok(())
}

/// Without a given width, the longest sequence of the whole batch decides.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let fixed = view.op.i64("maxlen").is_ok_and(|maxlen| maxlen >= 0);
    let alone = view.inputs.len() == 1;
    if fixed && alone && view.meta("X")?.rank() > 0 { SplitRule::RowWise.apply(view) } else { None }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, by_tensor) = (op.input("X")?, op.output("Y")?, op.maybe_input("MaxLenTensor"));
    let (maxlen, dtype) = (op.i64("maxlen")?, op.dtype("out_dtype")?);
    let mut lengths: Vec<f64> = Vec::new();
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        read_lengths(&mut lengths, x)?;
        let maxlen = by_tensor.map_or(Ok(maxlen), |tensor| integer(run.tensor(tensor)?))?;
        let longest = || lengths.iter().fold(0.0, |most: f64, length| most.max(*length)) as i64;
        let width = if maxlen < 0 { longest() } else { maxlen };
        let mut dims = [0; crate::tensor::MAX_RANK];
        let rank = x.dims().len();
        dims[..rank].copy_from_slice(&signed(&x.dims()));
        dims[rank] = width;
        out.resize(dtype, sized(&dims[..=rank])?);
        dispatch!(dtype, T in [f32, f64, i32, i64, u8] => {
            let rows = out.as_mut_slice::<T>()?.chunks_exact_mut((width as usize).max(1));
            for (row, length) in rows.zip(&lengths) {
                // A fraction of an element counts as one, as in `j < length`.
                let ones = (length.ceil().max(0.0) as usize).min(row.len());
                row[..ones].fill(T::from_f64(1.0));
                row[ones..].fill(T::from_f64(0.0));
            }
            Ok(())
        }, else => Err(Error::kernel(format!("no masks of {dtype} elements"))))
    }))
}

fn read_lengths(lengths: &mut Vec<f64>, x: &Tensor) -> Result<()> {
    lengths.clear();
    dispatch!(x.dtype(), T in [i64, i32, f32, f64, f16, bf16, i16, i8, u8] => {
        lengths.extend(x.as_slice::<T>()?.iter().map(|length| length.to_f64()));
        Ok(())
    }, else => unreachable!("every element type is listed"))
}
