"""Static mode: build a program once, then run it many times.

>>> import bireme as paddle, numpy as np
>>> paddle.enable_static()
>>> main, startup = paddle.static.Program(), paddle.static.Program()
>>> with paddle.static.program_guard(main, startup):
...     x = paddle.static.data("x", [None, 13])
...     loss = paddle.mean(paddle.static.nn.fc(x, 1))
...     _ = paddle.optimizer.SGD(0.01).minimize(loss)
>>> exe = paddle.static.Executor(paddle.CPUPlace())
>>> _ = exe.run(startup)
>>> exe.run(main, feed={"x": np.zeros([4, 13], "float32")}, fetch_list=[loss])
[array([0.], dtype=float32)]
>>> paddle.disable_static()
"""

from .._missing import missing_names
from ..tensor.indexing import setitem
from . import amp, io, nn
from .backward import Print, append_backward, create_global_var, create_parameter, gradients
from .executor import BuildStrategy, CompiledProgram, ExecutionStrategy, Executor
from .inference import (
    deserialize_persistables,
    deserialize_program,
    load_inference_model,
    normalize_program,
    save_inference_model,
    serialize_persistables,
    serialize_program,
)
from .input import InputSpec, data
from .io import (
    load,
    load_from_file,
    load_program_state,
    load_vars,
    save,
    save_to_file,
    save_vars,
    set_program_state,
)
from .nn.metric import accuracy, auc, ctr_metric_bundle
from .program import (
    Program,
    Scope,
    Variable,
    cpu_places,
    cuda_places,
    default_main_program,
    default_startup_program,
    device_guard,
    global_scope,
    name_scope,
    program_guard,
    scope_guard,
)

__all__ = [
    "BuildStrategy",
    "CompiledProgram",
    "ExecutionStrategy",
    "Executor",
    "InputSpec",
    "Print",
    "Program",
    "Scope",
    "Variable",
    "accuracy",
    "amp",
    "append_backward",
    "auc",
    "cpu_places",
    "create_global_var",
    "create_parameter",
    "ctr_metric_bundle",
    "cuda_places",
    "data",
    "default_main_program",
    "default_startup_program",
    "deserialize_persistables",
    "deserialize_program",
    "device_guard",
    "global_scope",
    "gradients",
    "io",
    "load",
    "load_from_file",
    "load_inference_model",
    "load_program_state",
    "load_vars",
    "name_scope",
    "nn",
    "normalize_program",
    "program_guard",
    "save",
    "save_inference_model",
    "save_to_file",
    "save_vars",
    "scope_guard",
    "serialize_persistables",
    "serialize_program",
    "set_program_state",
    "setitem",
]

__getattr__ = missing_names(__name__)
