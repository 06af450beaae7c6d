"""`paddle.static.amp.bf16`: as `static.amp`, for bfloat16."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from ..._missing import missing_names

__all__ = ["AutoMixedPrecisionListsBF16", "bf16_guard", "decorate_bf16"]


class AutoMixedPrecisionListsBF16:
    """Which ops run in bfloat16, and which in float32.

    >>> paddle.static.amp.bf16.AutoMixedPrecisionListsBF16(custom_fp32_list=["mean"]).fp32_list
    {'mean'}
    """

    def __init__(
        self,
        custom_bf16_list: Iterable[str] | None = None,
        custom_fp32_list: Iterable[str] | None = None,
        custom_fp32_varnames: Iterable[str] | None = None,
    ) -> None:
        self.bf16_list = set(custom_bf16_list or ())
        self.fp32_list = set(custom_fp32_list or ())
        self.fp32_varnames = set(custom_fp32_varnames or ())
        both = self.bf16_list & self.fp32_list
        if both:
            raise ValueError(f"custom bf16 list overlap custom fp32 list: {sorted(both)}")


@contextlib.contextmanager
def bf16_guard() -> Iterator[None]:
    """Marks the ops of its block for bfloat16, of which there is none.

    >>> with paddle.static.amp.bf16.bf16_guard():
    ...     paddle.ones([1]).dtype.name
    'float32'
    """
    yield


def decorate_bf16(optimizer: Any, *arguments: Any, **options: Any) -> NoReturn:
    """Not in this version: raises.

    >>> paddle.static.amp.bf16.decorate_bf16(None)
    Traceback (most recent call last):
    ...
    NotImplementedError: `static.amp.bf16.decorate_bf16` is not in this version: programs are ...
    """
    raise refusal("bf16.decorate_bf16")


def refusal(name: str) -> NotImplementedError:
    """The error for what asks for mixed precision.

    >>> print(refusal("decorate"))
    `static.amp.decorate` is not in this version: programs are trained in float32; leave ...
    """
    return NotImplementedError(
        f"`static.amp.{name}` is not in this version: programs are trained in float32; leave the"
        " optimizer as it is"
    )


__getattr__ = missing_names(__name__)
