"""`Layer`: what all networks are made of. It holds parameters, buffers and layers by name."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ... import _core
from ..._missing import missing_attribute
from ..parameter import make_parameter
from .state import StateMixin

_CAPITAL_WORD = re.compile("(.)([A-Z][a-z]+)")
_CAPITAL = re.compile("([a-z])([A-Z])")
_FIRST = "call `super().__init__()` first, before setting attributes of a layer"


def _snake_case(name: str) -> str:
    """`BatchNorm1D` as `batch_norm1d`: parameter names in files depend on it."""
    return _CAPITAL.sub(r"\1_\2", _CAPITAL_WORD.sub(r"\1_\2", name)).lower()


def is_parameter(value: Any) -> bool:
    """Whether a value is a parameter, eager or static."""
    return isinstance(value, _core.Parameter) or (
        isinstance(value, _core.Variable) and value.is_parameter
    )


class _Members(OrderedDict):
    """Parameters, buffers or layers by name, mirrored into the attributes of the layer.

    With the mirror `self.weight` is an ordinary attribute: no `__getattr__`, which would cost
    more than a small op.
    """

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__()
        self.attributes = attributes

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.attributes[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.attributes.pop(name, None)

    def __reduce__(self) -> Any:
        return _restored_members, (list(self.items()),)


def _restored_members(items: list[tuple[str, Any]]) -> _Members:
    # The layer's attributes do not exist yet: `Layer.__setstate__` connects them.
    members = _Members({})
    for name, value in items:
        members[name] = value
    return members


class HookRemoveHelper:
    """Returned when a hook is registered: `remove()` takes the hook away."""

    next_hook_id = 0

    def __init__(
        self, hooks: OrderedDict[int, Callable[..., Any]], hook: Callable[..., Any]
    ) -> None:
        self._hooks = hooks
        self._hook_id = HookRemoveHelper.next_hook_id
        HookRemoveHelper.next_hook_id += 1
        hooks[self._hook_id] = hook

    def remove(self) -> None:
        """Takes the hook away; nothing happens the second time."""
        self._hooks.pop(self._hook_id, None)


class Layer(StateMixin):
    """Base class of networks: subclasses make parameters and layers, and define `forward`.

    >>> class Twice(paddle.nn.Layer):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.inner = paddle.nn.Linear(2, 2)
    ...
    ...     def forward(self, x):
    ...         return self.inner(self.inner(x))
    >>> Twice()(paddle.ones([3, 2])).shape
    [3, 2]
    """

    training: bool

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        fields = self.__dict__
        fields["training"] = True
        fields["_full_name"] = _core.unique_name(name_scope or _snake_case(type(self).__name__))
        fields["_dtype"] = dtype
        fields["_parameters"] = _Members(fields)
        fields["_buffers"] = _Members(fields)
        fields["_sub_layers"] = _Members(fields)
        fields["_non_persistable_buffer_names_set"] = set()
        fields["_forward_pre_hooks"] = OrderedDict()
        fields["_forward_post_hooks"] = OrderedDict()
        fields["_state_dict_hooks"] = OrderedDict()

    # Calling.

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Runs `forward`, and the hooks around it."""
        if self._forward_pre_hooks or self._forward_post_hooks:
            return self._call_with_hooks(*inputs, **kwargs)
        return self.forward(*inputs, **kwargs)

    def _call_with_hooks(self, *inputs: Any, **kwargs: Any) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        outputs = self.forward(*inputs, **kwargs)
        for hook in list(self._forward_post_hooks.values()):
            changed = hook(self, inputs, outputs)
            if changed is not None:
                outputs = changed
        return outputs

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes: subclasses define it."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `forward()`")

    def backward(self, *inputs: Any) -> None:
        """Not for layers: gradients are made by `Tensor.backward`."""
        raise ValueError("a layer has no `backward()`: call `backward()` of the loss")

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookRemoveHelper:
        """Calls `hook(layer, inputs)` before `forward`; what it returns replaces the inputs."""
        return HookRemoveHelper(self._forward_pre_hooks, hook)

    def register_forward_post_hook(self, hook: Callable[..., Any]) -> HookRemoveHelper:
        """Calls `hook(layer, inputs, outputs)` after `forward`; its result replaces the outputs."""
        return HookRemoveHelper(self._forward_post_hooks, hook)

    # Modes.

    def train(self) -> None:
        """Puts the layer and all layers in it into training mode."""
        for layer in self.sublayers(include_self=True):
            layer.training = True

    def eval(self) -> None:
        """Puts the layer and all layers in it into evaluation mode."""
        for layer in self.sublayers(include_self=True):
            layer.training = False

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Calls `fn` with every layer in this one, and with this one last."""
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def full_name(self) -> str:
        """The unique name of this layer, the prefix of its parameters' names."""
        return self._full_name

    # Making members.

    def create_parameter(
        self,
        shape: Any,
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Any:
        """Makes a parameter named after this layer; None for `attr=False`.

        >>> paddle.nn.Layer().create_parameter([2, 3]).shape
        [2, 3]
        """
        dtype = dtype or self._dtype
        return make_parameter(self._full_name, shape, attr, dtype, is_bias, default_initializer)

    def create_tensor(
        self, name: str | None = None, persistable: bool | None = None, dtype: Any = None
    ) -> Any:
        """Makes an empty tensor named after this layer, to be filled later."""
        suffix = f"{self._full_name}.{name}" if name is not None else None
        name = suffix or _core.unique_name(f"{self._full_name}._generated_var")
        if not _core.in_dynamic_mode():
            block = _core.default_main_program().current_block()
            dtype = dtype or self._dtype
            return block.create_var(name=name, dtype=dtype, persistable=bool(persistable))
        return _core.Tensor(
            [], dtype=dtype or self._dtype, name=name, persistable=bool(persistable)
        )

    create_variable = create_tensor

    def add_parameter(self, name: str, parameter: Any) -> Any:
        """Adds a parameter under a name, and returns it."""
        self._check_name(name, "parameter", "_parameters")
        if parameter is not None and not is_parameter(parameter):
            raise TypeError(f"`{name}` must be a parameter, but is `{type(parameter).__name__}`")
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Layer | None) -> Layer | None:
        """Adds a layer under a name, and returns it."""
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise AssertionError(f"`{name}` must be a layer, but is `{type(sublayer).__name__}`")
        self._sub_layers[name] = sublayer
        return sublayer

    def register_buffer(self, name: str, tensor: Any, persistable: bool = True) -> None:
        """Adds a tensor that is no parameter; it is saved with the layer if `persistable`."""
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, (_core.Tensor, _core.Variable)):
            raise TypeError(f"buffer `{name}` must be a tensor, but is `{type(tensor).__name__}`")
        self._buffers[name] = tensor
        if persistable:
            self._non_persistable_buffer_names_set.discard(name)
        else:
            self._non_persistable_buffer_names_set.add(name)

    def _check_name(self, name: Any, kind: str, members: str) -> None:
        if members not in self.__dict__:
            raise RuntimeError(_FIRST)
        if not isinstance(name, str):
            raise TypeError(
                f"the name of a {kind} must be a string, but is `{type(name).__name__}`"
            )
        if not name or "." in name:
            raise KeyError(f"the name of a {kind} must not be empty or hold a dot, but is {name!r}")
        if hasattr(self, name) and name not in self.__dict__[members]:
            raise KeyError(f"the layer already has an attribute `{name}`")

    # Attributes.

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if is_parameter(value):
            kind = "_parameters"
        elif isinstance(value, Layer):
            kind = "_sub_layers"
        elif isinstance(value, _core.Tensor):
            kind = "_buffers"
        else:
            self._set_plain(name, value)
            return
        if kind not in fields:
            raise ValueError(_FIRST)
        for other in ("_parameters", "_sub_layers", "_buffers"):
            if other != kind and name in fields[other]:
                del fields[other][name]
        if kind == "_buffers" and name not in fields[kind]:
            fields["_non_persistable_buffer_names_set"].add(name)
        fields[kind][name] = value

    def _set_plain(self, name: str, value: Any) -> None:
        fields = self.__dict__
        for kind in ("_parameters", "_sub_layers", "_buffers"):
            if name in fields.get(kind, ()):
                if value is not None and not isinstance(value, _core.Variable):
                    raise TypeError(
                        f"`{name}` is one of the layer's {kind.strip('_')}: it can be replaced by "
                        f"one or by None, but not by `{type(value).__name__}`"
                    )
                fields[kind][name] = value
                return
        object.__setattr__(self, name, value)

    if TYPE_CHECKING:
        # Members added by name, as by `add_sublayer`, may be anything.
        def __getattr__(self, name: str) -> Any: ...
    else:
        __getattr__ = missing_attribute

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_sub_layers", "_buffers"):
            if name in self.__dict__.get(kind, ()):
                del self.__dict__[kind][name]
                self._non_persistable_buffer_names_set.discard(name)
                return
        object.__delattr__(self, name)

    def __getstate__(self) -> dict[str, Any]:
        members = {*self._parameters, *self._sub_layers, *self._buffers}
        return {name: value for name, value in self.__dict__.items() if name not in members}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for kind in ("_parameters", "_sub_layers", "_buffers"):
            self.__dict__[kind].attributes = self.__dict__
            self.__dict__.update(self.__dict__[kind])

    # Listing members.

    def children(self) -> Iterator[Layer]:
        """The layers directly in this one."""
        return (layer for _, layer in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """The layers directly in this one, with their names."""
        seen: set[Layer] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and layer not in seen:
                seen.add(layer)
                yield name, layer

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """All layers in this one, however deep."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_sublayers(
        self,
        prefix: str = "",
        include_self: bool = False,
        layers_set: set[Layer] | None = None,
    ) -> Iterator[tuple[str, Layer]]:
        """All layers in this one with their paths; `layers_set` holds those to leave out."""
        seen = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from layer.named_sublayers(path, include_self=True, layers_set=seen)

    def parameters(self, include_sublayers: bool = True) -> list[Any]:
        """The parameters of this layer and of those in it.

        >>> [p.shape for p in paddle.nn.Linear(2, 3).parameters()]
        [[2, 3], [3]]
        """
        return [p for _, p in self.named_parameters(include_sublayers=include_sublayers)]

    def named_parameters(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The parameters with their paths."""
        return self._named_members("_parameters", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Any]:
        """The buffers of this layer and of those in it."""
        return [b for _, b in self.named_buffers(include_sublayers=include_sublayers)]

    def named_buffers(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The buffers with their paths."""
        return self._named_members("_buffers", prefix, include_sublayers)

    def _named_members(self, kind: str, prefix: str, deep: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        layers = self.named_sublayers(prefix, include_self=True) if deep else [(prefix, self)]
        for path, layer in layers:
            for name, member in layer.__dict__[kind].items():
                if member is not None and id(member) not in seen:
                    seen.add(id(member))
                    yield (f"{path}.{name}" if path else name), member

    def clear_gradients(self) -> None:
        """Forgets the gradients of all parameters."""
        for parameter in self.parameters():
            if parameter.trainable:
                parameter.clear_gradient()

    # Printing.

    def extra_repr(self) -> str:
        """What `repr` shows between the brackets."""
        return ""

    def __repr__(self) -> str:
        inner = [
            f"({name}): " + repr(layer).replace("\n", "\n  ")
            for name, layer in self._sub_layers.items()
        ]
        extra = self.extra_repr()
        lines = "".join(f"\n  {line}" for line in inner) + ("\n" if inner else "")
        return f"{type(self).__name__}({extra}{lines})"
