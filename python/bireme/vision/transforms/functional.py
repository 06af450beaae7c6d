"""The transforms as functions.

All arithmetic is done by numpy: transforms run in the worker processes of a `DataLoader`, which
must not use the engine's threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._names import set_public_names

_FORMATS = ("CHW", "HWC")


def to_tensor(pic: Any, data_format: str = "CHW") -> Any:
    """A tensor `[channels, rows, columns]` (or `HWC`) of an image; bytes are divided by 255.

    >>> import numpy as np
    >>> to_tensor(np.full((2, 3), 255, "uint8")).shape
    [1, 2, 3]
    """
    _check_format(data_format)
    if isinstance(pic, _core.Tensor):
        return pic if data_format == "CHW" else _core.to_tensor(pic.numpy().transpose(1, 2, 0))
    array = np.asarray(pic)
    if array.ndim not in (2, 3):
        raise TypeError(f"an image has 2 or 3 dimensions, got {array.ndim} of {type(pic).__name__}")
    array = array.reshape(*array.shape[:2], -1)
    if data_format == "CHW":
        array = array.transpose(2, 0, 1)
    if array.dtype == np.uint8:
        array = array.astype("float32") / np.float32(255)
    return _core.to_tensor(np.ascontiguousarray(array))


def normalize(
    img: Any,
    mean: Sequence[float],
    std: Sequence[float],
    data_format: str = "CHW",
    to_rgb: bool = False,
) -> Any:
    """`(img - mean) / std` for each channel; `to_rgb` reverses the last axis first.

    >>> import numpy as np
    >>> normalize(np.full((1, 1, 2), 3.0, "float32"), [1.0], [2.0]).tolist()
    [[[1.0, 1.0]]]
    """
    _check_format(data_format)
    shape = (-1, 1, 1) if data_format == "CHW" else (1, 1, -1)
    array = np.asarray(img)
    if array.dtype == np.uint8:
        array = array.astype("float32")
    if to_rgb:
        array = array[..., ::-1]
    scaled = (array - np.array(mean, "float32").reshape(shape)) / np.array(std, "float32").reshape(
        shape
    )
    return _core.to_tensor(scaled) if isinstance(img, _core.Tensor) else scaled


def _check_format(data_format: str) -> None:
    if data_format not in _FORMATS:
        raise ValueError(f"`data_format` must be `CHW` or `HWC`, got `{data_format}`")


set_public_names(__name__)
