"""`auto_cast` and `decorate`: which ops, and which parameters, are of 16 bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = [
    "amp_decorate",
    "amp_guard",
    "auto_cast",
    "black_list",
    "decorate",
    "is_bfloat16_supported",
    "is_float16_supported",
    "white_list",
]

_LEVELS = ("O0", "OD", "O1", "O2")


class auto_cast:
    """Lets the ops of its block choose their precision; a context manager, and a decorator of functions.

    At level `O1` ops of the white list (products) compute with 16 bits, those of the black list (losses, norms, sums,
    lookups) with 32, and all others with 32 if one of their inputs has them. At `O2` all but the black list compute
    with 16, at `OD` the white list alone. `use_promote=False` lets undecided ops compute with 16 bits. The host
    computes with 32 bits and rounds, so that this saves memory there and no time.

    >>> layer, x = paddle.nn.Linear(2, 3, bias_attr=False), paddle.ones([1, 2])
    >>> with paddle.amp.auto_cast(dtype="bfloat16"):
    ...     layer(x).dtype
    paddle.bfloat16
    >>> layer(x).dtype
    paddle.float32
    """

    def __init__(
        self,
        enable: bool = True,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        level: str = "O1",
        dtype: str = "float16",
        use_promote: bool = True,
    ) -> None:
        level = level.upper()
        if level not in _LEVELS:
            raise ValueError(f"level should be O0, OD, O1 or O2, but is {level!r}")
        white, black = list(custom_white_list or ()), list(custom_black_list or ())
        level = level if enable else "O0"
        self._state = _core.auto_cast_state(level, dtype.lower(), white, black, use_promote)
        self._before: list[Any] = []

    def __enter__(self) -> None:
        if self._state.level != "O0" and not _core.in_dynamic_mode():
            raise RuntimeError(
                "`amp.auto_cast` is for eager mode: static programs have `static.amp.decorate`"
            )
        self._before.append(_core.set_auto_cast(self._state))

    def __exit__(self, *error: object) -> None:
        _core.set_auto_cast(self._before.pop())

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def cast(*arguments: Any, **options: Any) -> Any:
            with self:
                return function(*arguments, **options)

        return cast


#: The older name.
amp_guard = auto_cast


def decorate(
    models: Any,
    optimizers: Any = None,
    level: str = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    save_dtype: str | None = None,
    master_grad: bool = False,
    excluded_layers: Any = None,
) -> Any:
    """Keeps the parameters of layers in 16 bits at level `O2`; at `O1` changes nothing.

    Batch norms keep 32 bits, with `float16` other norms too, and so do `excluded_layers`: layers or classes of them.
    Optimizers keep master copies of 32 bits unless `master_weight` is `False`. With `save_dtype`, `state_dict` of the
    layers is of that type. `master_grad` has no meaning here: gradients are widened before they are used.

    >>> layer = paddle.nn.Linear(2, 3)
    >>> sgd = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    >>> layer, sgd = paddle.amp.decorate(layer, sgd, level="O2", dtype="bfloat16")
    >>> layer.weight.dtype
    paddle.bfloat16
    """
    level = level.upper()
    if level not in ("O1", "O2"):
        raise ValueError(f"level should be O1 or O2, but is {level!r}: O1 is what `auto_cast` does")
    if dtype not in ("float16", "bfloat16"):
        raise ValueError(f"dtype only supports float16 or bfloat16, but is {dtype!r}")
    if save_dtype not in (None, "float16", "bfloat16", "float32", "float64"):
        raise ValueError(f"save_dtype can only be a float type, but is {save_dtype!r}")
    if level == "O1":
        return models if optimizers is None else (models, optimizers)
    layers = _listed(models)
    for layer in layers:
        _narrow(layer, dtype, excluded_layers)
        if save_dtype is not None:
            layer.register_state_dict_hook(_saved_as(save_dtype))
    for optimizer in _listed(optimizers):
        optimizer._keep_masters(master_weight is not False)
    return models if optimizers is None else (models, optimizers)


amp_decorate = decorate


def is_float16_supported(device: Any = None) -> bool:
    """Whether mixed precision with `float16` runs here: it does everywhere; only cards are faster with it.

    >>> paddle.amp.is_float16_supported()
    True
    """
    return True


def is_bfloat16_supported(device: Any = None) -> bool:
    """Whether mixed precision with `bfloat16` runs here: it does everywhere; only cards are faster with it.

    >>> paddle.amp.is_bfloat16_supported()
    True
    """
    return True


def white_list() -> dict[str, dict[str, set[str]]]:
    """Op types that compute with 16 bits, by type and level.

    >>> "matmul_v2" in paddle.amp.white_list()["float16"]["O1"]
    True
    """
    names = set(_core.amp_lists()["white"])
    levels = {level: set(names) for level in ("OD", "O1", "O2")}
    return {"float16": levels, "bfloat16": {level: set(names) for level in levels}}


def black_list() -> dict[str, dict[str, set[str]]]:
    """Op types that compute with 32 bits, by type and level.

    >>> "softmax" in paddle.amp.black_list()["bfloat16"]["O1"]
    True
    """
    names = set(_core.amp_lists()["black"])
    levels = {"OD": set(), "O1": names, "O2": set(names)}
    return {"float16": levels, "bfloat16": {level: set(one) for level, one in levels.items()}}


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _narrow(model: Any, dtype: str, excluded: Any) -> None:
    """Converts the parameters of a model, but for those of layers that need digits."""
    from ..nn import (
        BatchNorm,
        BatchNorm1D,
        BatchNorm2D,
        InstanceNorm1D,
        InstanceNorm2D,
        Layer,
        LayerNorm,
    )

    if not isinstance(model, Layer):
        raise TypeError(f"`decorate` is for layers, not `{type(model).__name__}`")
    kept: tuple[type, ...] = (BatchNorm, BatchNorm1D, BatchNorm2D)
    if dtype == "float16":
        kept = (*kept, LayerNorm, InstanceNorm1D, InstanceNorm2D)
    classes = tuple(one for one in _listed(excluded) if isinstance(one, type))
    chosen = {
        id(part)
        for one in _listed(excluded)
        if not isinstance(one, type)
        for part in one.sublayers(include_self=True)
    }
    before = _core.set_grad_enabled(False)
    try:
        for layer in model.sublayers(include_self=True):
            if isinstance(layer, (*kept, *classes)) or id(layer) in chosen:
                continue
            for value in (*layer._parameters.values(), *layer._buffers.values()):
                if value is not None and value.dtype.name == "float32":
                    value._share(value.astype(dtype))
            layer.__dict__["_dtype"] = dtype
    finally:
        _core.set_grad_enabled(before)


def _saved_as(dtype: str) -> Any:
    """A hook that gives the floats of a state another type."""

    def cast(state: dict[str, Any]) -> dict[str, Any]:
        for name, value in state.items():
            if "float" in value.dtype.name and value.dtype.name != dtype:
                wide = value.astype(dtype)
                wide.name = value.name
                state[name] = wide
        return state

    return cast


__getattr__ = missing_names(__name__)
