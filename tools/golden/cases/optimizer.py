"""Optimizer ops: dense gradients, and selected rows with duplicates where Paddle has them."""

from golden import Case, f32, f64, rows, values

IDS = [4, 1, 4, 0]
POSITIVE = dict(low=0.5, high=1.5)
# Outputs that are not named after their input.
OUTPUTS = {"SquaredAccumulator": "SquaredAccumOut", "LinearAccumulator": "LinearAccumOut"}


def rate(value=0.1):
    return values([value])


def sparse():
    return rows(6, IDS, 3)


def optimizer(op, grad, state=None, attrs=None, also=None):
    """An update of a 6 x 3 parameter, in place as Paddle insists.

    `state` gives the accumulators by input slot; `also` inputs without an output.
    """
    state = {"Param": f32(6, 3), **(state or {})}
    outputs = {OUTPUTS.get(slot, slot + "Out"): slot for slot in state}
    inputs = {"Grad": grad, "LearningRate": rate(), **state, **(also or {})}
    return Case(op, inputs, attrs, outputs=outputs, grad=[])


def moments(op, grad, attrs):
    state = {"Moment1": f32(6, 3), "Moment2": f32(6, 3, **POSITIVE),
             "Beta1Pow": values([0.81]), "Beta2Pow": values([0.9801])}
    return optimizer(op, grad, state, attrs)


def momentum(grad, **attrs):
    return optimizer("momentum", grad, {"Velocity": f32(6, 3)}, {"mu": 0.9, **attrs})


def adagrad(op, grad, **attrs):
    return optimizer(op, grad, {"Moment": f32(6, 3, **POSITIVE)}, attrs)


def rmsprop(grad, **attrs):
    # The mean gradient is small against the mean square, so that the variance is positive.
    state = {"MeanSquare": f32(6, 3, **POSITIVE), "Moment": f32(6, 3),
             "MeanGrad": f32(6, 3, low=-0.5, high=0.5)}
    return optimizer("rmsprop", grad, state, {"epsilon": 1e-3, "decay": 0.8, **attrs})


def ftrl(grad, **attrs):
    state = {"SquaredAccumulator": f32(6, 3, **POSITIVE), "LinearAccumulator": f32(6, 3)}
    return optimizer("ftrl", grad, state, attrs)


def lars(**attrs):
    return optimizer("lars_momentum", f32(6, 3), {"Velocity": f32(6, 3)},
                     {"mu": 0.9, "lars_coeff": 0.01, "epsilon": 1e-3, **attrs})


L2 = {"regularization_method": "l2_decay", "regularization_coeff": 0.1}
ADAM = {"beta1": 0.9, "beta2": 0.99, "epsilon": 0.01}
# Rows without a gradient take epsilon uncorrected in Paddle; with a tiny one it does not show.
TINY = {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8}

CASES = [
    optimizer("sgd", f32(6, 3)),
    optimizer("sgd", sparse()),
    Case("sgd", {"Param": f64(4), "Grad": f64(4), "LearningRate": values([0.1], "float64")},
         outputs=["ParamOut"], grad=[]),
    momentum(f32(6, 3)),
    momentum(f32(6, 3), use_nesterov=True),
    momentum(f32(6, 3), **L2),
    momentum(f32(6, 3), use_nesterov=True, **L2),
    # Paddle's dense CPU kernel ignores `rescale_grad`; its sparse one does not.
    momentum(sparse(), rescale_grad=0.5),
    momentum(sparse(), use_nesterov=True, **L2),
    adagrad("adagrad", f32(6, 3), epsilon=1e-3),
    adagrad("adagrad", sparse(), epsilon=1e-3),
    adagrad("decayed_adagrad", f32(6, 3), epsilon=1e-3, decay=0.9),
    optimizer("adadelta", f32(6, 3), {"AvgSquaredGrad": f32(6, 3, **POSITIVE),
                                      "AvgSquaredUpdate": f32(6, 3, **POSITIVE)},
              {"rho": 0.9, "epsilon": 1e-3}),
    moments("adam", f32(6, 3), ADAM),
    moments("adam", f32(6, 3), {**ADAM, "use_global_beta_pow": True}),
    moments("adam", sparse(), {**ADAM, "lazy_mode": True, "use_global_beta_pow": True}),
    # In place, which is how it always runs, Paddle's sparse kernel corrects with the powers of the
    # next step.
    moments("adam", sparse(), {**ADAM, "lazy_mode": True}),
    moments("adam", sparse(), {**TINY, "lazy_mode": False}),
    moments("adamw", f32(6, 3), {**ADAM, "coeff": 0.2, "with_decay": True}),
    moments("adamw", f32(6, 3), {**ADAM, "coeff": 0.2, "with_decay": False}),
    optimizer("adamax", f32(6, 3), {"Moment": f32(6, 3), "InfNorm": f32(6, 3, **POSITIVE)},
              ADAM, also={"Beta1Pow": values([0.81])}),
    rmsprop(f32(6, 3)),
    rmsprop(f32(6, 3), momentum=0.9),
    rmsprop(f32(6, 3), momentum=0.9, centered=True),
    rmsprop(sparse(), momentum=0.9),
    rmsprop(sparse(), momentum=0.9, centered=True),
    ftrl(f32(6, 3)),
    ftrl(f32(6, 3), l1=0.5, l2=0.2),
    ftrl(f32(6, 3), l1=0.5, l2=0.2, lr_power=-0.3),
    ftrl(sparse(), l1=0.5, l2=0.2),
    ftrl(sparse(), l1=0.5, l2=0.2, lr_power=-0.3),
    moments("lamb", f32(6, 3), {**ADAM, "weight_decay": 0.1}),
    moments("lamb", f32(6, 3), {**ADAM, "weight_decay": 0.0}),
    moments("lamb", f32(6, 3), {**ADAM, "weight_decay": 0.0, "always_adapt": True}),
    moments("lamb", sparse(), {**ADAM, "weight_decay": 0.1}),
    lars(lars_weight_decay=[0.1]),
    lars(lars_weight_decay=[0.0]),
    lars(lars_weight_decay=[0.1], rescale_grad=0.5),
    Case("merge_selected_rows", {"X": sparse()}, rows_out=["Out"], grad=[]),
    Case("get_tensor_from_selected_rows", {"X": sparse()}, grad=[]),
]
