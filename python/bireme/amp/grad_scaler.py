"""`GradScaler`: multiplies a loss so that small gradients of `float16` do not vanish, and divides them again."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._missing import missing_names

__all__ = ["AmpScaler", "GradScaler"]


class AmpScaler:
    """The factor of a loss, which rises while all is well and falls when gradients overflow.

    Use `GradScaler`, which does the same in steps of their own.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**15,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        self._scale: float
        self._enable = enable
        self._use_dynamic_loss_scaling = enable and use_dynamic_loss_scaling
        self.set_init_loss_scaling(init_loss_scaling if enable else 1.0)
        self.set_incr_ratio(incr_ratio)
        self.set_decr_ratio(decr_ratio)
        self.set_incr_every_n_steps(incr_every_n_steps)
        self.set_decr_every_n_nan_or_inf(decr_every_n_nan_or_inf)
        self._incr_count = 0
        self._decr_count = 0
        self._found_inf = False
        # What was done since the last update, by optimizer.
        self._done: dict[int, str] = {}

    # The loss and its gradients.

    def scale(self, var: Any) -> Any:
        """The loss times the factor.

        >>> paddle.amp.GradScaler(init_loss_scaling=4.0).scale(paddle.to_tensor([0.5])).tolist()
        [2.0]
        """
        if not isinstance(var, _core.Tensor):
            raise TypeError(f"`scale` is for eager tensors, not `{type(var).__name__}`")
        return var * self._scale if self._enable else var

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Divides the gradients, makes the step unless one is NaN or infinite, and changes the factor."""
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        if self._done.get(id(optimizer)) is None:
            self._unscale(optimizer)
        made: Any = (None, None)
        if not self._found_inf:
            made = optimizer.minimize(*args, **kwargs)
        self._update()
        self._done.clear()
        return made

    def _unscale(self, optimizer: Any) -> None:
        if not self._enable:
            return
        done = self._done.get(id(optimizer))
        if done == "unscaled":
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()"
            )
        if done == "stepped":
            raise RuntimeError("unscale_() is being called after step()")
        parameters = [p for group in _groups(optimizer) for p in group]
        trained = [p for p in parameters if p.grad is not None and not p.stop_gradient]
        if trained:
            scale = _core.to_tensor(np.array([self._scale], "float32"))
            grads = [p.grad for p in trained]
            unscale = _core.ops.check_finite_and_unscale
            outs, found = unscale(grads, scale, _count=len(grads))
            for parameter, grad in zip(trained, outs, strict=True):
                parameter.grad = grad
            self._found_inf = self._found_inf or bool(found)
        self._done[id(optimizer)] = "unscaled"

    def _update(self) -> None:
        """Changes the factor by what was found since the last time."""
        found, self._found_inf = self._found_inf, False
        if not self._use_dynamic_loss_scaling:
            return
        if found:
            self._incr_count = 0
            self._decr_count += 1
            if self._decr_count == self._decr_every_n_nan_or_inf:
                self._scale = max(self._scale * self._decr_ratio, 1.0)
                self._decr_count = 0
        else:
            self._decr_count = 0
            self._incr_count += 1
            if self._incr_count == self._incr_every_n_steps:
                raised = float(np.float32(self._scale * self._incr_ratio))
                self._scale = raised if np.isfinite(raised) else self._scale
                self._incr_count = 0

    # Settings.

    def is_enable(self) -> bool:
        """Whether losses are scaled at all."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Whether the factor changes."""
        return self._use_dynamic_loss_scaling

    def get_init_loss_scaling(self) -> float:
        """The first factor."""
        return self._init_loss_scaling

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Sets the factor, and what it starts from."""
        if not new_init_loss_scaling > 0:
            raise ValueError(f"the factor of a loss must be above 0, not {new_init_loss_scaling}")
        self._init_loss_scaling = float(new_init_loss_scaling)
        self._scale = self._init_loss_scaling

    def get_incr_ratio(self) -> float:
        """What the factor is multiplied by when it rises."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """Sets what the factor is multiplied by when it rises; above 1."""
        if not new_incr_ratio > 1.0:
            raise AssertionError("The new_incr_ratio must be > 1.0.")
        self._incr_ratio = float(new_incr_ratio)

    def get_decr_ratio(self) -> float:
        """What the factor is multiplied by when it falls."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """Sets what the factor is multiplied by when it falls; below 1."""
        if not 0.0 < new_decr_ratio < 1.0:
            raise AssertionError("The new_decr_ratio must be < 1.0.")
        self._decr_ratio = float(new_decr_ratio)

    def get_incr_every_n_steps(self) -> int:
        """Good steps in a row after which the factor rises."""
        return self._incr_every_n_steps

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """Sets the good steps in a row after which the factor rises."""
        self._incr_every_n_steps = _count("incr_every_n_steps", new_incr_every_n_steps)

    def get_decr_every_n_nan_or_inf(self) -> int:
        """Bad steps after which the factor falls."""
        return self._decr_every_n_nan_or_inf

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """Sets the bad steps after which the factor falls."""
        self._decr_every_n_nan_or_inf = _count(
            "decr_every_n_nan_or_inf", new_decr_every_n_nan_or_inf
        )

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Factor, counts and settings, for `paddle.save`; nothing when losses are not scaled."""
        if not self._enable:
            return {}
        return {
            "scale": np.array([self._scale], "float32"),
            "incr_ratio": self._incr_ratio,
            "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every_n_steps,
            "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf,
            "incr_count": self._incr_count,
            "decr_count": self._decr_count,
            "use_dynamic_loss_scaling": self._use_dynamic_loss_scaling,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a `state_dict`."""
        if not self._enable:
            return
        if not state_dict:
            raise RuntimeError(
                "The input state dict is empty, possibly because it was saved from a disabled"
                " instance of GradScaler."
            )
        self.set_init_loss_scaling(float(np.asarray(state_dict["scale"]).reshape(-1)[0]))
        self.set_incr_ratio(state_dict["incr_ratio"])
        self.set_decr_ratio(state_dict["decr_ratio"])
        self.set_incr_every_n_steps(state_dict["incr_every_n_steps"])
        self.set_decr_every_n_nan_or_inf(state_dict["decr_every_n_nan_or_inf"])
        self._incr_count = int(state_dict["incr_count"])
        self._decr_count = int(state_dict["decr_count"])
        self._use_dynamic_loss_scaling = bool(state_dict["use_dynamic_loss_scaling"])


class GradScaler(AmpScaler):
    """Scales losses, and divides their gradients again before a step.

    A step whose gradients hold NaN or infinity is left out, and lowers the factor.

    >>> layer = paddle.nn.Linear(2, 1)
    >>> sgd = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    >>> scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0)
    >>> with paddle.amp.auto_cast():
    ...     loss = layer(paddle.ones([4, 2])).mean()
    >>> scaler.scale(loss).backward()
    >>> scaler.step(sgd)
    >>> scaler.update()
    >>> sgd.clear_grad()
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**16,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        super().__init__(
            enable,
            init_loss_scaling,
            incr_ratio,
            decr_ratio,
            incr_every_n_steps,
            decr_every_n_nan_or_inf,
            use_dynamic_loss_scaling,
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters, for who wants to look at them or to clip them."""
        self._unscale(optimizer)

    def step(self, optimizer: Any) -> None:
        """Divides the gradients, and makes the step unless one is NaN or infinite."""
        if not self._enable:
            optimizer.step()
            return
        if self._done.get(id(optimizer)) == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if self._done.get(id(optimizer)) is None:
            self._unscale(optimizer)
        if not self._found_inf:
            optimizer.step()
        self._done[id(optimizer)] = "stepped"

    def update(self) -> None:
        """Changes the factor by what was found since the last time."""
        if self._enable:
            self._update()
            self._done.clear()


def _groups(optimizer: Any) -> list[list[Any]]:
    inner = getattr(optimizer, "inner_opt", optimizer)
    return [group.parameters for group in inner._groups]


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a whole number of at least 1, not {value!r}")
    return value


__getattr__ = missing_names(__name__)
