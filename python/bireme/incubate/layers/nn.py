"""Layers of recommender models, made of the engine's ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ...static.nn.sequence_lod import sequence_pool
from ...tensor.arguments import require_tensor, sequence_of

Variable = Any
_ops = _core.ops


def shuffle_batch(x: Variable, seed: int | None = None) -> Variable:
    """The rows of `x` (all sizes but the last) in a random order, another one in every run.

    Seed the program, or `paddle.seed`, to see the same orders again; `seed` itself is not in this
    version.

    >>> x = paddle.to_tensor([[1.0], [2.0], [3.0]])
    >>> sorted(paddle.incubate.layers.shuffle_batch(x).numpy().ravel().tolist())
    [1.0, 2.0, 3.0]
    """
    require_tensor(x, "x")
    if seed is not None:
        raise NotImplementedError("`seed` is not in this version: call `paddle.seed` instead")
    rows = _ops.reshape2(x, shape=[-1, x.shape[-1]], _outputs=("Out",))
    count = _ops.slice(_ops.shape(rows), axes=[0], starts=[0], ends=[1])
    # The order of independent random numbers is a random order, whatever the size of the batch.
    noise = _ops.uniform_random(count, dtype="float32")
    _, order = _ops.argsort(noise, axis=0)
    shuffled = _ops.gather(rows, order)
    if x.ndim == 2:
        return shuffled
    return _ops.reshape2(shuffled, shape=[-1, *x.shape[1:]], _outputs=("Out",))


def fused_seqpool_cvm(
    input: Sequence[Variable],
    pool_type: str,
    cvm: Variable,
    pad_value: float = 0.0,
    use_cvm: bool = True,
    cvm_offset: int = 2,
) -> list[Variable]:
    """Pools each of several inputs, then treats its show and click columns.

    >>> paddle.enable_static()
    >>> slots = [paddle.static.data(name, [None, 11], lod_level=1) for name in "ab"]
    >>> cvm = paddle.static.data("cvm", [None, 2])
    >>> [y.shape for y in paddle.incubate.layers.fused_seqpool_cvm(slots, "sum", cvm)]
    [(-1, 11), (-1, 11)]
    """
    if pool_type.upper() != "SUM":
        raise ValueError(f"`pool_type` must be sum, not {pool_type!r}")
    if cvm_offset != 2:
        raise NotImplementedError(f"`cvm_offset` must be 2 in this version, not {cvm_offset}")
    inputs: list[Any] = list(input) if isinstance(input, (list, tuple)) else [input]
    pooled = [sequence_pool(each, pool_type, pad_value=pad_value) for each in inputs]
    return [_ops.cvm(each, cvm, use_cvm=use_cvm) for each in pooled]


def partial_concat(input: Sequence[Variable], start_index: int = 0, length: int = -1) -> Variable:
    """Some columns of each input side by side: `length` from `start_index` on, or all of them.

    >>> x, y = paddle.ones([1, 3]), paddle.zeros([1, 3])
    >>> paddle.incubate.layers.partial_concat([x, y], start_index=1).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """
    return _ops.concat(_columns(input, start_index, length), axis=1)


def partial_sum(input: Sequence[Variable], start_index: int = 0, length: int = -1) -> Variable:
    """The sum of some columns of each input: `length` from `start_index` on, or all of them.

    >>> x, y = paddle.ones([1, 3]), paddle.ones([1, 3])
    >>> paddle.incubate.layers.partial_sum([x, y], start_index=1).tolist()
    [[2.0, 2.0]]
    """
    return _ops.sum(_columns(input, start_index, length))


def _columns(inputs: Sequence[Variable], start: int, length: int) -> list[Variable]:
    inputs = list(sequence_of(inputs, "input"))
    width = inputs[0].shape[1]
    if any(each.shape[1] != width for each in inputs):
        widths = [each.shape[1] for each in inputs]
        raise ValueError(f"the inputs must have the same number of columns, not {widths}")
    start = start + width if start < 0 else start
    end = width if length < 0 else start + length
    if not 0 <= start < end <= width:
        raise ValueError(f"there are no columns {start} to {end}: the inputs have {width}")
    return [_ops.slice(each, axes=[1], starts=[start], ends=[end]) for each in inputs]
