"""Samples for loaders: one array for each slot, then the dense features."""

import numpy as np
from criteo_line import parse
from paddle.io import IterableDataset


class RecDataset(IterableDataset):
    """The samples of some files."""

    def __init__(self, file_list, config):
        super().__init__()
        self.file_list = file_list

    def __iter__(self):
        for path in self.file_list:
            with open(path) as lines:
                for line in lines:
                    ids, dense = parse(line)
                    yield [*(np.array(slot, "int64") for slot in ids), np.array(dense, "float32")]
