"""What a golden case says: an op, its inputs, attributes and outputs. Knows nothing of Paddle.

Case files (`cases/<family>.py`) import from here; `generate.py` runs the cases.
"""

import zlib
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Spec:
    """An input: how to make its values from a random generator."""

    dtype: str
    shape: tuple
    make: object
    lod: list = field(default_factory=list)
    # Selected rows only: which rows of how many.
    rows: list = None
    height: int = None

    def array(self, rng):
        return np.asarray(self.make(rng), dtype=self.dtype).reshape(self.shape)


def _floats(dtype, shape, low, high, lod):
    # Four decimals keep the files short and diffable.
    make = lambda rng: rng.uniform(low, high, shape).round(4)
    return Spec(dtype, shape, make, lod or [])


def _ints(dtype, shape, low, high, lod):
    return Spec(dtype, shape, lambda rng: rng.integers(low, high, shape), lod or [])


def f32(*shape, low=-1, high=1, lod=None):
    """Single-precision numbers in [low, high)."""
    return _floats("float32", shape, low, high, lod)


def f64(*shape, low=-1, high=1, lod=None):
    """Double-precision numbers in [low, high)."""
    return _floats("float64", shape, low, high, lod)


def i64(*shape, low=0, high=10, lod=None):
    """64-bit integers in [low, high)."""
    return _ints("int64", shape, low, high, lod)


def i32(*shape, low=0, high=10, lod=None):
    """32-bit integers in [low, high)."""
    return _ints("int32", shape, low, high, lod)


def boolean(*shape, lod=None):
    """Truth values."""
    return _ints("bool", shape, 0, 2, lod)


def values(data, dtype="float32", lod=None):
    """The given values."""
    data = np.asarray(data, dtype=dtype)
    return Spec(str(data.dtype), data.shape, lambda rng: data, lod or [])


def rows(height, ids, *dims, dtype="float32", low=-1, high=1):
    """Selected rows `ids` of a tensor of `height` rows whose rows have shape `dims`."""
    spec = _floats(dtype, (len(ids), *dims), low, high, None)
    spec.rows, spec.height = list(ids), height
    return spec


class Case:
    """One run of one op.

    inputs   slot -> Spec, or a list of them
    attrs    attribute -> value; Paddle's op proto decides the exact type
    outputs  list of `"Slot"`, `("Slot", count)` or `("Slot", "InputSlot")` (the same variable), or
             a dict `{"Slot": count or "InputSlot"}`
    check    output slots whose values are compared; default all
    grad     input slots whose gradients are compared; default every float input that has one
    targets  output slots that get a gradient; default every float output that is no by-product
    rows_out output slots that hold selected rows, where Paddle does not find out by itself
    fd       whether finite differences confirm the gradients
    rtol, atol  tolerances in place of the harness's defaults
    """

    def __init__(self, op, inputs, attrs=None, outputs=("Out",), check=None, grad=None,
                 targets=None, rows_out=(), fd=True, rtol=None, atol=None):
        self.op = op
        self.inputs = {s: v if isinstance(v, (list, tuple)) else [v] for s, v in inputs.items()}
        self.attrs = attrs or {}
        self.outputs = _outputs(outputs)
        self.check = list(self.outputs) if check is None else list(check)
        self.grad, self.targets, self.rows_out = grad, targets, rows_out
        self.fd, self.rtol, self.atol = fd, rtol, atol

    def rng(self, number):
        """The generator of this case: depends on op and case number only."""
        return np.random.default_rng(zlib.crc32(f"{self.op}#{number}".encode()))


def _outputs(outputs):
    if isinstance(outputs, dict):
        return {slot: 1 if how is None else how for slot, how in outputs.items()}
    if isinstance(outputs, str):
        return {outputs: 1}
    return dict(out if isinstance(out, (list, tuple)) else (out, 1) for out in outputs)
