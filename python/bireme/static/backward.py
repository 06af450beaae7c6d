"""Gradients of a program, and variables that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._names import set_public_names
from ..nn.parameter import make_parameter
from .program import Variable, generated_name, require_static


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Any] | None = None,
    no_grad_set: set[Any] | None = None,
    callbacks: Any = None,
    checkpoints: Any = None,
) -> list[tuple[Variable, Variable]]:
    """Adds the ops that compute the gradient of `loss`; returns parameters with their gradients.

    `callbacks` and `checkpoints` (recomputing) are not in this version.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 3]), 1))
    ...     len(paddle.static.append_backward(loss))
    2
    >>> paddle.disable_static()
    """
    if callbacks or checkpoints:
        raise NotImplementedError("`callbacks` and `checkpoints` are not in this version")
    return _core.append_backward(loss, parameter_list, no_grad_set)


def gradients(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Variable | Sequence[Variable] | None = None,
    no_grad_set: set[Any] | None = None,
) -> list[Variable | None]:
    """The gradients of the sum of `targets` with respect to each input; None where there is none.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 3])
    ...     x.stop_gradient = False
    ...     len(paddle.static.gradients(paddle.square(x), x))
    1
    >>> paddle.disable_static()
    """
    return _core.gradients(
        _listed(targets),
        _listed(inputs),
        None if target_gradients is None else _listed(target_gradients),
        no_grad_set,
    )


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable that the startup program fills with `value`.

    It is always persistable, or it would lose its value before the main program runs; `force_cpu`
    has no meaning here.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     paddle.static.create_global_var([1], 0.5, "float32", persistable=True).shape
    (1,)
    >>> paddle.disable_static()
    """
    require_static("static.create_global_var")
    name = name or generated_name()
    return _core.create_global_var(list(shape), value, dtype, persistable, name)


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Variable:
    """A parameter of the default main program.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     paddle.static.create_parameter([2, 3], "float32", name="w").name
    'w'
    >>> paddle.disable_static()
    """
    if attr is None and name is not None:
        attr = name
    prefix = _core.unique_name("create_parameter")
    return make_parameter(prefix, shape, attr, dtype, is_bias, default_initializer)


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """Prints the value whenever it is computed, and hands it on; use what it returns.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 3])
    ...     paddle.static.Print(x, message="x is").shape
    (-1, 3)
    >>> paddle.disable_static()
    """
    if print_phase not in ("forward", "backward", "both"):
        raise ValueError(f"`print_phase` must be forward, backward or both, not {print_phase!r}")
    return _core.ops.print(
        input,
        first_n=first_n,
        message=message or "",
        summarize=summarize,
        print_tensor_name=print_tensor_name,
        print_tensor_type=print_tensor_type,
        print_tensor_shape=print_tensor_shape,
        print_tensor_layout=print_tensor_layout,
        print_tensor_lod=print_tensor_lod,
        print_phase=print_phase.upper(),
    )


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


set_public_names(__name__)
