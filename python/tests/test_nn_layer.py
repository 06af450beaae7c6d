"""`nn.Layer`: members, states, hooks, modes and copies."""

from __future__ import annotations

import copy
import inspect

import bireme as paddle
import numpy as np
import pytest
from bireme import nn


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.scale = self.create_parameter([2], default_initializer=nn.initializer.Constant(2.0))
        self.register_buffer("steps", paddle.zeros([1]))
        self.hidden = paddle.ones([1])

    def forward(self, x):
        return self.second(nn.functional.relu(self.first(x))) * self.scale


def test_members_are_listed_by_path() -> None:
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [name for name, _ in net.named_sublayers()] == ["first", "second"]
    assert [name for name, _ in net.named_buffers()] == ["steps", "hidden"]
    assert len(net.parameters(include_sublayers=False)) == 1
    assert list(net.children()) == [net.first, net.second]


def test_state_has_persistable_buffers_only() -> None:
    state = Net().state_dict()
    assert list(state) == [
        "scale",
        "steps",
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
    ]
    assert "hidden" in Net().to_static_state_dict()


def test_set_state_dict_tells_what_did_not_fit() -> None:
    net, other = Net(), Net()
    state = dict(other.state_dict())
    del state["first.bias"]
    state["second.weight"] = paddle.zeros([5, 5])
    state["unknown"] = paddle.zeros([1])
    with pytest.warns(UserWarning, match="Skip loading for") as caught:
        missing, unexpected = net.set_state_dict(state)
    assert missing == ["first.bias", "second.weight"]
    assert unexpected == ["second.weight", "unknown"]
    assert "first.bias is not found in the provided dict." in str(caught[0].message)
    np.testing.assert_array_equal(net.first.weight.numpy(), other.first.weight.numpy())


def test_set_state_dict_takes_arrays_and_parameter_names() -> None:
    net, other = nn.Linear(2, 3), nn.Linear(2, 3)
    arrays = {net.weight.name: other.weight.numpy(), net.bias.name: np.ones(3, "float32")}
    assert net.set_state_dict(arrays, use_structured_name=False) == ([], [])
    np.testing.assert_array_equal(net.weight.numpy(), other.weight.numpy())


def test_attributes_follow_the_kind_of_value() -> None:
    net = Net()
    old = net.first
    net.first = None
    assert net.first is None
    net.first = old
    assert "first" in net._sub_layers
    with pytest.raises(TypeError, match="sub_layers"):
        net.second = 3
    net.plain = 3
    assert net.plain == 3
    net.plain = nn.Linear(1, 1)
    assert "plain" in net._sub_layers
    del net.plain
    assert not hasattr(net, "plain")
    net._parameters["extra"] = net.scale
    assert net.extra is net.scale


def test_members_before_init_are_refused() -> None:
    class Late(nn.Layer):
        def __init__(self) -> None:
            self.inner = nn.Linear(1, 1)
            super().__init__()

    with pytest.raises(ValueError, match="__init__"):
        Late()


def test_bad_names_are_refused() -> None:
    net = Net()
    for name in ("", "a.b"):
        with pytest.raises(KeyError):
            net.add_parameter(name, net.scale)
        with pytest.raises(KeyError):
            net.register_buffer(name, paddle.zeros([1]))
    with pytest.raises(KeyError, match="already"):
        net.add_parameter("first", net.scale)
    with pytest.raises(TypeError):
        net.add_parameter("value", paddle.zeros([1]))


def test_hooks_change_inputs_and_outputs() -> None:
    net = nn.Linear(2, 2)
    x = paddle.ones([1, 2])
    plain = net(x).numpy()
    before = net.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2.0,))
    after = net.register_forward_post_hook(lambda layer, inputs, outputs: outputs + 1.0)
    np.testing.assert_allclose(net(x).numpy(), plain * 2.0 - net.bias.numpy() + 1.0, rtol=1e-5)
    before.remove()
    after.remove()
    after.remove()
    np.testing.assert_array_equal(net(x).numpy(), plain)


def test_train_and_eval_reach_all_layers() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    net.eval()
    assert not any(layer.training for layer in net.sublayers(include_self=True))
    np.testing.assert_array_equal(net(paddle.ones([4])).numpy(), np.ones(4))
    net.train()
    assert net[1][0].training


def test_apply_and_clear_gradients() -> None:
    net = Net()
    seen = []
    assert net.apply(lambda layer: seen.append(type(layer).__name__)) is net
    assert seen == ["Linear", "Linear", "Net"]
    net(paddle.ones([2, 3])).sum().backward()
    assert net.scale.grad is not None
    net.clear_gradients()
    assert net.scale.grad is None or not np.any(net.scale.grad.numpy())


def test_names_follow_the_class() -> None:
    assert nn.Linear(1, 1).full_name().startswith("linear_")
    assert nn.BatchNorm1D(2)._mean.name.startswith("batch_norm1d_")
    assert nn.LayerNorm(2).weight.name.endswith(".w_0")
    named = nn.Linear(1, 1, weight_attr=paddle.ParamAttr(name="mine"), bias_attr="bias")
    assert (named.weight.name, named.bias.name) == ("mine", "bias")


def test_deep_copies_are_apart() -> None:
    net = Net()
    twin = copy.deepcopy(net)
    assert twin.first is not net.first
    assert twin.first.weight.name != net.first.weight.name
    x = paddle.ones([1, 3])
    np.testing.assert_array_equal(twin(x).numpy(), net(x).numpy())
    twin.first.weight.set_value(np.zeros([3, 4], "float32"))
    assert np.any(net.first.weight.numpy())
    twin.first = nn.Linear(3, 4)
    assert twin._sub_layers["first"] is twin.first


def test_conversion_of_types() -> None:
    net = Net().to(dtype="float64")
    assert all(p.dtype == "float64" for p in net.parameters())
    assert net(paddle.ones([1, 3], "float64")).dtype == "float64"
    assert net.float().first.weight.dtype == "float32"
    with pytest.raises(ValueError, match="no device"):
        net.to(device="moon")


def test_param_attr_settings_reach_parameters() -> None:
    attr = paddle.ParamAttr(
        learning_rate=0.5,
        trainable=False,
        regularizer=paddle.regularizer.L2Decay(0.1),
        initializer=nn.initializer.Constant(3.0),
        need_clip=False,
    )
    weight = nn.Linear(2, 2, weight_attr=attr).weight
    assert weight.stop_gradient and not weight.trainable
    assert (weight.learning_rate, weight.need_clip) == (0.5, False)
    assert weight.regularizer[0] == "l2"
    assert np.all(weight.numpy() == 3.0)
    with pytest.raises(TypeError, match="ParamAttr"):
        nn.Linear(2, 2, weight_attr=3)


def test_containers() -> None:
    layers = nn.LayerList([nn.Linear(1, 1) for _ in range(3)])
    layers.insert(1, nn.ReLU())
    assert [type(layer).__name__ for layer in layers] == ["Linear", "ReLU", "Linear", "Linear"]
    del layers[0]
    assert len(layers) == 3 and isinstance(layers[0], nn.ReLU)
    assert len(layers[1:]) == 2
    with pytest.raises(IndexError):
        layers[7]
    named = nn.LayerDict({"a": nn.Linear(1, 1)})
    named.update([("b", nn.ReLU())])
    assert "a" in named and list(named) == ["a", "b"]
    assert isinstance(named.pop("b"), nn.ReLU)
    weights = nn.ParameterList([paddle.create_parameter([2], "float32")])
    assert list(weights.state_dict()) == ["0"] and weights[-1].shape == [2]


def test_embedding_padding_row_is_zero_and_stays() -> None:
    table = nn.Embedding(4, 2, padding_idx=-1)
    assert not np.any(table.weight.numpy()[3])
    table(paddle.to_tensor([3, 1])).sum().backward()
    grad = table.weight.grad.numpy()
    assert not np.any(grad[3]) and np.all(grad[1] == 1.0)
    with pytest.raises(ValueError, match="padding_idx"):
        nn.Embedding(4, 2, padding_idx=4)


def test_sparse_embedding_has_rows_as_gradient() -> None:
    table = nn.Embedding(4, 2, sparse=True)
    table(paddle.to_tensor([1, 1])).sum().backward()
    assert table.weight.grad.is_selected_rows()
    adam = paddle.optimizer.Adam(0.1, parameters=table.parameters(), lazy_mode=True)
    before = table.weight.numpy()
    adam.step()
    changed = (table.weight.numpy() != before).any(axis=1)
    assert changed.tolist() == [False, True, False, False]


def test_layers_of_functions_take_what_their_signatures_say() -> None:
    elu, x = nn.ELU(0.5), paddle.to_tensor([-1.0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'alpha'"):
        elu(x, alpha=2.0)
    with pytest.raises(TypeError, match="takes x, but got 2 arguments"):
        nn.ReLU()(x, 2.0)
    assert elu(x=x).item() == elu(x).item()
    assert list(inspect.signature(nn.ELU.__init__).parameters) == ["self", "alpha", "name"]

    class Mine(nn.ELU):
        def __init__(self, strength: float) -> None:
            super().__init__(alpha=strength)

    assert list(inspect.signature(Mine).parameters) == ["strength"]
    assert Mine(0.5)(x).item() == elu(x).item()
