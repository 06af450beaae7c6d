"""Pooling."""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor, integer, ops, pair, require_tensor
from .conv import paddings


def max_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The greatest element of each window of a picture, and its place in it if `return_mask`.

    >>> x = paddle.arange(16.0).reshape([1, 1, 4, 4])
    >>> paddle.nn.functional.max_pool2d(x, 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    if return_mask:
        return _max_with_places(x, kernel_size, stride, padding, ceil_mode, data_format)
    return _pool2d(x, "max", kernel_size, stride, padding, ceil_mode, True, data_format)


def avg_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a picture, without the padding if `exclusive`.

    >>> paddle.nn.functional.avg_pool2d(paddle.ones([1, 1, 2, 2]), 2).tolist()
    [[[[1.0]]]]
    """
    out = _pool2d(x, "avg", kernel_size, stride, padding, ceil_mode, exclusive, data_format)
    if divisor_override is None:
        return out
    height, width = pair(kernel_size, 2, "kernel_size")
    return ops.scale(out, scale=height * width / divisor_override)


def max_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The greatest element of each window of a sequence.

    >>> paddle.nn.functional.max_pool1d(paddle.to_tensor([[[1.0, 3.0]]]), 2).tolist()
    [[[3.0]]]
    """
    if return_mask:
        places = ([1, *pair(kernel_size, 1, "kernel_size")], _line(stride), _line(padding, 0))
        return _squeezed(_max_with_places(ops.unsqueeze2(x, axes=[2]), *places, ceil_mode, "NCHW"))
    return _pool1d(x, "max", kernel_size, stride, padding, ceil_mode, True)


def avg_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Tensor:
    """The mean of each window of a sequence, without the padding if `exclusive`.

    >>> paddle.nn.functional.avg_pool1d(paddle.to_tensor([[[1.0, 3.0]]]), 2).tolist()
    [[[2.0]]]
    """
    return _pool1d(x, "avg", kernel_size, stride, padding, ceil_mode, exclusive)


def adaptive_avg_pool2d(
    x: Tensor, output_size: Any, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """Means of windows that cut a picture into `output_size` parts.

    >>> x = paddle.arange(16.0).reshape([1, 1, 4, 4])
    >>> paddle.nn.functional.adaptive_avg_pool2d(x, 2).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """
    return _adaptive2d(x, "avg", output_size, data_format)


def adaptive_max_pool2d(
    x: Tensor, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """Greatest elements of windows that cut a picture into `output_size` parts.

    >>> x = paddle.arange(16.0).reshape([1, 1, 4, 4])
    >>> paddle.nn.functional.adaptive_max_pool2d(x, 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    if return_mask:
        return ops.max_pool2d_with_index(x, ksize=_sizes(x, output_size, "NCHW"), adaptive=True)
    return _adaptive2d(x, "max", output_size, "NCHW")


def adaptive_avg_pool1d(x: Tensor, output_size: int, name: str | None = None) -> Tensor:
    """Means of windows that cut a sequence into `output_size` parts.

    >>> paddle.nn.functional.adaptive_avg_pool1d(paddle.to_tensor([[[1.0, 3.0]]]), 1).tolist()
    [[[2.0]]]
    """
    out = _adaptive2d(
        ops.unsqueeze2(x, axes=[2]), "avg", [1, integer(output_size, "output_size")], "NCHW"
    )
    return ops.squeeze2(out, axes=[2])


def adaptive_max_pool1d(
    x: Tensor, output_size: int, return_mask: bool = False, name: str | None = None
) -> Any:
    """Greatest elements of windows that cut a sequence into `output_size` parts.

    >>> paddle.nn.functional.adaptive_max_pool1d(paddle.to_tensor([[[1.0, 3.0]]]), 1).tolist()
    [[[3.0]]]
    """
    picture = ops.unsqueeze2(x, axes=[2])
    if return_mask:
        return _squeezed(
            adaptive_max_pool2d(picture, [1, integer(output_size, "output_size")], True)
        )
    out = _adaptive2d(picture, "max", [1, integer(output_size, "output_size")], "NCHW")
    return ops.squeeze2(out, axes=[2])


def _pool2d(
    x: Tensor,
    kind: str,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
) -> Tensor:
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"`data_format` must be NCHW or NHWC, but is {data_format!r}")
    pads, algorithm = paddings(padding, 2, data_format == "NHWC")
    if algorithm == "VALID" and ceil_mode:
        raise ValueError("`ceil_mode` has no meaning with the padding VALID")
    window = pair(kernel, 2, "kernel_size")
    return ops.pool2d(
        x,
        pooling_type=kind,
        ksize=window,
        strides=window if stride is None else pair(stride, 2, "stride"),
        paddings=pads,
        padding_algorithm=algorithm,
        ceil_mode=ceil_mode,
        exclusive=exclusive,
        data_format=data_format,
    )


def _pool1d(
    x: Tensor, kind: str, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, exclusive: bool
) -> Tensor:
    require_tensor(x, "x")
    if x.ndim != 3:
        raise ValueError(f"one-dimensional pooling takes 3 axes, but the shape is {list(x.shape)}")
    pads, algorithm = paddings(padding, 1, False)
    window = [1, *pair(kernel, 1, "kernel_size")]
    out = ops.pool2d(
        ops.unsqueeze2(x, axes=[2]),
        pooling_type=kind,
        ksize=window,
        strides=window if stride is None else [1, *pair(stride, 1, "stride")],
        paddings=[0] * len(pads) + pads,
        padding_algorithm=algorithm,
        ceil_mode=ceil_mode,
        exclusive=exclusive,
    )
    return ops.squeeze2(out, axes=[2])


def _max_with_places(
    x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, data_format: str
) -> tuple[Tensor, Tensor]:
    """Maxima and their places in the flattened picture."""
    pads, algorithm = paddings(padding, 2, False)
    if data_format != "NCHW" or ceil_mode or algorithm != "EXPLICIT" or len(pads) != 2:
        raise NotImplementedError("places of maxima need NCHW and the same padding on both sides")
    window = pair(kernel, 2, "kernel_size")
    steps = window if stride is None else pair(stride, 2, "stride")
    return ops.max_pool2d_with_index(x, ksize=window, strides=steps, paddings=pads)


def _line(value: Any, across: int = 1) -> Any:
    """A setting of sequences as that of pictures of height 1."""
    return None if value is None else [across, *pair(value, 1)]


def _squeezed(parts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    first, second = (ops.squeeze2(part, axes=[2]) for part in parts)
    return first, second


def _sizes(x: Tensor, output_size: Any, data_format: str) -> list[int]:
    require_tensor(x, "x")
    sizes = [output_size] * 2 if isinstance(output_size, int) else list(output_size)
    inner = x.shape[2:] if data_format == "NCHW" else x.shape[1:3]
    return [int(n) if size is None else int(size) for size, n in zip(sizes, inner)]


def _adaptive2d(x: Tensor, kind: str, output_size: Any, data_format: str) -> Tensor:
    window = _sizes(x, output_size, data_format)
    return ops.pool2d(x, pooling_type=kind, ksize=window, adaptive=True, data_format=data_format)


set_public_names(__name__)
