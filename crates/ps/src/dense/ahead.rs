//! What a block's optimizer says about where its parameter will be ([`LookAhead`]), for the parts of
//! it that are handed out to async trainers.

use bireme_engine::Value;
use bireme_engine::eager::Routine;
use bireme_engine::optimizer::{LookAhead, Reach};
use bireme_engine::tensor::Tensor;
use bireme_ir::Op;

/// Where an optimizer keeps its momentum, as places of a block's values.
pub(super) struct Momentum(LookAhead<usize>);

/// A prediction for one parameter: apply it to a copy of its values.
pub struct Ahead<'a> {
    reach: Reach,
    momentum: &'a [f32],
    squares: Option<&'a [f32]>,
}

impl Momentum {
    /// That of the op that updates `param`; `None` for optimizers without any.
    pub(super) fn find(ops: &[Op], param: Option<&str>, routine: &Routine) -> Option<Momentum> {
        let is_param = |name: &String| Some(name.as_str()) == param;
        let op = ops.iter().find(|op| op.outputs_of("ParamOut").iter().any(is_param))?;
        LookAhead::of(op, |slot| routine.find(op.inputs_of(slot).first()?)).map(Momentum)
    }

    /// What the momentum will do in the next `steps` updates; `None` before the first update, and
    /// for values that are not of 32 bits.
    pub(super) fn after<'a>(&self, steps: u32, values: &'a [Value]) -> Option<Ahead<'a>> {
        let found = self.0.map(|place| values[*place].tensor().ok().and_then(floats))?;
        let reach = found.reach(steps, |values| values.first().copied())?;
        Some(Ahead { reach, momentum: found.momentum, squares: found.squares })
    }
}

impl Ahead<'_> {
    /// Moves a copy of the parameter's elements from `start` on.
    pub fn apply(&self, start: usize, values: &mut [f32]) {
        let part = |all: &[f32]| start..all.len().min(start + values.len());
        let Some(momentum) = self.momentum.get(part(self.momentum)) else { return };
        let squares = match self.squares {
            None => None,
            Some(squares) => match squares.get(part(squares)) {
                None => return,
                found => found,
            },
        };
        self.reach.apply(values, momentum, squares);
    }
}

fn floats(tensor: &Tensor) -> Option<&[f32]> {
    tensor.as_slice::<f32>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_value_move_like_the_whole() {
        let (momentum, squares) = ([1.0, 2.0, 3.0, 4.0], [4.0, 4.0, 9.0, 16.0]);
        // Half of the momentum is left for one update, at a rate of four; nothing is added to roots.
        let op = Op::new("momentum").attr("mu", 0.5f32);
        let reach =
            LookAhead::of(&op, |_| Some(())).and_then(|ahead| ahead.reach(1, |()| Some(4.0)));
        let ahead = Ahead { reach: reach.unwrap(), momentum: &momentum, squares: Some(&squares) };
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
