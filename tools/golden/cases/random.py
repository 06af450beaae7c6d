"""Random ops: only what does not depend on the generator, which is not Paddle's."""

from golden import Case, f32, values

CASES = [
    # One row has one order.
    Case("shuffle_batch", {"X": f32(1, 4), "Seed": values([7], "int64")}, {"startup_seed": 0},
         outputs=["Out", "ShuffleIdx", "SeedOut"], targets=["Out"]),
]
