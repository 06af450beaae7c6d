"""Where a model is, and how to run it."""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import Any

from .. import _core
from .._names import set_public_names


class PlaceType(IntEnum):
    """Where a predictor runs; there are CPUs only.

    >>> paddle.inference.PlaceType.CPU.name
    'CPU'
    """

    CPU = 0


class PrecisionType(IntEnum):
    """How exact a predictor computes; there is one precision.

    >>> paddle.inference.PrecisionType.Float32.name
    'Float32'
    """

    Float32 = 0


class Config:
    """The files of a model: a folder, a prefix, or the paths of program and parameters.

    Switches that only make Paddle faster on a CPU are taken without effect (they change no
    result); one that would turn off what is always on warns, and those that ask for another device
    or precision raise.

    >>> paddle.inference.Config("model.pdmodel", "model.pdiparams").prog_file()
    'model.pdmodel'
    """

    def __init__(self, model_or_folder: str | None = None, params_file: str | None = None) -> None:
        self._model, self._params = model_or_folder, params_file
        # None: as many as an executor takes.
        self._threads: int | None = None
        self._place: Any = _core.CPUPlace()

    def set_model(self, model_or_folder: str, params_file: str | None = None) -> None:
        """Names the files, as the constructor does.

        >>> config = paddle.inference.Config()
        >>> config.set_model("folder")
        >>> config.model_dir()
        'folder'
        """
        self._model, self._params = model_or_folder, params_file

    def model_dir(self) -> str | None:
        """The folder or prefix, where one was given."""
        return self._model if self._params is None else None

    def prog_file(self) -> str | None:
        """The path of the program, where both were given."""
        return None if self._params is None else self._model

    def params_file(self) -> str | None:
        """The path of the parameters, where both were given."""
        return self._params

    def enable_use_gpu(self, memory_pool_init_size_mb: int = 100, device_id: int = 0) -> None:
        """Runs on a GPU: an error without one (see `CUDAPlace`).

        Memory is taken as it is needed, whatever `memory_pool_init_size_mb` says.

        >>> paddle.inference.Config().enable_use_gpu  # doctest: +ELLIPSIS
        <bound method Config.enable_use_gpu of ...>
        """
        self._place = _core.CUDAPlace(device_id)

    def disable_gpu(self) -> None:
        """Runs on the CPU, as it does unless told otherwise."""
        self._place = _core.CPUPlace()

    def use_gpu(self) -> bool:
        """Whether it runs on a GPU.

        >>> paddle.inference.Config().use_gpu()
        False
        """
        return bool(self._place.is_gpu_place())

    def gpu_device_id(self) -> int:
        """The number of the GPU; 0 where there is none.

        >>> paddle.inference.Config().gpu_device_id()
        0
        """
        return self._place.get_device_id() if self.use_gpu() else 0

    def set_cpu_math_library_num_threads(self, count: int) -> None:
        """Threads that share the rows of a batch."""
        if count < 1:
            raise ValueError(f"the number of threads must be at least 1, not {count}")
        self._threads = int(count)

    def cpu_math_library_num_threads(self) -> int:
        """What was set; 0 where nothing was, which leaves the number to the executor.

        >>> paddle.inference.Config().cpu_math_library_num_threads()
        0
        """
        return self._threads or 0

    def switch_ir_optim(self, enabled: bool = True) -> None:
        """Whether the program is optimised; it always is."""
        _always(enabled, "switch_ir_optim", "a program is always optimised")

    def switch_use_feed_fetch_ops(self, enabled: bool = True) -> None:
        """Whether inputs pass through feed ops; they never do."""

    def switch_specify_input_names(self, enabled: bool = True) -> None:
        """Whether inputs go by name; they always do."""
        _always(enabled, "switch_specify_input_names", "inputs always go by their names")

    def enable_memory_optim(self, enabled: bool = True) -> None:
        """Whether temporaries share memory; they always do."""
        _always(enabled, "enable_memory_optim", "temporaries always share memory")

    def enable_mkldnn(self) -> None:
        """Asks for a matrix library; the engine has its own."""

    def disable_glog_info(self) -> None:
        """Asks for silence; the engine is silent."""


def _always(enabled: bool, switch: str, why: str) -> None:
    if not enabled:
        warnings.warn(f"`{switch}(False)` has no effect: {why}", stacklevel=3)


def get_version() -> str:
    """The version of Bireme.

    >>> isinstance(paddle.inference.get_version(), str)
    True
    """
    return f"version: {_core.__version__}"


set_public_names(__name__)
