"""Which library represents images: `pil` (Pillow's images) or `cv2` (numpy arrays)."""

from __future__ import annotations

from typing import Any

_BACKENDS = ("pil", "cv2", "tensor")
_backend = "pil"


def set_image_backend(backend: str) -> None:
    """Chooses what data sets hand out from now on: `pil`, `cv2` or `tensor`.

    >>> from bireme import vision
    >>> vision.set_image_backend("cv2")
    >>> vision.get_image_backend()
    'cv2'
    >>> vision.set_image_backend("pil")
    """
    global _backend
    _backend = _checked(backend)


def get_image_backend() -> str:
    """The backend chosen with `set_image_backend`; `pil` at first.

    >>> from bireme import vision
    >>> vision.get_image_backend()
    'pil'
    """
    return _backend


def image_load(path: str, backend: str | None = None) -> Any:
    """Reads an image file with Pillow (`pil`) or OpenCV (`cv2`), whichever the backend says.

    >>> from bireme import vision
    >>> vision.image_load("cat.png", backend="tensor")
    Traceback (most recent call last):
    ...
    NotImplementedError: `image_load` has no backend `tensor`: use `pil` or `cv2`
    """
    backend = _checked(backend or _backend)
    if backend == "pil":
        return pillow().open(path)
    if backend == "tensor":
        raise NotImplementedError("`image_load` has no backend `tensor`: use `pil` or `cv2`")
    try:
        import cv2
    except ImportError as error:
        raise ImportError("`image_load` with `cv2` needs `pip install opencv-python`") from error
    return cv2.imread(path)


def pillow() -> Any:
    """Pillow's `Image` module, or an error that says what to do without it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "the image backend `pil` needs Pillow, which is not installed: `pip install pillow`, "
            "or use numpy arrays with `bireme.vision.set_image_backend('cv2')`"
        ) from error
    return Image


def _checked(backend: str) -> str:
    if backend not in _BACKENDS:
        raise ValueError(f"unknown image backend `{backend}`: use one of {', '.join(_BACKENDS)}")
    return backend
