"""What every layer of a program needs: its name, its parameters, its activation.

Names are Paddle's (`fc_0.w_0`, `fc_0.b_0`), so that saved parameters fit both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from ...nn.initializer import Initializer
from ...nn.parameter import make_parameter
from ..program import Variable, require_static


class LayerNames:
    """The name of a layer, and the parameters created under it.

    >>> import bireme as paddle
    >>> from bireme.static.nn.parameters import LayerNames
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     layer = LayerNames("tower", "tower_7")
    ...     layer.weight(None, [4, 2], "float32").name
    'tower_7.w_0'
    >>> paddle.disable_static()
    """

    def __init__(self, kind: str, name: str | None = None) -> None:
        require_static(f"static.nn.{kind}")
        self.name = name or _core.unique_name(kind)

    def weight(
        self, attr: Any, shape: Sequence[int], dtype: Any, default: Initializer | None = None
    ) -> Variable:
        """A weight, from Xavier's uniform distribution unless told otherwise."""
        check_sizes(self.name, shape)
        return make_parameter(self.name, shape, attr, dtype, default_initializer=default)

    def bias(self, attr: Any, shape: Sequence[int], dtype: Any) -> Variable | None:
        """A bias of zeros unless told otherwise; None where `attr` is False."""
        check_sizes(self.name, shape)
        return make_parameter(self.name, shape, attr, dtype, is_bias=True)

    def apply(
        self,
        op: str,
        *inputs: Any,
        _slots: Sequence[str] = ("Out",),
        _into: dict[str, Any] | None = None,
        **attrs: Any,
    ) -> Variable:
        """Adds an op whose outputs are named after the layer (`fc_0.tmp_0`); returns the last.

        An op names its outputs after its own type otherwise, and would use up the number of the
        next layer where both are called the same: `batch_norm_1` would become `batch_norm_2`.
        """
        first = next(each for each in inputs if isinstance(each, Variable))
        made = {}
        for slot in _slots:
            name = _core.unique_name(f"{self.name}.tmp")
            var = first.block.create_var(name=name, dtype=first.dtype, stop_gradient=False)
            made[slot] = var
        getattr(_core.ops, op)(*inputs, **attrs, _into={**made, **(_into or {})})
        return var

    def activate(self, x: Variable, act: str | None) -> Variable:
        """Applies the activation op of that name."""
        return x if act is None else self.apply(checked_activation(act), x)


def activate(x: Any, act: str | None) -> Any:
    """Applies the activation op of that name.

    >>> import bireme as paddle
    >>> from bireme.static.nn.parameters import activate
    >>> activate(paddle.to_tensor([-1.0, 1.0]), "relu").numpy()
    array([0., 1.], dtype=float32)
    >>> activate(paddle.to_tensor([1.0]), "rely")
    Traceback (most recent call last):
    ...
    ValueError: there is no activation `rely`: did you mean `relu`?
    """
    return x if act is None else getattr(_core.ops, checked_activation(act))(x)


def checked_activation(act: str) -> str:
    """The name of an activation op; an unknown one raises with the nearest.

    >>> from bireme.static.nn.parameters import checked_activation
    >>> checked_activation("tanh")
    'tanh'
    """
    if act not in ACTIVATIONS:
        import difflib

        nearest = difflib.get_close_matches(act, ACTIVATIONS, n=1)
        hint = f"did you mean `{nearest[0]}`?" if nearest else f"there are {', '.join(ACTIVATIONS)}"
        raise ValueError(f"there is no activation `{act}`: {hint}")
    return act


ACTIVATIONS = [
    "abs",
    "cos",
    "elu",
    "erf",
    "exp",
    "gelu",
    "hard_sigmoid",
    "leaky_relu",
    "log",
    "relu",
    "relu6",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softmax",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "swish",
    "tanh",
]


def check_sizes(layer: str, shape: Sequence[int]) -> None:
    """Raises where a parameter would have an unknown size.

    >>> from bireme.static.nn.parameters import check_sizes
    >>> check_sizes("fc_0", [-1, 2])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: layer `fc_0` needs a parameter of shape [-1, 2]: give its input known sizes...
    """
    if any(size < 0 for size in shape):
        raise ValueError(
            f"layer `{layer}` needs a parameter of shape {list(shape)}: give its input known sizes"
            " after the batch"
        )
