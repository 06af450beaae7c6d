"""Methods of tensors: in place, printing, indexing with assignment, iteration."""

from __future__ import annotations

import copy

import bireme as paddle
import numpy as np
import pytest


def test_printing() -> None:
    x = paddle.to_tensor([[1.5, -2.25], [0.25, 3.0]], stop_gradient=False)
    assert repr(x) == (
        "Tensor(shape=[2, 2], dtype=float32, place=Place(cpu), stop_gradient=False,\n"
        "       [[ 1.50000000, -2.25000000],\n"
        "        [ 0.25000000,  3.        ]])"
    )
    assert repr(paddle.to_tensor(7)).endswith("\n       7)")
    assert repr(paddle.to_tensor([True])).endswith("[True])")
    assert "..." in repr(paddle.zeros([2000]))
    weight = paddle.nn.Linear(1, 1).weight
    assert repr(weight).startswith("Parameter containing:\nTensor(shape=[1, 1]")


def test_in_place_methods_keep_the_past() -> None:
    x = paddle.to_tensor([1.0, -2.0], stop_gradient=False)
    y = x * 2.0
    assert y.add_(paddle.ones([2])) is y
    y.scale_(3.0)
    y.sum().backward()
    assert y.tolist() == [9.0, -9.0]
    assert x.grad.tolist() == [6.0, 6.0]
    z = paddle.zeros([2, 3])
    assert z.reshape_([3, 2]).shape == [3, 2] and z.shape == [3, 2]
    assert z.fill_(2.0).tolist() == [[2.0, 2.0]] * 3
    assert z.zero_().sum().item() == 0.0
    assert z.exp_().clip_(0.0, 0.5).tolist() == [[0.5, 0.5]] * 3


def test_chains_of_methods() -> None:
    x = paddle.arange(6).astype("float32").reshape([2, 3])
    assert x.sum(axis=0).tolist() == [3.0, 5.0, 7.0]
    assert x.mean().item() == 2.5
    assert x.max(axis=1).tolist() == [2.0, 5.0]
    assert x.T.shape == [3, 2]
    assert x.unsqueeze(0).squeeze(0).flatten().numel().item() == 6
    assert x.matmul(x.t()).shape == [2, 2]
    assert x.tile([2, 1]).expand([4, 3]).shape == [4, 3]
    assert x.pow(2).sqrt().abs().sign().tolist() == [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    assert x.add(x).multiply(x).argmax().item() == 5
    assert x.topk(1)[1].tolist() == [[2], [2]]
    assert x.dim() == x.ndimension() == 2
    assert x.cpu() is x
    assert x.softmax(-1).sum().item() == pytest.approx(2.0)
    assert x.clone().is_tensor()


def test_to_takes_types_and_devices() -> None:
    x = paddle.ones([2])
    assert x.to("float64").dtype == "float64"
    assert x.to("cpu") is x
    assert x.to(dtype="int64").dtype == "int64"
    assert x.to(paddle.ones([1], "int32")).dtype == "int32"


def test_iteration_and_length() -> None:
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert len(x) == 2
    with pytest.raises(TypeError):
        iter(paddle.to_tensor(1.0)).__next__()


def test_copies() -> None:
    x = paddle.to_tensor([1.0], stop_gradient=False)
    assert copy.deepcopy(x).stop_gradient is False
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(x * 2.0)


def test_hooks_on_tensors() -> None:
    x = paddle.to_tensor([1.0], stop_gradient=False)
    handle = x.register_hook(lambda grad: grad * 10.0)
    (x * 2.0).backward()
    assert x.grad.tolist() == [20.0]
    assert handle.remove()
    x.clear_grad()
    (x * 2.0).backward()
    assert x.grad.tolist() == [2.0]


def test_index_errors() -> None:
    x = paddle.ones([2, 3])
    for index in (5, (0, 3), (0, 0, 0), (Ellipsis, Ellipsis), True):
        with pytest.raises(IndexError):
            x[index]
    with pytest.raises(IndexError, match="mask"):
        x[paddle.to_tensor([True, False, True])]
    with pytest.raises(TypeError, match="str"):
        x["a"]
    with pytest.raises(ValueError, match="step"):
        x[::0]


def test_negative_indices_count_from_the_end() -> None:
    x = paddle.arange(5)
    array = np.arange(5)
    for index in (slice(None, None, -1), slice(3, 0, -1), slice(-2, None), slice(None, -1)):
        assert x[index].tolist() == array[index].tolist()
    assert x[[-1, 0]].tolist() == [4, 0]
    assert x[paddle.to_tensor([-1, 0])].tolist() == [4, 0]


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 5.0),
        ((slice(None), 1), 5.0),
        ((slice(None), slice(1, 3)), np.arange(6).reshape(3, 2)),
        ((slice(None), slice(None, None, 2)), 7.0),
        (Ellipsis, 1.0),
        ((1, 2), 9.0),
        ((slice(None), [0, 2]), 5.0),
        (([0, 1], [2, 3]), [1.0, 2.0]),
        ([2, 0], np.ones((2, 4))),
        (-1, np.arange(4)),
    ],
)
def test_assignment(index, value) -> None:
    array = np.arange(12, dtype="float32").reshape(3, 4)
    x = paddle.to_tensor(array)
    array = array.copy()
    array[index] = value
    x[index] = value if not isinstance(value, np.ndarray) else value.astype("float32")
    np.testing.assert_array_equal(x.numpy(), array)


def test_assignment_by_mask_and_gradients() -> None:
    x = paddle.to_tensor([1.0, -2.0, 3.0], stop_gradient=False)
    y = x * 2.0
    y[y < 0] = 0.0
    y[0] = paddle.to_tensor(7.0)
    y.sum().backward()
    assert y.tolist() == [7.0, 0.0, 6.0]
    assert x.grad.tolist() == [0.0, 0.0, 2.0]


def test_leaves_that_learn_change_under_no_grad_only() -> None:
    weight = paddle.nn.Linear(2, 2).weight
    for change in (lambda: weight.add_(paddle.ones([2, 2])), lambda: weight.zero_()):
        with pytest.raises(ValueError, match="no_grad"):
            change()
    with paddle.no_grad():
        weight.fill_(2.0)
    assert weight.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert not weight.stop_gradient and weight.is_leaf
    (weight * 3.0).sum().backward()
    assert weight.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_arrays_on_the_left() -> None:
    x = paddle.ones([2])
    for out in (
        np.full(2, 3.0, "float32") * x,
        np.float32(3.0) * x,
        np.full(2, 4.0, "float32") - x,
    ):
        assert paddle.is_tensor(out)
        assert out.tolist() == [3.0, 3.0]


def test_static_variables_are_replaced_not_changed() -> None:
    paddle.enable_static()
    x = paddle.static.data("x", [-1, 3], "float32")
    with pytest.raises(RuntimeError, match="setitem"):
        x[0] = 1.0
    parts = [
        paddle.static.setitem(x, 0, 5.0),
        paddle.static.setitem(x, (slice(None), slice(1, None)), paddle.ones([2])),
        paddle.static.setitem(x, x > 1.5, 0.0),
    ]
    given = np.arange(6, dtype="float32").reshape(2, 3)
    first, second, third = paddle.static.Executor().run(feed={"x": given}, fetch_list=parts)
    assert first.tolist() == [[5.0, 5.0, 5.0], [3.0, 4.0, 5.0]]
    assert second.tolist() == [[0.0, 1.0, 1.0], [3.0, 1.0, 1.0]]
    assert third.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_gradients_of_copies_can_be_given_to_the_original() -> None:
    model = paddle.nn.Linear(2, 1)
    model.weight.set_value(np.ones((2, 1), "float32"))
    grads = []
    for scale in (1.0, 3.0):
        task = copy.deepcopy(model)
        (task(paddle.ones([1, 2])) * scale).sum().backward()
        grads.append(task.weight.grad)
    assert model.weight._grad_ivar() is None
    model.weight._set_grad_ivar(paddle.add_n(grads) / 2)
    assert model.weight.grad.tolist() == model.weight._grad_ivar().tolist() == [[2.0], [2.0]]
    paddle.optimizer.SGD(0.5, parameters=model.parameters()).step()
    assert model.weight.tolist() == [[0.0], [0.0]]


def test_what_is_above_zero_is_true():
    # As in Paddle, where NaN and what is below zero are false.
    assert [bool(paddle.to_tensor([x])) for x in (2.0, 0.0, -1.0, float("nan"))] == [
        True,
        False,
        False,
        False,
    ]
    assert bool(paddle.to_tensor(True))
    assert any([paddle.to_tensor([0.0]), paddle.to_tensor([1.0])])
    assert not all([paddle.to_tensor([0.0]), paddle.to_tensor([1.0])])
    with pytest.raises(TypeError, match=r"only a tensor of one element can be true or false"):
        bool(paddle.ones([2]))


def test_numbers_are_formatted():
    loss = paddle.to_tensor([1.23456])
    assert f"{loss:.3f}" == "1.235"
    assert f"{paddle.to_tensor(7):4d}" == "   7"
    assert f"{loss}" == str(loss)
    with pytest.raises(TypeError, match="can be formatted as a number"):
        f"{paddle.ones([2]):.3f}"


def test_functions_of_numpy_take_tensors():
    x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    assert np.sum(x) == 10.0
    assert np.mean(x, axis=0).tolist() == [2.0, 3.0]
    assert np.concatenate([x, np.ones([1, 2], "float32")]).shape == (3, 2)
    assert isinstance(np.max(x), np.floating)


def test_names_of_other_libraries_are_answered():
    sgd = paddle.optimizer.SGD(0.1, parameters=[paddle.create_parameter([1], "float32")])
    with pytest.raises(AttributeError, match="nearest: `SGD.clear_grad`"):
        sgd.zero_grad()
    with pytest.raises(AttributeError, match="nearest: `paddle.concat`"):
        paddle.cat  # noqa: B018
    with pytest.raises(AttributeError, match="nearest: `paddle.nn.LayerList`"):
        paddle.nn.ModuleList  # noqa: B018
    with pytest.raises(AttributeError, match="nearest: `Linear.set_state_dict`"):
        paddle.nn.Linear(1, 1).load_state_dict({})
