"""Two versions: that of Bireme, and that of Paddle whose API it follows.

`bireme.__version__` has both, Paddle's first. Scripts that ask `paddle.version` want to know what
they can call, so everything here but `bireme_version` is Paddle's.
"""

from __future__ import annotations

from . import _core
from ._missing import missing_names

bireme_version: str = _core.__version__
full_version = "2.6.2"
major, minor, patch = full_version.split(".")
rc = "0"
cuda_version = cudnn_version = xpu_version = "False"

__all__ = ["cuda", "cudnn", "show", "xpu"]


def show() -> None:
    """Prints both versions.

    >>> import bireme as paddle
    >>> paddle.version.show()
    bireme: ...
    full_version: 2.6.2
    """
    print(f"bireme: {bireme_version}\nfull_version: {full_version}")


def cuda() -> str:
    """The version of CUDA; "False" since this build has none.

    >>> import bireme as paddle
    >>> paddle.version.cuda()
    'False'
    """
    return cuda_version


def cudnn() -> str:
    """The version of cuDNN; "False" since this build has none.

    >>> import bireme as paddle
    >>> paddle.version.cudnn()
    'False'
    """
    return cudnn_version


def xpu() -> str:
    """The version of XPU; "False" since this build has none.

    >>> import bireme as paddle
    >>> paddle.version.xpu()
    'False'
    """
    return xpu_version


__getattr__ = missing_names(__name__)
