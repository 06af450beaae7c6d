//! Mixed precision of eager mode: while it is on, ops read their floats as the lists of op types say.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use bireme_ir::{Attr, DType};

use super::{EagerTensor, Form, OpCache, Session};
use crate::Result;
use crate::amp::{Color, Lists, kept_slots};
use crate::op::{OpDef, is_half};

thread_local! {
    /// What ops of this thread are cast to; a thread that loads data must not see what another one trains with.
    static AUTO_CAST: RefCell<Option<Arc<AutoCast>>> = const { RefCell::new(None) };
}

static CAST: LazyLock<OpCache> = LazyLock::new(|| OpCache::new("cast").expect("`cast` is an op"));

/// How ops of eager mode choose their precision.
#[derive(Clone, Debug)]
pub struct AutoCast {
    /// The type of 16 bits.
    pub dtype: DType,
    /// Which ops use it.
    pub scope: CastScope,
    /// Op types by how they are computed.
    pub lists: Lists,
    /// Whether an op that no list decides computes with 32 bits as soon as one of its inputs has them.
    pub promotes: bool,
}

/// Which ops use 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastScope {
    /// White ones; others follow what they read (Paddle's O1).
    Follow,
    /// All but black ones (O2).
    All,
    /// White ones alone (OD).
    White,
}

impl AutoCast {
    /// The type that an op of this kind reads its floats as, given theirs.
    fn target(&self, kind: &str, mut given: impl Iterator<Item = DType>) -> DType {
        let color = self.lists.named(kind);
        match (self.scope, color) {
            (_, Some(Color::White)) => self.dtype,
            (_, Some(Color::Black)) | (CastScope::White, _) => DType::F32,
            (CastScope::All, _) => self.dtype,
            (CastScope::Follow, _) if self.promotes && given.any(|dtype| dtype == DType::F32) => {
                DType::F32
            }
            (CastScope::Follow, _) => self.dtype,
        }
    }
}

/// Ops that say themselves which types they take.
const LEFT_ALONE: [&str; 4] = ["assign", "cast", "check_finite_and_unscale", "update_loss_scaling"];

impl Session {
    /// Sets how ops of this thread choose their precision, `None` for what they are given; returns what was before.
    pub fn set_auto_cast(&self, auto_cast: Option<Arc<AutoCast>>) -> Option<Arc<AutoCast>> {
        AUTO_CAST.replace(auto_cast)
    }

    /// How ops of this thread choose their precision.
    pub fn auto_cast(&self) -> Option<Arc<AutoCast>> {
        AUTO_CAST.with_borrow(Option::clone)
    }

    /// The inputs of an op, cast where that is on; `None` where they stay as they are.
    pub(super) fn cast_inputs(
        &self,
        def: &OpDef,
        form: Form<'_>,
        inputs: &[EagerTensor],
    ) -> Result<Option<Vec<EagerTensor>>> {
        let Some(auto_cast) = self.auto_cast() else { return Ok(None) };
        if LEFT_ALONE.contains(&def.name) {
            return Ok(None);
        }
        let dtypes: Vec<Option<DType>> = inputs.iter().map(float_of).collect();
        let target = auto_cast.target(def.name, dtypes.iter().flatten().copied());
        if dtypes.iter().flatten().all(|dtype| *dtype == target) {
            return Ok(None);
        }
        let kept = kept_slots(def.name);
        let slots = def.signature.inputs.iter().zip(form.inputs);
        let slots = slots.flat_map(|(slot, count)| std::iter::repeat_n(slot.name, *count));
        let mut cast = Vec::with_capacity(inputs.len());
        for ((input, dtype), slot) in inputs.iter().zip(&dtypes).zip(slots) {
            cast.push(match dtype {
                Some(dtype) if *dtype != target && !kept.contains(&slot) => {
                    self.cast(input, *dtype, target)?
                }
                _ => input.clone(),
            });
        }
        Ok(Some(cast))
    }

    fn cast(&self, input: &EagerTensor, from: DType, to: DType) -> Result<EagerTensor> {
        let attrs = [("in_dtype", Attr::Int(from.code())), ("out_dtype", Attr::Int(to.code()))];
        let form = Form { attrs: &attrs, inputs: &[1], outputs: &[1] };
        let mut made = self.apply(&CAST, form, std::slice::from_ref(input))?;
        Ok(made.pop().expect("`cast` has one output"))
    }
}

/// The type of a dense tensor that casts are about.
fn float_of(tensor: &EagerTensor) -> Option<DType> {
    tensor.look(|value| {
        let dtype = value.tensor().ok()?.dtype();
        (dtype == DType::F32 || is_half(dtype)).then_some(dtype)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_decide_and_others_follow() {
        let auto =
            |scope| AutoCast { dtype: DType::BF16, scope, lists: Lists::default(), promotes: true };
        let of = |scope, kind, given: &[DType]| auto(scope).target(kind, given.iter().copied());
        let (half, full) = (DType::BF16, DType::F32);
        assert_eq!(of(CastScope::Follow, "matmul_v2", &[full, full]), half);
        assert_eq!(of(CastScope::Follow, "softmax", &[half]), full);
        assert_eq!(of(CastScope::Follow, "relu", &[half]), half);
        assert_eq!(of(CastScope::Follow, "elementwise_add", &[half, full]), full);
        assert_eq!(of(CastScope::All, "elementwise_add", &[half, full]), half);
        assert_eq!(of(CastScope::White, "relu", &[half]), full);
    }
}
