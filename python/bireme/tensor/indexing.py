"""`x[...]` and `x[...] = value`, for eager tensors and static variables alike.

An index is handled in two steps, as Paddle does it: first everything that slices (integers,
slices, None, Ellipsis), then the tensors, lists and arrays, which pick.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import TENSORS, Tensor, Variable, as_tensor, matched_shape, ops
from .scatter import index_put

#: The end of a slice that goes to the end, in Paddle's programs.
_END = 2**31 - 1


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`.

    >>> x = paddle.to_tensor([[1, 2, 3], [4, 5, 6]])
    >>> x[1].tolist(), x[:, 1:].tolist(), x[[0, 1], [2, 0]].tolist(), x[x > 4].tolist()
    ([4, 5, 6], [[2, 3], [5, 6]], [3, 4], [5, 6])
    """
    if type(index) is int and x.ndim:
        # The most frequent index by far, without making a plan.
        size = x.shape[0]
        if size >= 0 and not -size <= index < size:
            raise IndexError(f"index {index} is out of range for axis 0 of size {size}")
        last = _END if index == -1 else index + 1
        return ops.slice(x, axes=[0], starts=[index], ends=[last], decrease_axis=[0])
    plan = _Plan(x, index)
    return _pick(plan.sliced(x), plan.picks)


def setitem(x: Any, index: Any, value: Any) -> Any:
    """A tensor as `x` with `value` at `index`; what `x[index] = value` puts into `x`.

    >>> paddle.static.setitem(paddle.zeros([3]), 1, 5.0).tolist()
    [0.0, 5.0, 0.0]
    """
    value = _fitting(value, x)
    if value.ndim == 0 and _is_mask_of(index, x):
        # Spread by adding, since a program may leave sizes open.
        return ops.where(index, ops.fill_any_like(x, value=0.0) + value, x)
    plan = _Plan(x, index)
    if not plan.picks:
        return plan.replaced(x, value)
    if not plan.slices_everything:
        part = plan.sliced(x)
        return plan.replaced(x, _put(part, plan.picks, value))
    return _put(x, plan.picks, value)


def set_item_in_place(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value` for eager tensors; static variables are never overwritten."""
    if isinstance(x, Variable):
        message = "a static variable cannot be changed in place: use `x = static.setitem(x, ...)`"
        raise RuntimeError(message)  # noqa: TRY004 (as Paddle does)
    from .inplace import overwrite

    overwrite(x, setitem(x, index, value))


def _is_mask_of(index: Any, x: Any) -> bool:
    masks = isinstance(index, TENSORS) and index.dtype == "bool"
    return masks and list(index.shape) == list(x.shape)


def _fitting(value: Any, x: Any) -> Any:
    value = as_tensor(value, x) if not isinstance(value, TENSORS) else value
    if value.dtype == x.dtype:
        return value
    return ops.cast(value, in_dtype=value.dtype, out_dtype=x.dtype)


class _Plan:
    """An index taken apart: what to slice, which axes to drop and to add, what to pick."""

    def __init__(self, x: Any, index: Any) -> None:
        self.axes: list[int] = []
        self.starts: list[Any] = []
        self.ends: list[Any] = []
        self.steps: list[Any] = []
        self.dropped: list[int] = []
        self.added: list[int] = []
        #: Whether a bound is known only when the program runs, and whether a step is not 1.
        self.open = self.strided = False
        #: (axis of the sliced tensor, what picks along it)
        self.picks: list[tuple[int, Any]] = []
        axis = place = 0
        shape = x.shape
        for item in _full_index(x, index):
            if type(item) is slice:
                self._slice(axis, item, shape[axis])
                axis, place = axis + 1, place + 1
            elif type(item) is int:
                self._take_one(axis, item, shape[axis])
                axis += 1
            elif item is None:
                self.added.append(place)
                place += 1
            elif isinstance(item, TENSORS) and item.dtype == "bool":
                self.picks.append((place, item))
                axis, place = axis + item.ndim, place + item.ndim
            elif isinstance(item, TENSORS):
                self.picks.append((place, item))
                axis, place = axis + 1, place + 1
            else:
                self._take_one(axis, _whole(item), shape[axis])
                axis += 1

    @property
    def slices_everything(self) -> bool:
        """Whether the slices leave the tensor as it is."""
        return not self.axes and not self.added

    def _slice(self, axis: int, item: slice, size: int) -> None:
        start, stop, step = item.start, item.stop, item.step
        if step is None:
            if start is None and stop is None:
                return
            first = 0 if start is None else _whole(start)
            self._add(axis, first, _END if stop is None else _whole(stop), 1)
            return
        step = _whole(step)
        if isinstance(step, Variable) or step > 0:
            first = 0 if start is None else _whole(start)
            last = _END if stop is None else _whole(stop)
        elif step == 0:
            raise ValueError("the step of a slice must not be 0")
        else:
            first, last = _backwards(start, stop, size)
        self.strided = True
        self._add(axis, first, last, step)

    def _take_one(self, axis: int, number: Any, size: int) -> None:
        if isinstance(number, Variable):
            self._add(axis, number, number + 1, 1)
        elif size >= 0 and not -size <= number < size:
            raise IndexError(f"index {number} is out of range for axis {axis} of size {size}")
        else:
            self._add(axis, number, _END if number == -1 else number + 1, 1)
        self.dropped.append(axis)

    def _add(self, axis: int, first: Any, last: Any, step: Any) -> None:
        self.axes.append(axis)
        self.starts.append(first)
        self.ends.append(last)
        self.steps.append(step)
        if type(first) is not int or type(last) is not int or type(step) is not int:
            self.open = True

    def _numbers(self, values: list[Any]) -> tuple[list[int], list[Any]]:
        """The attribute and the input variables of a list of starts, ends or steps."""
        if not self.open or not any(isinstance(v, Variable) for v in values):
            return values, []
        numbers = [-1 if isinstance(v, Variable) else v for v in values]
        return numbers, [
            v
            if isinstance(v, Variable)
            else ops.fill_constant(shape=[1], dtype="int32", value=float(v), str_value=str(v))
            for v in values
        ]

    def sliced(self, x: Any) -> Any:
        """`x` after all slices, without dropped axes, with added ones."""
        if self.axes:
            starts, first = self._numbers(self.starts)
            ends, last = self._numbers(self.ends)
            numbers = {"axes": self.axes, "starts": starts, "ends": ends}
            if not self.strided:
                x = ops.slice(x, None, None, first, last, decrease_axis=self.dropped, **numbers)
            else:
                strides, every = self._numbers(self.steps)
                x = ops.strided_slice(
                    x, None, None, first, last, None, every, strides=strides, **numbers
                )
                x = ops.squeeze2(x, axes=self.dropped) if self.dropped else x
        elif not self.added and not self.picks:
            # A new tensor, as all slices are: what is written into it must not change `x`.
            x = ops.assign(x)
        return ops.unsqueeze2(x, axes=self.added) if self.added else x

    def replaced(self, x: Any, value: Any) -> Any:
        """`x` with `value` in place of what is sliced."""
        starts, first = self._numbers(self.starts)
        ends, last = self._numbers(self.ends)
        steps, every = self._numbers(self.steps)
        return ops.set_value(
            x,
            value,
            first,
            last,
            every,
            axes=self.axes,
            starts=starts,
            ends=ends,
            steps=steps,
            decrease_axes=self.dropped,
            none_axes=self.added,
            dtype=x.dtype,
        )


def _whole(number: Any) -> Any:
    """An integer, or a static variable that will hold one."""
    if type(number) is int or isinstance(number, Variable):
        return number
    if isinstance(number, Tensor):
        return int(number)
    if hasattr(number, "__index__"):
        return number.__index__()
    raise TypeError(
        "an index holds integers, slices, None, Ellipsis, lists, arrays or tensors, "
        f"but got `{type(number).__name__}`"
    )


def _backwards(start: Any, stop: Any, size: int) -> tuple[int, int]:
    """Start and end of a slice that goes backwards, within an axis whose size is known."""
    if size < 0:
        raise NotImplementedError("a slice that goes backwards needs an axis of a known size")
    first, last, _ = slice(start, stop, -1).indices(size)
    # In ops that go backwards, -1 is the place before the first element: as Python has it.
    return first, last


def _full_index(x: Any, index: Any) -> list[Any]:
    """The index as a list that names every axis, with tensors in place of lists and arrays."""
    items = [
        item if item is None or type(item) is slice or type(item) is int else _picker(item)
        for item in (index if isinstance(index, tuple) else (index,))
    ]
    taken = 0
    for item in items:
        if type(item) is slice or type(item) is int:
            taken += 1
        elif isinstance(item, TENSORS) and item.dtype == "bool":
            taken += item.ndim
        elif item is not None and item is not Ellipsis:
            taken += 1
    if taken > x.ndim:
        raise IndexError(f"{taken} indices are too many for a tensor with {x.ndim} axes")
    rest = [slice(None)] * (x.ndim - taken)
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can hold only one Ellipsis")
    return items[: dots[0]] + rest + items[dots[0] + 1 :] if dots else items + rest


def _picker(item: Any) -> Any:
    if isinstance(item, (bool, np.bool_)):
        raise IndexError("a truth value is no index: use a list or a tensor of them")
    if isinstance(item, (list, range, np.ndarray)):
        array = np.asarray(item)
        return as_tensor(array if array.dtype == bool else array.astype("int64"))
    if isinstance(item, Tensor) and item.ndim == 0 and item.dtype != "bool":
        return int(item)
    return item


def _whole_picks(x: Any, picks: list[tuple[int, Any]]) -> tuple[list[int], list[Any]]:
    """Axes and integer tensors from integer and bool tensors."""
    axes: list[int] = []
    tensors: list[Any] = []
    for axis, picker in picks:
        if picker.dtype != "bool":
            axes.append(axis)
            tensors.append(picker)
            continue
        _check_mask(picker, x, axis)
        columns = ops.unbind(ops.where_index(picker), axis=1, _count=picker.ndim)
        axes.extend(range(axis, axis + picker.ndim))
        tensors.extend(columns)
    return axes, tensors


def _check_mask(mask: Any, x: Any, axis: int) -> None:
    sizes = list(x.shape[axis : axis + mask.ndim])
    if any(m != n and -1 not in (m, n) for m, n in zip(mask.shape, sizes)):
        raise IndexError(f"a mask of shape {list(mask.shape)} does not fit axes of sizes {sizes}")


def _pick(x: Any, picks: list[tuple[int, Any]]) -> Any:
    if not picks:
        return x
    if len(picks) == 1:
        axis, picker = picks[0]
        if picker.dtype == "bool" and axis == 0 and list(picker.shape) == list(x.shape):
            return ops.masked_select(x, picker)
        if picker.ndim == 1 and picker.dtype == "bool":
            _check_mask(picker, x, axis)
            return ops.gather(x, ops.reshape2(ops.where_index(picker), shape=[-1]), axis=axis)
        if picker.ndim == 1:
            return ops.gather(x, _counted_from_front(picker, x.shape[axis]), axis=axis)
    axes, tensors = _whole_picks(x, picks)
    order = [*axes, *(i for i in range(x.ndim) if i not in axes)]
    moved = x if order == list(range(x.ndim)) else ops.transpose2(x, axis=order)
    shape = matched_shape(*(t.shape for t in tensors))
    columns = [
        _counted_from_front(t if list(t.shape) == shape else ops.expand_v2(t, shape=shape), n)
        for t, n in zip(tensors, moved.shape)
    ]
    out = ops.gather_nd(moved, ops.stack(columns, axis=-1))
    # Neighbouring picks keep their place; others come first, as in numpy.
    if axes != list(range(axes[0], axes[0] + len(axes))) or axes[0] == 0:
        return out
    front = list(range(len(shape)))
    others = list(range(len(shape), out.ndim))
    return ops.transpose2(out, axis=[*others[: axes[0]], *front, *others[axes[0] :]])


def _counted_from_front(picker: Any, size: int) -> Any:
    """Indices with negative ones counted from the end; static ones are taken as they are."""
    if isinstance(picker, Variable) or picker.size == 0 or int(picker.numpy().min()) >= 0:
        return picker
    if int(picker.numpy().min()) < -size:
        raise IndexError(f"index {int(picker.numpy().min())} is out of range for an axis of {size}")
    return ops.elementwise_mod(picker, as_tensor(size, picker))


def _put(x: Any, picks: list[tuple[int, Any]], value: Any) -> Any:
    axes, tensors = _whole_picks(x, picks)
    order = [*axes, *(i for i in range(x.ndim) if i not in axes)]
    plain = order == list(range(x.ndim))
    moved = x if plain else ops.transpose2(x, axis=order)
    if not plain and value.ndim > 0 and axes[0] > 0:
        value = _value_in_order(value, x, axes, tensors)
    out = index_put(moved, tensors, value)
    return out if plain else ops.transpose2(out, axis=[order.index(i) for i in range(x.ndim)])


def _value_in_order(value: Any, x: Any, axes: list[int], tensors: list[Any]) -> Any:
    """A value in the shape of `x[index]`, with the picked axes first as `index_put` wants them."""
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return value
    shape = matched_shape(*(t.shape for t in tensors))
    before, after = list(x.shape[: axes[0]]), list(x.shape[axes[0] + len(axes) :])
    value = ops.expand_v2(value, shape=[*before, *shape, *after])
    middle = list(range(len(before), len(before) + len(shape)))
    rest = [i for i in range(value.ndim) if i not in middle]
    return ops.transpose2(value, axis=[*middle, *rest])
