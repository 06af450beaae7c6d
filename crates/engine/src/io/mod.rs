//! Models on disk, in Paddle's formats: tensors, parameters, programs for inference.
//!
//! Saving is all or nothing: files are written aside and renamed when the last one is complete.
//! Loading believes no size before it has compared it with what the file holds, and changes a
//! scope only when everything has been read.

mod files;
mod inference;
mod persistables;
mod stream;

pub use files::{FileSet, write_file};
pub use inference::{
    InferenceModel, load_inference_model, load_inference_model_dir, save_inference_model,
    save_inference_model_dir,
};
pub use persistables::{
    load_params, load_persistables, load_vars, save_params, save_persistables, save_vars,
};
pub use stream::{TensorReader, write_tensor};
