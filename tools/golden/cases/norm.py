"""Normalisation and norms. Random masks have a test in Rust: our generator is not Paddle's."""

from golden import Case, f32, f64, rows

BATCH = {"Y": None, "MeanOut": "Mean", "VarianceOut": "Variance", "SavedMean": None,
         "SavedVariance": None, "ReserveSpace": None}
RUNNING = ["Y", "MeanOut", "VarianceOut"]
LAYER = ["Y", "Mean", "Variance"]


def batch(*shape, channels, make=f32):
    return {"X": make(*shape), "Scale": make(channels, low=0.5, high=1.5), "Bias": make(channels),
            "Mean": make(channels), "Variance": make(channels, low=0.5, high=2)}


def batch_norm(inputs, attrs, check=(*RUNNING, "SavedMean", "SavedVariance")):
    return Case("batch_norm", inputs, attrs, outputs=BATCH, check=check,
                grad=["X", "Scale", "Bias"], targets=["Y"])


def layer(*shape, width, make=f32):
    return {"X": make(*shape), "Scale": make(width, low=0.5, high=1.5), "Bias": make(width)}


CASES = [
    Case("dropout", {"X": f32(3, 4)}, {"dropout_prob": 0.3, "is_test": True},
         outputs=["Out", "Mask"]),
    Case("dropout", {"X": f32(3, 4)}, {"dropout_prob": 0.3, "is_test": True,
         "dropout_implementation": "upscale_in_train"}, outputs=["Out", "Mask"]),
    Case("dropout", {"X": f32(3, 4)}, {"dropout_prob": 0.0}, outputs=["Out", "Mask"]),
    Case("dropout", {"X": f32(3, 4)}, {"dropout_prob": 1.0,
         "dropout_implementation": "upscale_in_train"}, outputs=["Out", "Mask"]),

    batch_norm(batch(4, 3, channels=3), {}),
    batch_norm(batch(4, 3, channels=3), {"momentum": 0.7, "epsilon": 1e-3}),
    batch_norm(batch(2, 3, 2, 2, channels=3), {}),
    batch_norm(batch(2, 2, 2, 3, channels=3), {"data_layout": "NHWC"}),
    batch_norm(batch(4, 3, channels=3), {"use_global_stats": True}, RUNNING),
    batch_norm(batch(2, 3, 2, channels=3), {"use_global_stats": True}, RUNNING),
    Case("batch_norm", batch(4, 3, channels=3), {"is_test": True}, outputs=BATCH,
         check=RUNNING, grad=[]),
    batch_norm(batch(5, 2, channels=2, make=f64), {}),

    Case("layer_norm", layer(3, 4, width=4), outputs=LAYER, targets=["Y"]),
    Case("layer_norm", layer(2, 3, 4, width=12), {"begin_norm_axis": 1, "epsilon": 1e-3},
         outputs=LAYER, targets=["Y"]),
    Case("layer_norm", layer(2, 3, 4, width=4), {"begin_norm_axis": 2}, outputs=LAYER,
         targets=["Y"]),
    Case("layer_norm", {"X": f32(3, 20)}, outputs=LAYER, targets=["Y"]),
    Case("layer_norm", {"X": f32(3, 4), "Scale": f32(4, low=0.5, high=1.5)}, outputs=LAYER,
         targets=["Y"]),
    Case("layer_norm", {"X": f32(3, 4), "Bias": f32(4)}, outputs=LAYER, targets=["Y"]),
    Case("layer_norm", layer(3, 5, width=5, make=f64), outputs=LAYER, targets=["Y"]),

    Case("clip_by_norm", {"X": f32(3, 4)}, {"max_norm": 0.5}),
    Case("clip_by_norm", {"X": f32(3, 4)}, {"max_norm": 50.0}),
    Case("clip_by_norm", {"X": rows(9, [2, 4, 7], 2)}, {"max_norm": 0.5}, rows_out=["Out"]),

    Case("squared_l2_norm", {"X": f32(3, 4)}),
    Case("squared_l2_norm", {"X": f64(37)}),

    Case("norm", {"X": f32(3, 4)}, {"axis": 1, "epsilon": 1e-10}, outputs=["Out", "Norm"]),
    Case("norm", {"X": f32(2, 3, 4)}, {"axis": -2, "epsilon": 1e-2}, outputs=["Out", "Norm"]),
]
