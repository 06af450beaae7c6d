"""Recurrent layers: cells run over sequences, and whole networks through one op."""

from __future__ import annotations

from typing import Any

from ...tensor.arguments import TENSORS, Tensor, ops
from .cells import GRUCell, LSTMCell, RNNCellBase, SimpleRNNCell, filled_for_batch
from .container import LayerList
from .layers import Layer

__all__ = ["GRU", "LSTM", "RNN", "BiRNN", "SimpleRNN"]


class RNN(Layer):
    """Runs a cell over sequences of shape [batch, time, ...] (or [time, batch, ...]).

    >>> layer = paddle.nn.RNN(paddle.nn.GRUCell(3, 2))
    >>> outputs, state = layer(paddle.ones([1, 4, 3]))
    >>> outputs.shape, state.shape
    ([1, 4, 2], [1, 2])
    """

    def __init__(
        self, cell: RNNCellBase, is_reverse: bool = False, time_major: bool = False
    ) -> None:
        super().__init__()
        self.cell = cell
        self.is_reverse = is_reverse
        self.time_major = time_major
        if not hasattr(cell, "call"):
            # Paddle lets cells be called by this name too.
            cell.call = cell.forward

    def forward(
        self,
        inputs: Tensor,
        initial_states: Any = None,
        sequence_length: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        batch = 1 if self.time_major else 0
        if initial_states is None:
            initial_states = self.cell.get_initial_states(inputs, batch_dim_idx=batch)
        if not self.time_major:
            inputs = _swap(inputs)
        known = type(self.cell) in (SimpleRNNCell, LSTMCell, GRUCell)
        if known and sequence_length is None and not kwargs:
            outputs, states = self._run_op(inputs, initial_states)
        else:
            outputs, states = self._run_steps(inputs, initial_states, sequence_length, kwargs)
        return (outputs if self.time_major else _swap(outputs)), states

    def _run_op(self, inputs: Tensor, initial_states: Any) -> tuple[Tensor, Any]:
        """All steps of a cell that the engine knows, as one op."""
        inputs = ops.flip(inputs, axis=[0]) if self.is_reverse else inputs
        states = initial_states if isinstance(initial_states, (list, tuple)) else [initial_states]
        outputs, states = run_network(
            inputs,
            [ops.unsqueeze2(state, axes=[0]) for state in states],
            self.cell._weights(),
            mode=self.cell._mode,
            input_size=self.cell.input_size,
            hidden_size=self.cell.hidden_size,
        )
        states = tuple(ops.squeeze2(state, axes=[0]) for state in states)
        outputs = ops.flip(outputs, axis=[0]) if self.is_reverse else outputs
        return outputs, states if len(states) > 1 else states[0]

    def _run_steps(
        self, inputs: Tensor, states: Any, lengths: Tensor | None, kwargs: dict[str, Any]
    ) -> tuple[Any, Any]:
        steps = inputs.shape[0]
        if steps < 0:
            raise ValueError("a cell of your own needs sequences of a known length in static mode")
        mask = None
        if lengths is not None:
            mask = ops.sequence_mask(lengths, maxlen=steps, out_dtype=inputs.dtype)
        outputs = []
        for i in reversed(range(steps)) if self.is_reverse else range(steps):
            output, new = self.cell(inputs[i], states, **kwargs)
            if mask is not None:
                inside = ops.slice(mask, axes=[1], starts=[i], ends=[i + 1])
                new = _where_inside(inside, new, states)
            states = new
            outputs.append(output)
        return _stacked(outputs[::-1] if self.is_reverse else outputs), states


def _swap(x: Tensor) -> Tensor:
    """Batch and time change places."""
    return ops.transpose2(x, axis=[1, 0, *range(2, x.ndim)])


def _where_inside(inside: Tensor, new: Any, old: Any) -> Any:
    """New states of the sequences that still run, old ones of those that have ended."""
    if isinstance(new, (list, tuple)):
        return type(new)(_where_inside(inside, n, o) for n, o in zip(new, old))
    return new * inside + old * (1.0 - inside)


def _stacked(outputs: list[Any]) -> Any:
    if isinstance(outputs[0], (list, tuple)):
        return type(outputs[0])(_stacked(list(parts)) for parts in zip(*outputs))
    return ops.stack(outputs, axis=0)


class BiRNN(Layer):
    """Runs one cell forwards and one backwards; outputs are put side by side.

    >>> layer = paddle.nn.BiRNN(paddle.nn.GRUCell(3, 2), paddle.nn.GRUCell(3, 2))
    >>> layer(paddle.ones([1, 4, 3]))[0].shape
    [1, 4, 4]
    """

    def __init__(
        self, cell_fw: RNNCellBase, cell_bw: RNNCellBase, time_major: bool = False
    ) -> None:
        super().__init__()
        self.cell_fw = cell_fw
        self.cell_bw = cell_bw
        self.time_major = time_major

    def forward(
        self,
        inputs: Tensor,
        initial_states: Any = None,
        sequence_length: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, tuple[Any, Any]]:
        before, after = initial_states if initial_states is not None else (None, None)
        # Made here, not in the constructor, so that the cells keep one path in a state.
        forwards = RNN(self.cell_fw, False, self.time_major)
        backwards = RNN(self.cell_bw, True, self.time_major)
        left, left_states = forwards(inputs, before, sequence_length, **kwargs)
        right, right_states = backwards(inputs, after, sequence_length, **kwargs)
        return ops.concat([left, right], axis=-1), (left_states, right_states)


def run_network(
    inputs: Tensor,
    states: list[Tensor],
    weights: list[Tensor],
    *,
    mode: str,
    input_size: int,
    hidden_size: int,
    lengths: Tensor | None = None,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
    training: bool = True,
) -> tuple[Tensor, list[Tensor]]:
    """The op `rnn` over [time, batch, size]: all weights of all layers, then all biases."""
    return ops.rnn(
        inputs,
        states,
        weights,
        lengths,
        dropout_prob=dropout,
        is_bidirec=bidirectional,
        input_size=input_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        mode=mode,
        is_test=not training,
        _count=len(states),
        _outputs=("Out", "State"),
    )


class RNNBase(LayerList):
    """Several layers of one kind of cell, run as one op."""

    _mode = ""
    _cell: Any = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
        **cell_settings: Any,
    ) -> None:
        super().__init__()
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise ValueError(f"`direction` must be forward or bidirect, but is {direction!r}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.num_directions = 1 if direction == "forward" else 2
        self.time_major = time_major
        self.dropout = dropout
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * self.num_directions
            cells = [
                self._cell(
                    size,
                    hidden_size,
                    weight_ih_attr=attrs[0],
                    weight_hh_attr=attrs[1],
                    bias_ih_attr=attrs[2],
                    bias_hh_attr=attrs[3],
                    **cell_settings,
                )
                for _ in range(self.num_directions)
            ]
            self.append(
                BiRNN(cells[0], cells[1], time_major)
                if len(cells) == 2
                else RNN(cells[0], False, time_major)
            )
            for suffix, cell in zip(("", "_reverse"), cells):
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    setattr(self, f"{kind}_l{layer}{suffix}", getattr(cell, kind))

    @property
    def state_components(self) -> int:
        """How many states a layer has: two for LSTM, one otherwise."""
        return 2 if self._mode == "LSTM" else 1

    def _all_weights(self) -> list[Any]:
        suffixes = [
            f"_l{layer}{side}"
            for layer in range(self.num_layers)
            for side in ("", "_reverse")[: self.num_directions]
        ]
        return [
            getattr(self, kind + suffix)
            for kinds in (("weight_ih", "weight_hh"), ("bias_ih", "bias_hh"))
            for suffix in suffixes
            for kind in kinds
        ]

    def forward(
        self,
        inputs: Tensor,
        initial_states: Any = None,
        sequence_length: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        if initial_states is None:
            shape = [self.num_layers * self.num_directions, -1, self.hidden_size]
            batch = 1 if self.time_major else 0
            initial_states = [
                filled_for_batch(inputs, shape, 0.0, inputs.dtype, batch, 1)
                for _ in range(self.state_components)
            ]
        elif isinstance(initial_states, TENSORS):
            initial_states = [initial_states]
        outputs, states = run_network(
            inputs if self.time_major else _swap(inputs),
            list(initial_states),
            self._all_weights(),
            mode=self._mode,
            input_size=self.input_size,
            hidden_size=self.hidden_size,
            lengths=sequence_length,
            num_layers=self.num_layers,
            bidirectional=self.num_directions == 2,
            dropout=self.dropout,
            training=self.training,
        )
        outputs = outputs if self.time_major else _swap(outputs)
        return outputs, tuple(states) if len(states) > 1 else states[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.time_major:
            text += f", time_major={self.time_major}"
        return f"{text}, dropout={self.dropout}" if self.dropout else text


class LSTM(RNNBase):
    """Long short-term memory over sequences: states are (hidden, cell), a row for each layer.

    >>> y, (h, c) = paddle.nn.LSTM(3, 2, num_layers=2)(paddle.ones([1, 4, 3]))
    >>> y.shape, h.shape
    ([1, 4, 2], [2, 1, 2])
    """

    _mode, _cell = "LSTM", LSTMCell


class GRU(RNNBase):
    """Gated recurrent units over sequences.

    >>> y, h = paddle.nn.GRU(3, 2)(paddle.ones([1, 4, 3]))
    >>> y.shape, h.shape
    ([1, 4, 2], [1, 1, 2])
    """

    _mode, _cell = "GRU", GRUCell


class SimpleRNN(RNNBase):
    """Plain recurrent units over sequences; `activation` is tanh or relu.

    >>> y, h = paddle.nn.SimpleRNN(3, 2)(paddle.ones([1, 4, 3]))
    >>> y.shape, h.shape
    ([1, 4, 2], [1, 1, 2])
    """

    _cell = SimpleRNNCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            direction,
            time_major,
            dropout,
            weight_ih_attr,
            weight_hh_attr,
            bias_ih_attr,
            bias_hh_attr,
            activation=activation,
        )
        self._mode = f"RNN_{activation.upper()}"
