"""Loss scaling."""

from golden import Case, f32, values

INF = float("inf")
POLICY = {"incr_every_n_steps": 4, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0, "decr_ratio": 0.5}


def unscale(*grads, scale=8.0, check=None):
    return Case("check_finite_and_unscale", {"X": list(grads), "Scale": values([scale])},
                outputs={"Out": len(grads), "FoundInfinite": 1}, check=check, grad=[])


def update(bad, good_steps, bad_steps, scale=16.0, **attrs):
    inputs = {"X": [f32(3, 2), f32(4)], "FoundInfinite": values([bad], "bool"),
              "PrevLossScaling": values([scale]), "InGoodSteps": values([good_steps], "int32"),
              "InBadSteps": values([bad_steps], "int32")}
    # In place, which is how it always runs: what does not change is not written.
    outputs = {"Out": 2, "LossScaling": "PrevLossScaling", "OutGoodSteps": "InGoodSteps",
               "OutBadSteps": "InBadSteps"}
    return Case("update_loss_scaling", inputs, {**POLICY, **attrs}, outputs=outputs, grad=[])


CASES = [
    unscale(f32(3, 4)),
    unscale(f32(3, 4), f32(5), scale=3.0),
    # What Paddle writes to the others of a bad step is left open.
    unscale(f32(3), values([1.0, INF]), check=["FoundInfinite"]),
    unscale(values([float("nan"), 1.0]), check=["FoundInfinite"]),
    update(False, 0, 1),
    update(False, 3, 0),
    update(True, 2, 0),
    update(True, 0, 1),
    update(True, 0, 1, scale=1.5),
]
