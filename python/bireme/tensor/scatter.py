"""Writing slices of tensors: results are new tensors, and gradients pass through both parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._names import set_public_names
from .arguments import (
    Tensor,
    as_tensor,
    int_list,
    known_size,
    matched_shape,
    normal_axis,
    ops,
    require_tensor,
)


def scatter(
    x: Tensor, index: Tensor, updates: Tensor, overwrite: bool = True, name: str | None = None
) -> Tensor:
    """`x` with other rows at `index`; without `overwrite`, the sums of all updates of a row.

    >>> paddle.scatter(paddle.zeros([2, 1]), paddle.to_tensor([1]), paddle.ones([1, 1])).tolist()
    [[0.0], [1.0]]
    """
    return ops.scatter(x, index, updates, overwrite=overwrite)


def scatter_nd_add(x: Tensor, index: Tensor, updates: Tensor, name: str | None = None) -> Tensor:
    """`x` with updates added to the slices that the last axis of `index` names.

    >>> index, updates = paddle.to_tensor([[1], [1]]), paddle.ones([2])
    >>> paddle.scatter_nd_add(paddle.zeros([3]), index, updates).tolist()
    [0.0, 2.0, 0.0]
    """
    depth = index.shape[-1]
    sizes = [known_size(x, i, "scatter_nd_add") for i in range(depth)]
    rows, rest = math.prod(sizes), list(x.shape[depth:])
    columns = ops.unbind(ops.reshape2(index, shape=[-1, depth]), axis=1, _count=depth)
    flat = _flat_places(columns, x.shape[:depth])
    zeros = ops.fill_constant(shape=[rows, *rest], dtype=x.dtype, value=0.0)
    added = ops.scatter(zeros, flat, ops.reshape2(updates, shape=[-1, *rest]), overwrite=False)
    return x + ops.reshape2(added, shape=list(x.shape))


def scatter_nd(index: Tensor, updates: Tensor, shape: Any, name: str | None = None) -> Tensor:
    """Zeros of `shape` with updates added to the slices that `index` names.

    >>> paddle.scatter_nd(paddle.to_tensor([[1]]), paddle.ones([1]), [3]).tolist()
    [0.0, 1.0, 0.0]
    """
    zeros = ops.fill_constant(shape=int_list(shape), dtype=updates.dtype, value=0.0)
    return scatter_nd_add(zeros, index, updates)


def index_put(
    x: Tensor,
    indices: Sequence[Tensor],
    value: Any,
    accumulate: bool = False,
    name: str | None = None,
) -> Tensor:
    """`x` with other values at the places that one index tensor for each leading axis names.

    >>> places = (paddle.to_tensor([0, 1]), paddle.to_tensor([1, 0]))
    >>> paddle.index_put(paddle.zeros([2, 2]), places, paddle.ones([2])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    require_tensor(x, "x")
    if len(indices) == 1 and indices[0].dtype == "bool":
        places = ops.where_index(indices[0])
        indices = ops.unbind(places, axis=1, _count=indices[0].ndim)
    depth = len(indices)
    shape = matched_shape(*(i.shape for i in indices))
    columns = [ops.reshape2(_expanded(i, shape), shape=[-1]) for i in indices]
    flat, rest = _flat_places(columns, x.shape[:depth]), list(x.shape[depth:])
    updates = ops.reshape2(_expanded(as_tensor(value, x), [*shape, *rest]), shape=[-1, *rest])
    rows = ops.reshape2(x, shape=[-1, *rest])
    if accumulate:
        zeros = ops.fill_any_like(rows, value=0.0)
        rows = rows + ops.scatter(zeros, flat, updates, overwrite=False)
    else:
        rows = ops.scatter(rows, flat, updates, overwrite=True)
    return ops.reshape2(rows, shape=list(x.shape))


def index_add(
    x: Tensor, index: Tensor, axis: int, value: Tensor, name: str | None = None
) -> Tensor:
    """`x` with slices of `value` added to those that `index` names along an axis.

    >>> x, index = paddle.zeros([2, 1]), paddle.to_tensor([1, 1])
    >>> paddle.index_add(x, index, 0, paddle.ones([2, 1])).tolist()
    [[0.0], [2.0]]
    """
    require_tensor(x, "x")
    order = _to_front(axis, x.ndim)
    rows = ops.transpose2(x, axis=order)
    zeros = ops.fill_any_like(rows, value=0.0)
    updates = ops.transpose2(value, axis=order)
    rows = rows + ops.scatter(zeros, index, updates, overwrite=False)
    return ops.transpose2(rows, axis=_back(order))


def index_fill(x: Tensor, index: Tensor, axis: int, value: Any, name: str | None = None) -> Tensor:
    """`x` with a number in the slices that `index` names along an axis.

    >>> paddle.index_fill(paddle.zeros([2, 1]), paddle.to_tensor([1]), 0, 5.0).tolist()
    [[0.0], [5.0]]
    """
    require_tensor(x, "x")
    order = _to_front(axis, x.ndim)
    rows = ops.transpose2(x, axis=order)
    updates = _expanded(as_tensor(value, x), [index.shape[0], *rows.shape[1:]])
    return ops.transpose2(ops.scatter(rows, index, updates), axis=_back(order))


def select_scatter(
    x: Tensor, values: Tensor, axis: int, index: int, name: str | None = None
) -> Tensor:
    """`x` with another slice at one place of an axis.

    >>> paddle.select_scatter(paddle.zeros([2, 2]), paddle.ones([2]), 0, 1).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    require_tensor(x, "x")
    axis = normal_axis(axis, x.ndim)
    size = known_size(x, axis, "select_scatter")
    place = as_tensor([normal_axis(index, size, "index")], dtype="int64")
    order = _to_front(axis, x.ndim)
    rows = ops.scatter(ops.transpose2(x, axis=order), place, ops.unsqueeze2(values, axes=[0]))
    return ops.transpose2(rows, axis=_back(order))


def put_along_axis(
    arr: Tensor,
    indices: Tensor,
    values: Any,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Tensor:
    """`arr` with other values at the places that `indices` names on every line along an axis.

    `reduce` is assign or add.

    >>> x, places = paddle.zeros([2, 2]), paddle.to_tensor([[1], [0]])
    >>> paddle.put_along_axis(x, places, 5.0, axis=1).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    require_tensor(arr, "arr")
    if reduce not in ("assign", "add") or not include_self:
        raise NotImplementedError("`put_along_axis` can assign and add to what is there only")
    axis = normal_axis(axis, arr.ndim)
    shape = list(indices.shape)
    if broadcast:
        shape = [shape[i] if i == axis else size for i, size in enumerate(arr.shape)]
        indices = _expanded(indices, shape)
    columns = []
    for i, size in enumerate(shape):
        if i != axis:
            known_size(arr, i, "put_along_axis")
        line = np.arange(size, dtype="int64").reshape(
            [-1 if j == i else 1 for j in range(arr.ndim)]
        )
        columns.append(indices if i == axis else _expanded(as_tensor(line), shape))
    columns = [c if c.dtype == "int64" else c.astype("int64") for c in columns]
    return index_put(arr, columns, _expanded(as_tensor(values, arr), shape), reduce == "add")


def _expanded(x: Tensor, shape: list[int]) -> Tensor:
    return x if list(x.shape) == shape else ops.expand_v2(x, shape=shape)


def _flat_places(columns: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """One index into the flattened leading axes from one index for each; negative ones count
    from the end."""
    flat: Any = None
    for column, size in zip(columns, sizes):
        limit = ops.fill_any_like(column, value=float(size))
        column = ops.elementwise_mod(column, limit)
        flat = column if flat is None else ops.scale(flat, scale=float(size)) + column
    return flat


def _to_front(axis: int, ndim: int) -> list[int]:
    axis = normal_axis(axis, ndim)
    return [axis, *(i for i in range(ndim) if i != axis)]


def _back(order: list[int]) -> list[int]:
    return [order.index(i) for i in range(len(order))]


set_public_names(__name__)
