//! Collective communication for Python: groups of processes, the tasks that they work on, and the
//! reducer of data parallel training.

mod group;
mod reducer;
mod task;

pub(crate) use group::ProcessGroup;
pub(crate) use reducer::{GradReducer, divide_gradients};
pub(crate) use task::Task;
