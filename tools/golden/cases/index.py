"""Picking elements by position or condition."""

from golden import Case, boolean, f32, f64, i32, i64, values


def ids(data, dtype="int64"):
    return values(data, dtype)


CASES = [
    Case("gather", {"X": f32(4, 3), "Index": ids([2, 0, 2])}),
    Case("gather", {"X": f32(4, 3), "Index": ids([[1], [3]], "int32")}),
    # Paddle's gradient for an inner axis reads the first slab only, so there is only one here;
    # `index_select` shows the others.
    Case("gather", {"X": f32(1, 4, 3), "Index": ids([3, 0, 3, 1])}, {"axis": 1}),
    Case("gather", {"X": f64(3, 4), "Index": ids([0, 0])}, {"axis": 1}, grad=[]),
    Case("gather", {"X": f32(3, 4), "Index": ids(1)}, {"axis": 0}),
    Case("gather", {"X": f32(1, 4), "Index": ids([1, 2]), "Axis": ids([1], "int32")}),
    Case("gather", {"X": i64(4, 2), "Index": ids([3, 1])}),
    Case("gather_nd", {"X": f32(3, 4), "Index": ids([[1, 2], [0, 0], [1, 2]])}),
    Case("gather_nd", {"X": f32(3, 2, 2), "Index": ids([[2], [0]], "int32")}),
    Case("gather_nd", {"X": f64(2, 3), "Index": ids([[[0, 1]], [[1, 2]]])}),
    Case("scatter", {"X": f32(4, 2), "Ids": ids([1, 3]), "Updates": f32(2, 2)}),
    # Of two updates of a row only one reaches the result, but Paddle gives both the gradient.
    Case("scatter", {"X": f32(4, 2), "Ids": ids([1, 1]), "Updates": f32(2, 2)}, fd=False),
    Case("scatter", {"X": f32(4, 2), "Ids": ids([1, 0, 1]), "Updates": f32(3, 2)},
         {"overwrite": False}),
    Case("scatter", {"X": f64(3), "Ids": ids([[2], [0]], "int32"), "Updates": f64(2)},
         {"overwrite": False}),
    Case("index_select", {"X": f32(4, 3), "Index": ids([2, 0, 2])}, {"dim": 0}),
    Case("index_select", {"X": f32(2, 3, 2), "Index": ids([1, 1], "int32")}, {"dim": -2}),
    Case("index_sample", {"X": f32(3, 4), "Index": ids([[0, 3], [1, 1], [2, 0]])}),
    Case("index_sample", {"X": i64(2, 3), "Index": ids([[2], [0]], "int32")}),
    Case("masked_select", {"X": f32(3, 4), "Mask": boolean(3, 4)}, outputs=["Y"]),
    Case("masked_select", {"X": f32(3, 2), "Mask": values([True, False], "bool")}, outputs=["Y"]),
    Case("masked_select", {"X": i64(5), "Mask": boolean(5)}, outputs=["Y"]),
    Case("where", {"Condition": boolean(3, 4), "X": f32(3, 4), "Y": f32(3, 4)}),
    Case("where", {"Condition": boolean(5), "X": i64(5), "Y": i64(5)}),
    Case("where_index", {"Condition": boolean(3, 4)}),
    Case("where_index", {"Condition": values([0.0, 1.5, 0.0, -1.0])}, grad=[]),
    Case("where_index", {"Condition": i64(2, 2, 3, high=2)}),
    Case("one_hot_v2", {"X": i64(4, high=5)}, {"depth": 5, "dtype": 5}),
    Case("one_hot_v2", {"X": i64(2, 3, high=4)}, {"depth": 4, "dtype": 5}),
    Case("one_hot_v2", {"X": i32(3, high=3)}, {"depth": 3, "dtype": 3}),
    Case("one_hot_v2", {"X": i64(2, high=3), "depth_tensor": values([4], "int32")}),
    Case("tril_triu", {"X": f32(3, 4)}, {"lower": True}),
    Case("tril_triu", {"X": f32(3, 4)}, {"diagonal": 1, "lower": False}),
    Case("tril_triu", {"X": f64(2, 4, 3)}, {"diagonal": -2, "lower": True}),
    Case("tril_triu", {"X": i64(3, 3)}, {"diagonal": -1, "lower": False}),
    Case("take_along_axis", {"Input": f32(3, 4), "Index": i64(3, 2, high=4)}, {"Axis": 1},
         outputs=["Result"]),
    Case("take_along_axis", {"Input": f32(3, 4), "Index": i64(5, 4, high=3)}, {"Axis": 0},
         outputs=["Result"]),
    # Paddle's front makes the axis positive.
    Case("take_along_axis", {"Input": f64(2, 3, 2), "Index": i32(2, 4, 2, high=3)}, {"Axis": 1},
         outputs=["Result"]),
    Case("take_along_axis", {"Input": i64(2, 3), "Index": i64(2, 3, high=3)}, {"Axis": 1},
         outputs=["Result"]),
    Case("graph_send_recv", {"X": f32(4, 3), "Src_index": i64(6, high=4),
                             "Dst_index": i64(6, high=3)}, {"reduce_op": "SUM"},
         outputs=["Out", "Dst_count"], targets=["Out"]),
    Case("graph_send_recv", {"X": f32(4, 3), "Src_index": i64(6, high=4),
                             "Dst_index": i64(6, high=3)}, {"reduce_op": "MEAN"},
         outputs=["Out", "Dst_count"], targets=["Out"]),
    Case("graph_send_recv", {"X": f32(4, 3), "Src_index": i64(6, high=4),
                             "Dst_index": i64(6, high=3)}, {"reduce_op": "MAX"},
         outputs=["Out", "Dst_count"], targets=["Out"]),
    Case("graph_send_recv", {"X": f32(4, 3), "Src_index": i64(6, high=4),
                             "Dst_index": i64(6, high=3)}, {"reduce_op": "MIN"},
         outputs=["Out", "Dst_count"], targets=["Out"]),

    Case("graph_send_recv", {"X": f64(4, 2, 2), "Src_index": i32(5, high=4),
                             "Dst_index": i32(5, high=6)}, {"reduce_op": "SUM", "out_size": [6]},
         outputs=["Out", "Dst_count"], targets=["Out"]),
    Case("graph_send_recv", {"X": f32(3, 2), "Src_index": i64(4, high=3),
                             "Dst_index": i64(4, high=2), "Out_size": values([2], "int64")},
         {"reduce_op": "MEAN"}, outputs=["Out", "Dst_count"], targets=["Out"]),
    Case("diag_v2", {"X": f32(3, 4)}),
    Case("diag_v2", {"X": f32(3, 4)}, {"offset": 2}),
    Case("diag_v2", {"X": f64(4, 3)}, {"offset": -2}),
    Case("diag_v2", {"X": f32(3)}, {"padding_value": 1.5}),
    Case("diag_v2", {"X": f32(3)}, {"offset": 1}),
    Case("diag_v2", {"X": i64(2)}, {"offset": -2}),
]
