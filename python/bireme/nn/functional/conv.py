"""Convolutions."""

from __future__ import annotations

from typing import Any

from ...tensor.arguments import Tensor, int_list, ops, pair, require_tensor

__all__ = ["conv1d", "conv2d"]


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The convolution of pictures with filters of shape [out, in / groups, height, width].

    >>> x, weight = paddle.ones([1, 1, 3, 3]), paddle.ones([2, 1, 3, 3])
    >>> paddle.nn.functional.conv2d(x, weight).tolist()
    [[[[9.0]], [[9.0]]]]
    """
    require_tensor(x, "x")
    last = _channels_last(data_format, ("NCHW", "NHWC"))
    _check_groups(x.shape[-1 if last else 1], weight.shape[0], groups)
    pads, algorithm = paddings(padding, 2, last)
    out = ops.conv2d(
        x,
        weight,
        strides=pair(stride, 2, "stride"),
        paddings=pads,
        dilations=pair(dilation, 2, "dilation"),
        groups=groups,
        padding_algorithm=algorithm,
        data_format=data_format,
    )
    return _with_bias(out, bias, last)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """The convolution of sequences with filters of shape [out, in / groups, length].

    >>> x = paddle.arange(4.0).reshape([1, 1, 4])
    >>> paddle.nn.functional.conv1d(x, paddle.ones([2, 1, 3])).tolist()
    [[[3.0, 6.0], [3.0, 6.0]]]
    """
    require_tensor(x, "x")
    last = _channels_last(data_format, ("NCL", "NLC"))
    if x.ndim != 3:
        raise ValueError(f"`conv1d` takes tensors with 3 axes, but the shape is {list(x.shape)}")
    _check_groups(x.shape[-1 if last else 1], weight.shape[0], groups)
    pads, algorithm = paddings(padding, 1, last)
    axis = 1 if last else 2
    out = ops.conv2d(
        ops.unsqueeze2(x, axes=[axis]),
        ops.unsqueeze2(weight, axes=[2]),
        strides=[1, *pair(stride, 1, "stride")],
        paddings=[0] * len(pads) + pads,
        dilations=[1, *pair(dilation, 1, "dilation")],
        groups=groups,
        padding_algorithm=algorithm,
        data_format="NHWC" if last else "NCHW",
    )
    return _with_bias(ops.squeeze2(out, axes=[axis]), bias, last)


def paddings(padding: Any, dims: int, channels_last: bool) -> tuple[list[int], str]:
    """The numbers and the algorithm of a padding, from the forms that users may write."""
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise ValueError(f"`padding` must be SAME, VALID or numbers, but is {padding!r}")
        return [0] * dims, padding.upper()
    if isinstance(padding, (list, tuple)) and padding and isinstance(padding[0], (list, tuple)):
        numbers = _inner_pads([list(p) for p in padding], dims, channels_last)
    else:
        numbers = int_list(padding)
    if len(numbers) == 1:
        numbers = numbers * dims
    if len(numbers) not in (dims, 2 * dims) or any(n < 0 for n in numbers):
        raise ValueError(
            f"`padding` must be {dims} or {2 * dims} numbers that are not negative, but is {padding}"
        )
    if len(numbers) == 2 * dims and numbers[::2] == numbers[1::2]:
        numbers = numbers[::2]
    return numbers, "EXPLICIT"


def _inner_pads(padding: list[list[int]], dims: int, channels_last: bool) -> list[int]:
    """The pairs of the inner axes, from pairs of all axes: batch and channels are not padded."""
    channel = dims + 1 if channels_last else 1
    if len(padding) != dims + 2 or padding[0] != [0, 0] or padding[channel] != [0, 0]:
        raise ValueError(f"`padding` must leave batch and channels as they are, but is {padding}")
    inner = padding[1:-1] if channels_last else padding[2:]
    return [n for p in inner for n in p]


def _channels_last(data_format: str, choices: tuple[str, str]) -> bool:
    if data_format not in choices:
        raise ValueError(f"`data_format` must be one of {choices}, but is {data_format!r}")
    return data_format == choices[1]


def _check_groups(channels: int, filters: int, groups: int) -> None:
    if groups <= 0 or channels % groups or filters % groups:
        raise ValueError(
            f"{channels} channels and {filters} filters cannot be divided into {groups} groups"
        )


def _with_bias(out: Tensor, bias: Tensor | None, channels_last: bool) -> Tensor:
    if bias is None:
        return out
    if channels_last:
        return ops.elementwise_add(out, bias)
    shape = [1, -1] + [1] * (out.ndim - 2)
    return ops.elementwise_add(out, ops.reshape2(bias, shape=shape))
