"""Metrics. How state moves from batch to batch has a test in Rust."""

from golden import Case, f32, i64, values

ACCURACY = ["Accuracy", "Correct", "Total"]
AUC = ["AUC", "StatPosOut", "StatNegOut"]


def auc(buckets, windows=(), batches=0):
    """State after `batches` batches: the window's histograms, their sum, and the count.

    With a window, Paddle turns the state's shape from [1, n] to [n].
    """
    def state(shift):
        histograms = [[(i * 7 + j * 5 + shift) % 4 for i in range(buckets)] for j in windows]
        total = [sum(column) for column in zip(*histograms)] or [1] * buckets
        flat = [count for histogram in histograms for count in histogram] + total
        return values(flat + [batches] if windows else [flat], "int64")

    return {"Predict": f32(6, 2, low=0, high=1), "Label": i64(6, 1, high=2),
            "StatPos": state(0), "StatNeg": state(1)}


CASES = [
    Case("accuracy", {"Out": f32(3, 2), "Indices": values([[1, 0], [2, 3], [2, 0]], "int64"),
                      "Label": values([[1], [0], [2]], "int64")}, outputs=ACCURACY),
    Case("accuracy", {"Out": f32(8, 1), "Indices": i64(8, 1, high=2), "Label": i64(8, 1, high=2)},
         outputs=ACCURACY),
    Case("auc", auc(16), {"num_thresholds": 15, "slide_steps": 0}, outputs=AUC),
    Case("auc", {**auc(16), "Predict": f32(6, 1, low=0, high=1)},
         {"num_thresholds": 15, "slide_steps": 0}, outputs=AUC),
    Case("auc", auc(16, range(1), 4), {"num_thresholds": 15, "slide_steps": 1}, outputs=AUC),
    Case("auc", auc(16, range(3), 7), {"num_thresholds": 15, "slide_steps": 3}, outputs=AUC),
    Case("auc", {**auc(8), "Label": values([[1]] * 6, "int64"),
                 "StatPos": values([[0] * 8], "int64"), "StatNeg": values([[0] * 8], "int64")},
         {"num_thresholds": 7, "slide_steps": 0}, outputs=AUC),
]
