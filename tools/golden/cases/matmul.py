"""Matrix products."""

from golden import Case, f32, f64

CASES = [
    Case("mul", {"X": f32(3, 4), "Y": f32(4, 2)}),
    Case("mul", {"X": f32(2, 3, 4), "Y": f32(4, 5)}, {"x_num_col_dims": 2}),
    Case("mul", {"X": f32(2, 3, 2), "Y": f32(3, 2, 2)}, {"x_num_col_dims": 1, "y_num_col_dims": 2}),
    Case("mul", {"X": f64(2, 3), "Y": f64(3, 2)}, grad=["Y"]),
]
