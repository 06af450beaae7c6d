"""Ops on sequences, and those of click models."""

from golden import Case, f32, f64, i32, i64, values

POOL = ["Out", "MaxIndex"]
NORM = ["Y", "Means", "Scales"]


def statistics(columns):
    return {"BatchSize": f32(columns, low=10, high=20), "BatchSum": f32(columns, low=-5, high=5),
            "BatchSquareSum": f32(columns, low=10, high=30)}


CASES = [
    *(Case("sequence_pool", {"X": f32(5, 3, lod=[[0, 2, 5]])}, {"pooltype": how}, outputs=POOL,
           check=POOL if how == "MAX" else ["Out"])
      for how in ("SUM", "AVERAGE", "SQRT", "MAX", "FIRST", "LAST")),
    *(Case("sequence_pool", {"X": f32(5, 2, lod=[[0, 2, 2, 5]])},
           {"pooltype": how, "pad_value": 0.5}, outputs=POOL,
           check=POOL if how == "MAX" else ["Out"])
      for how in ("SUM", "AVERAGE", "SQRT", "MAX", "FIRST", "LAST")),
    Case("sequence_pool", {"X": f32(5, 2, lod=[[0, 2, 3], [0, 1, 3, 5]])}, {"pooltype": "SUM"},
         outputs=POOL, check=["Out"]),
    Case("sequence_pool", {"X": f64(4, 2, 3, lod=[[0, 3, 4]])}, {"pooltype": "AVERAGE"},
         outputs=POOL, check=["Out"]),

    Case("sequence_expand", {"X": f32(4, 2, lod=[[0, 2, 4]]),
                             "Y": f32(8, 1, lod=[[0, 2, 4], [0, 3, 6, 7, 8]])},
         {"ref_level": 0}, grad=["X"]),
    Case("sequence_expand", {"X": f32(3, 2), "Y": f32(5, 1, lod=[[0, 2, 2, 5]])}, grad=["X"]),
    Case("sequence_expand", {"X": f32(4, 1, lod=[[0, 1, 4]]), "Y": f32(3, 1, lod=[[0, 0, 3]])},
         grad=["X"]),

    Case("sequence_softmax", {"X": f32(5, 1, lod=[[0, 2, 5]])}),
    Case("sequence_softmax", {"X": f32(6, lod=[[0, 1, 4, 6]])}),

    # The gradient of the counters is what the sample says, not a gradient.
    Case("cvm", {"X": f32(3, 5, low=0.5, high=4), "CVM": f32(3, 2, low=0, high=4)}, outputs=["Y"],
         grad=["X"], fd=False),
    Case("cvm", {"X": f32(3, 5, low=0.5, high=4), "CVM": f32(3, 2, low=0, high=4)},
         {"use_cvm": False}, outputs=["Y"], grad=["X"], fd=False),
    Case("cvm", {"X": f32(5, 4, low=0.5, high=4, lod=[[0, 2, 5]]), "CVM": f32(2, 2, low=0, high=4)},
         outputs=["Y"], grad=["X"], fd=False),

    # The gradients of the statistics are what the batch adds to them, not gradients.
    Case("data_norm", {"X": f32(4, 3), **statistics(3)}, {"epsilon": 1e-3}, outputs=NORM,
         fd=False),
    Case("data_norm", {"X": f32(4, 3), **statistics(3), "scale_w": f32(3), "bias": f32(3)},
         {"enable_scale_and_shift": True}, outputs=NORM, fd=False),
    Case("data_norm", {"X": values([[1, 0.5, 0, 2], [0, 1, 3, 0.25], [2, -1, 0, 5]]),
                       **statistics(4)}, {"slot_dim": 2}, outputs=NORM, fd=False),
    Case("data_norm", {"X": values([[1, 0.5, 0, 2], [0, 1, 3, 0.25], [2, -1, 0, 5]]),
                       **statistics(4), "scale_w": f32(4), "bias": f32(4)},
         {"slot_dim": 2, "enable_scale_and_shift": True}, outputs=NORM, fd=False),
    Case("sequence_mask", {"X": i64(3, low=0, high=5)}, {"maxlen": 4, "out_dtype": 5},
         outputs=["Y"]),
    Case("sequence_mask", {"X": i32(2, 2, low=0, high=5)}, {"maxlen": -1, "out_dtype": 3},
         outputs=["Y"]),
    Case("sequence_mask", {"X": f32(3, low=0, high=3)}, {"maxlen": 3, "out_dtype": 0},
         outputs=["Y"]),
    Case("sequence_mask", {"X": i64(3, low=0, high=5), "MaxLenTensor": values([3], "int32")},
         {"maxlen": -1, "out_dtype": 6}, outputs=["Y"]),

    Case("sequence_pad", {"X": f32(5, 2, lod=[[0, 2, 5]]), "PadValue": f32(1)},
         outputs=["Out", "Length"], grad=["X"]),
    Case("sequence_pad", {"X": f32(5, 2, 2, lod=[[0, 2, 2, 5]]), "PadValue": f32(2, 2)},
         {"padded_length": 4}, outputs=["Out", "Length"], grad=["X"]),
    Case("sequence_pad", {"X": i64(4, 1, lod=[[0, 1, 4]]), "PadValue": i64(1)},
         outputs=["Out", "Length"]),
    Case("sequence_unpad", {"X": f32(3, 4, 2), "Length": values([2, 0, 4], "int64")}, grad=["X"]),
    Case("sequence_unpad", {"X": f32(2, 3), "Length": values([3, 1], "int64")}, grad=["X"]),
    Case("sequence_concat", {"X": [f32(5, 2, lod=[[0, 3, 5]]), f32(4, 2, lod=[[0, 2, 4]])]}),
    Case("sequence_concat", {"X": [f32(2, 3, lod=[[0, 0, 2]]), f32(3, 3, lod=[[0, 2, 3]]),
                                   f32(1, 3, lod=[[0, 1, 1]])]}),
    Case("sequence_concat", {"X": [i64(2, 1, lod=[[0, 1, 2]]), i64(3, 1, lod=[[0, 2, 3]])]}),
    Case("sequence_reverse", {"X": f32(5, 2, lod=[[0, 2, 5]])}, outputs=["Y"]),
    Case("sequence_reverse", {"X": i64(5, 1, lod=[[0, 1, 5]])}, outputs=["Y"]),
    Case("sequence_slice", {"X": f32(5, 2, lod=[[0, 3, 5]]), "Offset": values([[0], [1]], "int64"),
                            "Length": values([[2], [1]], "int64")}),
    Case("sequence_slice", {"X": f32(6, 1, lod=[[0, 2, 3, 6]]),
                            "Offset": values([[2], [0], [1]], "int64"),
                            "Length": values([[0], [1], [2]], "int64")}),
    Case("sequence_expand_as", {"X": f32(3, 2), "Y": f32(6, 1, lod=[[0, 2, 3, 6]])}, grad=["X"]),
    Case("sequence_expand_as", {"X": f32(3, 2, 2), "Y": f32(4, 1, lod=[[0, 3, 3, 4]])},
         grad=["X"]),
    Case("sequence_enumerate", {"X": i64(6, 1, lod=[[0, 4, 6]])}, {"win_size": 3}),
    Case("sequence_enumerate", {"X": i32(5, 1, lod=[[0, 1, 1, 5]])},
         {"win_size": 2, "pad_value": 7}),
    Case("sequence_erase", {"X": i64(9, 1, high=4, lod=[[0, 3, 6, 9]])}, {"tokens": [1, 3]}),
    Case("sequence_erase", {"X": i32(6, 1, high=3, lod=[[0, 1, 2], [0, 4, 6]])}, {"tokens": [0]}),
    Case("sequence_reshape", {"X": f32(6, 2, lod=[[0, 2, 6]])}, {"new_dim": 4}),
    Case("sequence_reshape", {"X": f32(3, 4, lod=[[0, 1, 3]])}, {"new_dim": 2}),
    Case("sequence_reshape", {"X": i64(4, 2, lod=[[0, 1, 4]])}, {"new_dim": 2}),
    Case("sequence_scatter", {"X": f32(3, 6), "Ids": values(
        [[0], [1], [2], [5], [4], [3], [2], [1], [3], [2], [5], [3]], "int64", lod=[[0, 3, 8, 12]]),
        "Updates": f32(12, 1, lod=[[0, 3, 8, 12]])}),
    Case("lod_reset", {"X": f32(6, 2)}, {"target_lod": [0, 2, 6]}),
    Case("lod_reset", {"X": f32(6, 2, lod=[[0, 3, 6]]), "Y": values([0, 1, 6], "int32")},
         grad=["X"]),
    Case("lod_reset", {"X": f32(5, 1, lod=[[0, 5]]), "Y": f32(5, 1, lod=[[0, 2], [0, 2, 5]])},
         grad=["X"]),
    Case("lod_reset", {"X": f32(4, 1, lod=[[0, 1, 4]])},
         {"target_lod": [0, 1, 2, 3, 4], "append": True}),
    *(Case("sequence_conv", {"X": f32(7, 3, lod=[[0, 2, 3, 7]]), "Filter": f32(3 * length, 2)},
           {"contextStart": start, "contextLength": length, "contextStride": 1})
      for start, length in ((-1, 3), (0, 2), (-1, 2), (0, 1))),
    # Paddle's gradient of the filter is not that of its function where the context skips rows.
    Case("sequence_conv", {"X": f32(7, 3, lod=[[0, 2, 3, 7]]), "Filter": f32(6, 2)},
         {"contextStart": 1, "contextLength": 2, "contextStride": 1}, grad=["X"]),
]
