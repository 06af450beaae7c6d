"""Readers of Paddle 1.x and what decorates them.

A reader is a function without arguments that returns an iterable of samples; a decorator takes
readers and returns a reader.
"""

from .._missing import missing_names
from .decorator import (
    ComposeNotAligned,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    shuffle,
)
from .parallel import multiprocess_reader, xmap_readers

__all__ = [
    "ComposeNotAligned",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "multiprocess_reader",
    "shuffle",
    "xmap_readers",
]

__getattr__ = missing_names(__name__)
