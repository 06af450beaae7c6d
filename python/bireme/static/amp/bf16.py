"""`paddle.static.amp.bf16`: as `static.amp`, for bfloat16."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from ..._missing import missing_names
from .decorator import OptimizerWithMixedPrecision, decorate
from .lists import AutoMixedPrecisionLists

__all__ = ["AutoMixedPrecisionListsBF16", "bf16_guard", "decorate_bf16"]


class AutoMixedPrecisionListsBF16(AutoMixedPrecisionLists):
    """Which ops run in bfloat16, and which in float32.

    >>> lists = paddle.static.amp.bf16.AutoMixedPrecisionListsBF16(custom_fp32_list=["relu"])
    >>> "relu" in lists.fp32_list
    True
    """

    def __init__(
        self,
        custom_bf16_list: Iterable[str] | None = None,
        custom_fp32_list: Iterable[str] | None = None,
        custom_fp32_varnames: Iterable[str] | None = None,
    ) -> None:
        super().__init__(custom_bf16_list, custom_fp32_list, custom_fp32_varnames, "bfloat16")
        self.bf16_list, self.fp32_list = self.white_list, self.black_list
        self.fp32_varnames = self.black_varnames


@contextlib.contextmanager
def bf16_guard() -> Iterator[None]:
    """Marks the ops of its block, for `use_bf16_guard` of `decorate_bf16`, which raises.

    >>> with paddle.static.amp.bf16.bf16_guard():
    ...     paddle.ones([1]).dtype.name
    'float32'
    """
    yield


def decorate_bf16(
    optimizer: Any,
    amp_lists: Any = None,
    use_pure_bf16: bool = False,
    use_bf16_guard: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """As `static.amp.decorate` with `bfloat16`; `use_pure_bf16` is its level O2.

    >>> sgd = paddle.optimizer.SGD(0.1, parameters=paddle.nn.Linear(1, 1).parameters())
    >>> paddle.static.amp.bf16.decorate_bf16(sgd).get_lr()
    0.1
    """
    level = "O2" if use_pure_bf16 else "O1"
    lists = amp_lists if amp_lists is not None else AutoMixedPrecisionListsBF16()
    return decorate(optimizer, lists, level, "bfloat16", use_amp_guard=use_bf16_guard)


__getattr__ = missing_names(__name__)
