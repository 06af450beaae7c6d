"""Bireme: Paddle's API on an engine in Rust, for training recommender and dense models.

    >>> import bireme as paddle
    >>> paddle.add(paddle.to_tensor([1.0, 2.0]), paddle.to_tensor([3.0, 4.0])).tolist()
    [4.0, 6.0]

What Paddle calls `paddle.nn` is `bireme.nn`, and so on: programs need another import line, or none
at all under `python -m bireme script.py` or after `bireme.install_alias()`.

Ops run when they are called (eager mode); after `paddle.enable_static()` they are written into a
program for `paddle.static.Executor`. Subpackages are imported when they are first used:

- `nn`, `optimizer`, `metric`, `io`, `vision`: what models, training and data are made of;
- `static`, `jit`, `inference`: programs, layers as programs, saved models;
- `fluid`, `v2`, `dataset`, `reader`: the API of Paddle 1.x;
- `distributed`: jobs of several processes.

A name of Paddle that is missing raises an error with the nearest one that is there. docs/api.md in
the sources of Bireme lists all names, environment variables and differences from Paddle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _core, framework, tensor
from ._alias import install_alias
from ._core import (
    BiremeError,
    FileError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    Tensor,
    UnavailableError,
    UnimplementedError,
)
from ._missing import install_finder, missing_names
from ._names import LAZY
from .batch import batch
from .framework import *
from .tensor import *

if TYPE_CHECKING:
    # For editors: `paddle.nn.` should offer what is there. `_names` fetches them when it runs.
    from . import (
        amp,
        autograd,
        base,
        callbacks,
        dataset,
        device,
        distributed,
        distribution,
        fluid,
        geometric,
        hapi,
        incubate,
        inference,
        io,
        jit,
        linalg,
        metric,
        nn,
        optimizer,
        reader,
        regularizer,
        static,
        utils,
        v2,
        version,
        vision,
    )
    from ._core import ResourceExhaustedError
    from .distributed import DataParallel
    from .hapi import Model, flops, summary

install_finder()
__getattr__ = missing_names(__name__, LAZY)

# Scripts compare it to know what they can call, so Paddle's comes first.
__version__: str = f"2.6.2+bireme.{_core.__version__}"

__all__ = [
    "BiremeError",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "Tensor",
    "UnavailableError",
    "UnimplementedError",
    "batch",
    "install_alias",
]
__all__ += framework.__all__
__all__ += tensor.__all__


def __dir__() -> list[str]:
    # Our own tools would only be in the way of who completes a name.
    ours = {"LAZY", "TYPE_CHECKING", "annotations", "install_finder", "missing_names"}
    return sorted({*globals(), *LAZY} - ours)
