"""Gradients where tensors are reused, changed in place, watched, or shared by threads."""

import threading

import bireme as paddle
import numpy as np
import pytest


def learning(values):
    return paddle.to_tensor(values, stop_gradient=False)


def test_a_hook_outlives_its_tensor():
    x = learning([1.0, 2.0])

    def loss():
        h = x * 2.0
        h.register_hook(lambda grad: grad * 10.0)
        return h.sum()

    loss().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_hooks_follow_a_tensor_that_is_changed_in_place():
    x = learning([1.0, 2.0, 3.0])
    h = x * 2.0
    h[0] = 5.0
    h.register_hook(lambda grad: grad * 10.0)
    h.retain_grads()
    (h * 3.0).sum().backward()
    assert h.grad.tolist() == [30.0, 30.0, 30.0]
    assert x.grad.tolist() == [0.0, 60.0, 60.0]


def test_gradients_pass_through_what_is_written_in_place():
    x = learning([1.0, 2.0])
    total = (x * 2.0).sum()
    (paddle.increment(total) * 3.0).backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_statistics_are_not_on_the_tape():
    layer = paddle.nn.BatchNorm1D(2)
    for _ in range(3):
        layer(paddle.ones([4, 2])).sum().backward()
    assert layer._mean.is_leaf and layer._mean.stop_gradient


def test_grad_goes_only_where_it_is_asked_for():
    p = learning([2.0])
    seen = []
    p.register_hook(seen.append)
    h = p * 2.0
    assert paddle.grad([h * 3.0], [h])[0].tolist() == [3.0]
    assert not seen
    (h * 5.0).backward()
    assert p.grad.tolist() == [10.0]


def test_no_grad_is_of_one_thread():
    inside, done = threading.Event(), threading.Event()

    def evaluate():
        with paddle.no_grad():
            inside.set()
            done.wait()

    thread = threading.Thread(target=evaluate)
    thread.start()
    inside.wait()
    result = learning([1.0]) * 2.0
    done.set()
    thread.join()
    assert not result.stop_gradient


def test_a_converted_layer_still_learns():
    layer = paddle.nn.Linear(2, 2)
    layer.to(dtype="float64")
    assert not layer.weight.stop_gradient
    layer(paddle.ones([1, 2], dtype="float64")).sum().backward()
    assert layer.weight.grad is not None


def test_one_parameter_may_be_the_gradient_of_another():
    a, b = (paddle.create_parameter([2], "float32") for _ in range(2))
    a.set_value(np.ones(2, "float32"))
    b.set_value(np.zeros(2, "float32"))
    a.grad, b.grad = paddle.ones([2]), a
    paddle.optimizer.SGD(0.5, parameters=[a, b]).step()
    assert b.tolist() == [-0.5, -0.5]


def test_a_gradient_of_another_shape_is_refused():
    x = paddle.create_parameter([2], "float32")
    with pytest.raises(ValueError, match=r"shape \[2\] cannot be float32 of shape \[3\]"):
        x.grad = paddle.ones([3])


def test_a_hook_that_is_dropped_may_look_at_its_tensor():
    x = learning([1.0])

    class Looks:
        def __del__(self):
            x.shape  # noqa: B018 - looking is the point

    looks = Looks()
    hook = x.register_hook(lambda grad, looks=looks: None)
    del looks
    hook.remove()


def test_bfloat16_is_converted_as_numbers():
    value = paddle.to_tensor([1.5, -2.0], dtype="bfloat16")
    assert value.tolist() == [1.5, -2.0]
    assert value.astype("float32").tolist() == [1.5, -2.0]
    assert paddle.to_tensor(value, dtype="float32").tolist() == [1.5, -2.0]
    assert float(paddle.to_tensor(1.0, dtype="bfloat16")) == 1.0


def test_the_wider_float_wins():
    assert (paddle.ones([1]) + paddle.ones([1], dtype="float64")).dtype == paddle.float64
