"""Feeding static programs: `DataFeeder`, loaders with `feed_list`, `DataLoader.from_generator`."""

import threading

import numpy as np
import pytest
from bireme import _core
from bireme._errors import EOFException
from bireme.batch import batch
from bireme.fluid.data_feeder import DataFeeder
from bireme.io import DataLoader
from loader_samples import Numbers


@pytest.fixture
def static():
    """An empty program in static mode."""
    _core.enable_static()
    old = _core.switch_main_program(_core.Program())
    yield
    _core.switch_main_program(old)
    _core.disable_static()


def variable(name, shape, dtype="float32", lod_level=0):
    block = _core.default_main_program().global_block()
    return block.create_var(name=name, shape=shape, dtype=dtype, lod_level=lod_level, is_data=True)


def test_samples_become_arrays_of_the_variables_type_and_shape(static):
    variable("y", [-1, 1], "int64")
    feeder = DataFeeder([variable("x", [-1, 2]), "y"], None)
    feed = feeder.feed([([1, 2], 3), (np.array([4.0, 5.0]), 6)])
    assert feed["x"].dtype == "float32" and feed["x"].tolist() == [[1, 2], [4, 5]]
    assert feed["y"].dtype == "int64" and feed["y"].tolist() == [[3], [6]]
    image = DataFeeder([variable("image", [-1, 1, 2, 2])], None)
    assert image.feed([(np.arange(4),), (np.arange(4),)])["image"].shape == (2, 1, 2, 2)


def test_ragged_samples_become_lod_tensors(static):
    words = variable("words", [-1, 1], "int64", lod_level=1)
    tensor = DataFeeder([words], None).feed([([1, 2, 3],), ([4],)])["words"]
    assert np.array(tensor).tolist() == [[1], [2], [3], [4]] and tensor.lod() == [[0, 3, 4]]
    nested = variable("nested", [-1, 1], "int64", lod_level=2)
    tensor = DataFeeder([nested], None).feed([([[1, 2], [3]],), ([[4]],)])["nested"]
    assert tensor.lod() == [[0, 2, 3], [0, 2, 3, 4]]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([([1, 2], 3, 4)], "sample 0 has 3 fields but `feed_list` has 2 variables: x, y"),
        ([([1, 2, 3], 3)], r"`x` has shape \[1, 3\], but the variable has \[-1, 2\]"),
        ([([1, 2], [3, 4])], r"`y` has shape \[1, 2\], but the variable has \[-1, 1\]"),
        ([(["a", "b"], 3)], "`x` can't become an array of float32"),
        ([([1, 2], 3), ([1], 3)], "`x` can't become an array of float32"),
        ([([1, 2], 3.5)], "`y` has fractions, but the variable is int64"),
    ],
)
def test_wrong_samples_name_the_variable(static, samples, message):
    feeder = DataFeeder([variable("x", [-1, 2]), variable("y", [-1, 1], "int64")], None)
    with pytest.raises(ValueError, match=message):
        feeder.feed(samples)


def test_feed_list_holds_variables(static):
    with pytest.raises(TypeError, match="must hold variables or their names, got int"):
        DataFeeder([3], None)


def test_a_loader_with_a_feed_list_yields_feeds(static):
    feeds = [variable("x", [-1, 4, 3]), variable("y", [-1, 1], "int64")]
    for workers in (0, 2):
        loader = DataLoader(
            Numbers(3), feed_list=feeds, return_list=False, batch_size=2, num_workers=workers
        )
        first, second = list(loader())
        assert list(first[0]) == ["x", "y"] and first[0]["x"].shape == (2, 4, 3)
        assert isinstance(first[0]["x"], np.ndarray) and second[0]["y"].tolist() == [[2]]
    arrays = next(iter(DataLoader(Numbers(3), batch_size=2)))
    assert isinstance(arrays[0], np.ndarray) and arrays[1].tolist() == [[0], [1]]
    with pytest.raises(ValueError, match="`return_list=False` needs `feed_list`"):
        DataLoader(Numbers(3), return_list=False)
    with pytest.raises(ValueError, match="a batch has 2 fields but `feed_list` has 1: `x`"):
        next(iter(DataLoader(Numbers(3), feed_list=feeds[:1], return_list=False)))


def samples():
    for number in range(5):
        yield [number, number + 0.5], number


def test_generators_of_samples_lists_and_batches_feed_alike(static):
    feeds = [variable("x", [-1, 2]), variable("y", [-1, 1], "int64")]

    def batches():
        for rows in batch(samples, 2, drop_last=True)():
            yield np.float32([x for x, _ in rows]), np.array([[y] for _, y in rows])

    for fill in (
        lambda loader: loader.set_sample_generator(samples, batch_size=2),
        lambda loader: loader.set_sample_list_generator(batch(samples, 2, drop_last=True)),
        lambda loader: loader.set_batch_generator(batches),
    ):
        loader = fill(DataLoader.from_generator(feeds, capacity=4))
        for _ in range(2):
            read = [feed for (feed,) in loader()]
            assert [feed["y"].tolist() for feed in read] == [[[0], [1]], [[2], [3]]]
            assert read[0]["x"].dtype == "float32"


def test_a_loader_that_is_not_iterable_ends_with_eof(static):
    feeds = [variable("x", [-1, 2]), variable("y", [-1, 1], "int64")]
    loader = DataLoader.from_generator(feeds, capacity=2, iterable=False)
    loader.set_sample_generator(samples, batch_size=4, drop_last=False)
    assert _core.default_main_program()._readers == [loader]
    with pytest.raises(RuntimeError, match="call `start\\(\\)` first"):
        loader.next_feed()
    for _ in range(2):
        loader.start()
        assert [loader.next_feed()["y"].shape for _ in range(2)] == [(4, 1), (1, 1)]
        with pytest.raises(EOFException, match="no batch left"):
            loader.next_feed()
        loader.reset()
    with pytest.raises(RuntimeError, match="is not iterable"):
        iter(loader)


def test_the_executor_reads_from_a_started_loader(static):
    from bireme.static import Executor

    x = variable("x", [-1, 2])
    total = _core.ops.reduce_sum(x, reduce_all=True)
    loader = DataLoader.from_generator([x], capacity=2, iterable=False)
    loader.set_batch_generator(lambda: ([np.full((n, 2), n, "float32")] for n in (1, 2)))
    executor = Executor()
    for _ in range(2):
        sums = []
        loader.start()
        with pytest.raises(EOFException):
            while True:
                sums.append(executor.run(fetch_list=[total])[0].item())
        loader.reset()
        assert sums == [2.0, 8.0]


def test_generators_in_eager_mode_yield_tensors():
    loader = DataLoader.from_generator(capacity=2, return_list=True)
    loader.set_sample_generator(samples, batch_size=2)
    assert [[f.shape for f in fields] for fields in loader] == [[[2, 2], [2]]] * 2
    with pytest.raises(RuntimeError, match="`start\\(\\)` is for loaders made with"):
        loader.start()
    with pytest.raises(ValueError, match="`capacity` must say"):
        DataLoader.from_generator()
    with pytest.raises(RuntimeError, match="has no data"):
        next(iter(DataLoader.from_generator(capacity=2)))


def test_an_exception_in_a_generator_is_raised_with_its_traceback():
    def broken():
        yield [np.zeros(2)]
        raise LookupError("line 3 of part-0")

    loader = DataLoader.from_generator(capacity=2, return_list=True).set_batch_generator(broken)
    with pytest.raises(LookupError, match="line 3 of part-0") as caught:
        list(loader)
    assert caught.traceback[-1].name == "broken"
    ragged = DataLoader.from_generator(capacity=2, return_list=True)
    ragged.set_batch_generator(lambda: [[[[1], [2, 3]]]])
    with pytest.raises(TypeError, match="field 0 of a batch is no regular array"):
        list(ragged)
    assert not [t for t in threading.enumerate() if t.name == "bireme-reader" and not t.daemon]


def test_a_list_of_numbers_is_a_column(static):
    import bireme as paddle

    with paddle.static.program_guard(paddle.static.Program()):
        label = paddle.static.data("label", [-1, 1], "float32")
        rows = paddle.static.data("rows", [-1, 2], "float32")
        outputs = [label * 2, rows.sum()]
        run = paddle.static.Executor().run
        for fed in (np.arange(3, dtype="float32"), [0, 1, 2]):
            feed = {"label": fed, "rows": np.ones([3, 2], "float32")}
            doubled, _ = run(feed=feed, fetch_list=outputs)
            assert doubled.tolist() == [[0.0], [2.0], [4.0]]
        with pytest.raises(ValueError, match="feed `rows`"):
            run(feed={"label": fed, "rows": np.ones([3], "float32")}, fetch_list=outputs)
