"""Gives eager tensors and static variables their methods: the same functions for both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _core
from .._missing import missing_attribute
from . import (  # type: ignore[no-redef]  # the modules, whose names others import too
    attribute,
    copying,
    creation,
    inplace,
    linalg,
    logic,
    manipulation,
    math,
    ops,
    random,
    search,
    stat,
)
from . import scatter as scattering  # type: ignore[no-redef]
from .arguments import known_size
from .arguments import ops as core_ops
from .indexing import getitem, set_item_in_place
from .to_string import tensor_repr

#: Functions whose first argument is a tensor, by the module they are in.
_METHOD_MODULES = (math, ops, manipulation, logic, linalg, search, stat, scattering, attribute)

#: Functions of these modules that do not make sense as methods.
_NOT_METHODS = {"shape", "scatter_nd", "multi_dot", "tensor_array_to_tensor"}

_CREATION_METHODS = ("clone", "diag", "diagflat", "tril", "triu")
_RANDOM_METHODS = ("bernoulli", "multinomial")


def astype(x: Any, dtype: Any) -> Any:
    """The same values with another element type."""
    return core_ops.cast(x, in_dtype=x.dtype, out_dtype=dtype)


def dim(x: Any) -> int:
    """The number of axes."""
    return x.ndim


def element_size(x: Any) -> int:
    """The bytes of one element."""
    import numpy as np

    return np.dtype(x.dtype.name).itemsize


def cpu(x: Any) -> Any:
    """The tensor in main memory: itself if it is there, else a leaf with its values.

    >>> paddle.ones([1]).cpu().place
    Place(cpu)
    """
    return x if _is_at(x, _core.CPUPlace()) else _copied(x, _core.CPUPlace(), True)


def cuda(x: Any, device_id: int | None = None, blocking: bool = True) -> Any:
    """The tensor on a GPU, the current one if `device_id` is None: an error where there is none.

    It is the tensor itself if it is there, else a leaf with its values. Unless `blocking`, they may
    still be on their way: what is computed with them waits for them.
    """
    if device_id is None:
        current = _core.current_card()
        device_id = 0 if current is None else current
    place = _core.CUDAPlace(device_id)
    return x if _is_at(x, place) else _copied(x, place, blocking)


def pin_memory(x: Any, blocking: bool = True) -> Any:
    """The tensor in page-locked main memory, from which GPUs copy while the program goes on."""
    place = _core.CUDAPinnedPlace()
    return x if _is_at(x, place) else _copied(x, place, blocking)


def _is_at(x: Any, place: Any) -> bool:
    if isinstance(x, _core.Variable) or x.place == place:
        return True
    # Where the environment sends what asks for a GPU to the CPU, everything is there.
    return not isinstance(place, _core.CPUPlace) and _core.card_count() == 0


def _copied(x: Any, place: Any, blocking: bool) -> Any:
    return x._copy_to(place, blocking)


def to(x: Any, *args: Any, **kwargs: Any) -> Any:
    """The tensor with another element type, on another device, or as another tensor is.

    `to(dtype)`, `to(device)`, `to(device, dtype)` and `to(other)`; `blocking` as in `cuda`.

    >>> paddle.ones([1]).to("float64").dtype
    paddle.float64
    >>> paddle.ones([1]).to("cpu", "int32").place
    Place(cpu)
    """
    from ..nn.layer.state import device_place

    dtype = kwargs.pop("dtype", None)
    device = kwargs.pop("device", None)
    blocking = kwargs.pop("blocking", None)
    if kwargs:
        raise TypeError(f"`to` has no arguments {sorted(kwargs)}")
    for argument in args:
        if isinstance(argument, (_core.Tensor, _core.Variable)):
            dtype = argument.dtype
            device = (
                getattr(argument, "place", None) if isinstance(argument, _core.Tensor) else None
            )
        elif isinstance(argument, str) and argument.partition(":")[0] in _DEVICES:
            device = argument
        elif isinstance(argument, bool):
            blocking = argument
        elif argument is None:
            continue
        elif type(argument).__name__.endswith("Place"):
            device = argument
        else:
            dtype = argument
    place = device_place(device)
    if place is not None and not _is_at(x, place):
        x = _copied(x, place, True if blocking is None else blocking)
    return x if dtype is None or x.dtype == dtype else astype(x, dtype)


#: What names of devices start with.
_DEVICES = ("cpu", "gpu", "cuda", "gpu_pinned")


def iterate(x: Any) -> Iterator[Any]:
    """The slices along the first axis."""
    if x.ndim == 0:
        raise TypeError("a tensor without axes cannot be iterated over")
    for i in range(known_size(x, 0, "iterating")):
        yield getitem(x, i)


def transposed(x: Any) -> Any:
    """The axes in the opposite order."""
    return x if x.ndim <= 1 else core_ops.transpose2(x, axis=list(range(x.ndim))[::-1])


def copy_(x: Any, other: Any, blocking: bool = True) -> Any:
    """Takes over the values of another tensor; `blocking` has no meaning here."""
    x.set_value(other)
    return x


def value(x: Any) -> Any:
    """The tensor itself."""
    return x


def softmax(x: Any, axis: int = -1, dtype: Any = None, name: str | None = None) -> Any:
    """As `nn.functional.softmax`."""
    from ..nn.functional import softmax as function

    return function(x, axis, dtype, name)


class _Hook:
    """Returned when a hook is registered: `remove()` takes the hook away."""

    def __init__(self, tensor: Any, number: int) -> None:
        self.tensor = tensor
        self.number = number

    def remove(self) -> bool:
        """Takes the hook away; says whether it was still there."""
        return self.tensor._remove_hook(self.number)


def register_hook(x: Any, hook: Any) -> _Hook:
    """Calls `hook` with each gradient of this tensor; what it returns replaces the gradient.

    >>> x = paddle.to_tensor([1.0], stop_gradient=False)
    >>> handle = x.register_hook(lambda grad: grad * 2.0)
    >>> (x * 3.0).backward()
    >>> x.grad.tolist()
    [6.0]
    """
    return _Hook(x, x._register_hook(hook))


def _grad_ivar(x: Any) -> Any:
    """The gradient, or None: what `grad` gives, under the name that meta-learning scripts use."""
    return x.grad


def _set_grad_ivar(x: Any, grad: Any) -> None:
    """Sets the gradient, as `x.grad = grad` does."""
    x.grad = grad


def _unary(name: str) -> Any:
    def call(self: Any) -> Any:
        return _core.operator(name, self, None)

    return call


def _binary(name: str) -> Any:
    def call(self: Any, other: Any) -> Any:
        if isinstance(other, (np.generic, np.ndarray)):
            other = _static_number(self, other)
        # With None, `==` is False as for every object, and the rest is Python's own TypeError.
        return NotImplemented if other is None else _core.operator(name, self, other)

    return call


def _static_number(x: Any, other: Any) -> Any:
    """What a program holds of NumPy's `other`: a lone number is a constant of the type of `x`.

    As a tensor it would be kept, saved and loaded with the parameters. `numpy.float64` stays as
    it is, because it is a Python `float` too.
    """
    if isinstance(other, float) or other.ndim:
        return other
    return creation.full([], other.item(), x.dtype)


#: The operators of static variables, as the engine calls them; eager tensors have their own.
_UNARY = "invert neg abs"
_BINARY = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul and or xor eq ne lt le gt ge"
)


_OWN = (astype, dim, element_size, cpu, cuda, pin_memory, to, softmax)


def _methods() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in _METHOD_MODULES:
        for name in module.__all__:
            if name not in _NOT_METHODS:
                found[name] = getattr(module, name)
    found.update({name: getattr(creation, name) for name in _CREATION_METHODS})
    found.update({name: getattr(random, name) for name in _RANDOM_METHODS})
    found.update(inplace.METHODS)
    found.update({function.__name__: function for function in _OWN})
    found["ndimension"] = dim
    found["sigmoid"] = ops.sigmoid
    return found


def attach() -> None:
    """Sets the methods of both classes; called once, when the package is imported."""
    both = _methods()
    kinds: tuple[Any, ...] = (_core.Tensor, _core.Variable)
    for kind in kinds:
        own = vars(kind)
        for name, function in both.items():
            if name not in own:
                setattr(kind, name, function)
        kind.__getitem__ = getitem
        kind.__setitem__ = set_item_in_place
        kind.__iter__ = iterate
        kind.T = property(transposed)
        # Lets `array * tensor` be ours to compute, not numpy's.
        kind.__array_ufunc__ = None
        kind.__getattr__ = missing_attribute
    eager: Any = _core.Tensor
    eager.__repr__ = tensor_repr
    eager.__str__ = tensor_repr
    eager.__deepcopy__ = copying.deep_copy
    eager.__reduce__ = copying.reduce
    eager.__array_function__ = numpy_function
    eager.copy_ = copy_
    eager.value = value
    eager.register_hook = register_hook
    eager._grad_ivar = _grad_ivar
    eager._set_grad_ivar = _set_grad_ivar
    static: Any = _core.Variable
    static.detach = _static_detach
    static.__getattr__ = _missing_in_programs
    for name in ("__array__", "__float__", "__int__", "__index__", "__len__", "__contains__"):
        setattr(static, name, _no_value)
    for name in _UNARY.split():
        setattr(static, f"__{name}__", _unary(name))
    for name in _BINARY.split():
        setattr(static, f"__{name}__", _binary(name))


def numpy_function(
    x: Any, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Functions of numpy (`np.sum`) take tensors as arrays, and return arrays.

    Without this numpy would call our method of that name, with arguments of its own.
    """
    return function(*_as_arrays(args), **_as_arrays(kwargs))


def _as_arrays(value: Any) -> Any:
    if isinstance(value, _core.Tensor):
        return np.asarray(value)
    if isinstance(value, dict):
        return {key: _as_arrays(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        # A named tuple cannot be made of a list.
        made = [_as_arrays(one) for one in value]
        return tuple(made) if isinstance(value, tuple) else made
    return value


def _missing_in_programs(x: Any, name: str) -> Any:
    """The `__getattr__` of static variables."""
    if not name.startswith("_") and hasattr(_core.Tensor, name):
        raise AttributeError(
            f"`{name}` is there for eager tensors, but `{x.name}` is a variable of a program, which "
            "has a value while it runs: fetch it with `Executor.run(fetch_list=[...])`"
        )
    return missing_attribute(x, name)


def _no_value(x: Any, *args: Any, **kwargs: Any) -> Any:
    raise TypeError(
        f"variable `{x.name}` has no value while a program is built: "
        "fetch it with `Executor.run(fetch_list=[...])`"
    )


def _static_detach(x: Any) -> Any:
    """A copy that no gradient passes through."""
    out = core_ops.assign(x)
    out.stop_gradient = True
    return out
