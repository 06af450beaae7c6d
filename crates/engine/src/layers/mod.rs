//! The builder: functions that append ops to a graph and return what they compute.
//!
//! They read like the formulas of a Paddle script and append the same ops under the same names
//! (`fc_0.w_0`, `fc_0.tmp_1`). Layers with parameters have two forms: a function for the common
//! case, and a type of the same name for all options, which can be applied many times. An op that
//! has no function of its own is appended through [`op`].

mod activation;
mod apply;
mod data;
mod embedding;
mod fc;
mod loss;
mod math;
mod metric;
mod norm;
mod param;
mod sequence;
mod tensor;

#[cfg(test)]
mod tests;

pub use activation::*;
pub use apply::{Apply, op};
pub use data::{data, input, sequence_input};
pub use embedding::{Embedding, embedding};
pub use fc::{Fc, Linear, fc, linear};
pub use loss::*;
pub use math::*;
pub use metric::{Auc, AucResult, accuracy, auc};
pub use norm::{BatchNorm, DataNorm, LayerNorm, batch_norm, data_norm, dropout, layer_norm};
pub use param::{ParamAttr, create_parameter};
pub use sequence::{Pool, cvm, sequence_expand, sequence_pool};
pub use tensor::*;
