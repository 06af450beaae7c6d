"""Shapes, slices and gathers under their 1.x signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ...static.nn.parameters import activate
from ...tensor import gather_nd, shape, stack, unstack
from ...tensor import reshape as _reshape
from ...tensor import slice as _slice
from ...tensor import strided_slice as _strided_slice
from ...tensor import transpose as _transpose

Variable = Any
_ops = _core.ops

__all__ = [
    "concat",
    "expand",
    "expand_as",
    "flatten",
    "gather",
    "gather_nd",
    "reshape",
    "reverse",
    "scatter",
    "shape",
    "slice",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "transpose",
    "unsqueeze",
    "unstack",
]


def reshape(
    x: Variable,
    shape: Sequence[int] | Variable,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """`x` in another shape; -1 is worked out, 0 is kept. `inplace` has no meaning here.

    >>> paddle.fluid.layers.reshape(paddle.arange(6), [3, -1]).tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    return activate(_reshape(x, shape if actual_shape is None else actual_shape), act)


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Drops sizes of 1.

    >>> paddle.fluid.layers.squeeze(paddle.to_tensor([[1.0], [2.0]]), [1]).tolist()
    [1.0, 2.0]
    """
    return _ops.squeeze2(input, axes=_listed(axes), _outputs=("Out",))


def unsqueeze(input: Variable, axes: int | Sequence[int], name: str | None = None) -> Variable:
    """Puts in sizes of 1.

    >>> paddle.fluid.layers.unsqueeze(paddle.to_tensor([1.0, 2.0]), [1]).tolist()
    [[1.0], [2.0]]
    """
    return _ops.unsqueeze2(input, axes=_listed(axes), _outputs=("Out",))


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: sizes before `axis` are its rows.

    >>> paddle.fluid.layers.flatten(paddle.arange(8.0).reshape([2, 2, 2]), axis=2).tolist()
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]
    """
    return _ops.flatten2(x, axis=axis, _outputs=("Out",))


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """Dimensions in another order.

    >>> paddle.fluid.layers.transpose(paddle.arange(6).reshape([2, 3]), [1, 0]).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    return _transpose(x, perm)


def concat(input: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Tensors one after the other along `axis`.

    >>> paddle.fluid.layers.concat([paddle.ones([2, 1]), paddle.zeros([2, 2])], axis=1).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return _ops.concat(_listed(input), axis=axis)


def split(
    input: Variable,
    num_or_sections: int | Sequence[int],
    dim: int = -1,
    name: str | None = None,
) -> list[Variable]:
    """Pieces along `dim`: that many of equal size, or of the given sizes.

    >>> [part.shape for part in paddle.fluid.layers.split(paddle.ones([2, 4]), [1, 3])]
    [[2, 1], [2, 3]]
    """
    if isinstance(num_or_sections, int):
        return _ops.split(input, num=num_or_sections, axis=dim, _count=num_or_sections)
    sections = list(num_or_sections)
    return _ops.split(input, sections=sections, axis=dim, _count=len(sections))


def expand(x: Variable, expand_times: Sequence[int], name: str | None = None) -> Variable:
    """Repeats `x` along each dimension.

    >>> paddle.fluid.layers.expand(paddle.to_tensor([[1.0], [2.0]]), [1, 3]).tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    """
    return _ops.tile(x, repeat_times=_listed(expand_times))


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """Repeats `x` to the shape of another tensor.

    >>> paddle.fluid.layers.expand_as(paddle.to_tensor([[1.0, 2.0]]), paddle.ones([2, 2])).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    return _ops.expand_as_v2(x, target_tensor, target_shape=list(target_tensor.shape))


def slice(
    input: Variable, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]
) -> Variable:
    """`input[start:end]` along each axis.

    >>> paddle.fluid.layers.slice(paddle.arange(9).reshape([3, 3]), [0, 1], [1, 0], [3, 2]).tolist()
    [[3, 4], [6, 7]]
    """
    return _slice(input, axes, starts, ends)


def strided_slice(
    input: Variable,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
) -> Variable:
    """`input[start:end:stride]` along each axis.

    >>> paddle.fluid.layers.strided_slice(paddle.arange(4), [0], [0], [4], [2]).tolist()
    [0, 2]
    """
    return _strided_slice(input, axes, starts, ends, strides)


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """The rows that `index` names.

    Gradients of a row that is named twice are summed, as with `overwrite=False`: with its default
    Paddle 1.x keeps the last one only.

    >>> rows = paddle.to_tensor([[1.0], [2.0]])
    >>> paddle.fluid.layers.gather(rows, paddle.to_tensor([1])).tolist()
    [[2.0]]
    """
    return _ops.gather(input, index)


def scatter(
    input: Variable,
    index: Variable,
    updates: Variable,
    name: str | None = None,
    overwrite: bool = True,
) -> Variable:
    """`input` with the rows that `index` names replaced, or added to.

    >>> rows, index = paddle.zeros([2, 1]), paddle.to_tensor([1])
    >>> paddle.fluid.layers.scatter(rows, index, paddle.ones([1, 1])).tolist()
    [[0.0], [1.0]]
    """
    return _ops.scatter(input, index, updates, overwrite=overwrite)


def reverse(x: Variable, axis: int | Sequence[int]) -> Variable:
    """Elements in the opposite order along `axis`.

    >>> paddle.fluid.layers.reverse(paddle.to_tensor([1.0, 2.0]), 0).tolist()
    [2.0, 1.0]
    """
    return _ops.flip(x, axis=_listed(axis))


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]
