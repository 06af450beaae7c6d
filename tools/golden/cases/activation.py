"""Activations: elementwise functions of one input."""

from golden import Case, f32, f64

CASES = [
    Case("relu", {"X": f32(3, 4)}),
    Case("relu", {"X": f64(2, 1, 3)}),
    Case("relu", {"X": f32()}),
]
