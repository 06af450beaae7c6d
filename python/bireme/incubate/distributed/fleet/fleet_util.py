"""`FleetUtil`: what scripts of jobs do to variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._missing import missing_names

__all__ = ["FleetUtil"]


class FleetUtil:
    """Helpers of a job's script.

    >>> import bireme as paddle
    >>> from bireme.incubate.distributed.fleet.fleet_util import FleetUtil
    >>> scope = paddle.static.Scope()
    >>> scope.var("count").get_tensor().set(np.ones([2], "int64"), paddle.CPUPlace())
    >>> FleetUtil().set_zero("count", scope)
    >>> np.array(scope.find_var("count").get_tensor())
    array([0, 0])
    """

    def __init__(self, mode: str = "pslib") -> None:
        if mode not in ("pslib", "transpiler"):
            raise ValueError(f"`mode` must be pslib or transpiler, not {mode!r}")
        self.mode = mode

    def set_zero(
        self, var_name: str, scope: Any = None, place: Any = None, param_type: str = "int64"
    ) -> None:
        """Sets a variable of a scope to zeros of its shape."""
        from ....static import global_scope

        var = (scope or global_scope()).find_var(var_name)
        if var is None or not var.is_initialized():
            raise ValueError(f"there is no variable `{var_name}` to set to zero")
        tensor = var.get_tensor()
        tensor.set(np.zeros(tensor.shape(), param_type), place)


__getattr__ = missing_names(__name__)
