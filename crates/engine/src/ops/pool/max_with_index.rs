//! `max_pool2d_with_index`: the maximum of each window, and in `Mask` where in its plane it lies.

use super::windows::{Config, Windows, infer};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::required("ksize", AttrKind::Ints),
    attr::ints("strides", &[1, 1]),
    attr::ints("paddings", &[0, 0]),
    attr::bool("global_pooling", false),
    attr::bool("adaptive", false),
];

pub(super) const DEF: OpDef = OpDef::new("max_pool2d_with_index", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out"), Slot::one("Mask")])
    .attrs(ATTRS)
    .infer(infer)
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Mask"]));

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut mask) = (op.input("X")?, op.output("Out")?, op.output("Mask")?);
    let (config, mut windows) = (Config::of(op)?, Windows::default());
    float_kernel!(op, "X", |run, T| {
        let dims = run.dims(x)?;
        config.lay(&mut windows, dims, run.out(&mut out)?.numel())?;
        forward::<T>(&windows, run.get(x)?, run.set(&mut out)?, run.set(&mut mask)?);
    })
}

fn forward<T: Real>(windows: &Windows, x: &[T], out: &mut [T], mask: &mut [i32]) {
    let result = windows.result();
    for outer in 0..windows.outer {
        let plane = &x[outer * windows.plane..][..windows.plane];
        let out = &mut out[outer * result..][..result];
        let mask = &mut mask[outer * result..][..result];
        windows.each(|at, rows, columns| {
            // A window of padding alone has no place; Paddle starts from these two.
            let (mut greatest, mut place) = (T::from_f64(f64::from(f32::MIN)), -1);
            for row in rows.start..rows.end {
                let line = windows.line(row, columns);
                for (position, x) in line.clone().zip(&plane[line]) {
                    if *x > greatest {
                        (greatest, place) = (*x, position as i32);
                    }
                }
            }
            (out[at], mask[at]) = (greatest, place);
        });
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mask, dout) = (op.input("X")?, op.input("Mask")?, op.input("Out@GRAD")?);
    let (mut dx, config, mut windows) = (op.output("X@GRAD")?, Config::of(op)?, Windows::default());
    float_kernel!(op, "Out@GRAD", |run, T| {
        let dims = run.dims(x)?;
        config.lay(&mut windows, dims, run.tensor(dout)?.numel())?;
        let mask = run.get::<i32>(mask)?;
        if mask.len() != run.tensor(dout)?.numel() {
            return Err(Error::kernel("`Mask` and `Out@GRAD` differ in shape"));
        }
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        dx.fill(T::ZERO);
        for (at, (place, dout)) in mask.iter().zip(dout).enumerate() {
            let plane = at / windows.result() * windows.plane;
            match usize::try_from(*place) {
                Ok(place) if place < windows.plane => dx[plane + place] += *dout,
                Err(_) => {}
                Ok(_) => {
                    let bound = windows.plane;
                    let problem = format!("{place} in `Mask` lies outside 0..{bound}");
                    return Err(Error::kernel(problem));
                }
            }
        }
    })
}
