"""How parameters are made: the one function behind `paddle.create_parameter` and all layers."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..tensor.arguments import int_list
from .initializer.initializer import Constant, Initializer, XavierUniform, _defaults

_DEFAULT_WEIGHT = XavierUniform()
_DEFAULT_BIAS = Constant(0.0)


def parameter_attr(attr: Any) -> Any:
    """`attr` as a `ParamAttr`, or False where the user wants no parameter."""
    from ..framework import ParamAttr

    if isinstance(attr, ParamAttr):
        return attr
    if attr is None or attr is True or (isinstance(attr, str) and not attr):
        return ParamAttr()
    if attr is False:
        return False
    if isinstance(attr, str):
        return ParamAttr(name=attr)
    if isinstance(attr, Initializer):
        return ParamAttr(initializer=attr)
    if not isinstance(attr, (int, float)) and regularizer_spec(attr) is not None:
        return ParamAttr(regularizer=attr)
    raise TypeError(
        "a parameter is described by a `ParamAttr`, a name, an initialiser, a regulariser or False, "
        f"but got `{type(attr).__name__}`"
    )


def regularizer_spec(regularizer: Any) -> tuple[str, float] | None:
    """A regulariser, or a number for L2, as the engine wants it: ("l1" or "l2", coefficient)."""
    if regularizer is None or isinstance(regularizer, tuple):
        return regularizer
    if isinstance(regularizer, (int, float)):
        return "l2", float(regularizer)
    kind = type(regularizer).__name__[:2].lower()
    if kind not in ("l1", "l2"):
        return None
    for field in ("_coeff", "_regularization_coeff", "coeff", "regularization_coeff"):
        if hasattr(regularizer, field):
            return kind, float(getattr(regularizer, field))
    return None


def make_parameter(
    prefix: str,
    shape: Any,
    attr: Any = None,
    dtype: Any = "float32",
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Any:
    """Makes a parameter named `<prefix>.w_0` (`.b_0` for a bias) unless `attr` names it.

    Returns an eager parameter or a static variable, as the mode is, and None for `attr=False`.
    """
    attr = parameter_attr(attr)
    if attr is False:
        return None
    shape = int_list(shape, "shape")
    chosen = attr.initializer or _defaults["bias" if is_bias else "weight"] or default_initializer
    if chosen is None:
        chosen = _DEFAULT_BIAS if is_bias else _DEFAULT_WEIGHT
    name = attr.name or _core.unique_name(f"{prefix}.{'b' if is_bias else 'w'}")
    return _core.create_parameter(
        shape,
        dtype,
        name,
        initializer=chosen._spec(shape),
        trainable=attr.trainable,
        learning_rate=attr.learning_rate,
        regularizer=regularizer_spec(attr.regularizer),
        need_clip=attr.need_clip,
    )
