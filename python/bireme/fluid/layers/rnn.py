"""One step of recurrent layers, under their 1.x signatures.

Layers that loop over sequences inside a program (`dynamic_gru`, `dynamic_lstm`, `StaticRNN`) are
missing: call a step for each position, or use `paddle.nn.GRU` and `paddle.nn.LSTM`.
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

__all__ = ["gru_unit", "lstm_unit"]


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
    if name not in _GATES:
        raise ValueError(f"`{argument}` must be one of {', '.join(_GATES)}, not {name!r}")
    return _GATES.index(name)
