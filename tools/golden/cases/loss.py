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
]
