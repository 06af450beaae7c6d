//! PaddleRec's YAML: the file as written, with the place of every value.

mod hyper;
mod value;

pub use hyper::Hyper;
pub use value::{Node, Place, Value};
