//! The contract between ops and the engine: what a definition says, what a kernel sees.

mod def;
mod floats;
mod formula;
mod grad;
mod gradient;
mod halves;
mod handles;
mod infer;
mod once;
mod run;
pub(crate) mod second;
mod split;
mod view;

pub use def::{Flow, InferRule, OpDef, attr};
pub(crate) use floats::{float_kernel, not_float};
pub use formula::Formula;
pub use grad::{GradOps, GradRule, default_op};
pub use gradient::Gradient;
pub(crate) use halves::{ROUND_FACTORS, is_half};
pub use handles::{In, InOut, Out};
pub(crate) use infer::join;
pub use infer::{Infer, Meta, same_dim};
pub use once::{meta_of, run_once, shape_like};
pub use run::{Kernel, Run, Share};
pub use split::{SplitRule, SplitView, Spread};
pub use view::OpView;

pub use bireme_ir::{AttrKind, Slot};
