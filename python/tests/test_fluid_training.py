"""Scripts as Paddle 1.x wrote them: static without being told, with 1.x signatures."""

import bireme as paddle
import numpy as np
import pytest
from bireme import fluid

RANDOM = np.random.default_rng(5)


def test_layers_data_turns_static_mode_on():
    assert paddle.in_dynamic_mode()
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    assert not paddle.in_dynamic_mode()
    assert x.shape == (-1, 13)


def test_dygraph_guard_is_eager_inside_a_static_script():
    fluid.layers.data("x", [1])
    with fluid.dygraph.guard():
        value = fluid.dygraph.to_variable(np.ones([2], "float32"))
        assert fluid.in_dygraph_mode()
        assert fluid.layers.reduce_sum(value).item() == 2.0
    assert not fluid.in_dygraph_mode()


def test_word2vec_of_the_book_learns():
    words = [fluid.layers.data(f"word{i}", [1], dtype="int64") for i in range(3)]
    rows = [
        fluid.layers.embedding(w, [20, 8], is_sparse=True, param_attr="shared") for w in words[:2]
    ]
    hidden = fluid.layers.fc(fluid.layers.concat(rows, axis=1), 16, act="sigmoid")
    prediction = fluid.layers.fc(hidden, 20, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(prediction, words[2]))
    accuracy = fluid.layers.accuracy(prediction, words[2])
    fluid.optimizer.Adam(learning_rate=0.05).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    first = RANDOM.integers(0, 20, [64, 1])
    feed = {"word0": first, "word1": first, "word2": (first + 1) % 20}
    runs = [exe.run(feed=feed, fetch_list=[loss, accuracy]) for _ in range(40)]
    losses = [float(run[0][0]) for run in runs]
    assert losses[-1] < losses[0] / 4
    assert runs[-1][1][0] > 0.9


def test_ctr_model_with_sequences_and_auc():
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    dense = fluid.layers.data("dense", [4])
    label = fluid.layers.data("label", [1], dtype="int64")
    pooled = fluid.layers.sequence_pool(fluid.layers.embedding(ids, [50, 4]), "average")
    hidden = fluid.layers.fc([pooled, dense], 8, act="relu")
    prediction = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.reduce_mean(fluid.layers.cross_entropy(prediction, label))
    auc, batch_auc, counts = fluid.layers.auc(prediction, label)
    assert len(counts) == 4
    fluid.optimizer.AdagradOptimizer(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(place=fluid.CPUPlace(), feed_list=[ids, dense, label])
    samples = []
    for _ in range(32):
        clicked = int(RANDOM.integers(0, 2))
        words = RANDOM.integers(25 * clicked, 25 * clicked + 25, RANDOM.integers(1, 5))
        samples.append((words.tolist(), RANDOM.random(4).tolist(), [clicked]))
    for _ in range(30):
        got = exe.run(feed=feeder.feed(samples), fetch_list=[loss, auc, batch_auc])
    assert got[0][0] < 0.3
    assert got[2][0] > 0.95


SCHEDULES = {
    "exponential": (lambda: fluid.layers.exponential_decay(0.1, 2, 0.5, staircase=True), 0.05),
    "natural_exp": (lambda: fluid.layers.natural_exp_decay(0.1, 2, 0.5), 0.1 * np.exp(-0.75)),
    "inverse_time": (lambda: fluid.layers.inverse_time_decay(0.1, 1, 0.5), 0.1 / 2.5),
    "polynomial": (lambda: fluid.layers.polynomial_decay(0.1, 6, 0.0), 0.05),
    "piecewise": (lambda: fluid.layers.piecewise_decay([2, 5], [0.1, 0.2, 0.3]), 0.2),
    "cosine": (lambda: fluid.layers.cosine_decay(0.1, 1, 6), 0.05),
    "noam": (lambda: fluid.layers.noam_decay(4, 100), 0.5 * 4 * 100**-1.5),
    "warmup": (lambda: fluid.layers.linear_lr_warmup(0.1, 6, 0.0, 0.06), 0.03),
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_the_program_computes_the_learning_rate_of_the_fourth_run(kind):
    paddle.enable_static()
    make, wanted = SCHEDULES[kind]
    loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
    fluid.optimizer.SGD(learning_rate=make()).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones([1, 2], "float32")}
    for _ in range(4):
        (rate,) = exe.run(feed=feed, fetch_list=["learning_rate_0"])
    np.testing.assert_allclose(rate[0], wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.01)),
        lambda: fluid.optimizer.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda: fluid.optimizer.AdagradOptimizer(0.1, epsilon=1e-6),
        lambda: fluid.optimizer.AdamOptimizer(0.1, lazy_mode=True),
        lambda: fluid.optimizer.AdamaxOptimizer(0.1),
        lambda: fluid.optimizer.Adadelta(1.0),
        lambda: fluid.optimizer.RMSProp(0.1, centered=True),
        lambda: fluid.optimizer.DecayedAdagrad(0.1),
        lambda: fluid.optimizer.FtrlOptimizer(0.5, l1=0.001),
        lambda: fluid.optimizer.LambOptimizer(0.1),
        lambda: fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)),
    ],
)
def test_every_optimizer_of_1x_lets_the_loss_fall(make):
    x = fluid.layers.data("x", [4])
    y = fluid.layers.data("y", [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    operators, pairs = make().minimize(loss)
    assert len(pairs) == 2 and operators
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    data = RANDOM.random([16, 4], dtype="float32")
    feed = {"x": data, "y": data.sum(1, keepdims=True)}
    losses = [exe.run(feed=feed, fetch_list=[loss])[0][0] for _ in range(10)]
    assert losses[-1] < losses[0]
