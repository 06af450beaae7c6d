"""Activations: functions of one element, and softmax."""

from golden import Case, f32, f64, values

# On both sides of the kinks, and not near them.
SIDES = [[-7.5, -2.0, -0.4, 0.3], [0.8, 2.0, 3.5, 7.5]]

CASES = [
    Case("relu", {"X": f32(3, 4)}),
    Case("relu", {"X": f64(2, 1, 3)}),
    Case("relu", {"X": f32()}),
    Case("relu6", {"X": values(SIDES)}),
    Case("relu6", {"X": values(SIDES, "float64")}),
    Case("leaky_relu", {"X": values(SIDES)}),
    Case("leaky_relu", {"X": values(SIDES, "float64")}, {"alpha": 0.3}),
    Case("prelu", {"X": values(SIDES), "Alpha": values([0.25])}, {"mode": "all"}),
    Case("prelu", {"X": f32(2, 3, 2, 2), "Alpha": f32(3)}, {"mode": "channel"}),
    Case("prelu", {"X": f32(2, 2, 2, 3), "Alpha": f32(3)}, {"mode": "channel", "data_format": "NHWC"}),
    Case("prelu", {"X": f64(3, 2, 2), "Alpha": f64(1, 2, 2)}, {"mode": "element"}),
    Case("elu", {"X": values(SIDES)}),
    Case("elu", {"X": values(SIDES, "float64")}, {"alpha": 0.5}),
    Case("gelu", {"X": f32(3, 4, low=-3, high=3)}),
    Case("gelu", {"X": f32(3, 4, low=-3, high=3)}, {"approximate": True}),
    Case("gelu", {"X": f64(5, low=-3, high=3)}),
    Case("sigmoid", {"X": f32(3, 19, low=-5, high=5)}),
    Case("sigmoid", {"X": f64(4)}),
    Case("sigmoid", {"X": values([-120.0, -30.0, 30.0, 120.0])}),
    Case("tanh", {"X": f32(3, 19, low=-3, high=3)}),
    Case("tanh", {"X": f64(4)}),
    Case("tanh", {"X": values([-100.0, -9.5, 0.0, 9.5, 100.0])}),
    Case("swish", {"X": f32(3, 4, low=-3, high=3)}),
    Case("silu", {"X": f32(3, 4, low=-3, high=3)}),
    Case("silu", {"X": f64(4)}),
    Case("softplus", {"X": f32(3, 4, low=-3, high=3)}),
    Case("softplus", {"X": values(SIDES)}, {"beta": 2.0, "threshold": 5.0}),
    Case("softsign", {"X": values(SIDES)}),
    Case("hard_sigmoid", {"X": values(SIDES)}),
    Case("hard_sigmoid", {"X": values(SIDES)}, {"slope": 0.1, "offset": 0.4}),
    Case("softmax", {"X": f32(3, 4)}),
    Case("softmax", {"X": f32(2, 21, low=-4, high=4)}),
    Case("softmax", {"X": f32(2, 3, 4)}, {"axis": 1}),
    Case("softmax", {"X": f64(3, 2)}, {"axis": 0}),
    Case("softmax", {"X": f32(5, 1, lod=[[0, 2, 5]])}),
    Case("softmax", {"X": values([[1000.0, 999.0, -1000.0]])}, fd=False),  # differences lose digits at 1000
    Case("log_softmax", {"X": f32(3, 4)}),
    Case("log_softmax", {"X": f32(2, 17, low=-4, high=4)}),
    Case("log_softmax", {"X": f32(2, 3, 4)}, {"axis": -2}),
    Case("log_softmax", {"X": f64(3, 2)}, {"axis": 0}),
    Case("selu", {"X": f32(3, 4)}),
    Case("selu", {"X": f64(3, 4)}, {"scale": 1.5, "alpha": 0.5}),
    Case("mish", {"X": f32(3, 4, low=-3, high=3)}),
    Case("mish", {"X": values([-30, -20.5, -1, 0, 2, 19, 21, 30])}),
    Case("hard_swish", {"X": f32(3, 4, low=-5, high=5)}),
    # Paddle 2.6 forgets the attributes that programs of 1.x set.
    Case("hard_swish", {"X": f64(3, 4, low=-5, high=5)}),
    Case("brelu", {"X": f32(3, 4, low=-30, high=30)}),
    Case("brelu", {"X": f64(3, 4, low=-2, high=2)}, {"t_min": -1.0, "t_max": 1.0}),
]
