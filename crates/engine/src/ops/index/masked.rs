//! `masked_select`: the elements where a mask is true, in order, as a list. How many there are
//! only the data knows.

use crate::ops::prelude::*;
use crate::ops::shape::strided_walk::StridedWalk;

pub(super) const DEF: OpDef = OpDef::new("masked_select", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Mask")])
    .outputs(&[Slot::one("Y")])
    .infer(|cx: &mut Infer<'_>| {
        let out = Meta::new(cx.input("X")?.dtype, [-1]);
        cx.set("Y", out);
        Ok(())
    })
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Mask"]).second(second::linear));

/// The mask in the shape of `X`, repeated along dimensions that it lacks.
struct Mask {
    full: Tensor,
    walk: StridedWalk,
}

impl Mask {
    fn new() -> Mask {
        Mask { full: Tensor::empty(DType::Bool), walk: StridedWalk::default() }
    }

    fn over<'a>(&'a mut self, mask: &'a Tensor, x: Dims) -> Result<&'a [u8]> {
        if mask.dtype() != DType::Bool {
            return Err(Error::kernel(format!("`Mask` must be bool, not {}", mask.dtype())));
        }
        if mask.dims() == x {
            return mask.as_slice();
        }
        let (dims, strides) = (mask.dims(), mask.dims().strides());
        let new = x.len().checked_sub(dims.len());
        let fits = |new: usize| dims.iter().zip(&x[new..]).all(|(mask, x)| mask == x || *mask == 1);
        let Some(new) = new.filter(|new| fits(*new)) else {
            return Err(Error::kernel(format!("`Mask` {dims} does not fit `X` {x}")));
        };
        self.walk.start(0);
        for (at, len) in x.iter().enumerate() {
            let repeated = at < new || dims[at - new] != *len;
            self.walk.axis(*len, if repeated { 0 } else { strides[at - new] as isize });
        }
        self.full.resize(DType::Bool, x);
        self.walk.read(mask, &mut self.full);
        self.full.as_slice()
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mask, mut out) = (op.input("X")?, op.input("Mask")?, op.output("Y")?);
    let mut full = Mask::new();
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let mask = full.over(run.tensor(mask)?, x.dims())?;
        out.resize(x.dtype(), [mask.iter().filter(|chosen| **chosen != 0).count()]);
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
            let chosen = x.as_slice::<T>()?.iter().zip(mask).filter(|(_, chosen)| **chosen != 0);
            for (out, (x, _)) in out.as_mut_slice::<T>()?.iter_mut().zip(chosen) {
                *out = *x;
            }
            Ok(())
        }, else => unreachable!("every element type is listed"))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mask) = (op.input("X")?, op.input("Mask")?);
    let (dy, mut dx) = (op.input("Y@GRAD")?, op.output("X@GRAD")?);
    let mut full = Mask::new();
    Ok(Box::new(move |run| {
        let (dims, dy, dx) = (run.dims(x)?, run.tensor(dy)?, run.out(&mut dx)?);
        let mask = full.over(run.tensor(mask)?, dims)?;
        dx.resize(dy.dtype(), dims);
        dx.as_mut_bytes().fill(0);
        dispatch!(dy.dtype(), T in [f32, f64, i32, i64, f16, bf16] => {
            let chosen = dx.as_mut_slice::<T>()?.iter_mut().zip(mask).filter(|(_, m)| **m != 0);
            chosen.zip(dy.as_slice::<T>()?).for_each(|((dx, _), dy)| *dx = *dy);
            Ok(())
        }, else => Err(Error::kernel(format!("no gradient of {} elements", dy.dtype()))))
    }))
}
