"""Names that occur once: `fc_0`, `fc_1` and so on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = ["generate", "guard", "switch"]


def generate(key: str) -> str:
    """The next name that begins with `key`.

    >>> import bireme as paddle
    >>> with paddle.utils.unique_name.guard():
    ...     paddle.utils.unique_name.generate("fc"), paddle.utils.unique_name.generate("fc")
    ('fc_0', 'fc_1')
    """
    return _core.unique_name(key)


def switch(new_generator: Any = None, new_para_name_checker: Any = None) -> tuple[Any, None]:
    """Counts from zero again, or goes on with a generator that was replaced; returns the old one.

    Paddle's second argument and result have no meaning here: there is nothing to check.

    >>> import bireme as paddle
    >>> old, _ = paddle.utils.unique_name.switch()
    >>> paddle.utils.unique_name.generate("fc")
    'fc_0'
    >>> new, _ = paddle.utils.unique_name.switch(old)
    """
    return _core.switch_names(_core.UniqueNames() if new_generator is None else new_generator), None


@contextmanager
def guard(new_generator: Any = None) -> Iterator[None]:
    """Counts from zero inside the block; a string is put in front of all names.

    >>> import bireme as paddle
    >>> with paddle.utils.unique_name.guard("left_"):
    ...     paddle.utils.unique_name.generate("fc")
    'left_fc_0'
    """
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = _core.UniqueNames(new_generator)
    old, _ = switch(new_generator)
    try:
        yield
    finally:
        switch(old)


__getattr__ = missing_names(__name__)
