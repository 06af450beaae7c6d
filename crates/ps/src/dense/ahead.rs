//! Where a parameter is expected to be by the time a gradient comes back.
//!
//! While an async trainer computes, the others' updates move the parameter, and its gradient belongs
//! to a place that the parameter has left. Optimizers with momentum tell where it goes, though: what
//! is left of earlier gradients moves it on whatever the next ones are. A trainer that starts from
//! there loses much less to the age of its values (weight prediction, as in pipelined training).

use bireme_engine::Value;
use bireme_engine::eager::Routine;
use bireme_engine::simd::vectorized;
use bireme_engine::tensor::Tensor;
use bireme_ir::{Attr, Op};

/// Where an optimizer keeps its momentum, as places of a block's values.
pub(super) enum Momentum {
    Adam { moments: [usize; 2], powers: [usize; 2], rate: usize, beta1: f32, epsilon: f32 },
    Velocity { velocity: usize, rate: usize, mu: f32 },
}

/// A prediction for one parameter: apply it to a copy of its values.
pub struct Ahead<'a> {
    /// How far the parameter moves for one unit of momentum.
    scale: f32,
    momentum: &'a [f32],
    /// Adam divides by the roots of these, and by this much more.
    squares: Option<(&'a [f32], f32)>,
}

impl Momentum {
    /// That of the op that updates `param`; `None` for optimizers without any.
    pub(super) fn find(ops: &[Op], param: Option<&str>, routine: &Routine) -> Option<Momentum> {
        let is_param = |name: &String| Some(name.as_str()) == param;
        let op = ops.iter().find(|op| op.outputs_of("ParamOut").iter().any(is_param))?;
        let place = |slot: &str| routine.find(op.inputs_of(slot).first()?);
        let number = |name: &str, usual: f32| match op.attrs.get(name) {
            Some(Attr::Float(value)) => *value,
            _ => usual,
        };
        match op.kind.as_str() {
            "adam" | "adamw" => Some(Momentum::Adam {
                moments: [place("Moment1")?, place("Moment2")?],
                powers: [place("Beta1Pow")?, place("Beta2Pow")?],
                rate: place("LearningRate")?,
                beta1: number("beta1", 0.9),
                epsilon: number("epsilon", 1e-8),
            }),
            "momentum" => Some(Momentum::Velocity {
                velocity: place("Velocity")?,
                rate: place("LearningRate")?,
                mu: number("mu", 0.9),
            }),
            _ => None,
        }
    }

    /// What the momentum will do in the next `steps` updates; `None` before the first update, and
    /// for values that are not of 32 bits.
    pub(super) fn after<'a>(&self, steps: u32, values: &'a [Value]) -> Option<Ahead<'a>> {
        let slice = |place: usize| values[place].tensor().ok().and_then(floats);
        let scalar = |place: usize| slice(place)?.first().copied();
        match self {
            Momentum::Adam { moments, powers, rate, beta1, epsilon } => {
                let (power1, power2) = (scalar(powers[0])?, scalar(powers[1])?);
                let root = (1.0 - power2).max(0.0).sqrt();
                let scale = scalar(*rate)? * root / (1.0 - power1) * what_is_left(*beta1, steps);
                let squares = Some((slice(moments[1])?, epsilon * root));
                Some(Ahead { scale, momentum: slice(moments[0])?, squares })
            }
            Momentum::Velocity { velocity, rate, mu } => {
                let scale = scalar(*rate)? * what_is_left(*mu, steps);
                Some(Ahead { scale, momentum: slice(*velocity)?, squares: None })
            }
        }
        .filter(|ahead| ahead.scale.is_finite() && ahead.scale != 0.0)
    }
}

impl Ahead<'_> {
    /// Moves a copy of the parameter's elements from `start` on.
    pub fn apply(&self, start: usize, values: &mut [f32]) {
        let part = |all: &[f32]| start..all.len().min(start + values.len());
        let Some(momentum) = self.momentum.get(part(self.momentum)) else { return };
        match self.squares {
            None => vectorized(
                #[inline(always)]
                || {
                    for (value, momentum) in values.iter_mut().zip(momentum) {
                        *value -= self.scale * momentum;
                    }
                },
            ),
            Some((squares, epsilon)) => {
                let Some(squares) = squares.get(part(squares)) else { return };
                vectorized(
                    #[inline(always)]
                    || {
                        for ((value, momentum), square) in
                            values.iter_mut().zip(momentum).zip(squares)
                        {
                            *value -= self.scale * momentum / (square.sqrt() + epsilon);
                        }
                    },
                );
            }
        }
    }
}

/// How often today's momentum counts in `steps` updates that bring no gradients of their own:
/// `beta + beta^2 + ...`.
fn what_is_left(beta: f32, steps: u32) -> f32 {
    let beta = beta.clamp(0.0, 0.9999);
    beta * (1.0 - beta.powi(i32::try_from(steps).unwrap_or(i32::MAX))) / (1.0 - beta)
}

fn floats(tensor: &Tensor) -> Option<&[f32]> {
    tensor.as_slice::<f32>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn momentum_fades() {
        assert_eq!(what_is_left(0.9, 0), 0.0);
        assert_eq!(what_is_left(0.5, 1), 0.5);
        assert_eq!(what_is_left(0.5, 2), 0.75);
        assert!((what_is_left(0.9, 1000) - 9.0).abs() < 1e-4);
    }

    #[test]
    fn parts_of_a_value_move_like_the_whole() {
        let (momentum, squares) = ([1.0, 2.0, 3.0, 4.0], [4.0, 4.0, 9.0, 16.0]);
        let ahead = Ahead { scale: 2.0, momentum: &momentum, squares: Some((&squares, 0.0)) };
        let mut whole = [10.0; 4];
        ahead.apply(0, &mut whole);
        assert_eq!(whole, [9.0, 8.0, 8.0, 8.0]);
        let mut part = [10.0; 2];
        ahead.apply(1, &mut part);
        assert_eq!(part, whole[1..3]);
        let mut beyond = [10.0; 2];
        ahead.apply(7, &mut beyond);
        assert_eq!(beyond, [10.0; 2]);
    }
}
