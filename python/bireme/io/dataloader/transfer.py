"""Moves batches between processes: pickles, with large arrays beside them in shared memory.

The memory is mapped without a name before the workers are forked: nothing can leak, and the size of
`/dev/shm` is no limit. A slot of it is written again only after the parent has copied its batch out.
"""

from __future__ import annotations

import io
import mmap
import pickle
import struct
from typing import Any

import numpy as np

from ... import _core

# A slot is address space, memory is used only where batches have been; larger ones are pickled.
SLOT_BYTES = 1 << 28
_SMALLEST_SHARED = 1 << 13
_ALIGNMENT = 64
_HEADER = struct.Struct("<I")
_MAP_NORESERVE = 0x4000


def shared_memory(slots: int) -> mmap.mmap | None:
    """Memory of `slots` slots to be inherited by forked workers, None where there is none."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return None
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", _MAP_NORESERVE)
    try:
        return mmap.mmap(-1, slots * SLOT_BYTES, flags=flags)
    except OSError:
        return None


def encode(message: Any, memory: mmap.mmap | None, slot: int, slots: int) -> bytes:
    """Pickles a message; arrays that are large enough go into the slot, if there is memory.

    >>> decode(encode({"a": 1}, None, 0, 0), None)
    {'a': 1}
    """
    writer = _SlotWriter(memory, slot * SLOT_BYTES)
    body = io.BytesIO()
    _Pickler(body, protocol=5, buffer_callback=writer.keep_in_pickle).dump(message)
    head = pickle.dumps(writer.places)
    return _HEADER.pack(len(head)) + head + body.getbuffer()


def decode(data: bytes, memory: mmap.mmap | None) -> Any:
    """What `encode` was given; arrays are copied out of the slot."""
    (head_bytes,) = _HEADER.unpack_from(data)
    body_start = _HEADER.size + head_bytes
    places = pickle.loads(data[_HEADER.size : body_start])
    buffers = [_copy(memory, start, size) for start, size in places]
    return pickle.loads(memoryview(data)[body_start:], buffers=buffers)


def _copy(memory: Any, start: int, size: int) -> np.ndarray:
    return np.frombuffer(memory, np.uint8, size, start).copy()


class _SlotWriter:
    """Copies buffers one behind the other into a slot and notes where they are."""

    def __init__(self, memory: mmap.mmap | None, start: int) -> None:
        self._memory = memory
        self._next = start
        self._end = start + SLOT_BYTES
        self.places: list[tuple[int, int]] = []

    def keep_in_pickle(self, buffer: pickle.PickleBuffer) -> bool:
        """Pickle's question whether a buffer stays in the pickle; no: it is in the slot now."""
        raw = buffer.raw()
        if self._memory is None or raw.nbytes < _SMALLEST_SHARED:
            return True
        start = -(-self._next // _ALIGNMENT) * _ALIGNMENT
        if start + raw.nbytes > self._end:
            return True
        np.frombuffer(self._memory, np.uint8, raw.nbytes, start)[:] = np.frombuffer(raw, np.uint8)
        self.places.append((start, raw.nbytes))
        self._next = start + raw.nbytes
        return False


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays: tensors of the parent are not for workers to make."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _core.Tensor):
            return _core.to_tensor, (np.asarray(value),)
        return NotImplemented
