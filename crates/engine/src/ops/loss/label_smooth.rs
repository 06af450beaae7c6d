//! `label_smooth`: labels mixed with a distribution over all classes, uniform unless given.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("label_smooth", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("PriorDist")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::float("epsilon", 0.0)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], grad_kernel).like("Out@GRAD"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let classes = x.dims.last().copied().unwrap_or(1);
    if let Some(prior) = cx.maybe_input("PriorDist")
        && same_dim(prior.numel().unwrap_or(-1), classes).is_err()
    {
        let problem = format!("`PriorDist` {:?} does not fit {classes} classes", prior.dims);
        return Err(Error::kernel(problem));
    }
    cx.like(&[("Out", "X")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, prior, mut out) = (op.input("X")?, op.maybe_input("PriorDist"), op.output("Out")?);
    let epsilon = op.f64("epsilon")?;
    float_kernel!(op, "X", |run, T| {
        let dims = run.dims(x)?;
        let classes = dims.last().copied().unwrap_or(1);
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        let prior = prior.map(|prior| run.get::<T>(prior)).transpose()?;
        if prior.is_some_and(|prior| prior.len() != classes) {
            return Err(Error::kernel(format!("`PriorDist` does not have {classes} elements")));
        }
        smooth(x, prior, classes, epsilon, out);
    })
}

fn smooth<T: Real>(x: &[T], prior: Option<&[T]>, classes: usize, epsilon: f64, out: &mut [T]) {
    let keep = T::from_f64(1.0 - epsilon);
    let uniform = T::from_f64(epsilon / classes.max(1) as f64);
    let epsilon = T::from_f64(epsilon);
    vectorized(
        #[inline(always)]
        || match prior {
            None => out.iter_mut().zip(x).for_each(|(out, x)| *out = keep * *x + uniform),
            Some(prior) => {
                let rows = out.chunks_exact_mut(classes.max(1)).zip(x.chunks_exact(classes.max(1)));
                for (out, x) in rows {
                    for ((out, x), prior) in out.iter_mut().zip(x).zip(prior) {
                        *out = keep * *x + epsilon * *prior;
                    }
                }
            }
        },
    );
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let epsilon = op.f64("epsilon")?;
    float_kernel!(op, "Out@GRAD", |run, T| {
        let keep = T::from_f64(1.0 - epsilon);
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        dx.iter_mut().zip(dout).for_each(|(dx, dout)| *dx = keep * *dout);
    })
}
