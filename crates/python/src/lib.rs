//! `bireme._core`: the engine as a Python module.
//!
//! One file a wrapped type; each method extracts its arguments, enters the engine and wraps what
//! comes back. What a user sees (names, defaults, documentation) is Python, in `python/bireme`.

mod amp;
mod append;
mod array;
mod autograd;
mod backward;
mod block;
mod card;
mod card_figures;
mod collective;
mod collective_program;
mod console;
mod context;
mod convert;
mod dataset;
mod dataset_dump;
mod dataset_train;
mod dlpack;
mod dtype;
mod eager_parameter;
mod environment;
mod error;
mod executor;
mod files;
mod fleet;
mod gpubox;
mod home;
mod jobs;
mod kwargs;
mod lod_tensor;
mod mpi;
mod op_call;
mod operator;
mod operators;
mod optimizer;
mod optimizer_config;
mod parameter;
mod place;
mod program;
mod ranks;
mod rec;
mod role;
mod scope;
mod session;
mod site;
mod static_optimizer;
mod tensor;
mod transpiler;
mod variable;
mod window;

use pyo3::pymodule;

/// The module that Python imports.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::amp::{AutoCastState, amp_lists, auto_cast_state, get_auto_cast, set_auto_cast};
    #[pymodule_export]
    use crate::autograd::{backward, grad, record_custom};
    #[pymodule_export]
    use crate::backward::{append_backward, gradients};
    #[pymodule_export]
    use crate::block::Block;
    #[pymodule_export]
    use crate::card_figures::{
        CardEvent, allow_tf32, card_memory, card_properties, empty_card_caches, is_card_idle,
        reset_card_peak, synchronize_card,
    };
    #[pymodule_export]
    use crate::collective::{GradReducer, ProcessGroup, Task, divide_gradients};
    #[pymodule_export]
    use crate::collective_program::{
        broadcast_parameters, distribute_collective, leave_ranks, parallel_program,
    };
    #[pymodule_export]
    use crate::console::{launch, main};
    #[pymodule_export]
    use crate::context::{
        UniqueNames, default_main_program, default_startup_program, disable_static, enable_static,
        global_scope, in_dynamic_mode, switch_device, switch_main_program, switch_names,
        switch_scope, switch_startup_program, unique_name,
    };
    #[pymodule_export]
    use crate::dataset::{DataBatches, FileShare, MemoryData, QueueData};
    #[pymodule_export]
    use crate::dlpack::from_dlpack;
    #[pymodule_export]
    use crate::dtype::{DType, dtype};
    #[pymodule_export]
    use crate::eager_parameter::Parameter;
    #[pymodule_export]
    use crate::environment::{environment_variables, last_checkpoint};
    #[pymodule_export]
    use crate::executor::Executor;
    #[pymodule_export]
    use crate::files::{
        load_checkpoint, load_inference, load_persistables, load_tensor, save_inference,
        save_persistables, save_tensor,
    };
    #[pymodule_export]
    use crate::fleet::Fleet;
    #[pymodule_export]
    use crate::lod_tensor::LoDTensor;
    #[pymodule_export]
    use crate::mpi::{Mpi, own_address, symmetric_role};
    #[pymodule_export]
    use crate::op_call::{OpCall, Ops};
    #[pymodule_export]
    use crate::operator::Operator;
    #[pymodule_export]
    use crate::operators::operator;
    #[pymodule_export]
    use crate::optimizer::Optimizer;
    #[pymodule_export]
    use crate::parameter::{create_global_var, create_parameter};
    #[pymodule_export]
    use crate::place::{
        CPUPlace, CUDAPinnedPlace, CUDAPlace, card_count, current_card, set_current_place,
    };
    #[pymodule_export]
    use crate::program::Program;
    #[pymodule_export]
    use crate::rec::{auc, next_day, parse_yaml, passes_of_a_day};
    #[pymodule_export]
    use crate::role::environment_role;
    #[pymodule_export]
    use crate::scope::{Scope, ScopeVar};
    #[pymodule_export]
    use crate::session::{
        get_default_dtype, is_grad_enabled, seed, set_check_finite, set_default_dtype,
        set_grad_enabled,
    };
    #[pymodule_export]
    use crate::static_optimizer::learning_rate;
    #[pymodule_export]
    use crate::tensor::{Tensor, to_tensor};
    #[pymodule_export]
    use crate::transpiler::Transpiler;
    #[pymodule_export]
    use crate::variable::Variable;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::executor::note_main_thread();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("ops", Ops::with_all(module.py())?)?;
        crate::error::register(module)
    }
}
