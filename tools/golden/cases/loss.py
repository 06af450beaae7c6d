"""Losses."""

from golden import Case, f32, f64, i32, i64, values

CLASSES = values([[1], [0], [3]], "int64")
CE2 = {"outputs": ["Y", "MatchX", "XShape"], "check": ["Y", "MatchX"], "targets": ["Y"]}
SOFT = [[0.1, 0.2, 0.3, 0.4], [0, 0.5, 0.5, 0], [0.7, 0.1, 0.1, 0.1]]
SWCE = ["Softmax", "Loss"]


def probabilities(*shape, **options):
    """Away from 0, where logarithms have no slope to compare."""
    return f32(*shape, low=0.1, high=0.9, **options)


CASES = [
    Case("cross_entropy", {"X": probabilities(3, 4), "Label": CLASSES}, outputs=["Y"], grad=["X"]),
    Case("cross_entropy", {"X": probabilities(3, 4), "Label": CLASSES}, {"ignore_index": 0},
         outputs=["Y"], grad=["X"]),
    Case("cross_entropy", {"X": probabilities(2, 3, 4), "Label": i64(2, 3, 1, high=4)},
         outputs=["Y"], grad=["X"]),
    Case("cross_entropy", {"X": probabilities(3, 4), "Label": values([1, 0, 3], "int64")},
         outputs=["Y"], grad=["X"]),
    Case("cross_entropy", {"X": probabilities(3, 4), "Label": probabilities(3, 4)},
         {"soft_label": True}, outputs=["Y"], grad=["X"]),
    Case("cross_entropy", {"X": probabilities(3, 4, lod=[[0, 1, 3]]), "Label": CLASSES},
         outputs=["Y"], grad=["X"]),
    # A probability of 0 costs 1e20, not infinity.
    Case("cross_entropy", {"X": values([[0, 1], [0.5, 0.5]]),
                           "Label": values([[0], [1]], "int64")}, outputs=["Y"], grad=[]),
    Case("cross_entropy2", {"X": probabilities(3, 4), "Label": CLASSES}, grad=["X"], **CE2),
    Case("cross_entropy2", {"X": probabilities(3, 4), "Label": CLASSES}, {"ignore_index": 3},
         grad=["X"], **CE2),
    Case("cross_entropy2", {"X": probabilities(2, 3, 4), "Label": i64(2, 3, 1, high=4)},
         grad=["X"], **CE2),

    Case("softmax_with_cross_entropy", {"Logits": f32(3, 4, low=-3, high=3), "Label": CLASSES},
         outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": f32(3, 4), "Label": CLASSES},
         {"ignore_index": 0}, outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": f32(3, 4), "Label": i32(3, 1, high=4)},
         outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": f32(2, 4, 3), "Label": i64(2, 1, 3, high=4)},
         {"axis": 1}, outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": f32(4, 3), "Label": i64(1, 3, high=4)},
         {"axis": 0}, outputs=SWCE, grad=["Logits"]),
    # The gradient is right for soft labels that add up to 1.
    Case("softmax_with_cross_entropy", {"Logits": f32(3, 4), "Label": values(SOFT)},
         {"soft_label": True}, outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy",
         {"Logits": f32(2, 4, 3), "Label": values([list(zip(*SOFT)), list(zip(*SOFT[::-1]))])},
         {"soft_label": True, "axis": 1}, outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": probabilities(3, 4), "Label": CLASSES},
         {"use_softmax": False, "ignore_index": 3}, outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": probabilities(3, 4), "Label": probabilities(3, 4)},
         {"use_softmax": False, "soft_label": True}, outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": f64(3, 4), "Label": CLASSES},
         {"numeric_stable_mode": False}, outputs=SWCE, grad=["Logits"]),
    Case("softmax_with_cross_entropy", {"Logits": values([[50.0, 0.0], [-40.0, 10.0]]),
                                        "Label": values([[1], [1]], "int64")},
         outputs=SWCE, grad=["Logits"]),

    Case("sigmoid_cross_entropy_with_logits",
         {"X": f32(3, 4, low=-4, high=4), "Label": probabilities(3, 4)}, grad=["X"]),
    Case("sigmoid_cross_entropy_with_logits",
         {"X": f32(2, 3), "Label": values([[1, -1, 0], [0.5, 1, -1]])}, {"ignore_index": -1},
         grad=["X"]),
    Case("sigmoid_cross_entropy_with_logits",
         {"X": f32(2, 3), "Label": values([[1, -1, 0], [0.5, 1, -1]])},
         {"ignore_index": -1, "normalize": True}, grad=["X"]),
    # Paddle's loss and its gradient weigh different terms.
    Case("sigmoid_cross_entropy_with_logits",
         {"X": f32(2, 3), "Label": probabilities(2, 3), "pos_weight": f32(2, 3, low=0.5, high=2)},
         grad=["X"], fd=False),
    Case("sigmoid_cross_entropy_with_logits", {"X": f64(4, 1), "Label": f64(4, 1, low=0)},
         grad=["X"]),

    Case("bce_loss", {"X": probabilities(3, 4), "Label": probabilities(3, 4)}, grad=["X"]),
    Case("bce_loss", {"X": values([[0, 1], [1, 0]]), "Label": values([[1, 0], [1, 0]])}, grad=[]),
    Case("log_loss", {"Predicted": probabilities(4, 1), "Labels": probabilities(4, 1)},
         {"epsilon": 1e-4}, outputs=["Loss"], grad=["Predicted"]),
    Case("log_loss", {"Predicted": values([[0], [1]]), "Labels": values([[1], [1]])},
         {"epsilon": 1e-2}, outputs=["Loss"], grad=["Predicted"], fd=False),  # an end of [0, 1]

    Case("huber_loss", {"X": values([[0.1], [0.5], [-2.0]]), "Y": values([[0.3], [3.0], [1.0]])},
         {"delta": 1.0}, outputs=["Out", "Residual"]),
    Case("huber_loss", {"X": f32(3, 2), "Y": f32(3, 2, low=2, high=3)}, {"delta": 0.5},
         outputs=["Out", "Residual"]),

    *(Case("kldiv_loss", {"X": f32(3, 4), "Target": probabilities(3, 4)}, {"reduction": how},
           outputs=["Loss"], grad=["X"]) for how in ("none", "sum", "mean", "batchmean")),
    Case("kldiv_loss", {"X": f32(1, 3), "Target": values([[-1, 0, 0.5]])}, {"reduction": "none"},
         outputs=["Loss"], grad=["X"]),
    Case("label_smooth", {"X": f32(3, 4)}, {"epsilon": 0.1}),
    Case("label_smooth", {"X": f64(3, 4), "PriorDist": f64(1, 4, low=0, high=1)},
         {"epsilon": 0.2}, grad=["X"]),

    # Classes that are given, for those that are drawn are not Paddle's.
    *(Case("nce", {"Input": f32(3, 4), "Label": i64(3, 2, high=8), "Weight": f32(8, 4),
                   "Bias": f32(8, 1), "SampleWeight": f32(3, low=0.5, high=2)},
           {"num_total_classes": 8, "num_neg_samples": 3, "sampler": sampler,
            "custom_neg_classes": [5, 0, 6]},
           outputs=["Cost", "SampleLogits", "SampleLabels"], grad=["Input", "Weight", "Bias"])
      for sampler in (0, 1)),
    # Tables of probabilities are of 32 bits, also where differences are of 64.
    Case("nce", {"Input": f32(2, 3), "Label": i64(2, 1, high=4), "Weight": f32(4, 3),
                 "CustomDistProbs": values([0.1, 0.2, 0.3, 0.4]),
                 "CustomDistAlias": values([3, 3, -1, -1], "int32"),
                 "CustomDistAliasProbs": values([0.4, 0.8, 1.0, 1.0])},
         {"num_total_classes": 4, "num_neg_samples": 2, "sampler": 2,
          "custom_neg_classes": [1, 3]},
         outputs=["Cost", "SampleLogits", "SampleLabels"], grad=["Input", "Weight"], fd=False),
    Case("nce", {"Input": f32(2, 3), "Label": i64(2, 1, high=6), "Weight": f32(6, 3)},
         {"num_total_classes": 6, "num_neg_samples": 2, "is_sparse": True,
          "custom_neg_classes": [1, 3]},
         outputs=["Cost", "SampleLogits", "SampleLabels"], grad=["Input", "Weight"], fd=False),
    *(Case("hierarchical_sigmoid", {"X": f32(4, 3), "W": f32(classes - 1, 3),
                                    "Label": i64(4, 1, high=classes), "Bias": f32(classes - 1, 1)},
           {"num_classes": classes}, outputs=["Out", "PreOut", ("W_Out", "W")],
           grad=["X", "W", "Bias"]) for classes in (2, 6, 8)),
    Case("hierarchical_sigmoid", {"X": f64(2, 3), "W": f64(5, 3), "Label": i64(2, 1, high=6)},
         {"num_classes": 6}, outputs=["Out", "PreOut", ("W_Out", "W")], grad=["X", "W"]),
    *(Case("hierarchical_sigmoid",
           {"X": f32(3, 2), "W": f32(5, 2), "Label": values([[0], [1], [4]], "int64"),
            "PathTable": values([[0, 2, -1], [0, 1, 3], [0, 4, -1]], "int64"),
            "PathCode": values([[0, 1, -1], [1, 0, 0], [0, 1, -1]], "int64")},
           {"num_classes": 5, "is_sparse": sparse}, outputs=["Out", "PreOut", ("W_Out", "W")],
           grad=["X", "W"], fd=not sparse) for sparse in (False, True)),
]
