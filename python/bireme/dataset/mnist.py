"""MNIST as readers of `(784 floats in [-1, 1], label)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from . import common
from ._idx import read_pair

URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
TEST_IMAGE_URL = URL_PREFIX + "t10k-images-idx3-ubyte.gz"
TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
TEST_LABEL_URL = URL_PREFIX + "t10k-labels-idx1-ubyte.gz"
TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
TRAIN_IMAGE_URL = URL_PREFIX + "train-images-idx3-ubyte.gz"
TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
TRAIN_LABEL_URL = URL_PREFIX + "train-labels-idx1-ubyte.gz"
TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

_BLOCK = 100


def reader_creator(
    image_filename: str, label_filename: str, buffer_size: int = _BLOCK
) -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    """A reader of a pair of IDX files that converts `buffer_size` images at a time.

    >>> from bireme.dataset import mnist
    >>> mnist.reader_creator("no_images", "no_labels").__name__
    'reader'
    """

    def reader() -> Iterator[tuple[np.ndarray, int]]:
        images, labels = read_pair(image_filename, label_filename)
        images = images.reshape(len(images), -1)
        for start in range(0, len(images), buffer_size):
            block = images[start : start + buffer_size].astype("float32") / 255.0 * 2.0 - 1.0
            yield from zip(block, labels[start : start + buffer_size].tolist())

    return reader


def train() -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    """A reader of the 60000 training images; the files are downloaded when no cache has them.

    >>> from bireme.dataset import mnist
    >>> image, label = next(mnist.train()())  # doctest: +SKIP
    >>> image.shape, label  # doctest: +SKIP
    ((784,), 5)
    """
    return reader_creator(
        common.download(TRAIN_IMAGE_URL, "mnist", TRAIN_IMAGE_MD5),
        common.download(TRAIN_LABEL_URL, "mnist", TRAIN_LABEL_MD5),
    )


def test() -> Callable[[], Iterator[tuple[np.ndarray, int]]]:
    """A reader of the 10000 test images.

    >>> from bireme.dataset import mnist
    >>> image, label = next(mnist.test()())  # doctest: +SKIP
    >>> image.shape, label  # doctest: +SKIP
    ((784,), 7)
    """
    return reader_creator(
        common.download(TEST_IMAGE_URL, "mnist", TEST_IMAGE_MD5),
        common.download(TEST_LABEL_URL, "mnist", TEST_LABEL_MD5),
    )


def fetch() -> None:
    """Downloads all four files into the cache folder.

    >>> from bireme.dataset import mnist
    >>> mnist.fetch()  # doctest: +SKIP
    >>> sorted(os.listdir(os.path.join(common.DATA_HOME, "mnist")))[0]  # doctest: +SKIP
    't10k-images-idx3-ubyte.gz'
    """
    train()
    test()
