"""Data sets that combine others, and samplers: the draws of Paddle under the same seed."""

import numpy as np
import pytest
from bireme import io
from loader_samples import Numbers, Stream

# What Paddle 2.6.2 draws in the tests below.
RANDOM = [2, 1, 4, 0, 3, 5]
REPLACED = [5, 3, 4, 0]
WEIGHTED = [2, 2, 0, 2, 1]
DEALT = [[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 0]]]
SHUFFLED = [[[1, 0], [5, 4]], [[1, 6], [3, 5]]]


def picked(dataset):
    return [int(dataset[i][1][0]) for i in range(len(dataset))]


def test_combined_data_sets():
    both = io.ConcatDataset([Numbers(2), Numbers(3)])
    assert picked(both) == [0, 1, 0, 1, 2] and both[-1][1][0] == 2
    assert both.cumulative_sizes == [2, 5]
    side_by_side = io.ComposeDataset([Numbers(2), io.Subset(Numbers(9), [7, 8])])
    assert [len(side_by_side), len(side_by_side[0]), side_by_side[1][3][0]] == [2, 4, 8]
    assert list(io.ChainDataset([Stream(2), Stream(3)])) == [0, 1, 0, 1, 2]


def test_random_split_deals_every_sample_out_once():
    parts = io.random_split(Numbers(10), [7, 3])
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(picked(parts[0]) + picked(parts[1])) == list(range(10))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: io.ConcatDataset([]), "at least one data set"),
        (lambda: io.ConcatDataset([Stream()]), "with an index only, got Stream"),
        (lambda: io.ComposeDataset([Numbers(2), Numbers(3)]), r"differ in length: \[2, 3\]"),
        (lambda: io.ChainDataset([Numbers()]), "IterableDatasets only, got Numbers"),
        (lambda: io.random_split(Numbers(4), [1, 2]), "add up to 3, but .* has 4 samples"),
        (lambda: io.ConcatDataset([Numbers(2)])[2], "sample 2 of a `ConcatDataset` of 2"),
        (lambda: io.RandomSampler(Numbers(), num_samples=3), "needs `replacement=True`"),
        (lambda: io.RandomSampler(Numbers(0)), "`num_samples` must be a positive"),
        (lambda: io.BatchSampler(), "either `dataset` or `sampler`"),
        (lambda: io.BatchSampler(sampler=[1, 2]), "must be a `Sampler`, got list"),
        (lambda: io.BatchSampler(Numbers(), batch_size=0), "`batch_size` must be .* got 0"),
        (lambda: io.SubsetRandomSampler([]), "at least one index"),
        (lambda: list(io.WeightedRandomSampler([1.0, -1.0], 1)), "finite and not negative"),
        (lambda: list(io.WeightedRandomSampler([1.0, 0.0], 2, False)), "at least 2 positive"),
        (
            lambda: io.DistributedBatchSampler(Numbers(), 2, num_replicas=2, rank=2),
            "`rank` must be from 0 to 1 among 2 replicas, got 2",
        ),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        make()


def test_undefined_methods_say_what_to_define():
    class Empty(io.Dataset):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define `__getitem__"):
        Empty()[0]
    with pytest.raises(RuntimeError, match="Stream is an IterableDataset: it has no length"):
        len(Stream())


def test_samplers_draw_what_paddle_draws():
    # np.random.seed(1); list(paddle.io.<sampler>) in Paddle 2.6.2
    np.random.seed(1)
    assert list(io.RandomSampler(Numbers(6))) == RANDOM
    np.random.seed(1)
    assert list(io.RandomSampler(Numbers(6), True, 4)) == REPLACED
    np.random.seed(1)
    assert list(io.WeightedRandomSampler([0.1, 0.2, 0.7], 5)) == WEIGHTED
    assert list(io.RandomSampler(Numbers(3), generator=iter([2, 2, 0, 1]))) == [2, 2, 0]
    assert sorted(io.SubsetRandomSampler([3, 5, 8])) == [3, 5, 8]


def test_batch_sampler_lengths():
    for count, drop, expected in ((6, False, 3), (7, False, 4), (7, True, 3)):
        sampler = io.BatchSampler(Numbers(count), batch_size=2, drop_last=drop)
        assert len(sampler) == len(list(sampler)) == expected
    own = io.BatchSampler(sampler=io.SequenceSampler(Numbers(3)), batch_size=2)
    assert list(own) == [[0, 1], [2]]


def test_distributed_batches_are_paddles():
    # paddle.io.DistributedBatchSampler(range(11), 2, 3, rank) for ranks 0, 1, 2
    for rank, expected in enumerate(DEALT):
        sampler = io.DistributedBatchSampler(Numbers(11), 2, num_replicas=3, rank=rank)
        assert list(sampler) == expected and len(sampler) == len(expected)
    shuffled = io.DistributedBatchSampler(Numbers(7), 2, 2, 1, shuffle=True, drop_last=True)
    assert [list(shuffled), list(shuffled)] == SHUFFLED
    shuffled.set_epoch(0)
    assert list(shuffled) == SHUFFLED[0]
    tiny = io.DistributedBatchSampler(Numbers(2), 1, num_replicas=5, rank=4)
    assert list(tiny) == [[0]], "a data set smaller than the number of trainers is repeated"
