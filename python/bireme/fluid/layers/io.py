"""What comes into a program of Paddle 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._names import set_public_names
from ...static.input import declare_feed
from ...static.program import Variable
from ..framework import static_by_default


def data(
    name: str,
    shape: Sequence[int | None],
    append_batch_size: bool = True,
    dtype: Any = "float32",
    lod_level: int = 0,
    type: Any = None,
    stop_gradient: bool = True,
) -> Variable:
    """Declares a variable that is fed by name; -1 for the batch is put in front of its shape.

    It is not where `append_batch_size` is False or the shape has an unknown size already. `type`
    has no meaning here: what is fed is a tensor.

    >>> paddle.fluid.layers.data("x", [13]).shape
    (-1, 13)
    >>> paddle.fluid.layers.data("y", [8, 1], append_batch_size=False).shape
    (8, 1)
    """
    static_by_default()
    sizes = [-1 if size is None or size < 0 else size for size in shape]
    if append_batch_size and -1 not in sizes:
        sizes = [-1, *sizes]
    var = declare_feed(name, sizes, dtype, lod_level)
    var.stop_gradient = stop_gradient
    return var


set_public_names(__name__)
