"""The transforms as objects that a data set calls on each image."""

# ruff: noqa: TRY004 - Paddle raises ValueError here, and so does user code that catches it.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._names import set_public_names
from . import functional


class Compose:
    """Applies transforms one after another.

    >>> import numpy as np
    >>> from bireme.vision.transforms import Compose, Normalize, Transpose
    >>> chain = Compose([Transpose(), Normalize([127.5], [127.5])])
    >>> chain(np.full((28, 28), 255, "uint8")).shape
    (1, 28, 28)
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            data = transform(data)
        return data

    def __repr__(self) -> str:
        lines = "".join(f"\n    {transform}" for transform in self.transforms)
        return f"{type(self).__name__}({lines}\n)"


class BaseTransform:
    """What a transform of one's own derives from: give it `_apply_image` and the like.

    `keys` names the parts of a tuple sample in order; a part without an `_apply_<key>` method, and
    parts beyond the keys, pass unchanged.

    >>> from bireme.vision.transforms import BaseTransform
    >>> class Negative(BaseTransform):
    ...     def _apply_image(self, image):
    ...         return -image
    >>> Negative()((2, "label"))
    (-2, 'label')
    """

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        keys = ("image",) if keys is None else keys
        if isinstance(keys, str) or not isinstance(keys, Sequence):
            raise ValueError(f"`keys` must be a list or tuple of names, got {keys!r}")
        for key in keys:
            if self._get_apply(key) is None:
                raise NotImplementedError(f"{type(self).__name__} has no method `_apply_{key}`")
        self.keys = keys
        self.params: Any = None

    def __call__(self, inputs: Any) -> Any:
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(parts)
        done = [self._get_apply(key)(part) for key, part in zip(self.keys, parts)]
        done.extend(parts[len(done) :])
        return done[0] if len(done) == 1 else tuple(done)

    def _get_params(self, inputs: tuple) -> Any:
        return None

    def _get_apply(self, key: str) -> Any:
        return getattr(self, f"_apply_{key}", None)

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define `_apply_image`")


class ToTensor(BaseTransform):
    """Makes a tensor of an image, see `functional.to_tensor`.

    >>> import numpy as np
    >>> from bireme.vision.transforms import ToTensor
    >>> ToTensor()(np.zeros((28, 28), "uint8")).shape
    [1, 28, 28]
    """

    def __init__(self, data_format: str = "CHW", keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, image: Any) -> Any:
        return functional.to_tensor(image, self.data_format)


class Normalize(BaseTransform):
    """`(image - mean) / std` for each channel, see `functional.normalize`.

    A single number stands for three channels, as in Paddle.

    >>> import numpy as np
    >>> from bireme.vision.transforms import Normalize
    >>> Normalize([1.0], [2.0])(np.full((1, 1, 1), 3.0, "float32")).tolist()
    [[[1.0]]]
    """

    def __init__(
        self,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, (int, float)) else mean
        self.std = [std] * 3 if isinstance(std, (int, float)) else std
        self.data_format = data_format
        self.to_rgb = to_rgb

    def _apply_image(self, image: Any) -> Any:
        return functional.normalize(image, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """Reorders the axes, rows-columns-channels to channels first by default.

    >>> import numpy as np
    >>> from bireme.vision.transforms import Transpose
    >>> Transpose()(np.zeros((28, 28, 3))).shape
    (3, 28, 28)
    """

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.order = order

    def _apply_image(self, image: Any) -> Any:
        array = np.asarray(image)
        if array.ndim == 2:
            array = array[..., np.newaxis]
        array = array.transpose(self.order)
        return _core.to_tensor(array) if isinstance(image, _core.Tensor) else array


set_public_names(__name__)
