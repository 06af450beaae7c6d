"""Several threads and processes at once, and copies of whatever a user may copy."""

import copy
import multiprocessing
import pickle
import threading

import bireme as paddle
import numpy as np
import pytest
from bireme import static
from bireme.io import DataLoader
from loader_samples import Numbers, labels


def in_threads(work, count=4):
    """Runs `work(number)` in threads at once; the results in order, or the first exception."""
    results, errors = [None] * count, []

    def run(number):
        try:
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 (raised again below)
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def train(number):
    layer = paddle.nn.Linear(3, 1)
    layer.weight.set_value(np.full([3, 1], 0.1, "float32"))
    adam = paddle.optimizer.Adam(0.01, parameters=layer.parameters())
    for _ in range(20):
        loss = paddle.mean(paddle.square(layer(paddle.ones([4, 3])) - 1.0))
        loss.backward()
        adam.step()
        adam.clear_grad()
    return float(loss)


def test_threads_train_side_by_side():
    assert in_threads(train) == [train(0)] * 4


def test_no_grad_of_one_thread_is_not_seen_by_others():
    inside, done = threading.Event(), threading.Event()

    def work(number):
        x = paddle.ones([1])
        x.stop_gradient = False
        if number == 0:
            with paddle.no_grad():
                inside.set()
                assert done.wait(10)
                return (x * 2.0).stop_gradient
        assert inside.wait(10)
        y = x * 2.0
        done.set()
        return y.stop_gradient

    assert in_threads(work, 2) == [True, False]


def step_of_a_program():
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 64])
        out = static.nn.fc(static.nn.fc(x, 64, activation="relu"), 1)
    scope, exe = static.Scope(), static.Executor()
    exe.run(startup, scope=scope)
    feed = {"x": np.ones([256, 64], "float32")}
    return lambda: exe.run(main, feed=feed, fetch_list=[out], scope=scope)[0]


def test_threads_share_an_executor():
    paddle.enable_static()
    step = step_of_a_program()
    expected = step()
    for found in in_threads(lambda _: step()):
        assert np.array_equal(found, expected)


def test_loaders_run_in_threads():
    for found in in_threads(lambda _: labels(DataLoader(Numbers(), num_workers=1)), 2):
        assert found == labels(DataLoader(Numbers()))


def test_workers_start_after_an_executor_has_threads():
    paddle.enable_static()
    step = step_of_a_program()
    step()
    paddle.disable_static()
    assert labels(DataLoader(Numbers(), num_workers=2)) == labels(DataLoader(Numbers()))
    step()


def doubled(tensor):
    return tensor * 2.0


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_hand_tensors_over(method):
    paddle.nn.Linear(64, 64)(paddle.ones([256, 64]))
    with multiprocessing.get_context(method).Pool(1) as pool:
        out = pool.apply_async(doubled, [paddle.ones([2])]).get(timeout=60)
    assert out.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_whole_and_apart(again):
    attr = paddle.ParamAttr(
        learning_rate=0.5, need_clip=False, regularizer=paddle.regularizer.L2Decay(0.25)
    )
    layer = paddle.nn.Sequential(paddle.nn.Linear(2, 2, weight_attr=attr), paddle.nn.BatchNorm1D(2))
    layer[0].bias.trainable = False
    layer.eval()
    twin = again(layer)
    x = paddle.ones([3, 2])
    assert twin(x).tolist() == layer(x).tolist() and not twin.training
    weight = twin[0].weight
    assert isinstance(weight, type(layer[0].weight)) and weight.persistable
    assert (weight.learning_rate, weight.need_clip, weight.regularizer) == (
        0.5,
        False,
        ("l2", 0.25),
    )
    assert twin[0].bias.stop_gradient and not weight.stop_gradient
    weight.set_value(np.zeros([2, 2], "float32"))
    assert layer[0].weight.numpy().any()
    assert list(twin.state_dict()) == list(layer.state_dict())


def test_deep_copies_have_names_of_their_own():
    layer = paddle.nn.Linear(1, 1)
    twin = copy.deepcopy(layer)
    assert twin.weight.name == f"{layer.weight.name}_deepcopy_0"
    shared = copy.deepcopy([layer.weight, layer.weight])
    assert shared[0] is shared[1]


def test_what_cannot_be_copied_says_what_to_do():
    x = paddle.ones([1])
    x.stop_gradient = False
    with pytest.raises(RuntimeError, match="use `clone\\(\\)` or `detach\\(\\)`"):
        copy.deepcopy(x * 2.0)
    with pytest.raises(TypeError, match="use `detach\\(\\)`"):
        pickle.dumps(x * 2.0)
    with pytest.raises(TypeError, match="`state_dict\\(\\)`"):
        copy.deepcopy(paddle.optimizer.Adam(parameters=[x]))


def test_programs_are_copied_with_their_ops():
    paddle.enable_static()
    main = static.Program()
    with static.program_guard(main):
        paddle.exp(static.data("x", [None, 3]))
    for twin in (copy.deepcopy(main), pickle.loads(pickle.dumps(main))):
        assert twin is not main and str(twin) == str(main)
