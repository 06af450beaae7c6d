"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

from ...tensor.arguments import Tensor, as_tensor, ops, require_tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm"]


def layer_norm(
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Mean 0 and variance 1 over the last axes, those of `normalized_shape`.

    >>> paddle.nn.functional.layer_norm(paddle.to_tensor([[1.0, 1.0]]), [2]).tolist()
    [[0.0, 0.0]]
    """
    require_tensor(x, "x")
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    begin = x.ndim - len(shape)
    if begin < 0 or list(x.shape[begin:]) != shape:
        raise ValueError(
            f"the input of shape {list(x.shape)} does not end with `normalized_shape` {shape}"
        )
    weight = weight if weight is None else ops.reshape2(weight, shape=[-1])
    bias = bias if bias is None else ops.reshape2(bias, shape=[-1])
    return ops.layer_norm(x, weight, bias, epsilon=epsilon, begin_norm_axis=begin)


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Mean 0 and variance 1 over the batch in training, by the running statistics otherwise.

    >>> mean, var = paddle.zeros([2]), paddle.ones([2])
    >>> x = paddle.ones([1, 2])
    >>> paddle.nn.functional.batch_norm(x, mean, var, None, None, epsilon=0.0).tolist()
    [[1.0, 1.0]]
    """
    frozen = not training if use_global_stats is None else bool(use_global_stats)
    last = len(data_format) > 2 and data_format[-1] == "C"
    return ops.batch_norm(
        x,
        weight,
        bias,
        running_mean,
        running_var,
        momentum=momentum,
        epsilon=epsilon,
        is_test=not training,
        use_global_stats=frozen,
        trainable_statistics=use_global_stats is not None and not use_global_stats,
        data_layout="NHWC" if last else "NCHW",
        _into={"MeanOut": running_mean, "VarianceOut": running_var},
    )


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Mean 0 and variance 1 over each channel of each sample; running statistics are not used.

    >>> paddle.nn.functional.instance_norm(paddle.ones([1, 1, 2, 2])).tolist()
    [[[[0.0, 0.0], [0.0, 0.0]]]]
    """
    require_tensor(x, "x")
    if not use_input_stats:
        raise NotImplementedError("`instance_norm` normalises by the input only")
    if data_format[-1] == "C":
        raise NotImplementedError("`instance_norm` takes channels as the second axis only")
    return _standardised(x, list(range(2, x.ndim)), eps, weight, bias)


def group_norm(
    x: Tensor,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Mean 0 and variance 1 over each group of channels of each sample.

    >>> x = paddle.arange(4.0).reshape([1, 4, 1])
    >>> print(paddle.nn.functional.group_norm(x, 2).numpy().round(3).ravel())
    [-1.  1. -1.  1.]
    """
    require_tensor(x, "x")
    if data_format[-1] == "C" and len(data_format) > 2:
        raise NotImplementedError("`group_norm` takes channels as the second axis only")
    inner = math.prod(x.shape[1:]) // num_groups
    grouped = ops.reshape2(x, shape=[-1, num_groups, inner])
    out = ops.reshape2(_standardised(grouped, [2], epsilon), shape=[-1, *x.shape[1:]])
    return _scaled(out, weight, bias)


def local_response_norm(
    x: Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Each element over a mean of the squares of neighbouring channels.

    >>> x = paddle.ones([1, 4, 1])
    >>> print(paddle.nn.functional.local_response_norm(x, 3).numpy().round(4).ravel())
    [1.     0.9999 0.9999 1.    ]
    """
    require_tensor(x, "x")
    axis = x.ndim - 1 if data_format[-1] == "C" else 1
    borders = [0] * (2 * x.ndim)
    borders[2 * axis : 2 * axis + 2] = [size // 2, (size - 1) // 2]
    squares = ops.pad(ops.square(x), paddings=borders, pad_value=0.0)
    count = x.shape[axis]
    parts = [ops.slice(squares, axes=[axis], starts=[i], ends=[i + count]) for i in range(size)]
    return x / ops.pow(ops.scale(ops.sum(parts), scale=alpha / size, bias=float(k)), factor=beta)


def _standardised(
    x: Tensor, dims: list[int], epsilon: float, weight: Any = None, bias: Any = None
) -> Tensor:
    centred = x - ops.reduce_mean(x, dim=dims, keep_dim=True)
    variance = ops.reduce_mean(ops.square(centred), dim=dims, keep_dim=True)
    return _scaled(centred / ops.sqrt(variance + as_tensor(epsilon, x)), weight, bias)


def _scaled(out: Tensor, weight: Any, bias: Any) -> Tensor:
    """Weights and biases of channels, the second axis."""
    shape = [1, -1] + [1] * (out.ndim - 2)
    out = out if weight is None else out * ops.reshape2(weight, shape=shape)
    return out if bias is None else out + ops.reshape2(bias, shape=shape)
