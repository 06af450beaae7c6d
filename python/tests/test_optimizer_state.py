"""States of optimizers that do not fit, and learning rates set by hand."""

import bireme as paddle
import numpy as np
import pytest


def stepped(layer):
    adam = paddle.optimizer.Adam(parameters=layer.parameters())
    layer(paddle.ones([1, 2])).sum().backward()
    adam.step()
    return adam


def test_a_state_of_other_parameters_is_refused():
    state = stepped(paddle.nn.Linear(2, 2)).state_dict()
    other = paddle.optimizer.Adam(parameters=paddle.nn.Linear(2, 2).parameters())
    with pytest.raises(KeyError, match="other names"):
        other.set_state_dict(state)


def test_a_state_of_another_shape_is_refused():
    layer = paddle.nn.Linear(2, 2)
    adam = stepped(layer)
    state = adam.state_dict()
    name = f"{layer.weight.name}_moment1_0"
    state[name] = np.zeros([3, 2], "float32")
    fresh = paddle.optimizer.Adam(parameters=layer.parameters())
    fresh.set_state_dict(state)
    with pytest.raises(ValueError, match=name):
        fresh.step()


def test_a_learning_rate_set_by_hand_holds_in_programs():
    paddle.enable_static()
    x = paddle.static.data("x", [None, 1], "float32")
    weight = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(1.0))
    out = paddle.static.nn.fc(x, 1, weight_attr=weight, bias_attr=False)
    sgd = paddle.optimizer.SGD(0.0)
    sgd.minimize(paddle.mean(out))
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    feed = {"x": np.ones([1, 1], "float32")}
    assert exe.run(feed=feed, fetch_list=["w"])[0].item() == 1.0
    sgd.set_lr(0.5)
    assert exe.run(feed=feed, fetch_list=["w"])[0].item() == 0.5
