"""The optimizers of `paddle.optimizer`: signatures and defaults; the engine does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._names import set_public_names
from .lr_base import LRScheduler
from .optimizer import Optimizer, names_without_decay


class SGD(Optimizer):
    """`parameter -= learning_rate * gradient`.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.SGD(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "sgd"

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            parameters,
            weight_decay,
            grad_clip,
            name,
            multi_precision=bool(multi_precision),
        )


class Momentum(Optimizer):
    """Gradient descent with a velocity, which keeps `momentum` of itself each step.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.Momentum(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "momentum"

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        momentum: float = 0.9,
        parameters: Iterable[Any] | None = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        # `use_multi_tensor` is how updates always run here.
        super().__init__(
            learning_rate,
            parameters,
            weight_decay,
            grad_clip,
            name,
            momentum=float(momentum),
            use_nesterov=bool(use_nesterov),
            rescale_grad=float(rescale_grad),
            multi_precision=bool(multi_precision),
        )


class Adam(Optimizer):
    """Gradient descent scaled by running means of gradient and squared gradient.

    `lazy_mode` lets a sparse gradient touch only the rows that it names.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.Adam(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "adam"

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        # `use_multi_tensor` is how updates always run here.
        super().__init__(
            learning_rate,
            parameters,
            weight_decay,
            grad_clip,
            name,
            **_betas(beta1, beta2, epsilon),
            lazy_mode=bool(lazy_mode),
            multi_precision=bool(multi_precision),
        )


class AdamW(Optimizer):
    """Adam with weight decay that does not pass through the moments.

    `apply_decay_param_fun(name)` says which parameters decay: all without it.

    >>> w = paddle.create_parameter([1], "float32")
    >>> w.set_value([1.0])
    >>> adam = paddle.optimizer.AdamW(0.1, parameters=[w], weight_decay=0.5)
    >>> (w * 3.0).backward()
    >>> adam.step()
    >>> round(w.item(), 4)
    0.85
    """

    _kind = "adamw"

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Iterable[Any] | None = None,
        weight_decay: float = 0.01,
        lr_ratio: Callable[[Any], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(weight_decay, (int, float)):
            raise TypeError(
                f"`weight_decay` must be a number, but is `{type(weight_decay).__name__}`"
            )
        if lr_ratio is not None:
            raise NotImplementedError("`lr_ratio` works on no CPU: use parameter groups")
        self._apply_decay_param_fun = apply_decay_param_fun
        super().__init__(
            learning_rate,
            parameters,
            weight_decay,
            grad_clip,
            name,
            **_betas(beta1, beta2, epsilon),
            lazy_mode=bool(lazy_mode),
            multi_precision=bool(multi_precision),
        )

    def _finish_config(self, config: dict[str, Any], parameters: Sequence[Any], decay: Any) -> None:
        config["weight_decay"] = float(decay)
        decays = self._apply_decay_param_fun
        excluded = None if decays is None else (lambda p: not decays(p.name))
        config["without_decay"] = names_without_decay(parameters, excluded)


class Adamax(Optimizer):
    """Adam with the greatest gradient in place of the mean squared one.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.Adamax(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "adamax"

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        numbers = _betas(beta1, beta2, epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **numbers)


class Adagrad(Optimizer):
    """Gradient descent scaled by the sum of squared gradients so far.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.Adagrad(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "adagrad"

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float = 1e-06,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        super().__init__(
            learning_rate,
            parameters,
            weight_decay,
            grad_clip,
            name,
            epsilon=float(epsilon),
            initial_accumulator_value=float(initial_accumulator_value),
        )


class Adadelta(Optimizer):
    """Steps as long as past steps were, relative to past gradients.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.Adadelta(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "adadelta"

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        numbers = {"epsilon": float(epsilon), "rho": float(rho)}
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, **numbers)


class RMSProp(Optimizer):
    """Gradient descent scaled by a running mean of squared gradients.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.RMSProp(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "rmsprop"

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            parameters,
            weight_decay,
            grad_clip,
            name,
            rho=float(rho),
            epsilon=float(epsilon),
            momentum=float(momentum),
            centered=bool(centered),
        )


class Lamb(Optimizer):
    """Adam with steps scaled by the length of each parameter, for large batches.

    `exclude_from_weight_decay_fn(parameter)` says which parameters do not decay.

    >>> layer = paddle.nn.Linear(1, 1)
    >>> paddle.optimizer.Lamb(0.1, parameters=layer.parameters()).get_lr()
    0.1
    """

    _kind = "lamb"

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: Iterable[Any] | None = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn
        super().__init__(
            learning_rate,
            parameters,
            None,
            grad_clip,
            name,
            **_betas(beta1, beta2, epsilon),
            lamb_weight_decay=float(lamb_weight_decay),
            always_adapt=bool(always_adapt),
            multi_precision=bool(multi_precision),
        )

    def _finish_config(self, config: dict[str, Any], parameters: Sequence[Any], decay: Any) -> None:
        excluded = self._exclude_from_weight_decay_fn
        config["without_decay"] = names_without_decay(parameters, excluded)


def _betas(beta1: float, beta2: float, epsilon: float) -> dict[str, float]:
    for name, value in (("beta1", beta1), ("beta2", beta2)):
        if not 0 <= value < 1:
            raise ValueError(f"`{name}` must be in [0, 1), but is {value}")
    if epsilon < 0:
        raise ValueError(f"`epsilon` must not be negative, but is {epsilon}")
    return {"beta1": float(beta1), "beta2": float(beta2), "epsilon": float(epsilon)}


set_public_names(__name__)
