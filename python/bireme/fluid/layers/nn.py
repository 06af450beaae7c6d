"""Layers with parameters under their 1.x signatures, and what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ...incubate.layers import shuffle_batch
from ...static.nn import (
    batch_norm,
    bilinear_tensor_product,
    continuous_value_model,
    conv2d,
    data_norm,
    layer_norm,
    nce,
)
from ...static.nn import fc as _fc
from ...static.nn import prelu as _prelu
from ...static.nn.common import image_padding, padding_row
from ...static.nn.parameters import LayerNames
from ...tensor.arguments import require_tensor as _require_tensor

Variable = Any
_ops = _core.ops

__all__ = [
    "batch_norm",
    "bilinear_tensor_product",
    "continuous_value_model",
    "conv2d",
    "data_norm",
    "dropout",
    "embedding",
    "fc",
    "hash",
    "layer_norm",
    "nce",
    "one_hot",
    "pool2d",
    "prelu",
    "shuffle_batch",
    "topk",
    "unique",
    "where",
]


def fc(
    input: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Fully connected: `act(input @ w + b)`; several inputs each have a weight and are summed.

    >>> x = paddle.fluid.layers.data("x", [13])
    >>> paddle.fluid.layers.fc(x, 4, act="relu").shape
    (-1, 4)
    """
    return _fc(input, size, num_flatten_dims, param_attr, bias_attr, act, name)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """The rows that the ids name; the last size of `input` is 1, and becomes the width of a row.

    `fluid.embedding` is the one that takes ids without that last 1.

    >>> ids = paddle.fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    >>> paddle.fluid.layers.embedding(ids, [100, 8]).shape
    (-1, 8)
    """
    _require_tensor(input, "input")
    if input.shape[-1] != 1:
        raise ValueError(
            f"the last size of `input` must be 1, not that of {tuple(input.shape)}:"
            " `fluid.embedding` takes ids without it"
        )
    layer = LayerNames("embedding")
    return layer.apply(
        "lookup_table",
        layer.weight(param_attr, size, dtype),
        input,
        padding_idx=padding_row(padding_idx, size),
        is_sparse=is_sparse,
        is_distributed=is_distributed,
    )


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Sets elements to zero with that probability while training.

    "downgrade_in_infer" scales by `1 - dropout_prob` when testing, "upscale_in_train" divides by
    it when training.

    >>> paddle.fluid.layers.dropout(paddle.ones([2]), 0.5, is_test=True).tolist()
    [0.5, 0.5]
    """
    if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
        raise ValueError(f"there is no `dropout_implementation` {dropout_implementation!r}")
    return _ops.dropout(
        x,
        dropout_prob=float(dropout_prob),
        is_test=is_test,
        fix_seed=seed is not None,
        seed=seed or 0,
        dropout_implementation=dropout_implementation,
        _outputs=("Out",),
    )


def hash(input: Variable, hash_size: int, num_hash: int = 1, name: str | None = None) -> Variable:
    """Each row of integers as `num_hash` numbers below `hash_size`.

    >>> ids = paddle.to_tensor([[1, 2], [1, 2], [3, 4]])
    >>> paddle.fluid.layers.hash(ids, 1000, num_hash=4).shape
    [3, 4, 1]
    """
    return _ops.hash(input, num_hash=num_hash, mod_by=hash_size)


def pool2d(
    input: Variable,
    pool_size: int | Sequence[int] = -1,
    pool_type: str = "max",
    pool_stride: int | Sequence[int] = 1,
    pool_padding: int | str | Sequence[int] = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """The largest or the average of each window of images; `use_cudnn` has no meaning here.

    >>> images = paddle.arange(4.0).reshape([1, 1, 2, 2])
    >>> paddle.fluid.layers.pool2d(images, 2, "avg", 2).tolist()
    [[[[1.5]]]]
    """
    if pool_type not in ("max", "avg"):
        raise ValueError(f"`pool_type` must be max or avg, not {pool_type!r}")
    if not global_pooling and pool_size == -1:
        raise ValueError("give a `pool_size`, or `global_pooling=True`")
    algorithm = pool_padding.upper() if isinstance(pool_padding, str) else "EXPLICIT"
    return _ops.pool2d(
        input,
        ksize=[pool_size] * 2 if isinstance(pool_size, int) else list(pool_size),
        pooling_type=pool_type,
        strides=[pool_stride] * 2 if isinstance(pool_stride, int) else list(pool_stride),
        paddings=[0, 0] if isinstance(pool_padding, str) else image_padding(pool_padding),
        padding_algorithm=algorithm,
        global_pooling=global_pooling,
        ceil_mode=ceil_mode,
        exclusive=exclusive,
        data_format=data_format,
    )


def prelu(x: Variable, mode: str, param_attr: Any = None, name: str | None = None) -> Variable:
    """`x` where positive, else `x` times a learnt slope: for "all", each "channel" or "element".

    >>> paddle.fluid.layers.prelu(paddle.fluid.layers.data("x", [4]), "all").shape
    (-1, 4)
    """
    return _prelu(x, mode, param_attr, name=name)


def topk(input: Variable, k: int | Variable, name: str | None = None) -> Any:
    """The `k` largest of each row, and where they are.

    >>> values, places = paddle.fluid.layers.topk(paddle.to_tensor([[1.0, 3.0]]), 1)
    >>> places.tolist()
    [[1]]
    """
    if isinstance(k, int):
        return _ops.top_k(input, k=k)
    return _ops.top_k(input, k)


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """A 1 in the column that each id names; the last size of `input` is 1.

    >>> paddle.fluid.layers.one_hot(paddle.to_tensor([[1]]), 3).tolist()
    [[0.0, 1.0, 0.0]]
    """
    return _ops.one_hot(input, depth=depth, allow_out_of_range=allow_out_of_range)


def where(condition: Variable) -> Variable:
    """The places where the condition is true, a row each.

    >>> paddle.fluid.layers.where(paddle.to_tensor([False, True])).tolist()
    [[1]]
    """
    return _ops.where_index(condition)


def unique(x: Variable, dtype: Any = "int32") -> tuple[Variable, Variable]:
    """The different elements as they come first, and which of them each element is.

    >>> values, index = paddle.fluid.layers.unique(paddle.to_tensor([7, 5, 7]))
    >>> index.tolist()
    [0, 1, 0]
    """
    return _ops.unique(x, dtype=dtype, _outputs=("Out", "Index"))
