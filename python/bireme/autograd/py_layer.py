"""`PyLayer`: a function whose gradient is written in Python, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = ["PyLayer", "PyLayerContext"]


class PyLayerContext:
    """What `forward` of a `PyLayer` leaves for its `backward`; attributes of any name may be set.

    >>> context = paddle.autograd.PyLayerContext()
    >>> context.save_for_backward(paddle.ones([1]))
    >>> [tensor.tolist() for tensor in context.saved_tensor()]
    [[1.0]]
    """

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._without_gradient: list[Any] = []
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors; once in a `forward`."""
        self._saved = tensors

    def saved_tensor(self) -> tuple[Any, ...]:
        """The tensors that `save_for_backward` kept."""
        return self._saved

    def mark_not_inplace(self, *args: Any) -> None:
        """Says that an input which is an output, too, is another tensor there: so it is anyway."""
        for tensor in args:
            if not isinstance(tensor, _core.Tensor):
                raise TypeError(f"`mark_not_inplace` takes tensors, not `{type(tensor).__name__}`")

    def mark_non_differentiable(self, *args: Any) -> None:
        """Stops gradients at these outputs: `backward` is given zeros for them."""
        self._without_gradient = list(args)

    def set_materialize_grads(self, value: bool) -> None:
        """Says what `backward` is given for outputs that nothing depends on: zeros, or with False None."""
        self._materialize = bool(value)


class PyLayer:
    """A function with a gradient of its own: derive from it, and call `apply` of the class.

    `forward` takes a context and the arguments of `apply`, and returns a tensor or several.
    `backward` takes the context and the gradient of each output, and returns the gradient of each
    tensor among the arguments, in their order, or None for one that has none. What `forward`
    computes is not followed for gradients; what `backward` computes is, under
    `paddle.grad(create_graph=True)`.

    >>> class Cubed(paddle.autograd.PyLayer):
    ...     @staticmethod
    ...     def forward(ctx, x, factor=1.0):
    ...         ctx.save_for_backward(x)
    ...         ctx.factor = factor
    ...         return factor * x**3
    ...     @staticmethod
    ...     def backward(ctx, dy):
    ...         (x,) = ctx.saved_tensor()
    ...         return dy * ctx.factor * 3.0 * x**2
    >>> x = paddle.to_tensor([2.0], stop_gradient=False)
    >>> Cubed.apply(x, factor=0.5).backward()
    >>> x.grad.tolist()
    [6.0]
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """To be written: computes the outputs."""
        raise NotImplementedError("You must implement the forward function for PyLayer.")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """To be written: computes the gradients of the inputs."""
        raise NotImplementedError("You must implement the backward function for PyLayer.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`, and lets gradients go through `backward`."""
        from ..framework import no_grad

        given = [*args, *kwargs.values()]
        inputs = [tensor for argument in given for tensor in _tensors(argument)]
        if any(isinstance(argument, _core.Variable) for argument in given):
            raise NotImplementedError(
                "a `PyLayer` is for eager mode: a program cannot call back into Python"
            )
        context = PyLayerContext()
        with no_grad():
            made = cls.forward(context, *args, **kwargs)
        outputs = list(made) if isinstance(made, (list, tuple)) else [made]
        places = [at for at, output in enumerate(outputs) if isinstance(output, _core.Tensor)]
        if not places:
            raise TypeError(f"`forward` of `{cls.__name__}` returned no tensor")
        tensors = [outputs[at] for at in places]
        gradient = _Gradient(cls, context, given, tensors)
        for at, tensor in zip(places, _core.record_custom(inputs, tensors, gradient), strict=True):
            if not any(outputs[at] is other for other in context._without_gradient):
                outputs[at] = tensor
        return type(made)(outputs) if isinstance(made, (list, tuple)) else outputs[0]


class _Gradient:
    """What the engine calls with the gradients of the outputs."""

    def __init__(
        self, layer: type[PyLayer], context: PyLayerContext, given: list[Any], outputs: list[Any]
    ) -> None:
        self.layer = layer
        self.context = context
        # How many tensors each argument is: lists have their gradients in a list.
        self.groups = [
            len(_tensors(one)) if isinstance(one, (list, tuple)) else None
            for one in given
            if _tensors(one)
        ]
        self.shapes = [(output.shape, output.dtype) for output in outputs]

    def __call__(self, grads: list[Any]) -> list[Any]:
        if self.context._materialize:
            grads = [self._or_zeros(grad, at) for at, grad in enumerate(grads)]
        backward: Callable[..., Any] = self.layer.backward
        found = backward(self.context, *grads)
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(self.groups) == 1 and self.groups[0] is not None and len(found) == self.groups[0]:
            # The only argument is a list, and so is what came back.
            found = [found]
        if len(found) != len(self.groups):
            raise ValueError(
                f"The number of outputs of `PyLayer.backward` should be {len(self.groups)}, but "
                f"received {len(found)}: one for each tensor that `{self.layer.__name__}.forward` "
                "was given, or None"
            )
        return [
            grad
            for count, one in zip(self.groups, found, strict=True)
            for grad in _flat(count, one)
        ]

    def _or_zeros(self, grad: Any, at: int) -> Any:
        from ..tensor import zeros

        shape, dtype = self.shapes[at]
        return zeros(shape, dtype) if grad is None else grad


def _tensors(argument: Any) -> list[Any]:
    """The tensors of an argument: itself, or those of a list."""
    if isinstance(argument, (list, tuple)):
        return [one for one in argument if isinstance(one, _core.Tensor)]
    return [argument] if isinstance(argument, _core.Tensor) else []


def _flat(count: int | None, found: Any) -> list[Any]:
    if count is None:
        return [_checked(found)]
    listed = list(found) if isinstance(found, (list, tuple)) else [None] * count
    if len(listed) != count:
        raise ValueError(
            f"`backward` returned {len(listed)} gradients for a list of {count} tensors"
        )
    return [_checked(one) for one in listed]


def _checked(grad: Any) -> Any:
    if grad is not None and not isinstance(grad, _core.Tensor):
        raise TypeError(f"`backward` must return tensors or None, not `{type(grad).__name__}`")
    return grad


__getattr__ = missing_names(__name__)
