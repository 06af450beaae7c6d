"""Rearranging the channels of pictures."""

from __future__ import annotations

from ...tensor.arguments import Tensor, ops, require_tensor

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(
    x: Tensor, upscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """Channels as pixels: a picture `upscale_factor` times as high and wide.

    >>> paddle.nn.functional.pixel_shuffle(paddle.arange(4.0).reshape([1, 4, 1, 1]), 2).tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """
    require_tensor(x, "x")
    _check(data_format)
    n = upscale_factor
    _, channels, height, width = x.shape
    x = ops.reshape2(x, shape=[-1, channels // (n * n), n, n, height, width])
    x = ops.transpose2(x, axis=[0, 1, 4, 2, 5, 3])
    return ops.reshape2(x, shape=[-1, channels // (n * n), height * n, width * n])


def pixel_unshuffle(
    x: Tensor, downscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """Pixels as channels: the opposite of `pixel_shuffle`.

    >>> paddle.nn.functional.pixel_unshuffle(paddle.arange(4.0).reshape([1, 1, 2, 2]), 2).tolist()
    [[[[0.0]], [[1.0]], [[2.0]], [[3.0]]]]
    """
    require_tensor(x, "x")
    _check(data_format)
    n = downscale_factor
    _, channels, height, width = x.shape
    x = ops.reshape2(x, shape=[-1, channels, height // n, n, width // n, n])
    x = ops.transpose2(x, axis=[0, 1, 3, 5, 2, 4])
    return ops.reshape2(x, shape=[-1, channels * n * n, height // n, width // n])


def channel_shuffle(
    x: Tensor, groups: int, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """Channels of all groups in turn.

    >>> paddle.nn.functional.channel_shuffle(paddle.arange(4.0).reshape([1, 4, 1, 1]), 2).tolist()
    [[[[0.0]], [[2.0]], [[1.0]], [[3.0]]]]
    """
    require_tensor(x, "x")
    _check(data_format)
    _, channels, height, width = x.shape
    x = ops.reshape2(x, shape=[-1, groups, channels // groups, height, width])
    x = ops.transpose2(x, axis=[0, 2, 1, 3, 4])
    return ops.reshape2(x, shape=[-1, channels, height, width])


def _check(data_format: str) -> None:
    if data_format != "NCHW":
        raise NotImplementedError("channels are shuffled as the second axis (NCHW) only")
