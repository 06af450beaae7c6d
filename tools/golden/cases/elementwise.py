"""Arithmetic on two tensors with Paddle's broadcasting."""

from golden import Case, f32, f64, i32, i64, rows, values

LINEAR = [
    ({"X": f32(3, 4), "Y": f32(3, 4)}, {}),
    ({"X": f32(3, 19), "Y": f32(19)}, {}),
    ({"X": f32(3, 19), "Y": f32(3, 1)}, {}),
    ({"X": f32(3, 4), "Y": f32(3)}, {"axis": 0}),
    ({"X": f32(2, 3, 4), "Y": f32(3)}, {"axis": 1}),
    ({"X": f32(2, 3, 4, 2), "Y": f32(3, 4)}, {"axis": 1}),
    ({"X": f64(2, 3), "Y": f64(1)}, {}),
    ({"X": f32(3, 1), "Y": f32(1, 4)}, {}),
    ({"X": f32(4), "Y": f32(2, 3, 4)}, {}),
    ({"X": f32(2, 1, 3), "Y": f32(4, 1)}, {}),
    ({"X": f32(2, 3), "Y": f32()}, {}),
    ({"X": i64(2, 3), "Y": i64(3)}, {}),
    ({"X": f32(5, 2, lod=[[0, 2, 5]]), "Y": f32(2)}, {}),
]

SMOOTH = [
    ({"X": f32(3, 4, low=0.5, high=2), "Y": f32(3, 4, low=0.5, high=2)}, {}),
    ({"X": f32(3, 4, low=0.5, high=2), "Y": f32(4, low=0.5, high=2)}, {}),
    ({"X": f32(2, 3, 4, low=0.5, high=2), "Y": f32(3, low=0.5, high=2)}, {"axis": 1}),
    ({"X": f64(2, 1, low=0.5, high=2), "Y": f64(3, low=0.5, high=2)}, {}),
    ({"X": i32(4, low=1), "Y": i32(4, low=1, high=4)}, {}),
]

QUOTIENTS = [
    ({"X": values([7, -7, 7, -7, 6], "int32"), "Y": values([2, 2, -2, -2, -3], "int32")}, {}),
    ({"X": values([[7, -8, 9]], "int64"), "Y": values([[4], [-5]], "int64")}, {}),
    ({"X": values([7.5, -7.5, 7.5, -7.5, 6.0]), "Y": values([2.0, 2.0, -2.0, -2.0, 3.0])}, {}),
]


def without_axis_gradient(op, inputs, attrs):
    """Paddle's gradients of these ops fail where `axis` lays Y along the middle of X."""
    return Case(op, inputs, attrs, grad=[] if attrs else None)


CASES = [
    *(Case(op, *case) for op in ["elementwise_add", "elementwise_sub", "elementwise_mul"] for case in LINEAR),
    *(Case("elementwise_div", *case) for case in SMOOTH),
    *(without_axis_gradient("elementwise_pow", *case) for case in SMOOTH),
    *(without_axis_gradient(op, *case) for op in ["elementwise_max", "elementwise_min"]
      for case in LINEAR[:8] + LINEAR[11:12]),
    *(Case(op, *case, grad=[]) for op in ["elementwise_mod", "elementwise_floordiv"] for case in QUOTIENTS),
    # Ties go to Y, and differences do not see that.
    Case("elementwise_max", {"X": values([1.0, 2.0]), "Y": values([1.0, 3.0])}, fd=False),
    Case("elementwise_min", {"X": values([1.0, 2.0]), "Y": values([1.0, 3.0])}, fd=False),
    Case("elementwise_mul", {"X": rows(6, [4, 1, 4], 2), "Y": values([0.5])}, grad=[], rows_out=["Out"]),
]
