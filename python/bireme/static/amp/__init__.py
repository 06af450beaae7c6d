"""Mixed precision of static programs: its lists of ops exist, training by them does not.

Scripts import this module and build lists before they know whether they want mixed precision;
asking for it raises. `fp16_guard` marks ops for a program that mixed precision rewrites, and
changes nothing in one that it does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from ..._missing import missing_names
from . import bf16
from .bf16 import refusal

__all__ = ["AutoMixedPrecisionLists", "CustomOpLists", "bf16", "decorate", "fp16_guard"]


class AutoMixedPrecisionLists:
    """Which ops run in half precision: the white list does, the black list does not.

    >>> paddle.static.amp.AutoMixedPrecisionLists(["matmul"]).white_list
    {'matmul'}
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
        dtype: str = "float16",
    ) -> None:
        self.white_list = set(custom_white_list or ())
        self.black_list = set(custom_black_list or ())
        self.black_varnames = set(custom_black_varnames or ())
        self.amp_dtype = dtype
        both = self.white_list & self.black_list
        if both:
            raise ValueError(f"custom white list overlap custom black list: {sorted(both)}")


CustomOpLists = AutoMixedPrecisionLists


@contextlib.contextmanager
def fp16_guard() -> Iterator[None]:
    """Marks the ops of its block for half precision, of which there is none.

    >>> with paddle.static.amp.fp16_guard():
    ...     paddle.ones([1]).dtype.name
    'float32'
    """
    yield


def decorate(optimizer: Any, *arguments: Any, **options: Any) -> NoReturn:
    """Not in this version: raises.

    >>> paddle.static.amp.decorate(None)
    Traceback (most recent call last):
    ...
    NotImplementedError: `static.amp.decorate` is not in this version: programs are trained in ...
    """
    raise refusal("decorate")


__getattr__ = missing_names(__name__)
