"""MNIST and Fashion-MNIST from their IDX files.

A sample is `(image, label)`: the label an `int64` array of shape `[1]`, the image a `[28, 28]` array
of the default element type with values 0 to 255 (`cv2`) or a Pillow image (`pil`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _core
from ...dataset._idx import read_pair
from ...dataset.common import _check_exists_and_download
from ...io import Dataset
from .. import image as image_backend
from ..transforms import BaseTransform, Compose

_BACKENDS = ("pil", "cv2")


class MNIST(Dataset):
    """The handwritten digits: 60000 samples in mode `train`, 10000 in mode `test`.

    Without paths the files come from the cache folder, or are downloaded (`download=False` forbids
    it). `backend` says what an image is, see `bireme.vision.set_image_backend`.

    >>> from bireme.vision.datasets import MNIST
    >>> digits = MNIST(mode="test", backend="cv2")  # doctest: +SKIP
    >>> image, label = digits[0]  # doctest: +SKIP
    >>> image.shape, label.tolist()  # doctest: +SKIP
    ((28, 28), [7])
    """

    NAME = "mnist"
    URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
    TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
    TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
    TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
    TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: Callable[[Any], Any] | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        if mode.lower() not in ("train", "test"):
            raise ValueError(f"`mode` must be `train` or `test`, got `{mode}`")
        backend = backend or image_backend.get_image_backend()
        if backend not in _BACKENDS:
            raise ValueError(f"`backend` must be `pil` or `cv2`, got `{backend}`")
        self.mode = mode.lower()
        self.backend = backend
        self.transform = transform
        self.dtype = _core.get_default_dtype().name
        self._to_image = self._image_maker()
        self.image_path = self._find(image_path, "IMAGE", "images-idx3-ubyte.gz", download)
        self.label_path = self._find(label_path, "LABEL", "labels-idx1-ubyte.gz", download)
        self.images, labels = read_pair(self.image_path, self.label_path)
        self.labels = labels.astype("int64").reshape(-1, 1)

    def __getitem__(self, idx: int) -> tuple[Any, np.ndarray]:
        image = self._to_image(self.images[idx])
        if self.transform is not None:
            image = self.transform(image)
            if self.backend == "cv2":
                image = image.astype(self.dtype)
        return image, self.labels[idx].copy()

    def __len__(self) -> int:
        return len(self.labels)

    def _find(self, path: str | None, kind: str, suffix: str, download: bool) -> str:
        prefix = "train" if self.mode == "train" else "t10k"
        url = f"{self.URL_PREFIX}{prefix}-{suffix}"
        md5 = getattr(self, f"{self.mode.upper()}_{kind}_MD5")
        if path is None and not download:
            raise ValueError(
                f"`{kind.lower()}_path` is not given and `download` is False: give the path of "
                f"`{prefix}-{suffix}`, or allow the download"
            )
        return _check_exists_and_download(path, url, md5, self.NAME, path is None)

    def _image_maker(self) -> Callable[[np.ndarray], Any]:
        if self.backend == "cv2":
            dtype = self.dtype
            return lambda pixels: pixels.astype(dtype)
        try:
            return image_backend.pillow().fromarray
        except ImportError:
            # Our own transforms make the same of an array of bytes as of a Pillow image.
            if not _is_ours(self.transform):
                raise
            return np.copy


class FashionMNIST(MNIST):
    """Zalando's clothes in the format of MNIST.

    >>> from bireme.vision.datasets import FashionMNIST
    >>> len(FashionMNIST(mode="train", backend="cv2"))  # doctest: +SKIP
    60000
    """

    NAME = "fashion-mnist"
    URL_PREFIX = "https://dataset.bj.bcebos.com/fashion_mnist/"
    TEST_IMAGE_MD5 = "bef4ecab320f06d8554ea6380940ec79"
    TEST_LABEL_MD5 = "bb300cfdad3c16e7a12a480ee83cd310"
    TRAIN_IMAGE_MD5 = "8d4fb7e6c68d591d4c3dfef9ec88bf0d"
    TRAIN_LABEL_MD5 = "25c81989df183df01b3e8a0aad5dffbe"


def _is_ours(transform: Any) -> bool:
    if isinstance(transform, Compose):
        return len(transform.transforms) > 0 and _is_ours(transform.transforms[0])
    return isinstance(transform, BaseTransform)
