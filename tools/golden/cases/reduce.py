"""Reductions along axes."""

from golden import Case, boolean, f32, f64, i64, values

SHAPES = [
    (f32(3, 4), {"dim": [0]}),
    (f32(3, 19), {"dim": [1]}),
    (f32(3, 4), {"dim": [-1], "keep_dim": True}),
    (f32(2, 3, 4), {"dim": [1]}),
    (f32(2, 3, 4), {"dim": [0, 2]}),
    (f32(2, 3, 4), {"dim": [-1, -3], "keep_dim": True}),
    (f32(2, 3), {"reduce_all": True}),
    (f64(2, 3), {"reduce_all": True, "keep_dim": True}),
    (f32(2, 3), {"dim": []}),
]

CASES = [
    *(Case(op, {"X": x}, attrs) for op in ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"]
      for x, attrs in SHAPES),
    # Away from zero: the gradient divides by each factor.
    *(Case("reduce_prod", {"X": f32(*shape, low=0.5, high=2)}, attrs) for shape, attrs in [
        ((3, 4), {"dim": [0]}),
        ((3, 4), {"dim": [1], "keep_dim": True}),
        ((2, 3, 2), {"dim": [0, 2]}),
        ((2, 3), {"reduce_all": True}),
    ]),
    Case("reduce_sum", {"X": i64(2, 3)}, {"dim": [1]}),
    Case("reduce_sum", {"X": boolean(2, 3)}, {"dim": [1], "in_dtype": 0, "out_dtype": 3}),
    Case("reduce_sum", {"X": f32(2, 3)}, {"dim": [1], "in_dtype": 5, "out_dtype": 6}),
    Case("reduce_max", {"X": i64(2, 3)}, {"dim": [1]}),
    Case("reduce_max", {"X": values([[1.0, 2.0, 2.0]])}, {"dim": [1]}, fd=False),  # a tie
    Case("reduce_any", {"X": boolean(4, 2)}, {"dim": [1]}),
    Case("reduce_any", {"X": boolean(3, 2)}, {"dim": [0], "keep_dim": True}),
    Case("reduce_any", {"X": boolean(3, 2)}, {"reduce_all": True}),
    Case("reduce_all", {"X": boolean(4, 2)}, {"dim": [1]}),
    Case("reduce_all", {"X": boolean(3, 2)}, {"dim": [0], "keep_dim": True}),
    Case("reduce_all", {"X": boolean(3, 2)}, {"reduce_all": True}),
    Case("reduce_any", {"X": i64(3, 2, high=2)}, {"dim": [1]}),
    Case("logsumexp", {"X": f32(3, 4)}),
    Case("logsumexp", {"X": f32(2, 3, 4, low=-5, high=5)}, {"axis": [1], "keepdim": True}),
    Case("logsumexp", {"X": f32(2, 3, 4)}, {"axis": [0, -1]}),
    Case("logsumexp", {"X": f64(2, 3)}, {"axis": [0, 1], "reduce_all": True}),
    Case("logsumexp", {"X": f32(2, 3, low=900, high=1000)}, {"axis": [1]}, fd=False),
]
