//! Models on disk, in Paddle's formats: tensors, parameters, programs for inference.
//!
//! A save that fails changes nothing: files are written aside and renamed when the last one is
//! complete, and put back when a rename fails. A crash between two renames into a folder that
//! existed is the exception (`files.rs`).
//! Loading believes no size before it has compared it with what the file holds, and changes a
//! scope only when everything has been read.

mod files;
mod find;
mod inference;
mod persistables;
mod stream;

pub use files::{FileSet, write_file};
pub use find::{ModelFiles, find_model};
pub use inference::{
    InferenceModel, load_inference_model, load_inference_model_dir, save_inference_model,
    save_inference_model_dir,
};
pub use persistables::{
    load_params, load_persistables, load_vars, save_params, save_persistables, save_vars,
};
pub use stream::{TensorReader, write_tensor};
