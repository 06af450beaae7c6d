//! `bireme._core`: the engine as a Python module.
//!
//! One file a wrapped type; each method extracts its arguments, enters the engine and wraps what
//! comes back. What a user sees (names, defaults, documentation) is Python, in `python/bireme`.

mod append;
mod backward;
mod block;
mod context;
mod convert;
mod error;
mod executor;
mod files;
mod kwargs;
mod lod_tensor;
mod operator;
mod optimizer;
mod optimizer_config;
mod parameter;
mod place;
mod program;
mod scope;
mod site;
mod static_optimizer;
mod variable;
mod window;

use pyo3::prelude::*;

/// The module that Python imports.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::backward::{append_backward, gradients};
    #[pymodule_export]
    use crate::block::Block;
    #[pymodule_export]
    use crate::context::{
        UniqueNames, default_main_program, default_startup_program, disable_static, enable_static,
        global_scope, in_dynamic_mode, switch_main_program, switch_names, switch_scope,
        switch_startup_program, unique_name,
    };
    #[pymodule_export]
    use crate::executor::Executor;
    #[pymodule_export]
    use crate::files::{
        load_inference, load_persistables, load_tensor, save_inference, save_persistables,
        save_tensor,
    };
    #[pymodule_export]
    use crate::lod_tensor::LoDTensor;
    #[pymodule_export]
    use crate::operator::Operator;
    #[pymodule_export]
    use crate::optimizer::Optimizer;
    #[pymodule_export]
    use crate::parameter::{create_global_var, create_parameter};
    #[pymodule_export]
    use crate::place::{CPUPlace, CUDAPinnedPlace, CUDAPlace};
    #[pymodule_export]
    use crate::program::Program;
    #[pymodule_export]
    use crate::scope::{Scope, ScopeVar};
    #[pymodule_export]
    use crate::variable::Variable;
}
