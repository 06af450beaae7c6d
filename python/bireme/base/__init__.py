"""What Paddle 2.6 calls `paddle.base`: the parts of `fluid` that it kept, under that name too.

>>> paddle.base.core is paddle.fluid.core
True
"""

import sys

from .. import fluid
from .._missing import missing_names

_MODULES = [
    "backward",
    "compiler",
    "core",
    "data_feeder",
    "dataset",
    "dygraph",
    "executor",
    "framework",
    "initializer",
    "io",
    "layers",
    "lod_tensor",
    "param_attr",
    "unique_name",
]
_NAMES = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CompiledProgram",
    "DataFeeder",
    "DatasetFactory",
    "Executor",
    "LoDTensor",
    "ParamAttr",
    "Program",
    "Scope",
    "Variable",
    "append_backward",
    "create_lod_tensor",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "global_scope",
    "gradients",
    "name_scope",
    "program_guard",
    "scope_guard",
]

__all__ = [*_MODULES, *_NAMES]  # noqa: PLE0604 (a list of names all the same)

globals().update({name: getattr(fluid, name) for name in __all__})
# So that `import paddle.base.core` finds the very same modules.
sys.modules.update({f"{__name__}.{name}": getattr(fluid, name) for name in _MODULES})

__getattr__ = missing_names(__name__)
