"""Small things around training: unique names, checks of versions and of the installation."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .._missing import missing_names
from . import dlpack, unique_name
from .install_check import run_check

__all__ = ["deprecated", "dlpack", "require_version", "run_check", "try_import", "unique_name"]


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Raises unless the version of Paddle's API that Bireme follows lies in the range.

    >>> import bireme as paddle
    >>> paddle.utils.require_version("2.0.0")
    >>> paddle.utils.require_version("3.0")
    Traceback (most recent call last):
    ...
    RuntimeError: VersionError: Paddle's API of version 3.0 or higher is required, but Bireme follows 2.6.2
    """
    from ..version import full_version

    here = _numbers("full_version", full_version)
    if here < _numbers("min_version", min_version):
        raise RuntimeError(
            f"VersionError: Paddle's API of version {min_version} or higher is required, but "
            f"Bireme follows {full_version}"
        )
    if max_version is not None and here > _numbers("max_version", max_version):
        raise RuntimeError(
            f"VersionError: Paddle's API of version {max_version} or lower is required, but "
            f"Bireme follows {full_version}"
        )


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """Imports a module that only some users need; the error says how to install it.

    >>> import bireme as paddle
    >>> paddle.utils.try_import("json").__name__
    'json'
    """
    import importlib

    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        package = {"cv2": "opencv-python"}.get(module_name, module_name.partition(".")[0])
        message = f"`{module_name}` is needed here: `pip install {package}`"
        raise ImportError(err_msg or message) from error


def deprecated(
    update_to: str = "", since: str = "", reason: str = "", level: int = 0
) -> Callable[[Any], Any]:
    """Marks a function as deprecated; like Paddle 2.6 it leaves the function as it is.

    >>> import bireme as paddle
    >>> @paddle.utils.deprecated(update_to="paddle.add", since="2.0.0")
    ... def plus(x, y):
    ...     return x + y
    >>> plus(1, 2)
    3
    """
    return lambda function: function


def _numbers(name: str, version: str) -> list[int]:
    if not isinstance(version, str):
        raise TypeError(f"`{name}` must be a string such as '2.1.0', not {version!r}")
    parts = version.split(".")
    if len(parts) > 4 or not all(part.isdigit() for part in parts):
        raise ValueError(f"`{name}` must be one to four numbers such as '2.1.0', not {version!r}")
    return [int(part) for part in parts] + [0] * (4 - len(parts))


__getattr__ = missing_names(__name__)
