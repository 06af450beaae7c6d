//! Where a parameter is expected to be by the time a gradient comes back.
//!
//! While one trainer or thread computes, the others' updates move the parameter, and its gradient
//! belongs to a place that the parameter has left. Optimizers with momentum tell where it goes,
//! though: what is left of earlier gradients moves it on whatever the next ones are. Who starts from
//! there loses much less to the age of its values (weight prediction, as in pipelined training).
//! Servers hand such values out in async mode, and training threads begin their steps with them.

use bireme_ir::{Attr, Op};

use crate::simd::vectorized;

/// What an update op with momentum keeps, each as a `V`: whatever finds the value of a variable.
#[derive(Clone, Debug)]
pub struct LookAhead<V> {
    /// The mean of the gradients, or the velocity.
    pub momentum: V,
    /// The mean of their squares, for optimizers that divide by its root.
    pub squares: Option<V>,
    /// The learning rate.
    pub rate: V,
    /// The powers of Adam's decay rates.
    powers: Option<[V; 2]>,
    /// How much of the momentum an update leaves.
    beta: f32,
    epsilon: f32,
}

/// How far momentum will move a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// How far the parameter moves for one unit of momentum.
    scale: f32,
    /// What is added to the roots of squares.
    epsilon: f32,
}

impl<V> LookAhead<V> {
    /// That of an update op, whose slots `place` knows; `None` for optimizers without momentum.
    pub fn of(op: &Op, place: impl Fn(&str) -> Option<V>) -> Option<LookAhead<V>> {
        let number = |name: &str, usual: f32| match op.attrs.get(name) {
            Some(Attr::Float(value)) => *value,
            _ => usual,
        };
        match op.kind.as_str() {
            "adam" | "adamw" => Some(LookAhead {
                momentum: place("Moment1")?,
                squares: Some(place("Moment2")?),
                rate: place("LearningRate")?,
                powers: Some([place("Beta1Pow")?, place("Beta2Pow")?]),
                beta: number("beta1", 0.9),
                epsilon: number("epsilon", 1e-8),
            }),
            "momentum" => Some(LookAhead {
                momentum: place("Velocity")?,
                squares: None,
                rate: place("LearningRate")?,
                powers: None,
                beta: number("mu", 0.9),
                epsilon: 0.0,
            }),
            _ => None,
        }
    }

    /// The same, with values found in another way; `None` when one is not found.
    pub fn map<W>(&self, place: impl Fn(&V) -> Option<W>) -> Option<LookAhead<W>> {
        let both = |[one, two]: &[V; 2]| Some([place(one)?, place(two)?]);
        Some(LookAhead {
            momentum: place(&self.momentum)?,
            squares: self
                .squares
                .as_ref()
                .map(|squares| place(squares).ok_or(()))
                .transpose()
                .ok()?,
            rate: place(&self.rate)?,
            powers: self.powers.as_ref().map(|powers| both(powers).ok_or(())).transpose().ok()?,
            beta: self.beta,
            epsilon: self.epsilon,
        })
    }

    /// What the momentum will do in the next `steps` updates, given variables that are single
    /// numbers; `None` before the first update, and when a number is not known.
    pub fn reach(&self, steps: u32, number: impl Fn(&V) -> Option<f32>) -> Option<Reach> {
        let (rate, left) = (number(&self.rate)?, what_is_left(self.beta, steps));
        let reach = match &self.powers {
            None => Reach { scale: rate * left, epsilon: 0.0 },
            Some([power1, power2]) => {
                let (power1, power2) = (number(power1)?, number(power2)?);
                let root = (1.0 - power2).max(0.0).sqrt();
                let scale = rate * root / (1.0 - power1) * left;
                Reach { scale, epsilon: self.epsilon * root }
            }
        };
        Some(reach).filter(|reach| reach.scale.is_finite() && reach.scale != 0.0)
    }
}

impl Reach {
    /// Moves some elements of a parameter, given as many of its momentum and, if there are any, of
    /// the squares.
    pub fn apply(&self, values: &mut [f32], momentum: &[f32], squares: Option<&[f32]>) {
        let Reach { scale, epsilon } = *self;
        vectorized(
            #[inline(always)]
            || match squares {
                None => {
                    for (value, momentum) in values.iter_mut().zip(momentum) {
                        *value -= scale * momentum;
                    }
                }
                Some(squares) => {
                    for ((value, momentum), square) in values.iter_mut().zip(momentum).zip(squares)
                    {
                        *value -= scale * momentum / (square.sqrt() + epsilon);
                    }
                }
            },
        );
    }
}

/// How often today's momentum counts in `steps` updates that bring no gradients of their own:
/// `beta + beta^2 + ...`.
fn what_is_left(beta: f32, steps: u32) -> f32 {
    let beta = beta.clamp(0.0, 0.9999);
    beta * (1.0 - beta.powi(i32::try_from(steps).unwrap_or(i32::MAX))) / (1.0 - beta)
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
    fn a_parameter_moves_along_its_momentum() {
        let momentum = Op::new("momentum").attr("mu", 0.5f32);
        let ahead = LookAhead::of(&momentum, |slot| Some(slot.to_owned())).unwrap();
        let number = |name: &String| (name == "LearningRate").then_some(2.0);
        let reach = ahead.reach(2, number).unwrap();
        let mut values = [10.0, 10.0];
        reach.apply(&mut values, &[1.0, -2.0], None);
        assert_eq!(values, [8.5, 13.0]);
        assert_eq!(ahead.reach(0, number), None, "no update comes between");
        assert_eq!(ahead.map(|name| number(name)).map(|found| found.rate), None);
        assert!(LookAhead::of(&Op::new("sgd"), |_| Some(())).is_none());
    }

    #[test]
    fn adam_divides_by_the_roots_of_squares() {
        let reach = Reach { scale: 2.0, epsilon: 0.0 };
        let mut values = [10.0; 4];
        reach.apply(&mut values, &[1.0, 2.0, 3.0, 4.0], Some(&[4.0, 4.0, 9.0, 16.0]));
        assert_eq!(values, [9.0, 8.0, 8.0, 8.0]);
    }
}
