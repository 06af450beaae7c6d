"""Paddle's global switches: those that mean something here, and those that need not.

`FLAGS_check_nan_inf`, here or in the environment, makes NaN and infinity errors.
`FLAGS_allow_tf32`, likewise, lets products of 32-bit floats on a GPU round their factors.
A flag that tunes machinery which Bireme does not have (allocators, GPU libraries) is remembered
and otherwise ignored: it cannot change a result. One that would change results is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = ["get_flags", "set_flags"]

_CHECK_FINITE = "FLAGS_check_nan_inf"
_ALLOW_TF32 = "FLAGS_allow_tf32"

# Memory and libraries that are not here: any value is as good as another.
_values: dict[str, Any] = {
    "FLAGS_allocator_strategy": "auto_growth",
    "FLAGS_allow_tf32": False,
    "FLAGS_benchmark": False,
    "FLAGS_check_nan_inf": False,
    "FLAGS_conv_workspace_size_limit": 512,
    "FLAGS_cudnn_batchnorm_spatial_persistent": False,
    "FLAGS_cudnn_exhaustive_search": False,
    "FLAGS_eager_delete_tensor_gb": 0.0,
    "FLAGS_fast_eager_deletion_mode": True,
    "FLAGS_fraction_of_cpu_memory_to_use": 1.0,
    "FLAGS_fraction_of_gpu_memory_to_use": 0.92,
    "FLAGS_gpu_memory_limit_mb": 0,
    "FLAGS_init_allocated_mem": False,
    "FLAGS_initial_cpu_memory_in_mb": 500,
    "FLAGS_memory_fraction_of_eager_deletion": 1.0,
    "FLAGS_paddle_num_threads": 1,
    "FLAGS_reallocate_gpu_memory_in_mb": 0,
    "FLAGS_selected_gpus": "",
    "FLAGS_sync_nccl_allreduce": True,
    "FLAGS_use_mkldnn": False,
    "FLAGS_use_pinned_memory": True,
    "FLAGS_use_system_allocator": False,
}

# What `FLAGS_paddle_num_threads` was set to by the script; the environment's is the core's to read.
_threads: int | None = None

# What holds here always, and why another value is refused.
_FIXED: dict[str, tuple[Any, str]] = {
    "FLAGS_cpu_deterministic": (True, "runs repeat to the bit anyway"),
    "FLAGS_cudnn_deterministic": (True, "runs repeat to the bit anyway"),
    "FLAGS_retain_grad_for_all_tensor": (False, "only leaves keep their gradients"),
}


def num_threads() -> int | None:
    """The threads of executors that are made from now on; None where no flag says it.

    >>> num_threads() is None
    True
    """
    return _threads


def set_flags(flags: Mapping[str, Any]) -> None:
    """Sets flags by name.

    With `FLAGS_check_nan_inf`, an op that produces NaN or infinity ends the step with an error that
    names it, in eager mode and in all executors; it costs a look at every value. With
    `FLAGS_allow_tf32`, products of 32-bit floats on a GPU round their factors to 10 bits of
    fraction, which is faster: in programs that are compiled from then on.

    >>> import bireme as paddle
    >>> paddle.set_flags({"FLAGS_benchmark": True})
    >>> paddle.get_flags("FLAGS_benchmark")
    {'FLAGS_benchmark': True}
    >>> paddle.set_flags({"FLAGS_benchmark": False})
    """
    if not isinstance(flags, Mapping):
        raise TypeError(f"`flags` must be a dict of names and values, not {type(flags).__name__}")
    for name, value in flags.items():
        if name in _FIXED:
            only, why = _FIXED[name]
            # The environment has no booleans: `True`, 1 and "1" are the same wish.
            if str(value).lower() not in (str(only).lower(), str(int(only))):
                raise NotImplementedError(f"`{name}` can only be {only}: {why}")
        else:
            _check_known(name)
            if name == "FLAGS_paddle_num_threads":
                _set_threads(value)
            if name == _CHECK_FINITE:
                value = _truth(name, value)
                _core.set_check_finite(value)
            if name == _ALLOW_TF32:
                value = _truth(name, value)
                _core.allow_tf32(value)
            _values[name] = value


def _set_threads(value: Any) -> None:
    global _threads
    if not str(value).isdecimal() or int(value) < 1:
        raise ValueError(f"`FLAGS_paddle_num_threads` must be a number from 1 on, not {value!r}")
    _threads = int(value)


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """The values of flags, by name.

    >>> import bireme as paddle
    >>> paddle.get_flags(["FLAGS_cpu_deterministic"])
    {'FLAGS_cpu_deterministic': True}
    """
    names = [flags] if isinstance(flags, str) else list(flags)
    for name in names:
        if name not in _FIXED:
            _check_known(name)
    return {name: _FIXED[name][0] if name in _FIXED else _values[name] for name in names}


def _truth(name: str, value: Any) -> bool:
    """The environment has no booleans: `True`, 1 and "1" are the same wish."""
    text = str(value).strip().lower()
    if text not in ("1", "true", "0", "false", ""):
        raise ValueError(f"`{name}` must be 0 or 1, not {value!r}")
    return text in ("1", "true")


def _check_known(name: str) -> None:
    if name in _values:
        return
    from difflib import get_close_matches

    near = get_close_matches(str(name), [*_values, *_FIXED], n=1)
    hint = f"; nearest: `{near[0]}`" if near else ""
    raise ValueError(f"flag `{name}` is not in Bireme{hint}")


for _name in (_CHECK_FINITE, _ALLOW_TF32):
    if _name in os.environ:
        set_flags({_name: os.environ[_name]})

__getattr__ = missing_names(__name__)
