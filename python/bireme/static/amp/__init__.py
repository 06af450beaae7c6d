"""Mixed precision of static programs: `decorate` an optimizer, and `minimize` rewrites the program.

`fp16_guard` marks ops for a rewrite of these alone, which is not there: `amp_lists` says which ops take part.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..._missing import missing_names
from . import bf16
from .decorator import OptimizerWithMixedPrecision, decorate
from .lists import AutoMixedPrecisionLists, CustomOpLists

__all__ = [
    "AutoMixedPrecisionLists",
    "CustomOpLists",
    "OptimizerWithMixedPrecision",
    "bf16",
    "decorate",
    "fp16_guard",
]


@contextlib.contextmanager
def fp16_guard() -> Iterator[None]:
    """Marks the ops of its block, for `use_fp16_guard` of `decorate`, which raises; otherwise changes nothing.

    >>> with paddle.static.amp.fp16_guard():
    ...     paddle.ones([1]).dtype.name
    'float32'
    """
    yield


__getattr__ = missing_names(__name__)
