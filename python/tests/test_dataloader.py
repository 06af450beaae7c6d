"""`DataLoader`: the same batches in order, with and without worker processes."""

import itertools
import os

import bireme  # noqa: F401 - the package itself must load first
import numpy as np
import pytest
from bireme import _core
from bireme.io import BatchSampler, DataLoader, Dataset, TensorDataset, get_worker_info
from loader_samples import Numbers, Stream, labels

WORKERS = [0, 1, 2, 3]


def in_fives(count):
    return [list(range(i, min(i + 5, count))) for i in range(0, count, 5)]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_come_in_order_every_epoch(workers, persistent):
    loader = DataLoader(Numbers(), batch_size=5, num_workers=workers, persistent_workers=persistent)
    assert labels(loader) == in_fives(23)
    assert labels(loader()) == in_fives(23)
    assert len(loader) == 5


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_that_was_left_does_not_disturb_the_next(workers):
    loader = DataLoader(Numbers(), batch_size=5, num_workers=workers, persistent_workers=True)
    for _ in loader:
        break
    assert labels(loader) == in_fives(23)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shared", [True, False])
def test_large_and_small_arrays_arrive_whole(workers, shared):
    # 64 KiB a sample goes through shared memory, the labels through the pipe.
    loader = DataLoader(
        Numbers(11, (128, 128)), batch_size=2, num_workers=workers, use_shared_memory=shared
    )
    batches = list(loader)
    assert [b[0].shape for b in batches] == [[2, 128, 128]] * 5 + [[1, 128, 128]]
    for number, (images, _) in enumerate(batches):
        expected = np.arange(2 * number, 2 * number + len(images.numpy()), dtype="float32")
        assert np.array_equal(images.numpy()[:, 5, 7], expected)


def test_a_batch_larger_than_a_slot_is_pickled(monkeypatch):
    from bireme.io.dataloader import transfer

    monkeypatch.setattr(transfer, "SLOT_BYTES", 1 << 16)
    loader = DataLoader(Numbers(8, (128, 128)), batch_size=4, num_workers=2)
    assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffle_draws_from_numpy_as_paddle_does(workers):
    # np.random.seed(5); paddle.io.DataLoader(..., batch_size=4, shuffle=True, num_workers=0 or 2)
    paddle = {0: [9, 5, 2, 4, 7, 1, 0, 8, 6, 3], 2: [5, 8, 2, 3, 4, 7, 1, 0, 9, 6]}
    np.random.seed(5)
    loader = DataLoader(Numbers(10), batch_size=4, shuffle=True, num_workers=workers)
    assert list(itertools.chain(*labels(loader))) == paddle[workers]


def test_drop_last_and_batch_sampler():
    assert labels(DataLoader(Numbers(7), batch_size=3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    sampler = BatchSampler(Numbers(4), batch_size=3)
    assert labels(DataLoader(Numbers(4), batch_sampler=sampler)) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_structure_of_samples_is_kept(workers):
    class Mixed(Dataset):
        def __getitem__(self, idx):
            return {"a": np.full(2, idx, "float32"), "b": (idx, "x", float(idx))}

        def __len__(self):
            return 3

    batch = next(iter(DataLoader(Mixed(), batch_size=2, num_workers=workers)))
    assert batch["a"].shape == [2, 2]
    whole, text, real = batch["b"]
    assert (whole.tolist(), text, real.tolist()) == ([0, 1], ["x", "x"], [0.0, 1.0])
    assert (whole.numpy().dtype, real.numpy().dtype) == ("int64", "float64")
    sample = next(iter(DataLoader(Mixed(), batch_size=None, num_workers=workers)))
    assert sample["a"].shape == [2] and sample["b"] == [0, "x", 0.0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_is_one_array_makes_a_batch_that_is_one_tensor(workers):
    class Single(Dataset):
        def __getitem__(self, idx):
            return _core.to_tensor(np.full(3, idx, "float32"))

        def __len__(self):
            return 4

    batches = list(DataLoader(Single(), batch_size=2, num_workers=workers))
    assert [b.tolist() for b in batches] == [[[0.0] * 3, [1.0] * 3], [[2.0] * 3, [3.0] * 3]]


@pytest.mark.parametrize("workers", [0, 2])
def test_tensors_from_a_collate_fn_arrive_as_tensors(workers):
    def collate(samples):
        return _core.to_tensor(np.stack([image for image, _ in samples]))

    loader = DataLoader(Numbers(4), batch_size=2, collate_fn=collate, num_workers=workers)
    assert [batch.shape for batch in loader] == [[2, 4, 3]] * 2


def test_tensor_dataset():
    pairs = TensorDataset(
        [_core.to_tensor(np.arange(6.0).reshape(3, 2)), _core.to_tensor([1, 2, 3])]
    )
    first, second = next(iter(DataLoader(pairs, batch_size=3)))
    assert first.shape == [3, 2] and second.tolist() == [1, 2, 3]


@pytest.mark.parametrize("persistent", [False, True])
def test_streams_are_split_by_the_worker_info(persistent):
    def read(workers):
        loader = DataLoader(
            Stream(7), batch_size=2, num_workers=workers, persistent_workers=persistent
        )
        epochs = [[b.tolist() for b in loader] for _ in range(2)]
        assert epochs[0] == epochs[1]
        return epochs[0]

    assert read(0) == [[0, 1], [2, 3], [4, 5], [6]]
    assert read(2) == [[0, 2], [1, 3], [4, 6], [5]]
    dropped = DataLoader(Stream(7), batch_size=2, drop_last=True, num_workers=2)
    assert [b.tolist() for b in dropped] == [[0, 2], [1, 3], [4, 6]]


def test_more_workers_than_batches():
    assert labels(DataLoader(Numbers(2), batch_size=5, num_workers=4)) == [[0, 1]]
    assert [b.tolist() for b in DataLoader(Stream(2), batch_size=5, num_workers=4)] == [[0], [1]]


def test_workers_have_their_own_seeds_and_are_initialised():
    class Draws(Dataset):
        def __getitem__(self, idx):
            info = get_worker_info()
            return np.random.rand(), info.id, info.num_workers, int(os.environ["LOADER_TEST"])

        def __len__(self):
            return 4

    def init(worker_id):
        os.environ["LOADER_TEST"] = str(10 + worker_id)

    batches = list(DataLoader(Draws(), batch_size=1, num_workers=2, worker_init_fn=init))
    assert [b[1].tolist() for b in batches] == [[0], [1], [0], [1]]
    assert [b[3].tolist() for b in batches] == [[10], [11], [10], [11]]
    assert len({b[0].tolist()[0] for b in batches}) == 4
    assert get_worker_info() is None
