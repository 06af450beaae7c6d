"""Einstein sums."""

from __future__ import annotations

from typing import Any

from .arguments import ops

__all__ = ["einsum"]


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products, as an equation of axes says.

    >>> paddle.einsum("ij,jk->ik", paddle.ones([1, 3]), paddle.ones([3, 2])).tolist()
    [[3.0, 3.0]]
    """
    tensors = (
        list(operands[0])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple))
        else list(operands)
    )
    return ops.einsum(tensors, equation=equation.replace(" ", ""))
