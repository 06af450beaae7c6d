"""Comparisons, logic, and kinds of numbers."""

from golden import Case, boolean, f32, i32, i64, values

NAN, INF = float("nan"), float("inf")
RELATIONS = ["equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"]

CASES = [
    *(Case(op, {"X": i64(3, 4, high=3), "Y": i64(3, 4, high=3)}) for op in RELATIONS),
    *(Case(op, {"X": i32(3, 4, high=3), "Y": i32(4, high=3)}) for op in RELATIONS),
    *(Case(op, {"X": f32(2, 3), "Y": f32(2, 1)}) for op in RELATIONS),
    *(Case(op, {"X": values([1.0, 1.0, NAN, INF, 0.0]), "Y": values([1.0, 2.0, NAN, INF, 1e-9])}) for op in RELATIONS),
    Case("equal", {"X": boolean(5), "Y": boolean(5)}),
    *(Case(op, {"X": boolean(3, 4), "Y": boolean(3, 4)}) for op in ["logical_and", "logical_or", "logical_xor"]),
    *(Case(op, {"X": boolean(2, 1), "Y": boolean(3)}) for op in ["logical_and", "logical_or", "logical_xor"]),
    Case("logical_and", {"X": i64(4, high=2), "Y": i64(4, high=3)}),
    Case("logical_or", {"X": values([0.0, 0.5]), "Y": values([0.0, 0.0])}),
    Case("logical_not", {"X": boolean(3, 2)}),
    Case("logical_not", {"X": i64(4, high=2)}),
    *(Case(op, {"X": values([[1.0, NAN], [INF, -INF]])}) for op in ["isnan_v2", "isinf_v2", "isfinite_v2"]),
    *(Case(op, {"X": i64(3)}) for op in ["isnan_v2", "isinf_v2", "isfinite_v2"]),

    *(Case(f"bitwise_{how}", {"X": i64(2, 3, low=-9, high=9), "Y": i64(3, low=-9, high=9)})
      for how in ("and", "or", "xor")),
    *(Case(f"bitwise_{how}", {"X": boolean(4), "Y": boolean(4)}) for how in ("and", "or", "xor")),
    Case("bitwise_and", {"X": values([200, 7], "uint8"), "Y": values([77, 3], "uint8")}),
    Case("bitwise_not", {"X": i32(2, 3, low=-9, high=9)}),
    Case("bitwise_not", {"X": boolean(4)}),
    Case("bitwise_not", {"X": values([200, 7], "uint8")}),
]
