"""Cells of recurrent networks: one step each."""

from __future__ import annotations

from typing import Any

from ...tensor.arguments import Tensor, default_dtype, ops
from ..initializer import Constant, Uniform
from .layers import Layer

__all__ = ["GRUCell", "LSTMCell", "RNNCellBase", "SimpleRNNCell"]


class RNNCellBase(Layer):
    """Base class of cells: `forward(inputs, states)` returns outputs and new states.

    >>> class Adder(paddle.nn.RNNCellBase):
    ...     state_shape = (2,)
    ...
    ...     def forward(self, inputs, states=None):
    ...         states = inputs + states
    ...         return states, states
    >>> paddle.nn.RNN(Adder())(paddle.ones([1, 3, 2]))[1].tolist()
    [[3.0, 3.0]]
    """

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: Any = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """States filled with a number, for as many samples as `batch_ref` has."""
        while isinstance(batch_ref, (list, tuple)):
            batch_ref = batch_ref[0]
        shape = self.state_shape if shape is None else shape
        if not isinstance(shape[0], int):
            return type(shape)(
                self.get_initial_states(batch_ref, s, dtype, init_value, batch_dim_idx)
                for s in shape
            )
        sizes = [-1, *(n for n in shape if n != -1)]
        dtype = batch_ref.dtype if dtype is None else dtype
        return filled_for_batch(batch_ref, sizes, init_value, dtype, batch_dim_idx, 0)

    @property
    def state_shape(self) -> Any:
        """The shape of the states of one sample: subclasses define it."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `state_shape`")

    @property
    def state_dtype(self) -> Any:
        """The element type of the states: subclasses may define it."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `state_dtype`")

    def _make_weights(self, gates: int, input_size: int, hidden_size: int, attrs: Any) -> None:
        """Weights and biases of all gates; those switched off are constants that never learn."""
        if hidden_size <= 0:
            raise ValueError(f"`hidden_size` must be positive, but is {hidden_size}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self._dtype = default_dtype()
        spread = Uniform(-(hidden_size**-0.5), hidden_size**-0.5)
        rows = gates * hidden_size
        shapes = ([rows, input_size], [rows, hidden_size], [rows], [rows])
        for name, shape, attr in zip(_WEIGHTS, shapes, attrs):
            bias = name.startswith("bias")
            off = attr is False
            start = Constant(0.0 if bias else 1.0) if off else spread
            value = self.create_parameter(
                shape, None if off else attr, is_bias=bias, default_initializer=start
            )
            if off:
                value.stop_gradient = True
            setattr(self, name, value)

    def _weights(self) -> list[Any]:
        return [getattr(self, name) for name in _WEIGHTS]

    def _gates(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """What input and hidden state give to all gates."""
        given = ops.matmul_v2(inputs, self.weight_ih, trans_y=True)
        kept = ops.matmul_v2(hidden, self.weight_hh, trans_y=True)
        return given + self.bias_ih, kept + self.bias_hh

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def filled_for_batch(
    like: Any, shape: list[int], value: float, dtype: Any, from_axis: int, to_axis: int
) -> Any:
    """A constant with as many samples as another tensor has, known now or only in the run."""
    if like.shape[from_axis] >= 0:
        shape = [like.shape[from_axis] if i == to_axis else n for i, n in enumerate(shape)]
        return ops.fill_constant(shape=shape, dtype=dtype, value=float(value))
    return ops.fill_constant_batch_size_like(
        like,
        shape=shape,
        dtype=dtype,
        value=float(value),
        input_dim_idx=from_axis,
        output_dim_idx=to_axis,
    )


class SimpleRNNCell(RNNCellBase):
    """`h = tanh(W_ih x + b_ih + W_hh h + b_hh)`.

    >>> y, h = paddle.nn.SimpleRNNCell(3, 2)(paddle.ones([1, 3]))
    >>> y.shape
    [1, 2]
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if activation not in ("tanh", "relu"):
            raise ValueError(f"`activation` must be tanh or relu, but is {activation!r}")
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self._make_weights(1, input_size, hidden_size, attrs)
        self.activation = activation

    @property
    def _mode(self) -> str:
        return f"RNN_{self.activation.upper()}"

    @property
    def state_shape(self) -> tuple[int]:
        return (self.hidden_size,)

    def forward(self, inputs: Tensor, states: Tensor | None = None) -> tuple[Tensor, Tensor]:
        states = self.get_initial_states(inputs) if states is None else states
        given, kept = self._gates(inputs, states)
        hidden = getattr(ops, self.activation)(given + kept)
        return hidden, hidden


class LSTMCell(RNNCellBase):
    """One step of long short-term memory: states are (hidden, cell).

    >>> y, (h, c) = paddle.nn.LSTMCell(3, 2)(paddle.ones([1, 3]))
    >>> y.shape, c.shape
    ([1, 2], [1, 2])
    """

    _mode = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self._make_weights(4, input_size, hidden_size, attrs)

    @property
    def state_shape(self) -> tuple[tuple[int], tuple[int]]:
        return ((self.hidden_size,), (self.hidden_size,))

    def forward(
        self, inputs: Tensor, states: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, cell = self.get_initial_states(inputs) if states is None else states
        given, kept = self._gates(inputs, hidden)
        i, f, g, o = ops.split(given + kept, num=4, axis=-1, _count=4)
        cell = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(g)
        hidden = ops.sigmoid(o) * ops.tanh(cell)
        return hidden, (hidden, cell)


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

    >>> y, h = paddle.nn.GRUCell(3, 2)(paddle.ones([1, 3]))
    >>> y.shape
    [1, 2]
    """

    _mode = "GRU"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        self._make_weights(3, input_size, hidden_size, attrs)

    @property
    def state_shape(self) -> tuple[int]:
        return (self.hidden_size,)

    def forward(self, inputs: Tensor, states: Tensor | None = None) -> tuple[Tensor, Tensor]:
        hidden = self.get_initial_states(inputs) if states is None else states
        given, kept = self._gates(inputs, hidden)
        x_reset, x_update, x_new = ops.split(given, num=3, axis=1, _count=3)
        h_reset, h_update, h_new = ops.split(kept, num=3, axis=1, _count=3)
        reset = ops.sigmoid(x_reset + h_reset)
        update = ops.sigmoid(x_update + h_update)
        new = ops.tanh(x_new + reset * h_new)
        hidden = (hidden - new) * update + new
        return hidden, hidden
