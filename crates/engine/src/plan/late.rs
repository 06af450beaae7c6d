//! What others have done already is not done again.
//!
//! A gradient that comes late asks for a move away from where its weights were. When the weights have
//! moved that way since, by updates of steps beside this one, doing it once more overshoots: with
//! several threads the parameters are thrown back and forth along the few directions that all
//! gradients agree on. So the part of a gradient that lies along the move since, and asks for more
//! of it, is taken out; gradients that agree count once, those that have nothing to do with each
//! other count all. Lengths are measured as the optimizer does, by the roots of its squares.
//!
//! Where nobody has moved the weights, a gradient stays as it is, to the bit.

#![expect(unsafe_code, reason = "reads memory that training threads share")]

use std::ptr::NonNull;

use crate::plan::select::{SelectedOp, VarId};
use crate::simd::vectorized;
use crate::tensor::Tensor;
use crate::value::Value;

/// Elements that are copied at a time.
const BLOCK: usize = 1024;
/// Sums that are kept side by side, so that they are computed by vectors.
const LANES: usize = 16;

/// The gradient of one dense parameter, and what tells how late it is.
pub(crate) struct Late<V> {
    /// Changed in place.
    pub(crate) grad: V,
    /// The weights as they are.
    pub(crate) param: V,
    /// As the step has seen them.
    pub(crate) seen: V,
    /// Means or sums of squares by whose roots the optimizer divides.
    pub(crate) squares: Option<V>,
}

/// The gradient, the parameter and the squares of an update op; `None` for optimizers that measure
/// by something else, and for updates that not every step makes.
pub(super) fn of(op: &SelectedOp) -> Option<(VarId, VarId, Option<VarId>)> {
    let squares = match op.op.kind.as_str() {
        "sgd" | "momentum" => None,
        "adam" | "adamw" => Some("Moment2"),
        "adagrad" | "decayed_adagrad" => Some("Moment"),
        "rmsprop" => Some("MeanSquare"),
        _ => return None,
    };
    let param = op.input("Param").filter(|param| op.output("ParamOut") == Some(*param))?;
    let grad = op.input("Grad").filter(|_| !op.guarded)?;
    match squares {
        None => Some((grad, param, None)),
        Some(slot) => Some((grad, param, Some(op.input(slot)?))),
    }
}

/// Some elements of a parameter.
struct Block {
    moved: [f32; BLOCK],
    /// As the step has seen them; then the gradients by which they would move so far.
    seen: [f32; BLOCK],
    squares: [f32; BLOCK],
}

impl Late<NonNull<Value>> {
    /// Takes out of the gradient what others have done.
    ///
    /// # Safety
    /// The addresses are valid, and nobody else uses the gradient.
    pub(crate) unsafe fn correct(&self) {
        // SAFETY: the caller's promise; others may write elements, which are loaded as such.
        let tensor = |value: &NonNull<Value>| unsafe { value.as_ref() }.tensor().ok();
        let (Some(param), Some(seen)) = (tensor(&self.param), tensor(&self.seen)) else { return };
        let squares = self.squares.as_ref().and_then(tensor);
        // SAFETY: the caller's promise; the gradient is none of the values above.
        let Value::Tensor(grad) = (unsafe { &mut *self.grad.as_ptr() }) else { return };
        let Ok(grad) = grad.as_mut_slice::<f32>() else { return };
        let mut block = Block { moved: [0.0; BLOCK], seen: [0.0; BLOCK], squares: [1.0; BLOCK] };
        let (mut wanted, mut length) = (0.0, 0.0);
        for (at, grad) in grad.chunks(BLOCK).enumerate() {
            let Some((moved, weighed)) = block.load(at * BLOCK, grad.len(), (param, seen), squares)
            else {
                return;
            };
            wanted += dot(grad, moved);
            length += dot(weighed, moved);
        }
        // A gradient points uphill: where it asks for more of the move, the product is negative.
        let share = (wanted / length) as f32;
        if !(wanted < 0.0 && length > 0.0 && share.is_finite()) {
            return;
        }
        for (at, grad) in grad.chunks_mut(BLOCK).enumerate() {
            let Some((_, weighed)) = block.load(at * BLOCK, grad.len(), (param, seen), squares)
            else {
                return;
            };
            vectorized(
                #[inline(always)]
                || {
                    for (grad, weighed) in grad.iter_mut().zip(weighed) {
                        *grad -= share * weighed;
                    }
                },
            );
        }
    }
}

impl Block {
    /// Loads the elements from `at` on: how far they have moved, and that times the roots of squares.
    fn load(
        &mut self,
        at: usize,
        count: usize,
        (param, seen): (&Tensor, &Tensor),
        squares: Option<&Tensor>,
    ) -> Option<(&[f32], &[f32])> {
        let Block { moved, seen: weighed, squares: roots } = self;
        let (moved, weighed, roots) =
            (&mut moved[..count], &mut weighed[..count], &mut roots[..count]);
        param.load(at, moved).ok()?;
        seen.load(at, weighed).ok()?;
        squares.map_or(Ok(()), |squares| squares.load(at, roots)).ok()?;
        vectorized(
            #[inline(always)]
            || {
                for ((moved, weighed), root) in moved.iter_mut().zip(&mut *weighed).zip(roots) {
                    *moved -= *weighed;
                    *weighed = *moved * root.sqrt();
                }
            },
        );
        Some((moved, weighed))
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0f32; LANES];
    vectorized(
        #[inline(always)]
        || {
            let (of_a, of_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
            let rest = of_a.remainder().iter().zip(of_b.remainder());
            for (a, b) in of_a.zip(of_b) {
                for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                    *sum += a * b;
                }
            }
            for ((a, b), sum) in rest.zip(&mut sums) {
                *sum += a * b;
            }
        },
    );
    sums.iter().map(|sum| f64::from(*sum)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gradient after the weights have moved from `seen` to `param`.
    fn corrected(grad: &[f32], seen: &[f32], param: &[f32], squares: Option<&[f32]>) -> Vec<f32> {
        let value = |of: &[f32]| {
            Box::new(Value::Tensor(Tensor::from_slice([of.len()], of).expect("as many elements")))
        };
        let (mut grad, mut seen, mut param) = (value(grad), value(seen), value(param));
        let mut squares = squares.map(value);
        let late = Late {
            grad: NonNull::from(&mut *grad),
            param: NonNull::from(&mut *param),
            seen: NonNull::from(&mut *seen),
            squares: squares.as_deref_mut().map(NonNull::from),
        };
        // SAFETY: the values are alive, and this test's own.
        unsafe { late.correct() };
        grad.tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
    }

    #[test]
    fn what_was_done_is_not_asked_for_again() {
        let seen = [1.0, 1.0, 1.0];
        let moved_along = corrected(&[2.0, 1.0, 0.5], &seen, &[0.0, 1.0, 1.0], None);
        assert_eq!(moved_along, [0.0, 1.0, 0.5], "the first element has gone down already");
        let moved_against = corrected(&[2.0, 1.0, 0.5], &seen, &[2.0, 1.0, 1.0], None);
        assert_eq!(moved_against, [2.0, 1.0, 0.5]);
        let unmoved = corrected(&[2.0, 1.0, 0.5], &seen, &seen, None);
        assert_eq!(unmoved, [2.0, 1.0, 0.5]);
    }

    #[test]
    fn lengths_are_the_optimizers() {
        // A step of Adam divides by the roots: this gradient asks for the move that was made.
        let squares = [16.0, 1.0];
        let done = corrected(&[4.0, 1.0], &[1.0, 1.0], &[0.5, 0.5], Some(&squares));
        assert_eq!(done, [0.0, 0.0]);
    }

    #[test]
    fn long_parameters_are_one() {
        let count = 2 * BLOCK + LANES + 3;
        let (grad, seen, param) = (vec![1.0; count], vec![1.0; count], vec![0.5; count]);
        assert_eq!(corrected(&grad, &seen, &param, None), vec![0.0; count]);
        let mut half = param;
        half[count / 2..].copy_from_slice(&seen[count / 2..]);
        let left = corrected(&grad, &seen, &half, None);
        assert_eq!(left[..count / 2], vec![0.0; count / 2]);
        assert_eq!(left[count / 2..], vec![1.0; count - count / 2]);
    }
}
