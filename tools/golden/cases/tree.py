"""Ops on trees of items."""

from golden import Case, i64, values

TREE = [[0, 0, 0, 1, 2], [0, 1, 0, 3, 4], [0, 1, 0, 5, 6],
        [1, 2, 1, 0, 0], [2, 2, 1, 0, 0], [3, 2, 2, 0, 0], [4, 2, 2, 0, 0]]
TRAVEL = [[1, 3], [1, 4], [2, 5], [2, 0]]
LAYERS = [[1], [2], [3], [4], [5], [6]]
SAMPLED = ["Out", "Labels", "Mask"]

CASES = [
    Case("tdm_child", {"X": values([[0], [1], [2], [3]], "int64"),
                       "TreeInfo": values(TREE, "int32")},
         {"child_nums": 2, "dtype": 2}, outputs=["Child", "LeafMask"]),
    Case("tdm_child", {"X": values([[1], [6]], "int32", lod=[[0, 1, 2]]),
                       "TreeInfo": values(TREE, "int64")},
         {"child_nums": 2, "dtype": 3}, outputs=["Child", "LeafMask"]),
    # With nothing to draw there is nothing random.
    Case("tdm_sampler", {"X": i64(5, 1, high=4), "Travel": values(TRAVEL, "int32"),
                         "Layer": values(LAYERS, "int32")},
         {"neg_samples_num_list": [0, 0], "layer_offset_lod": [0, 2, 6], "dtype": 2, "seed": 1},
         outputs=SAMPLED),
    Case("tdm_sampler", {"X": i64(3, 1, high=4), "Travel": values(TRAVEL, "int64"),
                         "Layer": values(LAYERS, "int64")},
         # Of two nodes there is one other.
         {"neg_samples_num_list": [1, 0], "layer_offset_lod": [0, 2, 6], "dtype": 3, "seed": 1},
         outputs=SAMPLED),
]
