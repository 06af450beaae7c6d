"""Images: data sets, transforms, and which library reads them."""

from . import datasets, transforms
from .image import get_image_backend, image_load, set_image_backend

__all__ = ["datasets", "get_image_backend", "image_load", "set_image_backend", "transforms"]
