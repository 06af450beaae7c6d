"""`fluid`: Paddle 1.x's API.

>>> import bireme.fluid as fluid
>>> x = fluid.layers.data("x", [13])
>>> y = fluid.layers.data("y", [1])
>>> cost = fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y)
>>> loss = fluid.layers.mean(cost)
>>> _ = fluid.optimizer.SGD(learning_rate=0.001).minimize(loss)
>>> exe = fluid.Executor(fluid.CPUPlace())
>>> exe.run(fluid.default_startup_program())
[]

`PyReader` is missing.
"""

from .._missing import missing_names
from . import (
    backward,
    clip,
    compiler,
    contrib,
    core,
    dataset,
    dygraph,
    executor,
    framework,
    incubate,
    initializer,
    io,
    layers,
    lod_tensor,
    metrics,
    nets,
    optimizer,
    param_attr,
    regularizer,
    transpiler,
    unique_name,
)
from .backward import append_backward, gradients
from .compiler import BuildStrategy, CompiledProgram, ExecutionStrategy
from .core import CPUPlace, CUDAPinnedPlace, CUDAPlace, is_compiled_with_cuda
from .data_feeder import DataFeeder
from .dataset import DatasetFactory, InMemoryDataset, QueueDataset
from .dygraph import disable_dygraph, enable_dygraph
from .executor import Executor, Scope, global_scope, scope_guard
from .framework import (
    Program,
    Variable,
    cpu_places,
    cuda_places,
    default_main_program,
    default_startup_program,
    device_guard,
    in_dygraph_mode,
    name_scope,
    program_guard,
)
from .inputs import data, embedding, memory_optimize, one_hot, release_memory
from .io import load, save
from .lod_tensor import LoDTensor, create_lod_tensor, create_random_int_lodtensor
from .parallel_executor import ParallelExecutor
from .param_attr import ParamAttr
from .transpiler import DistributeTranspiler, DistributeTranspilerConfig

# Paddle 1.x calls both the same.
Tensor = LoDTensor

__all__ = [
    "BuildStrategy",
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CompiledProgram",
    "DataFeeder",
    "DatasetFactory",
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "ExecutionStrategy",
    "Executor",
    "InMemoryDataset",
    "LoDTensor",
    "ParallelExecutor",
    "ParamAttr",
    "Program",
    "QueueDataset",
    "Scope",
    "Tensor",
    "Variable",
    "append_backward",
    "backward",
    "clip",
    "compiler",
    "contrib",
    "core",
    "cpu_places",
    "create_lod_tensor",
    "create_random_int_lodtensor",
    "cuda_places",
    "data",
    "dataset",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "disable_dygraph",
    "dygraph",
    "embedding",
    "enable_dygraph",
    "executor",
    "framework",
    "global_scope",
    "gradients",
    "in_dygraph_mode",
    "incubate",
    "initializer",
    "io",
    "is_compiled_with_cuda",
    "layers",
    "load",
    "lod_tensor",
    "memory_optimize",
    "metrics",
    "name_scope",
    "nets",
    "one_hot",
    "optimizer",
    "param_attr",
    "program_guard",
    "regularizer",
    "release_memory",
    "save",
    "scope_guard",
    "transpiler",
    "unique_name",
]

__getattr__ = missing_names(__name__)
