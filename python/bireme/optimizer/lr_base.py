"""The base class of learning rate schedules, and the checks that they share."""

from __future__ import annotations

import warnings
from typing import Any

from .._names import set_public_names


class LRScheduler:
    """Base class of schedules: subclasses define `get_lr()` from `base_lr` and `last_epoch`.

    >>> class Halved(paddle.optimizer.lr.LRScheduler):
    ...     def get_lr(self):
    ...         return self.base_lr * 0.5**self.last_epoch
    >>> schedule = Halved(0.8)
    >>> schedule.step()
    >>> schedule()
    0.4
    """

    def __init__(
        self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(
                f"the learning rate must be a number, but is `{type(learning_rate).__name__}`"
            )
        if learning_rate < 0:
            raise ValueError(f"the learning rate must not be negative, but is {learning_rate}")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self._var_name: str | None = None
        self.step()

    def __call__(self) -> float:
        """The learning rate that holds now."""
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next step, or to step `epoch`."""
        if epoch is None:
            self.last_epoch += 1
            self.last_lr = self.get_lr()
        else:
            self.last_epoch = epoch
            self.last_lr = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._report()

    def _report(self) -> None:
        if self.verbose:
            name = type(self).__name__
            print(f"Epoch {self.last_epoch}: {name} set learning rate to {self.last_lr}.")

    def state_keys(self) -> None:
        """Sets `self.keys`, the names of the attributes that `state_dict` holds."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on from here."""
        self.state_keys()
        return {key: _plain(self.__dict__[key]) for key in self.keys if key in self.__dict__}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a `state_dict` of a schedule of the same class."""
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise RuntimeError(
                    f"the state of `{type(self).__name__}` has no `{key}`: "
                    "was it saved by another kind of schedule?"
                )
            self.__dict__[key] = state_dict[key]
        if len(state_dict) > len(self.keys):
            warnings.warn(
                f"the state for `{type(self).__name__}` holds unused values: "
                "it may be from another kind of schedule",
                stacklevel=2,
            )

    set_dict = set_state_dict

    def get_lr(self) -> float:
        """The learning rate of step `last_epoch`."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `get_lr()`")


def _plain(value: Any) -> Any:
    """Tensors of one element become numbers, so that a state can be pickled anywhere."""
    return float(value) if hasattr(value, "stop_gradient") else value


def check_gamma(gamma: float) -> None:
    """Refuses a factor that would let the learning rate grow."""
    if gamma >= 1.0:
        raise ValueError(f"`gamma` must be under 1, but is {gamma}")


def check_callable(function: Any) -> None:
    """Refuses what cannot be called."""
    if not callable(function):
        raise TypeError(f"`lr_lambda` must be a function, but is `{type(function).__name__}`")


def check_positive_integer(name: str, value: Any) -> None:
    """Refuses what is not an integer over 0."""
    if not isinstance(value, int) or value <= 0:
        raise AssertionError(f"`{name}` must be a positive integer, but is {value!r}")


set_public_names(__name__, but="check_callable check_gamma check_positive_integer")
