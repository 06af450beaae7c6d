//! What a variable holds while a program runs.

use bireme_ir::DType;

use crate::tensor::{SelectedRows, Tensor};
use crate::{Error, Result};

/// The contents of one variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A dense tensor.
    Tensor(Tensor),
    /// Rows of a taller tensor.
    Rows(SelectedRows),
}

impl Value {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Value::Tensor(tensor) => tensor.dtype(),
            Value::Rows(rows) => rows.value.dtype(),
        }
    }

    /// The tensor.
    ///
    /// # Errors
    /// When the variable holds selected rows.
    pub fn tensor(&self) -> Result<&Tensor> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            Value::Rows(_) => Err(Error::NotDense),
        }
    }

    /// The tensor, to be changed.
    ///
    /// # Errors
    /// When the variable holds selected rows.
    pub fn tensor_mut(&mut self) -> Result<&mut Tensor> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            Value::Rows(_) => Err(Error::NotDense),
        }
    }

    /// The selected rows, if that is what the variable holds.
    pub fn rows(&self) -> Option<&SelectedRows> {
        match self {
            Value::Tensor(_) => None,
            Value::Rows(rows) => Some(rows),
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}
