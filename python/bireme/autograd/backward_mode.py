"""`backward`: the gradients of several tensors at once."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = ["backward"]


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool = False) -> None:
    """Adds the gradients of tensors to the leaves they depend on, as `Tensor.backward` of each.

    `grad_tensors` weighs them, one for each, or None for ones.

    >>> x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    >>> paddle.autograd.backward([x * 2, x * x], [paddle.ones([2]), None])
    >>> x.grad.tolist()
    [4.0, 6.0]
    """
    listed = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    weights = list(grad_tensors) if isinstance(grad_tensors, (list, tuple)) else grad_tensors
    if isinstance(weights, _core.Tensor):
        weights = [weights]
    for tensor in listed:
        if not isinstance(tensor, _core.Tensor):
            raise TypeError(f"`backward` is for eager tensors, not `{type(tensor).__name__}`")
    _core.backward(listed, weights, bool(retain_graph))


__getattr__ = missing_names(__name__)
