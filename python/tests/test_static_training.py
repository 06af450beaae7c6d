"""Programs that are built, trained and run."""

import bireme as paddle
import numpy as np
import pytest
from bireme import static

RANDOM = np.random.default_rng(3)
X = RANDOM.random([16, 4], dtype="float32")
Y = X.sum(axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def static_mode():
    paddle.enable_static()


def regression(optimizer):
    x = static.data("x", [None, 4])
    y = static.data("y", [None, 1])
    prediction = static.nn.fc(x, 1, weight_attr=paddle.ParamAttr(name="w"))
    loss = paddle.mean(paddle.square(paddle.subtract(prediction, y)))
    optimizer.minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    return exe, prediction, loss


def test_a_regression_learns_what_numpy_learns():
    exe, _, loss = regression(paddle.optimizer.SGD(0.1))
    weight = np.array(static.global_scope().find_var("w").get_tensor())
    bias = np.zeros([1], "float32")
    for _ in range(5):
        error = X @ weight + bias - Y
        (got,) = exe.run(feed={"x": X, "y": Y}, fetch_list=[loss])
        assert got.shape == (1,)
        np.testing.assert_allclose(got[0], np.mean(error**2), rtol=1e-5)
        weight = weight - 0.1 * 2 * X.T @ error / len(X)
        bias = bias - 0.1 * 2 * error.mean(axis=0)


def test_the_executor_takes_names_lists_and_nested_fetches():
    exe, prediction, loss = regression(paddle.optimizer.SGD(0.1))
    test = static.default_main_program().clone(for_test=True)
    feed = {"x": X.tolist(), "y": Y.tolist()}
    first = exe.run(test, feed=[feed], fetch_list=[loss.name, [prediction]])
    second = exe.run(static.CompiledProgram(test), feed=feed, fetch_list=[loss, prediction])
    assert [value.shape for value in first] == [(1,), (16, 1)]
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_return_numpy_false_gives_tensors():
    exe, _, loss = regression(paddle.optimizer.SGD(0.1))
    (got,) = exe.run(feed={"x": X, "y": Y}, fetch_list=[loss], return_numpy=False)
    assert np.array(got).size == 1


def test_a_schedule_sets_the_learning_rate_of_each_run():
    schedule = paddle.optimizer.lr.ExponentialDecay(0.5, gamma=0.1)
    exe, _, _ = regression(paddle.optimizer.SGD(schedule))
    rate = schedule._var_name
    rates = []
    for _ in range(3):
        rates.append(exe.run(feed={"x": X, "y": Y}, fetch_list=[rate])[0][0])
        schedule.step()
    np.testing.assert_allclose(rates, [0.5, 0.05, 0.005], rtol=1e-6)


def test_scopes_hold_separate_parameters():
    exe, prediction, _ = regression(paddle.optimizer.SGD(0.1))
    test = static.default_main_program().clone(for_test=True)
    feed = {"x": X, "y": Y}
    before = exe.run(test, feed=feed, fetch_list=[prediction])[0]
    other = static.Scope()
    with static.scope_guard(other):
        exe.run(static.default_startup_program())
        other.find_var("w").get_tensor().set(np.zeros([4, 1], "float32"), paddle.CPUPlace())
    zeros = exe.run(test, feed=feed, fetch_list=[prediction], scope=other)[0]
    np.testing.assert_array_equal(zeros, np.zeros([16, 1]))
    np.testing.assert_array_equal(exe.run(test, feed=feed, fetch_list=[prediction])[0], before)


def test_fc_sums_its_inputs_and_keeps_leading_sizes():
    a = static.data("a", [None, 2, 3])
    b = static.data("b", [None, 2, 5])
    out = static.nn.fc([a, b], 7, num_flatten_dims=2)
    assert out.shape == (-1, 2, 7)
    names = [p.name for p in static.default_main_program().all_parameters()]
    assert sorted(names) == ["fc_0.b_0", "fc_0.w_0", "fc_0.w_1"]


def test_embedding_pools_sequences():
    ids = static.data("ids", [None, 1], "int64", lod_level=1)
    attr = paddle.ParamAttr(name="table", initializer=paddle.nn.initializer.Constant(2.0))
    rows = static.nn.sparse_embedding(ids, [10, 3], param_attr=attr)
    total = static.nn.sequence_pool(rows, "sum")
    exe = static.Executor()
    exe.run(static.default_startup_program())
    feed = paddle.fluid.create_lod_tensor(np.ones([5, 1], "int64"), [[2, 3]], paddle.CPUPlace())
    (got,) = exe.run(feed={"ids": feed}, fetch_list=[total])
    assert got.tolist() == [[4.0] * 3, [6.0] * 3]


def test_batch_norm_keeps_moving_averages():
    x = static.data("x", [None, 4])
    out = static.nn.batch_norm(x, moving_mean_name="mean", moving_variance_name="variance")
    exe = static.Executor()
    exe.run(static.default_startup_program())
    (got,) = exe.run(feed={"x": X}, fetch_list=[out])
    np.testing.assert_allclose(got, (X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5), rtol=1e-4)
    mean = np.array(static.global_scope().find_var("mean").get_tensor())
    np.testing.assert_allclose(mean, 0.1 * X.mean(0), rtol=1e-5)


def test_gradients_of_inputs():
    x = static.data("x", [None, 4])
    x.stop_gradient = False
    (grad,) = static.gradients(paddle.sum(paddle.square(x)), x)
    (got,) = static.Executor().run(feed={"x": X}, fetch_list=[grad])
    np.testing.assert_allclose(got, 2 * X, rtol=1e-6)


def test_auc_and_accuracy_count_over_batches():
    score = static.data("score", [None, 2])
    label = static.data("label", [None, 1], "int64")
    total, batch, counts = static.auc(score, label)
    hits = static.accuracy(score, label)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    good = {"score": np.array([[0.9, 0.1], [0.1, 0.9]], "float32"), "label": np.array([[0], [1]])}
    bad = {"score": good["score"], "label": np.array([[1], [0]])}
    fetches = [total, batch, hits]
    assert [float(v[0]) for v in exe.run(feed=good, fetch_list=fetches)] == [1.0, 1.0, 1.0]
    overall, last, share = exe.run(feed=bad, fetch_list=fetches)
    assert (overall[0], last[0], share[0]) == (0.5, 0.0, 0.0)
    assert np.array(static.global_scope().find_var(counts[2].name).get_tensor()).sum() == 2


def test_auc_without_steps_is_that_of_all_batches():
    score = static.data("score", [None, 2])
    label = static.data("label", [None, 1], "int64")
    overall, recent, _ = static.auc(score, label, num_thresholds=100, slide_steps=0)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    for right, wanted in ((1, 1.0), (0, 0.5)):
        scores = np.array([[0.2, 0.8], [0.6, 0.4]], "float32")
        feed = {"score": scores, "label": np.array([[right], [1 - right]])}
        assert [value[0] for value in exe.run(feed=feed, fetch_list=[overall, recent])] == [
            wanted
        ] * 2


def test_ctr_metric_bundle_sums_over_batches():
    score = static.data("score", [None, 1])
    label = static.data("label", [None, 1], "int64")
    sums = static.ctr_metric_bundle(score, label)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    feed = {"score": np.array([[0.25], [0.5]], "float32"), "label": np.array([[0], [1]])}
    exe.run(feed=feed, fetch_list=list(sums))
    got = [float(value[0]) for value in exe.run(feed=feed, fetch_list=list(sums))]
    sigmoids = sum(1 / (1 + np.exp(-s)) for s in (0.25, 0.5))
    squares = 0.25**2 + 0.5**2
    np.testing.assert_allclose(got, [2 * squares, 1.5, 1.5, 2 * sigmoids, 2, 4], rtol=1e-5)


def test_a_program_takes_batches_of_its_own_loader_until_they_end():
    x = static.data("x", [None, 4])
    loader = paddle.io.DataLoader.from_generator(feed_list=[x], capacity=2, iterable=False)
    loader.set_batch_generator(lambda: ([X * i] for i in range(3)), places=static.cpu_places(1))
    total = paddle.sum(x)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    for _ in range(2):
        loader.start()
        seen = []
        with pytest.raises(paddle.fluid.core.EOFException):
            while True:
                seen.append(exe.run(fetch_list=[total])[0][0])
        loader.reset()
        np.testing.assert_allclose(seen, X.sum() * np.arange(3), rtol=1e-5)


def test_layers_are_numbered_as_in_paddle():
    x = static.data("x", [None, 4])
    for _ in range(2):
        x = static.nn.prelu(static.nn.layer_norm(static.nn.batch_norm(static.nn.fc(x, 4))), "all")
    static.nn.conv2d(static.nn.conv2d(static.data("image", [None, 1, 8, 8]), 2, 3), 2, 3)
    names = {var.name.split(".")[0] for var in static.default_main_program().all_parameters()}
    kinds = ("batch_norm", "conv2d", "fc", "layer_norm", "prelu")
    assert names == {f"{kind}_{number}" for kind in kinds for number in range(2)}


def test_a_variable_is_never_none():
    x = static.data("x", [None, 4])
    assert (x == None) is False and (x != None) is True
    with pytest.raises(TypeError, match="NoneType"):
        x + None


def test_squeezing_a_dimension_that_only_the_run_knows():
    x = static.data("x", [None, 4])
    columns = paddle.shape(paddle.ones([1, 1]))[1]
    squeezed = paddle.reshape(x, [-1, columns, 4]).squeeze(1)
    assert squeezed.shape == (-1, 4)
    joined = paddle.concat([x, squeezed], axis=1)
    (got,) = static.Executor().run(feed={"x": X}, fetch_list=[joined])
    np.testing.assert_array_equal(got, np.concatenate([X, X], axis=1))


def test_a_fetched_scalar_is_an_array_and_a_number():
    exe, _, loss = regression(paddle.optimizer.SGD(0.1))
    (got,) = exe.run(feed={"x": X, "y": Y}, fetch_list=[loss])
    assert got.shape == (1,)
    assert "%f" % got == f"{got[0]:f}" == f"{float(got):f}"  # noqa: UP031 - what scripts write
    assert repr(got) == repr(np.asarray(got))
    assert float(got * 2) == got[0] * 2
