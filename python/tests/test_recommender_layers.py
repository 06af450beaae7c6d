"""Layers over sequences, and those that recommenders of 1.x and `incubate` use, in programs."""

import bireme as paddle
import numpy as np
import pytest
from bireme import fluid, static
from static_line import fresh  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("fresh")
RANDOM = np.random.default_rng(5)
LENGTHS = [2, 0, 3]


def rows(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def ragged(array, lengths=LENGTHS):
    return fluid.create_lod_tensor(array, [lengths], paddle.CPUPlace())


def sequence(name="x", width=2, dtype="float32"):
    return static.data(name, [None, width], dtype, lod_level=1)


def parts(array, lengths=LENGTHS):
    return np.split(array, np.cumsum(lengths)[:-1])


def run(fetch, **feed):
    """The fetched values as they are, with their sequences."""
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor.run(feed=feed, fetch_list=fetch, return_numpy=False)


def check(got, wanted, lengths=None):
    np.testing.assert_allclose(np.array(got), wanted, rtol=1e-5, atol=1e-6)
    if lengths is not None:
        assert got.recursive_sequence_lengths() == [lengths]


def test_padding_there_and_back():
    x, pad = sequence(), paddle.full([1], 9.0)
    padded, length = static.nn.sequence_pad(x, pad, maxlen=4)
    back = static.nn.sequence_unpad(padded, length)
    array = rows(5, 2)
    got = run([padded, length, back], x=ragged(array))
    wanted = np.full((3, 4, 2), 9.0, "float32")
    for target, part in zip(wanted, parts(array)):
        target[: len(part)] = part
    check(got[0], wanted)
    check(got[1], LENGTHS)
    check(got[2], array, LENGTHS)


def test_sequences_are_moved_as_wholes():
    x, y, at = sequence(), sequence("y"), static.data("at", [None, 1], "int64")
    joined = static.nn.sequence_concat([x, y])
    turned = static.nn.sequence_reverse(x)
    cut = static.nn.sequence_slice(y, at, at)
    wide = static.nn.sequence_reshape(y, 4)
    a, b, other = rows(5, 2), rows(6, 2), [2, 2, 2]
    starts = np.array([[1], [0], [1]])
    feed = {"x": ragged(a), "y": ragged(b, other), "at": starts}
    got = run([joined, turned, cut, wide], **feed)
    pairs = list(zip(parts(a), parts(b, other)))
    check(got[0], np.concatenate([part for pair in pairs for part in pair]), [4, 2, 5])
    check(got[1], np.concatenate([part[::-1] for part in parts(a)]), LENGTHS)
    check(got[2], np.stack([b[1], b[5]]), [1, 0, 1])
    check(got[3], b.reshape(3, 4), [1, 1, 1])


def test_ids_of_sequences():
    ids = sequence("ids", 1, "int64")
    windows = static.nn.sequence_enumerate(ids, 2, pad_value=-1)
    left = fluid.layers.sequence_erase(ids, [7])
    array = np.array([[7], [1], [7], [7], [2]])
    got = run([windows, left], ids=ragged(array))
    check(got[0], [[7, 1], [1, -1], [7, 7], [7, 2], [2, -1]], LENGTHS)
    check(got[1], [[1], [2]], [1, 0, 1])


def test_rows_and_sequences():
    x, y = static.data("x", [None, 3]), sequence("y", 1)
    ids = sequence("ids", 1, "int64")
    wide = static.nn.sequence_expand_as(x, y)
    added = static.nn.sequence_scatter(x, ids, y)
    again = fluid.layers.lod_reset(y, target_lod=[0, 1, 5])
    a, b, columns = rows(3, 3), rows(5, 1), np.array([[0], [2], [1], [1], [0]])
    feed = {"x": a, "y": ragged(b), "ids": ragged(columns)}
    got = run([wide, added, again], **feed)
    owner = np.repeat(np.arange(3), LENGTHS)
    check(got[0], a[owner], LENGTHS)
    wanted = a.copy()
    np.add.at(wanted, (owner, columns[:, 0]), b[:, 0])
    check(got[1], wanted)
    check(got[2], b, [1, 4])


def test_a_convolution_along_sequences_learns():
    x, label = sequence(), static.data("label", [None, 1])
    hidden = static.nn.sequence_conv(x, 8, 3, act="tanh")
    pooled = static.nn.sequence_pool(hidden, "sum")
    loss = paddle.mean(paddle.square(static.nn.fc(pooled, 1) - label))
    paddle.optimizer.Adam(0.05).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feed = {"x": ragged(rows(12, 2), [3, 4, 5]), "label": rows(3, 1)}
    losses = [executor.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(60)]
    assert losses[-1] < 0.1 * losses[0]
    names = sorted(p.name for p in static.default_main_program().all_parameters())
    assert names[2:] == ["sequence_conv_0.b_0", "sequence_conv_0.w_0"]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def fixed(array):
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(array))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_gru_over_sequences(reverse):
    weight, bias, first, x = rows(2, 6), rows(1, 6), rows(3, 2), rows(5, 6)
    states = fluid.layers.dynamic_gru(
        sequence(width=6),
        2,
        fixed(weight),
        fixed(bias),
        is_reverse=reverse,
        h_0=static.data("first", [None, 2]),
    )
    wanted = np.zeros((5, 2), "float32")
    for at, part in enumerate(np.split(np.arange(5), np.cumsum(LENGTHS)[:-1])):
        last = first[at]
        for row in part[::-1] if reverse else part:
            gates = sigmoid(x[row, :4] + bias[0, :4] + last @ weight.ravel()[:8].reshape(2, 4))
            update, reset = gates[:2], gates[2:]
            given = x[row, 4:] + bias[0, 4:]
            candidate = np.tanh(given + (reset * last) @ weight.ravel()[8:].reshape(2, 2))
            wanted[row] = last = last + update * (candidate - last)
    check(run([states], x=ragged(x), first=first)[0], wanted, LENGTHS)


def test_an_lstm_over_sequences_looks_at_its_cells():
    weight, bias, x = rows(2, 8), rows(1, 14), rows(5, 8)
    states, cells = fluid.layers.dynamic_lstm(
        sequence(width=8), 8, param_attr=fixed(weight), bias_attr=fixed(bias)
    )
    wanted = np.zeros((2, 5, 2), "float32")
    plain, look = bias[0, :8], bias[0, 8:].reshape(3, 2)
    for part in np.split(np.arange(5), np.cumsum(LENGTHS)[:-1]):
        state, cell = np.zeros(2), np.zeros(2)
        for row in part:
            candidate, enter, forget, leave = np.split(x[row] + plain + state @ weight, 4)
            enter, forget = sigmoid(enter + look[0] * cell), sigmoid(forget + look[1] * cell)
            cell = np.tanh(candidate) * enter + cell * forget
            state = sigmoid(leave + look[2] * cell) * np.tanh(cell)
            wanted[:, row] = state, cell
    got = run([states, cells], x=ragged(x))
    check(got[0], wanted[0], LENGTHS)
    check(got[1], wanted[1], LENGTHS)


def test_recurrent_layers_over_sequences_learn():
    x, label = sequence(), static.data("label", [None, 1])
    gru = fluid.layers.dynamic_gru(static.nn.fc(x, 12), 4)
    # The states alone count: the cells have no gradient of their own.
    lstm, _ = fluid.layers.dynamic_lstm(static.nn.fc(x, 16), 16)
    both = [static.nn.sequence_last_step(each) for each in (gru, lstm)]
    loss = paddle.mean(paddle.square(static.nn.fc(both, 1) - label))
    paddle.optimizer.Adam(0.05).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feed = {"x": ragged(rows(12, 2), [3, 4, 5]), "label": rows(3, 1)}
    losses = [executor.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(60)]
    assert losses[-1] < 0.1 * losses[0]


def test_sums_and_counters_of_several_slots():
    slots = [sequence(name, 4) for name in "ab"]
    cvm = static.data("cvm", [None, 2])
    kept = paddle.incubate.layers.fused_seqpool_cvm(slots, "sum", cvm)
    cut = paddle.incubate.layers.fused_seqpool_cvm(slots, "sum", cvm, use_cvm=False)
    arrays = [np.abs(rows(5, 4)) for _ in slots]
    counters = np.ones((3, 2), "float32")
    got = run([*kept, *cut], a=ragged(arrays[0]), b=ragged(arrays[1]), cvm=counters)
    for array, with_counters, without in zip(arrays, got[:2], got[2:]):
        sums = np.stack([part.sum(0) for part in parts(array)])
        check(without, sums[:, 2:])
        logs = np.log(sums[:, :2] + 1)
        logs[:, 1] -= logs[:, 0]
        check(with_counters, np.concatenate([logs, sums[:, 2:]], axis=1))


def test_samples_with_a_tag_stay():
    x, tags = sequence(), sequence("tags", 1, "int64")
    wanted = static.data("wanted", [None], "int64")
    out, weight = fluid.layers.filter_by_instag(x, tags, wanted, True)
    array = rows(5, 2)
    marks = ragged(np.array([[1], [2], [3], [1]]), [1, 1, 2])
    got = run([out, weight], x=ragged(array), tags=marks, wanted=np.array([1]))
    check(got[0], array, [2, 3])
    check(got[1], [[1], [1]])


def test_a_shuffle_with_a_seed_of_its_own():
    x = static.data("x", [None, 1])
    outs = [paddle.incubate.layers.shuffle_batch(x, seed) for seed in (3, 3, 4)]
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feed = {"x": np.arange(32, dtype="float32")[:, None]}
    first, second = (executor.run(feed=feed, fetch_list=outs) for _ in range(2))
    for got in (*first, *second):
        assert sorted(got.ravel()) == list(range(32))
    assert (first[0] != second[0]).any() and (first[0] != first[2]).any()


def test_layers_of_slots_and_ranks():
    x = static.data("x", [2, 3, 4])
    weight, bias = rows(2, 4, 5), rows(2, 5)
    out = paddle.incubate.layers.batch_fc(x, [2, 4, 5], fixed(weight), [2, 5], fixed(bias), "relu")
    table = rows(8, 3)
    one = static.data("one", [None, 2])
    offsets = static.data("offsets", [None, 5], "int32")
    ranked = paddle.incubate.layers.rank_attention(one, offsets, [8, 3], fixed(table), 2)
    array, samples = rows(2, 3, 4), rows(2, 2)
    pairs = np.array([[1, 1, 0, 2, 1], [2, 1, 0, 0, 0]], "int32")
    got = run([out, ranked], x=array, one=samples, offsets=pairs)
    check(got[0], np.maximum(array @ weight + bias[:, None], 0))
    blocks = table.reshape(4, 2, 3)
    first = samples[0] @ blocks[0] + samples[1] @ blocks[1]
    check(got[1], np.stack([first, samples[0] @ blocks[2]]))


TREE = [[0, 0, 0, 1, 2], [0, 1, 0, 3, 4], [0, 1, 0, 5, 6], *([n, 2, 1, 0, 0] for n in range(1, 5))]
WAYS = [[1, 3], [1, 4], [2, 5], [2, 6]]


def test_trees_of_items():
    x = static.data("x", [None, 1], "int64")
    layers = paddle.incubate.layers
    children, leaves = layers.tdm_child(x, 7, 2, fixed(np.array(TREE, "int32")))
    ways, nodes = np.array(WAYS, "int32"), np.arange(1, 7, dtype="int32")[:, None]
    samples, labels, masks = layers.tdm_sampler(
        x, [1, 3], [2, 4], 4, fixed(ways), fixed(nodes), seed=2
    )
    got = run([children, leaves, *samples, *labels, *masks], x=np.array([[0], [1], [2]]))
    check(got[0], [[[0, 0]], [[3, 4]], [[5, 6]]])
    check(got[1], [[[0, 0]], [[1, 1]], [[1, 1]]])
    first, second = (np.array(each)[:, :, 0] for each in got[2:4])
    assert first[:, 0].tolist() == [1, 1, 2] and (first.sum(1) == 3).all()
    assert second[:, 0].tolist() == [3, 4, 5]
    assert all(sorted(row) == [3, 4, 5, 6] for row in second.tolist())
    assert np.array(got[4])[0, :, 0].tolist() == [1, 0]
    assert np.array(got[7]).min() == 1


def learns(loss, feed, steps=80, below=0.5):
    paddle.optimizer.Adam(0.05).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    losses = [executor.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(steps)]
    assert np.mean(losses[-10:]) < below * np.mean(losses[:10])


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "custom_dist"])
def test_noise_contrastive_estimation_learns(sampler, is_sparse):
    x, label = static.data("x", [None, 8]), static.data("label", [None, 1], "int64")
    probabilities = [0.05] * 20 if sampler == "custom_dist" else None
    cost = static.nn.nce(
        x, label, 20, sampler=sampler, custom_dist=probabilities, is_sparse=is_sparse
    )
    feed = {"x": np.eye(8, dtype="float32"), "label": np.arange(8)[:, None]}
    learns(paddle.mean(cost), feed)


def test_a_softmax_over_samples_learns():
    x, label = static.data("x", [None, 8]), static.data("label", [None, 1], "int64")
    logits = static.nn.fc(x, 30)
    cost = fluid.layers.sampled_softmax_with_cross_entropy(logits, label, 6)
    feed = {"x": np.eye(8, dtype="float32"), "label": np.arange(8)[:, None]}
    learns(paddle.mean(cost), feed)


def test_a_tree_of_classes_learns():
    x, label = static.data("x", [None, 8]), static.data("label", [None, 1], "int64")
    cost = fluid.layers.hsigmoid(x, label, 8)
    feed = {"x": np.eye(8, dtype="float32"), "label": np.arange(8)[:, None]}
    learns(paddle.mean(cost), feed)


def test_bits_of_variables():
    x = static.data("x", [None], "int64")
    got = run([x & 6, x | 1, x ^ 3, ~x], x=np.array([5, 2]))
    for each, wanted in zip(got, ([4, 2], [5, 3], [6, 1], [-6, -3])):
        check(each, wanted)


def test_what_cannot_be_honoured_is_refused():
    x, label = static.data("x", [None, 4]), static.data("label", [None, 1], "int64")
    with pytest.raises(ValueError, match="`sampler` must be one of"):
        static.nn.nce(x, label, 5, sampler="zipf")
    with pytest.raises(ValueError, match="`custom_dist` belongs to"):
        static.nn.nce(x, label, 5, custom_dist=[0.2] * 5)
    with pytest.raises(ValueError, match="cannot be False"):
        fluid.layers.dynamic_lstm(sequence("s", 8), 8, bias_attr=False)
    with pytest.raises(ValueError, match="must be one of identity"):
        fluid.layers.dynamic_gru(sequence("t", 6), 2, gate_activation="softmax")
    with pytest.raises(ValueError, match="needs both"):
        fluid.layers.hsigmoid(x, label, 4, is_custom=True)
    with pytest.raises(Exception, match="`contextStride` must be 1"):
        static.nn.sequence_conv(sequence("u"), 2, filter_stride=2)
    with pytest.raises(Exception, match="`pooltype` must be SUM"):
        paddle.incubate.layers.fused_seqpool_cvm([x], "max", static.data("cvm", [None, 2]))
