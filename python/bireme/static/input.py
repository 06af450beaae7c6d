"""What comes into a program: `data` declares a feed, `InputSpec` describes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._names import set_public_names
from .program import Variable, require_static


def data(name: str, shape: Sequence[int | None], dtype: Any = None, lod_level: int = 0) -> Variable:
    """Declares a variable that is fed by name; `None` or -1 is a size known only when fed.

    Without a `dtype` it has the default type, see `get_default_dtype`.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     paddle.static.data("x", [None, 13]).shape
    (-1, 13)
    >>> paddle.disable_static()
    """
    require_static("static.data")
    return declare_feed(name, shape, dtype, lod_level)


def declare_feed(name: str, shape: Sequence[int | None], dtype: Any, lod_level: int) -> Variable:
    """Declares the feed in the default main program, whatever the mode.

    >>> from bireme.static.input import declare_feed
    >>> declare_feed("x", [None, "three"], "float32", 0)
    Traceback (most recent call last):
    ...
    ValueError: the shape of data `x` must hold sizes, -1 or None, not 'three'
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string, not {type(name).__name__}")
    block = _core.default_main_program().global_block()
    sizes = [_size(name, size) for size in shape]
    return block.create_var(
        name=name,
        shape=sizes,
        dtype=_default_dtype() if dtype is None else dtype,
        lod_level=lod_level,
        stop_gradient=True,
        is_data=True,
    )


class InputSpec:
    """The shape, type and name of an input, for `jit.to_static` and `jit.save`.

    >>> import bireme as paddle
    >>> paddle.static.InputSpec([None, 784], "float32", "image")
    InputSpec(shape=(-1, 784), dtype=paddle.float32, name=image, stop_gradient=False)
    """

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: Any = "float32",
        name: str | None = None,
        stop_gradient: bool = False,
    ) -> None:
        self.shape = tuple(_size(name, size) for size in shape)
        self.dtype = _core.dtype(dtype)
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> InputSpec:
        """The description of a tensor or variable.

        >>> import bireme as paddle
        >>> paddle.static.InputSpec.from_tensor(paddle.to_tensor([1.0, 2.0])).shape
        (2,)
        """
        return cls(list(tensor.shape), tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: Any, name: str | None = None) -> InputSpec:
        """The description of a numpy array.

        >>> import bireme as paddle, numpy as np
        >>> paddle.static.InputSpec.from_numpy(np.ones([2, 2], "float32"), "x").shape
        (2, 2)
        """
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size: int) -> InputSpec:
        """Puts the size of a batch in front of the shape, in place.

        >>> import bireme as paddle
        >>> paddle.static.InputSpec([28], "float32").batch(64).shape
        (64, 28)
        """
        if not isinstance(batch_size, int) or batch_size == 0 or batch_size < -1:
            raise ValueError(f"`batch_size` must be positive or -1, not {batch_size!r}")
        self.shape = (batch_size, *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Takes the first size off the shape, in place.

        >>> import bireme as paddle
        >>> paddle.static.InputSpec([64, 28], "float32").unbatch().shape
        (28,)
        """
        if not self.shape:
            raise ValueError("an `InputSpec` without a size has none to take off")
        self.shape = self.shape[1:]
        return self

    def __repr__(self) -> str:
        return (
            f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name}, "
            f"stop_gradient={self.stop_gradient})"
        )

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, str(self.dtype), self.name, self.stop_gradient)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _size(name: str | None, size: Any) -> int:
    if size is None:
        return -1
    try:
        return size.__index__()
    except AttributeError:
        message = f"the shape of data `{name}` must hold sizes, -1 or None, not {size!r}"
        raise ValueError(message) from None


def _default_dtype() -> Any:
    from ..framework import get_default_dtype

    return get_default_dtype()


set_public_names(__name__, but="declare_feed")
