"""Deep copies and pickles of eager tensors, which is also how processes hand them to each other."""

from __future__ import annotations

from typing import Any

from .. import _core


def deep_copy(x: Any, memo: dict[int, Any]) -> Any:
    """For `copy.deepcopy`: a tensor of its own, whose name says where it comes from."""
    if not x.is_leaf:
        raise RuntimeError("only leaves can be copied deeply: use `clone()` or `detach()`")
    build, arguments = _parts(x, x.name + _core.unique_name("_deepcopy"))
    memo[id(x)] = copy = build(*arguments)
    copy._move_to(x.place)
    return copy


def reduce(x: Any) -> tuple[Any, ...]:
    """For `pickle` and `copy.copy`: the values, and what a parameter is made with.

    Pickles run code, so only those of trusted processes should be read; models belong into files
    of `paddle.save`, which `paddle.load` reads without running anything.
    """
    if not x.is_leaf:
        raise TypeError(
            "a tensor that takes gradients and that an op made cannot be pickled or copied, since "
            "its history cannot: use `detach()`"
        )
    return _parts(x, x.name)


def _parts(x: Any, name: str) -> tuple[Any, tuple[Any, ...]]:
    state = {**vars(x), "stop_gradient": x.stop_gradient, "persistable": x.persistable}
    if not isinstance(x, _core.Parameter):
        return tensor_of, (type(x), x.numpy(), x.dtype.name, name, state)
    settings = {
        "trainable": x.trainable,
        "learning_rate": x.learning_rate,
        "regularizer": x.regularizer,
        "need_clip": x.need_clip,
    }
    return parameter_of, (x.numpy(), x.dtype.name, name, settings, state)


def tensor_of(kind: Any, array: Any, dtype: str, name: str, state: dict[str, Any]) -> Any:
    """A tensor from its parts."""
    return _with_state(kind(array, dtype=dtype, name=name), state)


def parameter_of(
    array: Any, dtype: str, name: str, settings: dict[str, Any], state: dict[str, Any]
) -> Any:
    """A parameter from its parts, in eager mode whatever the mode is."""
    static = not _core.in_dynamic_mode()
    _core.disable_static()
    try:
        spec = ("assign", {"value": array})
        made = _core.create_parameter(list(array.shape), dtype, name, spec, **settings)
    finally:
        if static:
            _core.enable_static()
    return _with_state(made, state)


def _with_state(tensor: Any, state: dict[str, Any]) -> Any:
    for field, value in state.items():
        setattr(tensor, field, value)
    return tensor
