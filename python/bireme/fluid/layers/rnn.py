"""Recurrent layers under their 1.x signatures: over sequences of different lengths, and one step.

Layers that hold a loop of the user's own (`StaticRNN`, `DynamicRNN`) are missing: call a step for
each position.
"""

from __future__ import annotations

from typing import Any

from ... import _core
from ...static.nn.parameters import LayerNames
from .manipulation import concat
from .nn import fc

Variable = Any
_ops = _core.ops
_GATES = ("identity", "sigmoid", "tanh", "relu")

__all__ = ["dynamic_gru", "dynamic_lstm", "gru_unit", "lstm_unit"]


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """The states of a gated recurrent unit of `size` cells over each sequence.

    `input` is already multiplied by its weights (an `fc` of `3 * size`); `h_0` has a first state
    for each sequence, or else they are zeros.

    >>> x = paddle.fluid.layers.data("x", [12], lod_level=1)
    >>> paddle.fluid.layers.dynamic_gru(x, 4).shape
    (-1, 4)
    """
    layer = LayerNames("gru")
    weight = layer.weight(param_attr, [size, 3 * size], input.dtype)
    bias = layer.bias(bias_attr, [1, 3 * size], input.dtype)
    made = _ops.gru(
        input,
        h_0,
        weight,
        bias,
        activation=_named("candidate_activation", candidate_activation),
        gate_activation=_named("gate_activation", gate_activation),
        is_reverse=is_reverse,
        origin_mode=origin_mode,
        _outputs=("BatchGate", "BatchResetHiddenPrev", "BatchHidden", "Hidden"),
    )
    return made[-1]


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The hidden and cell states of a long short-term memory of `size // 4` cells.

    `input` is already multiplied by its weights (an `fc` of `size`); `h_0` and `c_0` have first
    states for each sequence, or else they are zeros.

    >>> x = paddle.fluid.layers.data("x", [16], lod_level=1)
    >>> [state.shape for state in paddle.fluid.layers.dynamic_lstm(x, 16)]
    [(-1, 4), (-1, 4)]
    """
    if bias_attr is False:
        raise ValueError("`dynamic_lstm` has a bias: `bias_attr` cannot be False")
    cells = _part(size, 4)
    layer = LayerNames("lstm", name)
    weight = layer.weight(param_attr, [cells, 4 * cells], dtype)
    bias = layer.bias(bias_attr, [1, (7 if use_peepholes else 4) * cells], dtype)
    hidden, cell, _, _ = _ops.lstm(
        input,
        h_0,
        c_0,
        weight,
        bias,
        use_peepholes=use_peepholes,
        is_reverse=is_reverse,
        gate_activation=_named("gate_activation", gate_activation),
        cell_activation=_named("cell_activation", cell_activation),
        candidate_activation=_named("candidate_activation", candidate_activation),
        _outputs=("Hidden", "Cell", "BatchGate", "BatchCellPreAct"),
    )
    return hidden, cell


def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """A step of a gated recurrent unit of `size // 3` cells.

    `input` is already multiplied by its weights (an `fc` of `size`). Returns the new hidden state,
    the reset one and the gates.

    >>> x = paddle.fluid.layers.data("x", [12])
    >>> last = paddle.fluid.layers.data("last", [4])
    >>> paddle.fluid.layers.gru_unit(x, last, 12)[0].shape
    (-1, 4)
    """
    cells = _part(size, 3)
    layer = LayerNames("gru_unit")
    weight = layer.weight(param_attr, [cells, 3 * cells], input.dtype)
    bias = layer.bias(bias_attr, [1, 3 * cells], input.dtype)
    gate, reset, new = _ops.gru_unit(
        input,
        hidden,
        weight,
        bias,
        activation=_gate("activation", activation),
        gate_activation=_gate("gate_activation", gate_activation),
        origin_mode=origin_mode,
        _outputs=("Gate", "ResetHiddenPrev", "Hidden"),
    )
    return new, reset, gate


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """A step of a long short-term memory: the new hidden and cell states.

    >>> x = paddle.fluid.layers.data("x", [8])
    >>> hidden, cell = (paddle.fluid.layers.data(name, [4]) for name in ("hidden", "cell"))
    >>> [state.shape for state in paddle.fluid.layers.lstm_unit(x, hidden, cell)]
    [(-1, 4), (-1, 4)]
    """
    cells = cell_t_prev.shape[1]
    both = concat([x_t, hidden_t_prev], axis=1)
    gates = fc(both, 4 * cells, param_attr=param_attr, bias_attr=bias_attr)
    cell, hidden = _ops.lstm_unit(gates, cell_t_prev, forget_bias=forget_bias)
    return hidden, cell


def _part(size: int, parts: int) -> int:
    if size % parts:
        raise ValueError(f"`size` must be {parts} times the number of cells, not {size}")
    return size // parts


def _gate(argument: str, name: str) -> int:
    return _GATES.index(_named(argument, name))


def _named(argument: str, name: str) -> str:
    if name not in _GATES:
        raise ValueError(f"`{argument}` must be one of {', '.join(_GATES)}, not {name!r}")
    return name
