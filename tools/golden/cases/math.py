"""Small mathematics: means, scales, sums."""

from golden import Case, f32, f64, i64, rows, values

CASES = [
    Case("mean", {"X": f32(3, 4)}),
    Case("mean", {"X": f64(5)}),
    Case("scale", {"X": f32(3, 4)}, {"scale": 2.5, "bias": -0.5}),
    Case("scale", {"X": f32(3, 4)}, {"scale": 2.5, "bias": -0.5, "bias_after_scale": False}),
    Case("scale", {"X": i64(4)}, {"scale": 3.0, "bias": 1.0}),
    Case("scale", {"X": f32(5, 2, lod=[[0, 2, 5]])}, {"scale": 0.5}),
    Case("scale", {"X": rows(6, [4, 1, 4], 2)}, {"scale": 2.0}, grad=[], rows_out=["Out"]),
    Case("scale", {"X": f32(4), "ScaleTensor": values([3.0])}, grad=["X"]),
]
