"""Data sets that the tests of `DataLoader` share."""

import numpy as np
from bireme.io import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    """Sample `i`: an array of `i` and `[i]`."""

    def __init__(self, count=23, shape=(4, 3)):
        self.count = count
        self.shape = shape

    def __getitem__(self, idx):
        return np.full(self.shape, idx, "float32"), np.array([idx])

    def __len__(self):
        return self.count


class Failing(Numbers):
    """Calls `action` for sample 7."""

    def __init__(self, action, **kwargs):
        super().__init__(**kwargs)
        self.action = action

    def __getitem__(self, idx):
        if idx == 7:
            self.action()
        return super().__getitem__(idx)


class Stream(IterableDataset):
    """The numbers below `count`, dealt out to the workers."""

    def __init__(self, count=20):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, self.count, step))


def raise_key_error():
    raise KeyError("no such\nword")


def labels(loader):
    """The labels of all batches, one list for each."""
    return [batch[1].numpy().ravel().tolist() for batch in loader]
