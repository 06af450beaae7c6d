"""Optimizers under their 1.x names and signatures; the work is that of `paddle.optimizer`.

The learning rate may be a schedule of `fluid.layers`, whose ops become part of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import optimizer as _optimizer
from .._missing import missing_names
from .clip import default_clip
from .framework import static_by_default
from .layers.learning_rate_scheduler import Schedule


class _Signature1x(_optimizer.Optimizer):
    """What all optimizers of 1.x share: the names of arguments, and schedules in the program."""

    def __init__(
        self, learning_rate: Any, parameter_list: Any, regularization: Any, *args: Any, **kw: Any
    ) -> None:
        if parameter_list is None:
            static_by_default()
        self._schedule = learning_rate if isinstance(learning_rate, Schedule) else None
        named = {**kw, "parameters": parameter_list, "weight_decay": regularization}
        # The schedule takes its place in the settings below.
        super().__init__(0.0 if self._schedule else learning_rate, *args, **named)

    def _finish_config(self, config: dict[str, Any], parameters: Any, decay: Any) -> None:
        super()._finish_config(config, parameters, decay)
        if self._schedule:
            config["learning_rate"] = self._schedule

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Adds gradients and updates to the program of `loss`; returns update ops and pairs."""
        if self._grad_clip is None and default_clip() is not None:
            self._grad_clip = default_clip()
            self._groups = self._make_groups()
        return super().minimize(loss, startup_program, parameter_list, no_grad_set)

    def current_step_lr(self) -> float:
        """The learning rate of the next step."""
        if self._schedule:
            raise RuntimeError("the learning rate is computed in the program: fetch its variable")
        return self.get_lr()


class SGDOptimizer(_Signature1x, _optimizer.SGD):
    """`parameter -= learning_rate * gradient`.

    >>> x = paddle.fluid.layers.data("x", [2])
    >>> loss = paddle.fluid.layers.mean(paddle.fluid.layers.fc(x, 1))
    >>> ops, pairs = paddle.fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    >>> len(pairs)
    2
    """

    def __init__(
        self,
        learning_rate: float | Schedule,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip=grad_clip)


class MomentumOptimizer(_Signature1x, _optimizer.Momentum):
    """Gradient descent with a velocity, which keeps `momentum` of itself each step.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> momentum = paddle.fluid.optimizer.Momentum(0.1, 0.9, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> momentum.step()
    >>> round(w.item(), 4)
    0.7
    """

    def __init__(
        self,
        learning_rate: float | Schedule,
        momentum: float,
        parameter_list: Sequence[Any] | None = None,
        use_nesterov: bool = False,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            parameter_list,
            regularization,
            momentum,
            use_nesterov=use_nesterov,
            grad_clip=grad_clip,
        )


class AdagradOptimizer(_Signature1x, _optimizer.Adagrad):
    """Gradient descent scaled by the sum of squared gradients so far.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> adagrad = paddle.fluid.optimizer.Adagrad(0.1, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> adagrad.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(
        self,
        learning_rate: float | Schedule,
        epsilon: float = 1.0e-6,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        super().__init__(
            learning_rate,
            parameter_list,
            regularization,
            epsilon,
            grad_clip=grad_clip,
            initial_accumulator_value=initial_accumulator_value,
        )


class AdamOptimizer(_Signature1x, _optimizer.Adam):
    """Gradient descent scaled by running means of gradient and squared gradient.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> adam = paddle.fluid.optimizer.Adam(0.1, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> adam.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            parameter_list,
            regularization,
            beta1,
            beta2,
            epsilon,
            grad_clip=grad_clip,
            lazy_mode=lazy_mode,
        )


class AdamaxOptimizer(_Signature1x, _optimizer.Adamax):
    """Adam with the greatest gradient in place of the mean squared one.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> adamax = paddle.fluid.optimizer.Adamax(0.1, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> adamax.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        numbers = (beta1, beta2, epsilon)
        super().__init__(
            learning_rate, parameter_list, regularization, *numbers, grad_clip=grad_clip
        )


class AdadeltaOptimizer(_Signature1x, _optimizer.Adadelta):
    """Steps as long as past steps were, relative to past gradients.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> adadelta = paddle.fluid.optimizer.Adadelta(0.1, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> adadelta.step()
    >>> round(w.item(), 4)
    0.9996
    """

    def __init__(
        self,
        learning_rate: float | Schedule,
        epsilon: float = 1.0e-6,
        rho: float = 0.95,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate, parameter_list, regularization, epsilon, rho, grad_clip=grad_clip
        )


class RMSPropOptimizer(_Signature1x, _optimizer.RMSProp):
    """Gradient descent scaled by a running mean of squared gradients.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> rmsprop = paddle.fluid.optimizer.RMSProp(0.1, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> rmsprop.step()
    >>> round(w.item(), 4)
    0.5528
    """

    def __init__(
        self,
        learning_rate: float | Schedule,
        rho: float = 0.95,
        epsilon: float = 1.0e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        numbers = (rho, epsilon, momentum, centered)
        super().__init__(
            learning_rate, parameter_list, regularization, *numbers, grad_clip=grad_clip
        )


class _OnlyIn1x(_Signature1x, _optimizer.Optimizer):
    """An optimizer of the engine that 2.x no longer has."""


class DecayedAdagradOptimizer(_OnlyIn1x):
    """Adagrad whose sum of squared gradients forgets.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> adagrad = paddle.fluid.optimizer.DecayedAdagrad(0.1, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> adagrad.step()
    >>> round(w.item(), 4)
    0.5528
    """

    _kind = "decayed_adagrad"

    def __init__(
        self,
        learning_rate: float | Schedule,
        decay: float = 0.95,
        epsilon: float = 1.0e-6,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            parameter_list,
            regularization,
            grad_clip=grad_clip,
            decay=float(decay),
            epsilon=float(epsilon),
        )


class FtrlOptimizer(_OnlyIn1x):
    """Follow the regularised leader: sparse weights for click models.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> ftrl = paddle.fluid.optimizer.Ftrl(0.1, l1=0.01, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> ftrl.step()
    >>> round(w.item(), 4)
    0.8997
    """

    _kind = "ftrl"

    def __init__(
        self,
        learning_rate: float | Schedule,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            parameter_list,
            regularization,
            grad_clip=grad_clip,
            l1=float(l1),
            l2=float(l2),
            lr_power=float(lr_power),
        )


class LambOptimizer(_Signature1x, _optimizer.Lamb):
    """Adam with steps scaled by the length of each parameter, for large batches.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> lamb = paddle.fluid.optimizer.Lamb(0.1, parameter_list=[w])
    >>> (w * 3.0).backward()
    >>> lamb.step()
    >>> round(w.item(), 4)
    0.9
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameter_list: Sequence[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        name: str | None = None,
    ) -> None:
        if regularization is not None:
            raise ValueError("`Lamb` decays weights by `lamb_weight_decay`, not `regularization`")
        if parameter_list is None:
            static_by_default()
        self._schedule = learning_rate if isinstance(learning_rate, Schedule) else None
        _optimizer.Lamb.__init__(
            self,
            0.0 if isinstance(learning_rate, Schedule) else learning_rate,
            lamb_weight_decay,
            beta1,
            beta2,
            epsilon,
            parameters=parameter_list,
            grad_clip=grad_clip,
            exclude_from_weight_decay_fn=exclude_from_weight_decay_fn,
        )


SGD = SGDOptimizer
Momentum = MomentumOptimizer
Adagrad = AdagradOptimizer
Adam = AdamOptimizer
Adamax = AdamaxOptimizer
Adadelta = AdadeltaOptimizer
RMSProp = RMSPropOptimizer
DecayedAdagrad = DecayedAdagradOptimizer
Ftrl = FtrlOptimizer
Lamb = LambOptimizer

__getattr__ = missing_names(__name__)
