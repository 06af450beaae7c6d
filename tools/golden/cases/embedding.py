"""Lookups. Sparse gradients with padding have a test in Rust: Paddle keeps padded rows in them."""

from golden import Case, f32, f64, i32, i64, values

IDS = values([3, 0, 3, 9], "int64")
COLUMN = values([[3], [0], [3], [9]], "int64")

CASES = [
    Case("lookup_table_v2", {"W": f32(10, 4), "Ids": IDS}, grad=["W"]),
    Case("lookup_table_v2", {"W": f32(10, 4), "Ids": COLUMN}, grad=["W"]),
    Case("lookup_table_v2", {"W": f32(10, 4), "Ids": i64(2, 3)}, {"padding_idx": 3}, grad=["W"]),
    Case("lookup_table_v2", {"W": f32(10, 4), "Ids": IDS}, {"padding_idx": 3}, grad=["W"]),
    Case("lookup_table_v2", {"W": f32(10, 4), "Ids": IDS}, {"is_sparse": True}, grad=["W"]),
    Case("lookup_table_v2", {"W": f32(10, 3), "Ids": i64(5, 1, lod=[[0, 2, 5]])},
         {"is_sparse": True}, grad=["W"]),
    Case("lookup_table_v2", {"W": f64(10, 20), "Ids": i32(4)}, grad=["W"]),
    Case("lookup_table", {"W": f32(10, 4), "Ids": COLUMN}, grad=["W"]),
    Case("lookup_table", {"W": f32(10, 4), "Ids": i64(2, 3, 1)}, grad=["W"]),
    Case("lookup_table", {"W": f32(10, 4), "Ids": COLUMN}, {"padding_idx": 0}, grad=["W"]),
    Case("lookup_table", {"W": f32(10, 4), "Ids": i64(5, 1, lod=[[0, 2, 5]])},
         {"is_sparse": True}, grad=["W"]),

    Case("hash", {"X": i64(3, 2, low=0, high=1 << 40, lod=[[0, 1, 3]])},
         {"num_hash": 3, "mod_by": 1000}),
    Case("hash", {"X": i32(2, 9, low=-100, high=100)}, {"num_hash": 1, "mod_by": 1 << 20}),
]
