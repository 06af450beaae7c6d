"""Shapes, slices, and putting tensors together and apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._names import set_public_names
from .arguments import (
    TENSORS,
    Tensor,
    Variable,
    as_tensor,
    int_list,
    integer,
    known_size,
    matched_shape,
    normal_axis,
    ops,
    real,
    require_tensor,
    sequence_of,
    shape_slots,
)
from .array import check_array


def cast(x: Tensor, dtype: Any) -> Any:
    """The same values with another element type.

    >>> paddle.cast(paddle.to_tensor([1.7]), "int64").tolist()
    [1]
    """
    require_tensor(x, "x")
    return ops.cast(x, in_dtype=x.dtype, out_dtype=dtype)


def reshape(x: Tensor, shape: Any, name: str | None = None) -> Any:
    """The same elements in another shape; -1 is what is left, 0 keeps a dimension.

    >>> paddle.reshape(paddle.arange(6), [3, -1]).tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    attribute, tensor, tensors = shape_slots(shape)
    if tensor is None and not tensors:
        return ops.reshape2(x, shape=attribute)
    return ops.reshape2(x, tensor, tensors, shape=attribute)


def flatten(x: Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Any:
    """One axis in place of those from `start_axis` to `stop_axis`.

    >>> paddle.flatten(paddle.arange(4).reshape([1, 2, 2]), 1).tolist()
    [[0, 1, 2, 3]]
    """
    require_tensor(x, "x")
    if x.ndim == 0:
        return ops.reshape2(x, shape=[1])
    start, stop = (
        normal_axis(start_axis, x.ndim, "start_axis"),
        normal_axis(stop_axis, x.ndim, "stop_axis"),
    )
    if start > stop:
        raise ValueError(f"`stop_axis` {stop_axis} is before `start_axis` {start_axis}")
    return ops.flatten_contiguous_range(x, start_axis=start, stop_axis=stop)


def transpose(x: Tensor, perm: Any, name: str | None = None) -> Any:
    """The axes in another order.

    >>> paddle.transpose(paddle.arange(6).reshape([2, 3]), [1, 0]).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    return ops.transpose2(x, axis=int_list(perm))


def moveaxis(x: Tensor, source: Any, destination: Any, name: str | None = None) -> Any:
    """Some axes at other places, the rest in their order.

    >>> paddle.moveaxis(paddle.arange(6).reshape([2, 3]), 0, 1).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    moved = [normal_axis(a, x.ndim, "source") for a in int_list(source)]
    places = [normal_axis(a, x.ndim, "destination") for a in int_list(destination)]
    order = [a for a in range(x.ndim) if a not in moved]
    for place, axis in sorted(zip(places, moved)):
        order.insert(place, axis)
    return ops.transpose2(x, axis=order)


def squeeze(x: Tensor, axis: Any = None, name: str | None = None) -> Any:
    """Without the axes of size 1, all or those named.

    >>> paddle.squeeze(paddle.to_tensor([[[1], [2]]])).tolist()
    [1, 2]
    """
    return ops.squeeze2(x, axes=[] if axis is None else int_list(axis))


def unsqueeze(x: Tensor, axis: Any, name: str | None = None) -> Any:
    """With new axes of size 1.

    >>> paddle.unsqueeze(paddle.to_tensor([1, 2]), [0, 2]).tolist()
    [[[1], [2]]]
    """
    attribute, tensor, tensors = shape_slots(axis, "axis")
    return ops.unsqueeze2(x, tensor, tensors, axes=attribute)


def concat(x: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Tensors one after the other along an axis.

    >>> paddle.concat([paddle.ones([2, 1]), paddle.zeros([2, 2])], axis=1).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    tensors = list(sequence_of(x, "concat"))
    if isinstance(axis, Variable):
        return ops.concat(tensors, axis, axis=0)
    return ops.concat(tensors, axis=integer(axis, "axis"))


def stack(x: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Tensors of one shape along a new axis.

    >>> paddle.stack([paddle.ones([2]), paddle.zeros([2])]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    return ops.stack(list(sequence_of(x, "stack")), axis=integer(axis, "axis"))


def split(x: Tensor, num_or_sections: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Cuts a tensor into equal parts, or into parts of given sizes (one may be -1).

    >>> [part.shape for part in paddle.split(paddle.ones([2, 5]), [1, -1], axis=1)]
    [[2, 1], [2, 4]]
    """
    require_tensor(x, "x")
    axis = normal_axis(axis, x.ndim)
    if isinstance(num_or_sections, (int, np.integer)):
        count = integer(num_or_sections, "num_or_sections")
        return ops.split(x, num=count, axis=axis, _count=count)
    attribute, _, tensors = shape_slots(num_or_sections, "num_or_sections")
    sections = _with_rest(attribute, x.shape[axis]) if not tensors else attribute
    return ops.split(x, None, tensors, sections=sections, axis=axis, _count=len(sections))


def chunk(x: Tensor, chunks: int, axis: Any = 0, name: str | None = None) -> Any:
    """Cuts a tensor into equal parts.

    >>> [part.shape for part in paddle.chunk(paddle.ones([4, 2]), 2)]
    [[2, 2], [2, 2]]
    """
    return split(x, chunks, axis)


def vsplit(x: Tensor, num_or_sections: Any, name: str | None = None) -> Any:
    """Cuts a tensor along its first axis.

    >>> [part.shape for part in paddle.vsplit(paddle.ones([4, 2]), 2)]
    [[2, 2], [2, 2]]
    """
    require_tensor(x, "x")
    if x.ndim < 2:
        raise ValueError(f"`vsplit` needs two axes or more, but the input has {x.ndim}")
    return split(x, num_or_sections, 0)


def unbind(input: Tensor, axis: Any = 0) -> Any:
    """The slices along an axis, without it.

    >>> [row.tolist() for row in paddle.unbind(paddle.eye(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    require_tensor(input, "input")
    axis = normal_axis(axis, input.ndim)
    return ops.unbind(input, axis=axis, _count=input.shape[axis])


def unstack(x: Tensor, axis: Any = 0, num: Any = None) -> Any:
    """The slices along an axis, without it: `num` of them.

    >>> [row.tolist() for row in paddle.unstack(paddle.eye(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    require_tensor(x, "x")
    axis = normal_axis(axis, x.ndim)
    count = x.shape[axis] if num is None else integer(num, "num")
    return ops.unstack(x, axis=axis, num=count, _count=count)


def tile(x: Tensor, repeat_times: Any, name: str | None = None) -> Any:
    """Copies of a tensor side by side along each axis.

    >>> paddle.tile(paddle.to_tensor([1, 2]), [2]).tolist()
    [1, 2, 1, 2]
    """
    attribute, tensor, tensors = shape_slots(repeat_times, "repeat_times")
    return ops.tile(x, tensor, tensors, repeat_times=attribute)


def expand(x: Tensor, shape: Any, name: str | None = None) -> Any:
    """Axes of size 1 repeated up to `shape`; -1 keeps a size.

    >>> paddle.expand(paddle.to_tensor([[1, 2]]), [3, -1]).tolist()
    [[1, 2], [1, 2], [1, 2]]
    """
    attribute, tensor, tensors = shape_slots(shape)
    return ops.expand_v2(x, tensor, tensors, shape=attribute)


def expand_as(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """Axes of size 1 repeated up to the shape of `y`.

    >>> paddle.expand_as(paddle.to_tensor([[1, 2]]), paddle.ones([3, 2])).tolist()
    [[1, 2], [1, 2], [1, 2]]
    """
    return ops.expand_as_v2(x, y, target_shape=list(y.shape))


def broadcast_tensors(input: Any, name: str | None = None) -> Any:
    """All tensors of a list, repeated to the shape that fits them all.

    >>> [t.shape for t in paddle.broadcast_tensors([paddle.ones([1, 2]), paddle.ones([3, 1])])]
    [[3, 2], [3, 2]]
    """
    shape = matched_shape(*(t.shape for t in input))
    return [expand(t, shape) for t in input]


def flip(x: Tensor, axis: Any, name: str | None = None) -> Any:
    """Backwards along some axes.

    >>> paddle.flip(paddle.to_tensor([1, 2, 3]), axis=0).tolist()
    [3, 2, 1]
    """
    return ops.flip(x, axis=int_list(axis))


def rot90(x: Tensor, k: int = 1, axes: Any = (0, 1), name: str | None = None) -> Any:
    """Turned by 90 degrees `k` times in the plane of two axes.

    >>> paddle.rot90(paddle.to_tensor([[1, 2]])).tolist()
    [[2], [1]]
    """
    first, second = (normal_axis(a, x.ndim, "axes") for a in axes)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    turns = k % 4
    if turns == 0:
        return ops.assign(x)
    if turns == 2:
        return ops.flip(x, axis=[first, second])
    if turns == 1:
        return ops.transpose2(ops.flip(x, axis=[second]), axis=order)
    return ops.flip(ops.transpose2(x, axis=order), axis=[second])


def roll(x: Tensor, shifts: Any, axis: Any = None, name: str | None = None) -> Any:
    """Elements moved on by `shifts`, and round at the end.

    >>> paddle.roll(paddle.to_tensor([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    shifts = int_list(shifts)
    return ops.roll(x, shifts=shifts, axis=[] if axis is None else int_list(axis))


def slice(input: Tensor, axes: Any, starts: Any, ends: Any) -> Any:
    """The part from `starts` to `ends` along `axes`.

    >>> paddle.slice(paddle.to_tensor([1, 2, 3]), [0], [1], [3]).tolist()
    [2, 3]
    """
    first, first_tensor, first_list = shape_slots(starts, "starts")
    last, last_tensor, last_list = shape_slots(ends, "ends")
    return ops.slice(
        input,
        first_tensor,
        last_tensor,
        first_list,
        last_list,
        axes=int_list(axes),
        starts=first,
        ends=last,
    )


def strided_slice(
    x: Tensor, axes: Any, starts: Any, ends: Any, strides: Any, name: str | None = None
) -> Any:
    """Every so many elements from `starts` to `ends` along `axes`.

    >>> paddle.strided_slice(paddle.to_tensor([1, 2, 3]), [0], [0], [3], [2]).tolist()
    [1, 3]
    """
    first, first_tensor, first_list = shape_slots(starts, "starts")
    last, last_tensor, last_list = shape_slots(ends, "ends")
    every, every_tensor, every_list = shape_slots(strides, "strides")
    return ops.strided_slice(
        x,
        first_tensor,
        last_tensor,
        first_list,
        last_list,
        every_tensor,
        every_list,
        axes=int_list(axes),
        starts=first,
        ends=last,
        strides=every,
    )


def crop(x: Tensor, shape: Any = None, offsets: Any = None, name: str | None = None) -> Any:
    """A part of `shape` that begins at `offsets`.

    >>> paddle.crop(paddle.to_tensor([1, 2, 3]), [2], [1]).tolist()
    [2, 3]
    """
    require_tensor(x, "x")
    first = [0] * x.ndim if offsets is None else int_list(offsets)
    sizes = list(x.shape) if shape is None else int_list(shape)
    ends = [x.shape[i] if n == -1 else first[i] + n for i, n in enumerate(sizes)]
    return ops.slice(x, axes=list(range(x.ndim)), starts=first, ends=ends)


def gather(x: Tensor, index: Any, axis: Any = None, name: str | None = None) -> Any:
    """The slices of `x` that `index` names along an axis.

    >>> paddle.gather(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([1])).tolist()
    [[3, 4]]
    """
    tensor = axis if isinstance(axis, Variable) else None
    number = 0 if axis is None or tensor is not None else integer(axis, "axis")
    if index.ndim == 0:
        out = ops.gather(x, ops.reshape2(index, shape=[1]), tensor, axis=number)
        return ops.squeeze2(out, axes=[number])
    return ops.gather(x, index, tensor, axis=number)


def gather_nd(x: Tensor, index: Any, name: str | None = None) -> Any:
    """The slices of `x` that the last axis of `index` names.

    >>> paddle.gather_nd(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([[1, 0]])).tolist()
    [3]
    """
    return ops.gather_nd(x, index)


def take_along_axis(arr: Tensor, indices: Any, axis: int, broadcast: bool = True) -> Any:
    """From every line along an axis, the elements that `indices` names.

    >>> paddle.take_along_axis(paddle.to_tensor([[1, 2], [3, 4]]), paddle.to_tensor([[1], [0]]), 1).tolist()
    [[2], [3]]
    """
    require_tensor(arr, "arr")
    axis = normal_axis(axis, arr.ndim)
    if broadcast:
        shape = matched_shape(*(_but(v.shape, axis) for v in (arr, indices)))
        indices = expand(indices, [*shape[:axis], indices.shape[axis], *shape[axis + 1 :]])
        arr = expand(arr, [*shape[:axis], arr.shape[axis], *shape[axis + 1 :]])
    return ops.take_along_axis(arr, indices, Axis=axis)


def repeat_interleave(x: Tensor, repeats: Any, axis: Any = None, name: str | None = None) -> Any:
    """Each slice several times in a row.

    >>> paddle.repeat_interleave(paddle.to_tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    if axis is None:
        x, axis = ops.reshape2(x, shape=[-1]), 0
    axis = normal_axis(axis, x.ndim)
    counts = int_list(repeats, "repeats")
    size = known_size(x, axis, "repeat_interleave")
    if len(counts) not in (1, size) or not 0 <= min(counts) <= max(counts) < 2**31:
        # numpy does not survive numbers of which the sum is none.
        raise ValueError(
            f"`repeats` must be one number or {size}, of 0 to 2147483647, but is {repeats}"
        )
    places = np.repeat(np.arange(size), counts if len(counts) > 1 else counts[0])
    return ops.index_select(x, as_tensor(places, dtype="int64"), dim=axis)


def unflatten(x: Tensor, axis: int, shape: Any, name: str | None = None) -> Any:
    """Several axes in place of one.

    >>> paddle.unflatten(paddle.arange(6), 0, [2, 3]).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    require_tensor(x, "x")
    axis = normal_axis(axis, x.ndim)
    sizes = int_list(shape)
    return ops.reshape2(x, shape=[*x.shape[:axis], *sizes, *x.shape[axis + 1 :]])


def view(x: Tensor, shape_or_dtype: Any, name: str | None = None) -> Any:
    """The same elements in another shape; a view on another element type is not there.

    >>> paddle.view(paddle.arange(6).reshape([2, 3]), [6]).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    if not isinstance(shape_or_dtype, (list, tuple)):
        raise NotImplementedError("`view` changes shapes only: use `cast` for element types")
    return reshape(x, shape_or_dtype)


def view_as(x: Tensor, other: Tensor, name: str | None = None) -> Any:
    """The same elements in the shape of another tensor.

    >>> paddle.view_as(paddle.arange(6).reshape([2, 3]), paddle.ones([6])).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    return ops.reshape2(x, shape=list(other.shape))


def tensordot(x: Tensor, y: Tensor, axes: Any = 2, name: str | None = None) -> Any:
    """Sums of products over chosen axes of both.

    >>> paddle.tensordot(paddle.ones([2, 3]), paddle.ones([3, 4]), 1).tolist()
    [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    left, right = _dot_axes(x, y, axes)
    keep_x = [i for i in range(x.ndim) if i not in left]
    keep_y = [i for i in range(y.ndim) if i not in right]
    size = math.prod(known_size(x, i, "tensordot") for i in left)
    a = ops.reshape2(ops.transpose2(x, axis=[*keep_x, *left]), shape=[-1, size])
    b = ops.reshape2(ops.transpose2(y, axis=[*right, *keep_y]), shape=[size, -1])
    shape = [x.shape[i] for i in keep_x] + [y.shape[i] for i in keep_y]
    return ops.reshape2(ops.matmul_v2(a, b), shape=shape)


def tolist(x: Tensor) -> Any:
    """The values as nested lists.

    >>> paddle.tolist(paddle.ones([2]))
    [1.0, 1.0]
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"`tolist` needs the values of an eager tensor, not `{type(x).__name__}`")
    return x.tolist()


def shard_index(
    input: Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Any:
    """Indices within one of `nshards` equal shards; `ignore_value` for those of others.

    >>> paddle.shard_index(paddle.to_tensor([[1], [3]]), 4, 2, 0).tolist()
    [[1], [-1]]
    """
    size = (index_num + nshards - 1) // nshards
    own = ops.elementwise_floordiv(input, as_tensor(size, input)) == shard_id
    inside = ops.elementwise_mod(input, as_tensor(size, input))
    return ops.where(
        own, inside, ops.fill_any_like(input, value=real(ignore_value, "ignore_value"))
    )


broadcast_to = expand
reverse = flip


def atleast_1d(*inputs: Any, name: str | None = None) -> Any:
    """Numbers and 0-D tensors with an axis of size 1.

    >>> paddle.atleast_1d(paddle.to_tensor(1.0)).tolist()
    [1.0]
    """
    return _each(inputs, lambda x: x if x.ndim >= 1 else ops.reshape2(x, shape=[1]))


def atleast_2d(*inputs: Any, name: str | None = None) -> Any:
    """Tensors with two axes or more, new ones in front.

    >>> paddle.atleast_2d(paddle.to_tensor([1.0, 2.0])).tolist()
    [[1.0, 2.0]]
    """
    return _each(inputs, lambda x: x if x.ndim >= 2 else ops.reshape2(x, shape=[1, -1]))


def atleast_3d(*inputs: Any, name: str | None = None) -> Any:
    """Tensors with three axes or more: as numpy, new ones in front and behind.

    >>> paddle.atleast_3d(paddle.to_tensor([[1.0, 2.0]])).tolist()
    [[[1.0], [2.0]]]
    """
    shapes = {0: [1, 1, 1], 1: [1, -1, 1]}

    def grown(x: Any) -> Any:
        if x.ndim >= 3:
            return x
        return ops.unsqueeze2(x, axes=[2]) if x.ndim == 2 else ops.reshape2(x, shape=shapes[x.ndim])

    return _each(inputs, grown)


def _each(inputs: Any, function: Any) -> Any:
    results = [function(as_tensor(x)) for x in inputs]
    return results[0] if len(results) == 1 else results


def _with_rest(sections: list[int], size: int) -> list[int]:
    """Sizes with -1 replaced by what the others leave."""
    if sections.count(-1) > 1:
        raise ValueError(f"only one section may be -1, but they are {sections}")
    if -1 not in sections or size < 0:
        return sections
    rest = size - (sum(sections) + 1)
    return [rest if n == -1 else n for n in sections]


def _but(shape: Any, axis: int) -> tuple[int, ...]:
    """A shape with 1 at an axis, so that the axis does not take part in matching shapes."""
    return tuple(1 if i == axis else n for i, n in enumerate(shape))


def _dot_axes(x: Tensor, y: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """The axes of both that `tensordot` sums over, from the forms that users may write."""
    require_tensor(x, "x")
    if isinstance(axes, int):
        return list(range(x.ndim - axes, x.ndim)), list(range(axes))
    if isinstance(axes, TENSORS):
        axes = axes.tolist()
    if axes and isinstance(axes[0], (list, tuple)):
        left, right = axes[0], axes[1] if len(axes) > 1 else axes[0]
    else:
        left = right = axes
    return [normal_axis(a, x.ndim) for a in left], [normal_axis(a, y.ndim) for a in right]


def tensor_array_to_tensor(
    input: Any, axis: int = 1, use_stack: bool = False, name: str | None = None
) -> tuple[Any, Any]:
    """The tensors of an array as one, side by side along `axis` or stacked, and the size of each.

    >>> both, sizes = paddle.tensor.manipulation.tensor_array_to_tensor(
    ...     [paddle.ones([1, 2]), paddle.ones([1, 3])])
    >>> both.shape, sizes.tolist()
    ([1, 5], [2, 3])
    """
    if isinstance(input, list):
        from .creation import to_tensor

        joined = stack(input, axis) if use_stack else concat(input, axis)
        sizes = [1 if use_stack else item.shape[axis] for item in input]
        return joined, to_tensor(sizes, "int32")
    check_array("tensor_array_to_tensor", input)
    both: tuple[Any, Any] = ops.tensor_array_to_tensor(
        input, axis=axis, use_stack=use_stack, _outputs=["Out", "OutIndex"]
    )
    return both


set_public_names(__name__)
