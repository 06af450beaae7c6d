"""Help with parameters and gradients as a whole: `paddle.nn.utils`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ... import _core
from ..._missing import missing_names
from ..._names import set_public_names

ops = _core.ops


def parameters_to_vector(parameters: Iterable[Any], name: str | None = None) -> Any:
    """All parameters one after the other, as one axis.

    >>> layer = paddle.nn.Linear(1, 2, weight_attr=paddle.nn.initializer.Constant(3.0))
    >>> paddle.nn.utils.parameters_to_vector(layer.parameters()).tolist()
    [3.0, 3.0, 0.0, 0.0]
    """
    return ops.concat([ops.reshape2(p, shape=[-1]) for p in parameters], axis=0)


def vector_to_parameters(vec: Any, parameters: Iterable[Any], name: str | None = None) -> None:
    """Cuts a vector into values for parameters, and sets them.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.nn.utils.vector_to_parameters(paddle.to_tensor([2.0, 3.0]), layer.parameters())
    >>> layer.bias.tolist()
    [3.0]
    """
    values, start = vec.numpy(), 0
    for parameter in parameters:
        size = math.prod(parameter.shape)
        parameter.set_value(values[start : start + size].reshape(parameter.shape))
        start += size


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Any:
    """Shortens all gradients by the same factor to `max_norm`; returns their length before.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> (layer(paddle.ones([1, 1])) * 3.0).backward()
    >>> paddle.nn.utils.clip_grad_norm_([layer.bias], 1.0).item()
    3.0
    """
    tensors = _with_gradients(parameters)
    if not tensors:
        return _core.to_tensor(0.0)
    flat = ops.concat([ops.reshape2(p.grad, shape=[-1]) for p in tensors], axis=0)
    total = ops.p_norm(flat, porder=float(norm_type), axis=0)
    length = float(total)
    if error_if_nonfinite and not math.isfinite(length):
        raise RuntimeError(f"the gradients have a length of {length}")
    factor = float(max_norm) / (length + 1e-6)
    if factor < 1.0:
        for parameter in tensors:
            parameter.grad = ops.scale(parameter.grad, scale=factor)
    return total


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Limits every element of the gradients to [-clip_value, clip_value].

    >>> layer = paddle.nn.Linear(1, 1)
    >>> (layer(paddle.ones([1, 1])) * 3.0).backward()
    >>> paddle.nn.utils.clip_grad_value_([layer.bias], 1.0)
    >>> layer.bias.grad.tolist()
    [1.0]
    """
    for parameter in _with_gradients(parameters):
        limit = float(clip_value)
        parameter.grad = ops.clip(parameter.grad, min=-limit, max=limit)


def _with_gradients(parameters: Any) -> list[Any]:
    parameters = [parameters] if isinstance(parameters, _core.Tensor) else parameters
    return [p for p in parameters if p.grad is not None]


set_public_names(__name__)
__getattr__ = missing_names(__name__)
