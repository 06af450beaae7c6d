//! `gelu`: `Out = X * Φ(X)`, with the normal distribution's Φ exact or through `tanh`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("gelu", kernel)
    .attrs(&[attr::bool("approximate", false)])
    .gradient(unary::from_x(grad_kernel).formula(formula));

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    if op.bool("approximate")? {
        unary::map!(op, |x, T| approximate(x))
    } else {
        unary::map!(op, |x, T| exact(x))
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    if op.bool("approximate")? {
        unary::map_grad!(op, "X", |x, dout, T| approximate_slope(x, dout))
    } else {
        unary::map_grad!(op, "X", |x, dout, T| exact_slope(x, dout))
    }
}

/// The gradient as other ops.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    if f.op().bool("approximate")? {
        return unary::formula(f, "X", approximate_formula);
    }
    unary::formula(f, "X", |f, x| {
        let inner = f.affine(x, std::f64::consts::FRAC_1_SQRT_2, 0.0);
        let erf = f.unary("erf", &inner);
        let phi = f.affine(&erf, 0.5, 0.5);
        let square = f.mul(x, x);
        let exponent = f.affine(&square, -0.5, 0.0);
        let exp = f.unary("exp", &exponent);
        let density = f.affine(&exp, INV_SQRT_TAU, 0.0);
        let product = f.mul(x, &density);
        f.add(&phi, &product)
    })
}

fn approximate_formula(f: &mut Formula<'_>, x: &str) -> String {
    let square = f.mul(x, x);
    let factor = f.affine(&square, SQRT_2_OVER_PI * CUBIC, SQRT_2_OVER_PI);
    let inner = f.mul(x, &factor);
    let tanh = f.unary("tanh", &inner);
    let tanh_square = f.mul(&tanh, &tanh);
    let rest = f.affine(&tanh_square, -1.0, 1.0);
    let inner_slope = f.affine(&square, 3.0 * SQRT_2_OVER_PI * CUBIC, SQRT_2_OVER_PI);
    let slope = f.mul(&rest, &inner_slope);
    let slope = f.mul(x, &slope);
    let sum = f.add(&tanh, &slope);
    f.affine(&sum, 0.5, 0.5)
}

#[inline(always)]
fn phi<T: Real>(x: T) -> T {
    T::from_f64(0.5) * (T::ONE + (x * T::from_f64(std::f64::consts::FRAC_1_SQRT_2)).erf())
}

#[inline(always)]
fn exact<T: Real>(x: T) -> T {
    x * phi(x)
}

#[inline(always)]
fn exact_slope<T: Real>(x: T, dout: T) -> T {
    let density = (x * x * T::from_f64(-0.5)).exp() * T::from_f64(INV_SQRT_TAU);
    dout * (phi(x) + x * density)
}

/// `1 / sqrt(2π)`
const INV_SQRT_TAU: f64 = std::f64::consts::FRAC_1_SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI / 2.0;
/// `sqrt(2 / π)`
const SQRT_2_OVER_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
const CUBIC: f64 = 0.044_715;

#[inline(always)]
fn approximate<T: Real>(x: T) -> T {
    let inner = T::from_f64(SQRT_2_OVER_PI) * (x + T::from_f64(CUBIC) * x * x * x);
    T::from_f64(0.5) * x * (T::ONE + inner.tanh())
}

#[inline(always)]
fn approximate_slope<T: Real>(x: T, dout: T) -> T {
    let tanh = (T::from_f64(SQRT_2_OVER_PI) * (x + T::from_f64(CUBIC) * x * x * x)).tanh();
    let inner_slope = T::from_f64(SQRT_2_OVER_PI) * (T::ONE + T::from_f64(3.0 * CUBIC) * x * x);
    let slope = T::ONE + tanh + x * (T::ONE - tanh * tanh) * inner_slope;
    dout * T::from_f64(0.5) * slope
}
