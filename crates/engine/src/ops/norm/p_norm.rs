//! `p_norm`: the `porder`-norm along an axis, or of all elements.
//!
//! Order 0 counts what is not zero; infinity and its negative are the largest and the smallest
//! distance from zero.

use bireme_ir::Attr;

use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::float("porder", 2.0),
    attr::int("axis", -1),
    attr::float("epsilon", 1e-12),
    attr::bool("keepdim", false),
    attr::bool("asvector", false),
];

pub(super) const DEF: OpDef = OpDef::new("p_norm", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(ATTRS)
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Out"]).formula(formula));

/// The gradient as other ops: `dout * sign(x) * (|x| / out) ^ (order - 1)`.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let Norm { order, axis, all, .. } = Norm::of(f.op())?;
    if !order.is_finite() || order == 0.0 {
        return Err(Error::kernel(format!(
            "there is no gradient of a gradient for `p_norm` of order {order}"
        )));
    }
    let (x, out, dout) = (f.input("X")?, f.input("Out")?, f.input("Out@GRAD")?);
    let axes = [
        ("dim", Attr::Ints(vec![axis as i32])),
        ("keep_dim", f.op().attr("keepdim")?),
        ("reduce_all", Attr::Bool(all)),
    ];
    let (out, dout) = (f.spread(&x, &out, &axes), f.spread(&x, &dout, &axes));
    let slope = if order == 2.0 {
        f.div(&x, &out)
    } else {
        let (sign, size) = (f.unary("sign", &x), f.unary("abs", &x));
        let ratio = f.div(&size, &out);
        let power = f.pow(&ratio, order - 1.0);
        f.mul(&sign, &power)
    };
    let dx = f.mul(&dout, &slope);
    f.give("X@GRAD", &dx);
    Ok(())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let (all, keep) = (cx.op().bool("asvector")?, cx.op().bool("keepdim")?);
    let axis = x.axis(cx.op().i64("axis")?)?;
    let mut dims = x.dims.clone();
    for at in (0..x.rank()).rev().filter(|at| all || *at == axis) {
        if keep {
            dims[at] = 1;
        } else {
            dims.remove(at);
        }
    }
    let out = x.with_dims(dims);
    cx.set("Out", out);
    Ok(())
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let within_rows = view.meta("X")?.axis(view.op.i64("axis").ok()?).ok()? > 0;
    let rows = view.spreads.iter().all(|spread| *spread == Spread::Rows);
    (within_rows && rows && !view.op.bool("asvector").ok()?).then(|| vec![Spread::Rows])
}

/// The attributes.
#[derive(Clone, Copy)]
struct Norm {
    order: f64,
    axis: i64,
    epsilon: f64,
    all: bool,
}

impl Norm {
    fn of(op: &OpView<'_>) -> Result<Norm> {
        Ok(Norm {
            order: op.f64("porder")?,
            axis: op.i64("axis")?,
            epsilon: op.f64("epsilon")?,
            all: op.bool("asvector")?,
        })
    }

    /// The length of the axis, and the elements that lie between neighbours along it.
    fn blocks(self, dims: Dims) -> Result<(usize, usize)> {
        let axis = if self.axis < 0 { self.axis + dims.len() as i64 } else { self.axis };
        match usize::try_from(axis) {
            _ if self.all || dims.is_empty() => Ok((dims.numel(), 1)),
            Ok(axis) if axis < dims.len() => Ok((dims[axis], dims.tail(axis + 1))),
            _ => Err(Error::kernel(format!("axis {} lies outside shape {dims}", self.axis))),
        }
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let norm = Norm::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let (len, width) = norm.blocks(run.dims(x)?)?;
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        for (index, out) in out.iter_mut().enumerate() {
            let start = index / width.max(1) * len * width + index % width.max(1);
            let vector = x.iter().skip(start).step_by(width.max(1)).take(len);
            *out = norm_of(vector.map(|x| x.to_f64()), norm.order) as T;
        }
    })
}

/// The norm of one vector; double precision keeps high powers in range.
#[expect(clippy::float_cmp, reason = "orders are exact")]
fn norm_of(vector: impl Iterator<Item = f64>, order: f64) -> f64 {
    let vector = vector.map(f64::abs);
    if order == 0.0 {
        vector.filter(|x| *x != 0.0).count() as f64
    } else if order == f64::INFINITY {
        vector.fold(0.0, f64::max)
    } else if order == f64::NEG_INFINITY {
        vector.fold(f64::INFINITY, f64::min)
    } else if order == 1.0 {
        vector.sum()
    } else if order == 2.0 {
        vector.map(|x| x * x).sum::<f64>().sqrt()
    } else {
        vector.map(|x| x.powf(order)).sum::<f64>().powf(order.recip())
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.input("Out")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let norm = Norm::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let (len, width) = norm.blocks(run.dims(x)?)?;
        let (x, dx) = (run.get::<T>(x)?, run.set::<T>(&mut dx)?);
        let (out, dout) = (run.get::<T>(out)?, run.get::<T>(dout)?);
        for (index, (x, dx)) in x.iter().zip(dx).enumerate() {
            let result = index / (len * width) * width + index % width;
            *dx = slope(norm, *x, out[result], dout[result]);
        }
    })
}

/// `dout * sign(x) * (|x| / out)^(order - 1)`, and its limits.
#[expect(clippy::float_cmp, reason = "orders are exact, and an extreme equals one of its elements")]
fn slope<T: Real>(norm: Norm, x: T, out: T, dout: T) -> T {
    let order = norm.order;
    if order == 0.0 {
        T::ZERO
    } else if order.is_infinite() {
        if x.magnitude() == out { x.sign() * dout } else { T::ZERO }
    } else if order == 1.0 {
        x.sign() * dout
    } else {
        let ratio = x.magnitude() / (out + T::from_f64(norm.epsilon));
        let power = if order == 2.0 { ratio } else { ratio.powf(T::from_f64(order - 1.0)) };
        x.sign() * power * dout
    }
}
