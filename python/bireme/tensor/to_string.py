"""How tensors are printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core


class _Options:
    precision = 8
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode = False


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """Sets how tensors are printed: digits, elements before a summary, elements at its edges.

    >>> paddle.set_printoptions(precision=2)
    >>> paddle.to_tensor([0.5])
    Tensor(shape=[1], dtype=float32, place=Place(cpu), stop_gradient=True,
           [0.50])
    >>> paddle.set_printoptions(precision=8)
    """
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
        "sci_mode": sci_mode,
    }
    for name, value in given.items():
        if value is None:
            continue
        wanted = bool if name == "sci_mode" else int
        if not isinstance(value, wanted):
            raise TypeError(f"`{name}` must be {wanted.__name__}, but is `{type(value).__name__}`")
        setattr(_Options, name, value)


def to_string(tensor: Any, prefix: str = "Tensor") -> str:
    """The text of an eager tensor.

    >>> paddle.to_tensor([1.0, 2.0])
    Tensor(shape=[2], dtype=float32, place=Place(cpu), stop_gradient=True,
           [1., 2.])
    """
    # numpy has no bfloat16, and gets its bits.
    is_brain = tensor.dtype.name == "bfloat16"
    array = (tensor.detach().astype("float32") if is_brain else tensor).numpy()
    indent = len(prefix) + 1
    summary = array.ndim > 0 and array.size > _Options.threshold
    width, signed = _width(_edges(array) if summary else array)
    text = _format(array, summary, indent, width, signed)
    return (
        f"{prefix}(shape={list(array.shape)}, dtype={tensor.dtype.name}, place={tensor.place}, "
        f"stop_gradient={tensor.stop_gradient},\n{' ' * indent}{text})"
    )


def tensor_repr(tensor: Any) -> str:
    """What `repr` and `print` show of an eager tensor."""
    if isinstance(tensor, _core.Parameter):
        return "Parameter containing:\n" + to_string(tensor)
    return to_string(tensor)


def _edges(array: np.ndarray) -> np.ndarray:
    """Only the elements that a summary shows."""
    for axis, size in enumerate(array.shape):
        if size > 2 * _Options.edgeitems:
            shown = [*range(_Options.edgeitems), *range(size - _Options.edgeitems, size)]
            array = array.take(shown, axis)
    return array


def _item(value: Any, width: int = 0, signed: bool = False) -> str:
    if isinstance(value, np.floating):
        if _Options.sci_mode:
            text = f"{value:.{_Options.precision}e}"
        elif np.ceil(value) == value:
            text = f"{value:.0f}."
        else:
            text = f"{value:.{_Options.precision}f}"
    else:
        text = str(value)
    if width <= len(text):
        return text
    return text.ljust(width) if not signed or value < 0 else (" " + text).ljust(width)


def _width(array: np.ndarray) -> tuple[int, bool]:
    items = list(array.ravel())
    signed = array.dtype != bool and any(item < 0 for item in items)
    return max((len(_item(item)) for item in items), default=0), signed


def _format(array: np.ndarray, summary: bool, indent: int, width: int, signed: bool) -> str:
    if array.ndim == 0:
        return _item(array[()], width, signed)
    edge = _Options.edgeitems
    cut = summary and array.shape[0] > 2 * edge
    shown = [*array[:edge], *array[-edge:]] if cut else list(array)
    if array.ndim == 1:
        texts = [_item(value, width, signed) for value in shown]
    else:
        texts = [_format(part, summary, indent + 1, width, signed) for part in shown]
    if cut:
        texts.insert(edge, "...")
    if array.ndim > 1:
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(texts) + "]"
    per_line = max(1, (_Options.linewidth - indent) // (width + 2))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
