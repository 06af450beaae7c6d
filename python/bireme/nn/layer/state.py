"""Saving, loading and converting the values of a layer."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _core


class StateMixin:
    """The methods of `Layer` that deal with its parameters and buffers as a whole."""

    # What `Layer` has.
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _sub_layers: dict[str, Any]
    _non_persistable_buffer_names_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    sublayers: Callable[..., list[Any]]

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Any]:
        """All parameters and persistable buffers by path, for `paddle.save`.

        >>> list(paddle.nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        return self._state(destination, include_sublayers, structured_name_prefix, False, use_hook)

    def to_static_state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Any]:
        """As `state_dict`, with the buffers that are not persistable."""
        return self._state(destination, include_sublayers, structured_name_prefix, True, use_hook)

    def _state(
        self,
        destination: dict[str, Any] | None,
        deep: bool,
        prefix: str,
        all_buffers: bool,
        use_hook: bool,
    ) -> dict[str, Any]:
        state = OrderedDict() if destination is None else destination
        hidden = () if all_buffers else self._non_persistable_buffer_names_set
        for members in (self._parameters, self._buffers):
            for name, value in members.items():
                if value is not None and (members is self._parameters or name not in hidden):
                    state[prefix + name] = value
        if deep:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    state = layer._state(state, True, f"{prefix}{name}.", all_buffers, use_hook)
        if use_hook:
            for hook in self._state_dict_hooks.values():
                changed = hook(state)
                state = state if changed is None else changed
        return state

    def register_state_dict_hook(self, hook: Callable[[dict[str, Any]], Any]) -> Any:
        """Calls `hook(state)` for each state dictionary; what it returns replaces it."""
        from .layers import HookRemoveHelper

        return HookRemoveHelper(self._state_dict_hooks, hook)

    def set_state_dict(
        self, state_dict: dict[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Takes over values by path (or by parameter name), and returns what did not fit.

        Returns the keys that the layer has and `state_dict` has not (or in another shape: each
        is warned of), and those that only `state_dict` has.

        >>> a, b = paddle.nn.Linear(2, 3), paddle.nn.Linear(2, 3)
        >>> a.set_state_dict(b.state_dict())
        ([], [])
        """
        missing: list[str] = []
        matched: dict[str, Any] = {}
        for path, value in self._state(None, True, "", False, use_hook=False).items():
            key = path if use_structured_name else value.name
            problem = _mismatch(key, value, state_dict.get(key))
            if problem:
                missing.append(key)
                warnings.warn(f"Skip loading for {path}. {problem}", stacklevel=2)
            else:
                matched[key] = value
        for key, value in matched.items():
            _assign(value, state_dict[key])
        return missing, [key for key in state_dict if key not in matched]

    set_dict = set_state_dict
    load_dict = set_state_dict

    def to(self, device: Any = None, dtype: Any = None, blocking: bool | None = None) -> Any:
        """Puts all parameters and buffers, and gradients, on `device`, and converts them to `dtype`.

        They stay the tensors that they are, so that an optimizer has them still. With `blocking`
        False the copies may be on their way: what is computed with them waits for them.

        >>> paddle.nn.Linear(1, 1).to(dtype="float64").weight.dtype
        paddle.float64
        """
        place = device_place(device)
        if place is not None:
            self._move(place)
        if dtype is not None:
            self._convert(dtype, (), floats_only=False)
        return self

    def astype(self, dtype: Any = None) -> Any:
        """As `to(dtype=dtype)`."""
        if dtype is None:
            raise ValueError("`astype` needs an element type, such as 'float32'")
        return self.to(dtype=dtype)

    def float(self, excluded_layers: Any = None) -> Any:
        """Converts floating point parameters and buffers to float32."""
        excluded = (excluded_layers,) if isinstance(excluded_layers, type) else excluded_layers
        self._convert("float32", tuple(excluded or ()), floats_only=True)
        return self

    def _move(self, place: Any) -> None:
        for layer in self.sublayers(include_self=True):
            for value in (*layer._parameters.values(), *layer._buffers.values()):
                if isinstance(value, _core.Tensor):
                    value._move_to(place)

    def _convert(self, dtype: Any, excluded: tuple[type, ...], floats_only: bool) -> None:
        old = _core.set_grad_enabled(False)
        try:
            for layer in self.sublayers(include_self=True):
                if type(layer) in excluded:
                    continue
                for value in (*layer._parameters.values(), *layer._buffers.values()):
                    if value is not None and not (floats_only and "float" not in value.dtype.name):
                        value._share(value.astype(dtype))
                layer.__dict__["_dtype"] = _core.dtype(dtype).name
        finally:
            _core.set_grad_enabled(old)


def _mismatch(key: str, value: Any, given: Any) -> str:
    """Why a given value cannot be taken, or an empty string."""
    if given is None:
        return f"{key} is not found in the provided dict."
    shape = given.shape() if callable(getattr(given, "shape", None)) else np.shape(given)
    if list(shape) != list(value.shape):
        return (
            f"{key} receives a shape {list(shape)}, but the expected shape is {list(value.shape)}."
        )
    return ""


def _assign(value: Any, given: Any) -> None:
    if isinstance(value, _core.Tensor):
        value.set_value(given)
    else:
        array = given.numpy() if isinstance(given, _core.Tensor) else np.asarray(given)
        _core.global_scope().var(value.name).get_tensor().set(array)


def device_place(device: Any) -> Any:
    """The place that a device is: of a place itself, or of its name; None for None.

    >>> device_place("cpu")
    Place(cpu)
    """
    if device is None or isinstance(
        device, (_core.CPUPlace, _core.CUDAPlace, _core.CUDAPinnedPlace)
    ):
        return device
    if not isinstance(device, str):
        raise TypeError(f"a device is a place or its name, not `{type(device).__name__}`")
    kind, _, index = device.lower().partition(":")
    if kind == "cpu" and not index:
        return _core.CPUPlace()
    if kind == "gpu_pinned" and not index:
        return _core.CUDAPinnedPlace()
    if kind in ("gpu", "cuda") and (not index or index.isdigit()):
        current = _core.current_card()
        # Raises, or stands for the CPU, as the user chose: the same as everywhere else.
        return _core.CUDAPlace(int(index) if index else (current or 0))
    raise ValueError(f"there is no device {device!r}: use 'cpu', 'gpu' or 'gpu:0'")
