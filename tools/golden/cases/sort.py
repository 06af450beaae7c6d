"""Comparing elements with one another: order, extremes, duplicates.

Paddle leaves the order of equal elements open (its sorts are not stable), so cases with ties
compare values only.
"""

from golden import Case, f32, f64, i32, i64, values

TOP = ["Out", "Indices"]
TIES = values([[1, 3, 3, 2, 3, 1, 0, 2]])
WITH_NAN = values([[1, float("nan"), 3, 2]])

CASES = [
    Case("top_k_v2", {"X": f32(3, 6)}, {"k": 2}, outputs=TOP),
    Case("top_k_v2", {"X": f32(3, 6)}, {"k": 6}, outputs=TOP),
    Case("top_k_v2", {"X": f32(3, 6)}, {"k": 3, "largest": False}, outputs=TOP),
    Case("top_k_v2", {"X": f64(4, 3)}, {"k": 2, "axis": 0}, outputs=TOP),
    Case("top_k_v2", {"X": f32(2, 4, 3)}, {"k": 2, "axis": -2}, outputs=TOP),
    Case("top_k_v2", {"X": f32(2, 5), "K": values([3], "int32")}, outputs=TOP),
    Case("top_k_v2", {"X": values([[5, 2, 9, 4]], "int64")}, {"k": 2}, outputs=TOP),
    Case("top_k_v2", {"X": TIES}, {"k": 5}, outputs=TOP, check=["Out"], grad=[]),
    Case("top_k_v2", {"X": WITH_NAN}, {"k": 3}, outputs=TOP, grad=[]),
    Case("top_k_v2", {"X": WITH_NAN}, {"k": 2, "largest": False}, outputs=TOP, grad=[]),
    Case("top_k", {"X": f32(3, 6)}, {"k": 2}, outputs=TOP),
    Case("top_k", {"X": f64(2, 2, 3)}, {"k": 1}, outputs=TOP),
    Case("argsort", {"X": f32(3, 5)}, outputs=TOP),
    Case("argsort", {"X": f32(3, 5)}, {"descending": True}, outputs=TOP),
    Case("argsort", {"X": f64(4, 2, 2)}, {"axis": 0}, outputs=TOP),
    Case("argsort", {"X": values([[5, 2, 9, 4]], "int64")}, {"axis": -1}, outputs=TOP),
    # Up to 16 elements Paddle sorts by insertion, which is stable.
    Case("argsort", {"X": TIES}, {"descending": True}, outputs=TOP, grad=[]),
    Case("argsort", {"X": TIES}, outputs=TOP, grad=[]),
    Case("argsort", {"X": WITH_NAN}, outputs=TOP, grad=[]),
    Case("arg_max", {"X": f32(3, 4)}, {"axis": 1}),
    Case("arg_max", {"X": f32(3, 4)}, {"axis": -2, "keepdims": True, "dtype": 2}),
    Case("arg_max", {"X": f64(2, 3, 2)}, {"axis": 1, "dtype": -1}),
    Case("arg_max", {"X": f32(3, 4)}, {"axis": 0, "flatten": True}),
    Case("arg_max", {"X": i64(3, 4)}, {"axis": 0, "flatten": True, "keepdims": True}),
    Case("arg_max", {"X": TIES}, {"axis": 1}),
    Case("arg_min", {"X": f32(3, 4)}, {"axis": 0}),
    Case("arg_min", {"X": TIES}, {"axis": -1}),
    Case("arg_min", {"X": i32(5)}, {"axis": 0, "dtype": 2}),
    Case("unique", {"X": values([3, 1, 2, 1, 3], "int64")}, {"dtype": 3}, outputs=["Out", "Index"]),
    Case("unique", {"X": values([3.5, 1, 2, 1, 3.5])}, {"dtype": 2}, outputs=["Out", "Index"]),
    Case("unique", {"X": values([[3, 1, 2], [1, 3, 7]], "int64")},
         {"dtype": 3, "is_sorted": True, "return_index": True, "return_inverse": True,
          "return_counts": True, "axis": []}, outputs=["Out", "Indices", "Index", "Counts"]),
    Case("unique", {"X": values([[3, 1], [1, 2], [3, 1]], "int32")},
         {"dtype": 3, "is_sorted": True, "return_index": True, "return_inverse": True,
          "return_counts": True, "axis": [0]}, outputs=["Out", "Indices", "Index", "Counts"]),
    Case("unique", {"X": values([[3, 1, 3], [1, 2, 1]])},
         {"dtype": 2, "is_sorted": True, "return_index": True, "return_inverse": True,
          "return_counts": True, "axis": [1]}, outputs=["Out", "Indices", "Index", "Counts"]),
]
