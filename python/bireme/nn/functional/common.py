"""Linear maps, dropout, embeddings, padding and similar."""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import (
    Tensor,
    Variable,
    as_tensor,
    int_list,
    integer,
    ops,
    real,
    require_tensor,
)


def linear(x: Tensor, weight: Tensor, bias: Any = None, name: str | None = None) -> Any:
    """`x @ weight + bias`.

    >>> paddle.nn.functional.linear(paddle.ones([1, 2]), paddle.ones([2, 3]), paddle.ones([3])).tolist()
    [[3.0, 3.0, 3.0]]
    """
    out = ops.matmul_v2(x, weight)
    return out if bias is None else ops.elementwise_add(out, bias)


def bilinear(
    x1: Tensor, x2: Tensor, weight: Tensor, bias: Any = None, name: str | None = None
) -> Any:
    """`x1 @ weight[i] @ x2` for each output i.

    >>> x, y, weight = paddle.ones([1, 2]), paddle.ones([1, 3]), paddle.ones([4, 2, 3])
    >>> paddle.nn.functional.bilinear(x, y, weight).tolist()
    [[6.0, 6.0, 6.0, 6.0]]
    """
    outputs, rows, columns = weight.shape
    table = ops.reshape2(ops.transpose2(weight, axis=[1, 0, 2]), shape=[rows, outputs * columns])
    half = ops.reshape2(ops.matmul_v2(x1, table), shape=[-1, outputs, columns])
    out = ops.reduce_sum(half * ops.unsqueeze2(x2, axes=[1]), dim=[2])
    return out if bias is None else ops.elementwise_add(out, bias)


def dropout(
    x: Tensor,
    p: Any = 0.5,
    axis: Any = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Any:
    """Zeros with probability `p` in training; along `axis` only, if given.

    >>> paddle.nn.functional.dropout(paddle.ones([2]), 0.5, training=False).tolist()
    [1.0, 1.0]
    """
    require_tensor(x, "x")
    p = real(p, "p")
    if not 0 <= p <= 1:
        raise ValueError(f"the probability of `dropout` must be in [0, 1], but is {p}")
    if mode not in _DROPOUT_MODES:
        raise ValueError(f"`mode` must be one of {sorted(_DROPOUT_MODES)}, but is {mode!r}")
    if p == 0:
        return x
    settings = {
        "dropout_prob": p,
        "is_test": not training,
        "dropout_implementation": _DROPOUT_MODES[mode],
    }
    if axis is None:
        return ops.dropout(x, **settings)
    axes = [a + x.ndim if a < 0 else a for a in int_list(axis)]
    others = [i for i in range(x.ndim) if i not in axes]
    zeros, ones = [0] * len(others), [1] * len(others)
    line = ops.slice(x, axes=others, starts=zeros, ends=ones) if others else x
    return x * ops.dropout(ops.fill_any_like(line, value=1.0), **settings)


def dropout2d(
    x: Tensor,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """Whole channels of pictures dropped in training.

    >>> paddle.nn.functional.dropout2d(paddle.ones([1, 2, 3, 3])).shape
    [1, 2, 3, 3]
    """
    return dropout(x, p, axis=[0, 1] if data_format == "NCHW" else [0, 3], training=training)


def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = True, name: str | None = None) -> Any:
    """Dropout that keeps mean and variance, for `selu`.

    >>> paddle.nn.functional.alpha_dropout(paddle.ones([2]), training=False).tolist()
    [1.0, 1.0]
    """
    if not training or p == 0:
        return x
    if p == 1:
        return ops.scale(x, scale=0.0)
    low = -1.7580993408473766
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    ones = ops.fill_any_like(x, value=1.0)
    kept = ops.dropout(ones, dropout_prob=real(p, "p"), dropout_implementation="downgrade_in_infer")
    return ops.scale(x * kept + (1.0 - kept) * low, scale=a, bias=-a * low * p)


def label_smooth(
    label: Tensor, prior_dist: Any = None, epsilon: float = 0.1, name: str | None = None
) -> Any:
    """A share `epsilon` of the labels spread over all classes.

    >>> paddle.nn.functional.label_smooth(paddle.to_tensor([[0.0, 1.0]]), epsilon=0.5).tolist()
    [[0.25, 0.75]]
    """
    require_tensor(label, "label")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"`epsilon` must be in [0, 1], but is {epsilon}")
    if prior_dist is not None:
        return ops.scale(label, scale=1.0 - epsilon) + ops.scale(
            prior_dist, scale=real(epsilon, "epsilon")
        )
    return ops.scale(label, scale=1.0 - epsilon, bias=epsilon / label.shape[-1])


def cosine_similarity(x1: Tensor, x2: Tensor, axis: Any = 1, eps: float = 1e-08) -> Any:
    """The cosine of the angle between vectors along an axis.

    >>> paddle.nn.functional.cosine_similarity(paddle.ones([1, 2]), paddle.ones([1, 2])).tolist()
    [1.0]
    """
    product, first, second = (
        ops.reduce_sum(a * b, dim=[axis]) for a, b in ((x1, x2), (x1, x1), (x2, x2))
    )
    return product / ops.sqrt(ops.clip(first * second, min=eps * eps, max=_HIGHEST))


def normalize(
    x: Tensor, p: Any = 2, axis: Any = 1, epsilon: float = 1e-12, name: str | None = None
) -> Any:
    """Vectors along an axis scaled to length 1 by the `p`-norm.

    >>> paddle.nn.functional.normalize(paddle.to_tensor([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    require_tensor(x, "x")
    if x.ndim == 1 and axis not in (0, -1):
        raise ValueError(f"`axis` must be 0 or -1 for a tensor with one axis, but is {axis}")
    length = ops.p_norm(x, porder=real(p, "p"), axis=axis, keepdim=True, epsilon=epsilon)
    return x / ops.elementwise_max(length, as_tensor(epsilon, length))


def one_hot(x: Tensor, num_classes: Any, name: str | None = None) -> Any:
    """1 at the place that each element names, in a new last axis of zeros.

    >>> paddle.nn.functional.one_hot(paddle.to_tensor([1]), 3).tolist()
    [[0.0, 1.0, 0.0]]
    """
    if isinstance(num_classes, Variable):
        return ops.one_hot_v2(x, num_classes)
    return ops.one_hot_v2(x, depth=integer(num_classes, "num_classes"))


def embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: Any = None,
    sparse: bool = False,
    name: str | None = None,
) -> Any:
    """The rows of `weight` that `x` names; the row `padding_idx` is zeros and never learns.

    >>> paddle.nn.functional.embedding(paddle.to_tensor([1]), paddle.to_tensor([[1.0], [2.0]])).tolist()
    [[2.0]]
    """
    return ops.lookup_table_v2(
        weight, x, padding_idx=_padding_row(padding_idx, weight.shape[0]), is_sparse=sparse
    )


def pad(
    x: Tensor,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """Elements around a tensor: `pad` has two numbers an axis, the last axis first.

    >>> paddle.nn.functional.pad(paddle.ones([1, 1, 2]), [1, 0], data_format="NCL").tolist()
    [[[0.0, 1.0, 1.0]]]
    """
    pad = [pad] * (2 * (x.ndim - 2)) if isinstance(pad, int) else int_list(pad)
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise AssertionError(
            f"`mode` must be constant, reflect, replicate or circular, but is {mode!r}"
        )
    if mode == "constant" and len(pad) == 2 * x.ndim:
        return ops.pad(x, paddings=pad, pad_value=real(value, "value"))
    if x.ndim not in (3, 4, 5) or len(pad) != 2 * (x.ndim - 2):
        raise ValueError(f"`pad` has {len(pad)} numbers, which fit no tensor with {x.ndim} axes")
    last = data_format[-1:] == "C"
    axes = {3: [2, 3] if last else [3, 4], 4: [1] if last else [2], 5: []}[x.ndim]
    pad = {3: [0, 0, 0, 0, *pad], 4: [*pad, 0, 0], 5: pad}[x.ndim]
    x = ops.unsqueeze2(x, axes=axes) if axes else x
    out = ops.pad3d(
        x,
        paddings=pad,
        mode=mode,
        value=real(value, "value"),
        data_format="NDHWC" if last else "NCDHW",
    )
    return ops.squeeze2(out, axes=axes) if axes else out


def zeropad2d(x: Tensor, padding: Any, data_format: str = "NCHW", name: str | None = None) -> Any:
    """Zeros around pictures: left, right, top, bottom.

    >>> paddle.nn.functional.zeropad2d(paddle.ones([1, 1, 1, 2]), [1, 1, 0, 0]).tolist()
    [[[[0.0, 1.0, 1.0, 0.0]]]]
    """
    return pad(x, padding, "constant", 0.0, data_format)


def sequence_mask(
    x: Tensor, maxlen: Any = None, dtype: Any = "int64", name: str | None = None
) -> Any:
    """1 for the first `x[i]` places of row i, else 0.

    >>> paddle.nn.functional.sequence_mask(paddle.to_tensor([1, 2]), 3).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    if isinstance(maxlen, Variable):
        return ops.sequence_mask(x, maxlen, out_dtype=dtype)
    return ops.sequence_mask(
        x, maxlen=-1 if maxlen is None else integer(maxlen, "maxlen"), out_dtype=dtype
    )


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last axis on a diagonal.

    >>> paddle.nn.functional.diag_embed(paddle.ones([2])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    require_tensor(input, "input")
    if (offset, dim1, dim2) != (0, -2, -1):
        raise NotImplementedError("`diag_embed` makes the main diagonal of the last two axes only")
    size = input.shape[-1]
    return ops.unsqueeze2(input, axes=[-1]) * ops.eye(
        num_rows=size, num_columns=size, dtype=input.dtype
    )


def pairwise_distance(
    x: Tensor,
    y: Tensor,
    p: float = 2.0,
    epsilon: float = 1e-06,
    keepdim: bool = False,
    name: str | None = None,
) -> Any:
    """The `p`-norm of `x - y` along the last axis.

    >>> paddle.nn.functional.pairwise_distance(paddle.ones([1, 2]), paddle.ones([1, 2]), epsilon=0.0).tolist()
    [0.0]
    """
    require_tensor(x, "x")
    require_tensor(y, "y")
    return ops.p_norm(
        ops.scale(x - y, bias=real(epsilon, "epsilon")),
        porder=real(p, "p"),
        axis=-1,
        keepdim=keepdim,
        epsilon=0.0,
    )


#: The modes of dropout as users and as programs call them.
_DROPOUT_MODES = {
    "upscale_in_train": "upscale_in_train",
    "downscale_in_infer": "downgrade_in_infer",
}
_HIGHEST = 3.4028234663852886e38


def _padding_row(padding_idx: int | None, rows: int) -> int:
    """The row of an embedding that never learns, counted from the front; -1 for none."""
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise ValueError(f"`padding_idx` must be in [{-rows}, {rows}), but is {padding_idx}")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
) -> Tensor:
    """Attention of tensors of shape [batch, length, heads, size].

    >>> x = paddle.ones([1, 2, 1, 4])
    >>> paddle.nn.functional.scaled_dot_product_attention(x, x, x * 3.0).tolist()
    [[[[3.0, 3.0, 3.0, 3.0]], [[3.0, 3.0, 3.0, 3.0]]]]
    """
    q, k, v = (ops.transpose2(t, axis=[0, 2, 1, 3]) for t in (query, key, value))
    scores = ops.matmul_v2(ops.scale(q, scale=q.shape[-1] ** -0.5), k, trans_y=True)
    if is_causal:
        hidden = ops.fill_any_like(scores, value=-1e30)
        scores = scores + ops.tril_triu(hidden, diagonal=1, lower=False)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = dropout(ops.softmax(scores, axis=-1), dropout_p, training=training)
    return ops.transpose2(ops.matmul_v2(weights, v), axis=[0, 2, 1, 3])


set_public_names(__name__)
