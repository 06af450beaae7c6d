"""Images: data sets, transforms, and which library reads them."""

from .._missing import missing_names
from . import datasets, transforms
from .image import get_image_backend, image_load, set_image_backend

__all__ = ["datasets", "get_image_backend", "image_load", "set_image_backend", "transforms"]

__getattr__ = missing_names(__name__)
