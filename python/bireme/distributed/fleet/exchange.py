"""Values that workers show each other, as bytes.

Numbers, text and lists travel as JSON and arrays in NumPy's format: nothing of what arrives is
run, as it would be with pickles.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np


def encode(value: Any) -> bytes:
    """A number, text, list, dictionary or array as bytes.

    >>> from bireme.distributed.fleet.exchange import decode, encode
    >>> decode(encode([1, "a"]))
    [1, 'a']
    """
    if isinstance(value, (np.ndarray, np.generic)):
        stream = io.BytesIO()
        np.save(stream, np.asarray(value), allow_pickle=False)
        return b"n" + stream.getvalue()
    try:
        return b"j" + json.dumps(value).encode()
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"a `{kind}` cannot be sent to other workers: hand over numbers, text, lists or arrays"
        ) from None


def decode(content: bytes) -> Any:
    """What `encode` made the bytes of.

    >>> from bireme.distributed.fleet.exchange import decode
    >>> decode(b"j[1.5]")
    [1.5]
    """
    if content[:1] == b"n":
        return np.load(io.BytesIO(content[1:]), allow_pickle=False)
    if content[:1] == b"j":
        return json.loads(content[1:])
    raise ValueError("another worker sent a value that is neither JSON nor an array")


def reduce(parts: list[Any], mode: str) -> np.ndarray:
    """The sum, min or max of one array per worker, in the order of the workers.

    >>> from bireme.distributed.fleet.exchange import reduce
    >>> reduce([[1, 2], [3, 1]], "max").tolist()
    [3, 2]
    """
    functions = {"sum": np.add, "min": np.minimum, "max": np.maximum}
    if mode not in functions:
        raise ValueError(f"`mode` must be sum, min or max, not {mode!r}")
    arrays = [np.asarray(part) for part in parts]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(f"workers hand over arrays of different shapes: {sorted(shapes)}")
    total = arrays[0]
    for array in arrays[1:]:
        total = functions[mode](total, array)
    return total
