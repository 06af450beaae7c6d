//! Lists of values: tensor arrays, and what a loop keeps of its steps for its gradient. A list stands in a tensor in
//! the place of elements; who asks such a tensor for elements gets an error.

use std::sync::Arc;

use bireme_ir::{DType, VarKind};

use crate::op::{Meta, join, meta_of};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Result};

/// The values of a list. A copy shares them until it is changed.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// `LOD_TENSOR_ARRAY` or `STEP_SCOPES`.
    pub kind: VarKind,
    /// The values; `None` where nothing was written.
    pub items: Vec<Option<Arc<Value>>>,
}

impl List {
    /// A list without values.
    pub fn empty(kind: VarKind) -> List {
        List { kind, items: Vec::new() }
    }

    /// Writes item `at`; those before it that do not exist yet are without a value.
    pub fn set(&mut self, at: usize, item: Arc<Value>) {
        if self.items.len() <= at {
            self.items.resize(at + 1, None);
        }
        self.items[at] = Some(item);
    }

    /// Item `at`.
    ///
    /// # Errors
    /// When nothing was written there.
    pub fn get(&self, at: usize) -> Result<&Value> {
        self.items.get(at).and_then(Option::as_deref).ok_or_else(|| {
            let len = self.items.len();
            Error::kernel(format!("place {at} of the array was not written: it has {len} places"))
        })
    }

    /// What is known of it: the shape that its items share, as far as they do; as of one that nothing was
    /// written to, where they have different numbers of dimensions.
    pub(crate) fn meta(&self, dtype: DType) -> Meta {
        let unwritten = Meta { kind: self.kind, ..Meta::unwritten_list(dtype) };
        if self.kind != VarKind::LodTensorArray {
            return unwritten;
        }
        let items = self.items.iter().flatten().map(|item| meta_of(item));
        let shared =
            items.map(Meta::into_item).try_fold(unwritten.clone(), |all, item| join(&all, &item));
        shared.unwrap_or(unwritten)
    }
}

impl Tensor {
    /// A tensor that is a list.
    pub fn of_list(dtype: DType, list: List) -> Tensor {
        Tensor { list: Some(Arc::new(list)), ..Tensor::empty(dtype) }
    }

    /// The list that it holds in place of elements.
    pub fn list(&self) -> Option<&List> {
        self.list.as_deref()
    }

    /// The list that it holds, to be changed.
    ///
    /// # Errors
    /// When it is none.
    pub fn list_mut(&mut self) -> Result<&mut List> {
        self.list.as_mut().map(Arc::make_mut).ok_or_else(not_a_list)
    }
}

/// The error of a tensor with elements where a list is expected.
pub(crate) fn not_a_list() -> Error {
    Error::kernel("expected a tensor array, but the variable holds a tensor")
}

/// The error of a list where elements are expected.
pub(super) fn not_elements() -> Error {
    Error::kernel("expected a tensor, but the variable holds a list of tensors: read one of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f32) -> Arc<Value> {
        Arc::new(Tensor::scalar(value).into())
    }

    #[test]
    fn copies_share_items_until_one_is_changed() {
        let mut list = List::empty(VarKind::LodTensorArray);
        list.set(2, number(3.0));
        let one = Tensor::of_list(DType::F32, list);
        let mut other = one.clone();
        assert_eq!(one, other);
        other.list_mut().unwrap().set(0, number(1.0));
        assert_ne!(one, other);
        assert!(one.list().unwrap().get(0).unwrap_err().to_string().contains("place 0"));
        assert!(other.list().unwrap().get(0).is_ok());
        assert!(one.as_slice::<f32>().is_err());
    }

    #[test]
    fn a_list_knows_what_its_items_share() {
        let mut list = List::empty(VarKind::LodTensorArray);
        assert!(list.meta(DType::F32).is_unwritten_list());
        list.set(0, Arc::new(Tensor::zeros(DType::F32, [2, 3]).into()));
        assert_eq!(list.meta(DType::F32).dims, [2, 3]);
        list.set(1, Arc::new(Tensor::zeros(DType::F32, [4, 3]).into()));
        assert_eq!(list.meta(DType::F32).dims, [-1, 3]);
        list.set(2, number(1.0));
        assert!(list.meta(DType::F32).is_unwritten_list(), "they share nothing");
    }
}
