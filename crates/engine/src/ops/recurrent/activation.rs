//! The activations that cells of 1.x programs choose from.

use crate::ops::prelude::*;

/// An activation whose slope follows from its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    Identity,
    Sigmoid,
    Tanh,
    Relu,
}

impl Activation {
    /// The activation with Paddle's number `number`, the value of attribute `attr`.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn of(attr: &str, number: i64) -> Result<Activation> {
        Ok(match number {
            0 => Activation::Identity,
            1 => Activation::Sigmoid,
            2 => Activation::Tanh,
            3 => Activation::Relu,
            other => {
                return Err(Error::kernel(format!(
                    "attribute `{attr}` must be 0 (identity), 1 (sigmoid), 2 (tanh) or 3 (relu), \
                     not {other}"
                )));
            }
        })
    }

    /// The activation that attribute `attr` of `op` names.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn named(op: &OpView<'_>, attr: &str) -> Result<Activation> {
        Ok(match op.string(attr)?.as_str() {
            "identity" => Activation::Identity,
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            other => {
                return Err(Error::kernel(format!(
                    "attribute `{attr}` must be identity, sigmoid, tanh or relu, not `{other}`"
                )));
            }
        })
    }

    /// Activates every value.
    pub(super) fn apply<T: Real>(self, values: &mut [T]) {
        vectorized(
            #[inline(always)]
            || match self {
                Activation::Identity => {}
                Activation::Sigmoid => values.iter_mut().for_each(|x| *x = x.sigmoid()),
                Activation::Tanh => values.iter_mut().for_each(|x| *x = x.tanh()),
                Activation::Relu => {
                    values.iter_mut().for_each(|x| *x = if *x > T::ZERO { *x } else { T::ZERO })
                }
            },
        );
    }

    /// The slope where the value is `y`.
    #[inline(always)]
    pub(super) fn slope<T: Real>(self, y: T) -> T {
        match self {
            Activation::Identity => T::ONE,
            Activation::Sigmoid => y * (T::ONE - y),
            Activation::Tanh => T::ONE - y * y,
            Activation::Relu => y.sign(),
        }
    }
}
