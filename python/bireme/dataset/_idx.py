"""Reads the IDX files of MNIST: big-endian header, then bytes; plain or gzip."""

from __future__ import annotations

import math
import struct

import numpy as np

_UBYTE = 0x08


def read_idx(path: str, ndim: int) -> np.ndarray:
    """The `uint8` array of `ndim` dimensions in an IDX file.

    >>> import struct, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(struct.pack(">HBBI", 0, 8, 1, 3) + bytes([5, 0, 4]))
    ...     file.flush()
    ...     read_idx(file.name, 1).tolist()
    [5, 0, 4]
    """
    data = _read(path)
    header_bytes = 4 + 4 * ndim
    if len(data) < header_bytes:
        raise ValueError(f"`{path}` is not an IDX file: it has {len(data)} bytes only")
    zero, kind, dimensions = struct.unpack_from(">HBB", data)
    if zero != 0 or kind != _UBYTE or dimensions != ndim:
        raise ValueError(
            f"`{path}` is not an IDX file of bytes in {ndim} dimensions: it begins with "
            f"{data[:4].hex()}, not {struct.pack('>HBB', 0, _UBYTE, ndim).hex()}"
        )
    shape = struct.unpack_from(f">{ndim}I", data, 4)
    if len(data) - header_bytes != math.prod(shape):
        raise ValueError(
            f"`{path}` is cut off or too long: its header says {shape}, "
            f"{len(data) - header_bytes} bytes follow"
        )
    return np.frombuffer(data, np.uint8, offset=header_bytes).reshape(shape)


def read_pair(image_path: str, label_path: str) -> tuple[np.ndarray, np.ndarray]:
    """Images `[n, rows, columns]` and labels `[n]` that belong together."""
    images, labels = read_idx(image_path, 3), read_idx(label_path, 1)
    if len(images) != len(labels):
        raise ValueError(
            f"`{image_path}` has {len(images)} images but `{label_path}` has {len(labels)} labels"
        )
    return images, labels


def _read(path: str) -> bytes:
    import gzip
    import zlib

    with open(path, "rb") as file:
        data = file.read()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"`{path}` is a broken gzip file: {error}") from error
