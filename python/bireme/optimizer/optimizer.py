"""The base class of optimizers: settings in, updates done by the engine.

An optimizer holds one engine optimizer for each parameter group. The engine clips, regularises,
keeps the accumulators and updates, in both modes; here is only what users may ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._missing import missing_attribute
from ..nn.clip import ClipGradBase
from ..nn.parameter import regularizer_spec
from .lr_base import LRScheduler

# What names of master copies have between the parameter and a number.
_MASTER = "_fp32_master_"

_GROUP_ONLY = {"params", "learning_rate", "weight_decay", "grad_clip"}


class _Group:
    """Parameters that are updated with the same settings."""

    def __init__(self, parameters: list[Any], engine: Any, scale: float) -> None:
        self.parameters = parameters
        self.engine = engine
        self.scale = scale


class Optimizer:
    """Base class of optimizers; use a subclass such as `Adam`.

    `parameters` are tensors, or dictionaries with `params` and settings of their own, where
    `learning_rate` is a factor. `weight_decay` is a number (L2) or a regulariser. `multi_precision`
    of subclasses keeps master copies of 32 bits of parameters that have 16; it changes nothing for
    others.
    """

    _kind = ""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        **numbers: Any,
    ) -> None:
        if not self._kind:
            raise NotImplementedError("`Optimizer` is a base class: use a subclass such as `Adam`")
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(
                "the learning rate must be a number or a schedule of `optimizer.lr`, "
                f"but is `{type(learning_rate).__name__}`"
            )
        _check_clip(grad_clip)
        self._learning_rate = learning_rate
        self._name = name
        self._grad_clip = grad_clip
        self.regularization = weight_decay
        self._numbers = numbers
        # Mixed precision of static programs, as `static.amp.decorate` sets it.
        self._amp: dict[str, Any] | None = None
        self._parameter_list = _parameter_list(parameters)
        self._groups = self._make_groups()

    if not TYPE_CHECKING:
        # Names of other libraries are answered with ours.
        __getattr__ = missing_attribute

    def __reduce__(self) -> Any:
        raise TypeError(
            "an optimizer cannot be copied or pickled, since it belongs to its parameters: make "
            "another one and give it this one's `state_dict()`"
        )

    # Groups and settings.

    def _make_groups(self) -> list[_Group]:
        listed = self._parameter_list
        if not listed:
            return [_Group([], self._engine([], {}), 1.0)]
        if not isinstance(listed[0], dict):
            return [_Group(listed, self._engine(listed, {}), 1.0)]
        return [self._make_group(group) for group in listed]

    def _make_group(self, group: dict[str, Any]) -> _Group:
        if "params" not in group:
            raise AssertionError("a parameter group needs `params`, the list of its parameters")
        unknown = set(group) - _GROUP_ONLY - set(self._numbers)
        if unknown:
            raise ValueError(
                f"a parameter group of `{type(self).__name__}` has no {sorted(unknown)}"
            )
        parameters = _parameter_list(group["params"]) or []
        scale = float(group.get("learning_rate", 1.0))
        return _Group(parameters, self._engine(parameters, group), scale)

    def _engine(self, parameters: Sequence[Any], group: dict[str, Any]) -> Any:
        """The engine's optimizer with the settings of this one, changed by those of a group."""
        numbers = {key: group.get(key, value) for key, value in self._numbers.items()}
        clip = group.get("grad_clip", self._grad_clip)
        _check_clip(clip)
        config = {
            "learning_rate": float(self.get_lr()),
            "regularization": None,
            "grad_clip": None if clip is None else clip._spec(),
            "amp": self._amp,
            **numbers,
        }
        self._finish_config(config, parameters, group.get("weight_decay", self.regularization))
        return _core.Optimizer(self._kind, config)

    def _finish_config(self, config: dict[str, Any], parameters: Sequence[Any], decay: Any) -> None:
        """Puts the weight decay into the settings; optimizers with a decay of their own differ."""
        config["regularization"] = _checked_regularizer(decay)

    def _keep_masters(self, keep: bool) -> None:
        """Says whether parameters of 16 bits get master copies of 32."""
        self._numbers["multi_precision"] = keep
        self._rebuild()

    def _use_amp(self, amp: dict[str, Any]) -> None:
        """Trains static programs with mixed precision."""
        self._amp = amp
        self._rebuild()

    def _rebuild(self) -> None:
        """Makes the engine's optimizers anew after a setting has changed, with the state of the old ones."""
        states = [group.engine.accumulators() for group in self._groups]
        self._groups = self._make_groups()
        for group, state in zip(self._groups, states, strict=True):
            for name, value in state.items():
                group.engine.set_accumulator(name, value)

    # The learning rate.

    def get_lr(self) -> float:
        """The learning rate of the next step.

        >>> paddle.optimizer.SGD(0.1, parameters=paddle.nn.Linear(1, 1).parameters()).get_lr()
        0.1
        """
        rate = self._learning_rate
        return rate() if isinstance(rate, LRScheduler) else rate

    def set_lr(self, value: float) -> None:
        """Sets the learning rate by hand; not together with a schedule."""
        if not isinstance(value, (int, float)):
            raise TypeError(f"the learning rate must be a number, but is `{type(value).__name__}`")
        if isinstance(self._learning_rate, LRScheduler):
            message = "the learning rate follows a schedule: step or replace the schedule"
            raise RuntimeError(message)  # noqa: TRY004 (the state is wrong, not the type)
        self._learning_rate = float(value)
        for group in self._groups:
            name = group.engine.learning_rate_name
            found = _core.global_scope().find_var(name) if name else None
            if found is not None:
                found.get_tensor().set(np.array([value * group.scale], "float32"))

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Lets the learning rate follow a schedule from now on."""
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(f"a schedule is needed, but got `{type(scheduler).__name__}`")
        self._learning_rate = scheduler

    # Eager mode.

    def step(self) -> None:
        """Updates the parameters that have gradients.

        >>> w = paddle.create_parameter([1], "float32")
        >>> w.set_value([1.0])
        >>> adam = paddle.optimizer.Adam(0.1, parameters=[w])
        >>> (w * 3.0).backward()
        >>> adam.step()
        >>> adam.clear_grad()
        >>> round(w.item(), 4)
        0.9
        """
        rate = self.get_lr()
        for group in self._groups:
            if not group.parameters:
                raise AttributeError(
                    f"`{type(self).__name__}` has no parameters to update: "
                    "give it `parameters=` in eager mode"
                )
            group.engine.step(group.parameters, float(rate * group.scale))

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Makes the gradients zero, or forgets them.

        A parameter that the next loss does not depend on has a gradient of zero then, and goes on
        with its momentum; one without a gradient is not updated.
        """
        for group in self._groups:
            for parameter in group.parameters:
                parameter.clear_gradient(set_to_zero)

    def clear_gradients(self, set_to_zero: bool = True) -> None:
        """As `clear_grad`."""
        self.clear_grad(set_to_zero)

    def state_dict(self) -> dict[str, Any]:
        """The accumulators by name (`linear_0.w_0_moment1_0`), and the state of the schedule.

        Master copies of parameters of 16 bits are in `master_weights`, by parameter.
        """
        state: dict[str, Any] = {}
        masters: dict[str, Any] = {}
        for group in self._groups:
            for name, value in group.engine.accumulators().items():
                parameter, is_master, _ = name.rpartition(_MASTER)
                if is_master:
                    masters[parameter] = value
                else:
                    state[name] = value
        if masters:
            state["master_weights"] = masters
        if isinstance(self._learning_rate, LRScheduler):
            state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a `state_dict`, also before the first step."""
        state = dict(state_dict)
        schedule = state.pop("LR_Scheduler", None)
        for parameter, value in state.pop("master_weights", {}).items():
            state[f"{parameter}{_MASTER}0"] = value
        state.pop("StructuredToParameterName@@", None)
        if isinstance(self._learning_rate, LRScheduler):
            if schedule is None:
                raise KeyError("the state has no `LR_Scheduler`, but this optimizer has a schedule")
            self._learning_rate.set_state_dict(schedule)
        for name, value in state.items():
            tensor = value if isinstance(value, _core.Tensor) else _core.to_tensor(value)
            self._group_of(name).engine.set_accumulator(name, tensor)

    set_dict = set_state_dict

    def _group_of(self, accumulator: str) -> _Group:
        """The group with the parameter that an accumulator belongs to."""
        for group in self._groups:
            # Without parameters (static mode) there is one group, and nothing to compare with.
            if not group.parameters or any(
                accumulator.startswith(f"{p.name}_") for p in group.parameters
            ):
                return group
        raise KeyError(
            f"no parameter of this optimizer has an accumulator `{accumulator}`: "
            "was the state saved by a model whose parameters have other names?"
        )

    # Static mode, and both.

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Adds gradients and updates to the program of `loss`; in eager mode, as `step`.

        Returns the update ops and the (parameter, gradient) pairs.
        """
        if isinstance(loss, _core.Tensor):
            pairs = self.backward(loss, parameters=parameters)
            return self.apply_gradients(pairs), pairs
        engine = self._static_engine(loss)
        with _startup(startup_program):
            result = engine.minimize(loss, self._static_list(parameters), no_grad_set)
        self._remember_schedule(loss.block.program, engine)
        return result

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> list[tuple[Any, Any]]:
        """The (parameter, gradient) pairs of a loss; in eager mode those that `backward` left."""
        if callbacks:
            raise NotImplementedError("`callbacks` of `backward` are not supported")
        if isinstance(loss, _core.Tensor):
            listed = parameters or [p for group in self._groups for p in group.parameters]
            return [(p, p.grad) for p in listed if not p.stop_gradient and p.grad is not None]
        with _startup(startup_program):
            engine = self._static_engine(loss)
            return engine.backward(loss, self._static_list(parameters), no_grad_set)

    def apply_gradients(self, params_grads: Sequence[tuple[Any, Any]]) -> list[Any]:
        """Updates parameters by given gradients: adds the ops, or does it in eager mode."""
        if params_grads and isinstance(params_grads[0][0], _core.Tensor):
            wanted = {id(parameter) for parameter, _ in params_grads}
            for parameter, grad in params_grads:
                if parameter.grad is not grad:
                    parameter.grad = grad
            for group in self._groups:
                chosen = [p for p in group.parameters if id(p) in wanted]
                group.engine.step(chosen, float(self.get_lr() * group.scale))
            return []
        engine = self._groups[0].engine
        operators = engine.apply_gradients(params_grads)
        if params_grads:
            self._remember_schedule(params_grads[0][0].block.program, engine)
        return operators

    def _static_engine(self, loss: Any) -> Any:
        """The engine for a program: settings may depend on the names of its parameters."""
        if not self._parameter_list:
            everything = loss.block.program.all_parameters()
            self._groups = [_Group([], self._engine(everything, {}), 1.0)]
        if len(self._groups) > 1:
            raise NotImplementedError("parameter groups work in eager mode only")
        return self._groups[0].engine

    def _static_list(self, parameters: Sequence[Any] | None) -> Any:
        return parameters if parameters is not None else (self._parameter_list or None)

    def _remember_schedule(self, program: Any, engine: Any) -> None:
        """Lets the executor set the learning rate before each run."""
        if isinstance(self._learning_rate, LRScheduler):
            program._lr_scheduler = self._learning_rate
            program._lr_name = engine.learning_rate_name
            self._learning_rate._var_name = engine.learning_rate_name


class _startup:
    """Makes a program the default startup program while accumulators are added to it."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def __enter__(self) -> None:
        if self.program is not None:
            self.old = _core.switch_startup_program(self.program)

    def __exit__(self, *error: object) -> None:
        if self.program is not None:
            _core.switch_startup_program(self.old)


def _parameter_list(parameters: Any) -> list[Any] | None:
    if parameters is None:
        if _core.in_dynamic_mode():
            raise AttributeError(
                "an optimizer needs `parameters=` in eager mode, such as `model.parameters()`"
            )
        return None
    if isinstance(parameters, (_core.Tensor, _core.Variable)):
        raise TypeError(
            "`parameters` must be a list of tensors, but is one tensor: put it in a list"
        )
    if isinstance(parameters, dict):
        raise TypeError("`parameters` must be a list: put the dictionaries of groups into a list")
    listed = [] if isinstance(parameters, str) else list(parameters)
    kinds = (dict, _core.Tensor, _core.Variable, str if not _core.in_dynamic_mode() else dict)
    if isinstance(parameters, str) or not all(isinstance(item, kinds) for item in listed):
        raise TypeError("`parameters` must be a list of tensors, such as `model.parameters()`")
    return listed


def _check_clip(clip: Any) -> None:
    if clip is not None and not isinstance(clip, ClipGradBase):
        raise TypeError(
            "`grad_clip` must be one of `nn.ClipGradByValue`, `ByNorm` and `ByGlobalNorm`, "
            f"but is `{type(clip).__name__}`"
        )


def _checked_regularizer(decay: Any) -> tuple[str, float] | None:
    spec = regularizer_spec(decay)
    if decay is not None and spec is None:
        raise TypeError(
            "`weight_decay` must be a number, `L1Decay` or `L2Decay`, "
            f"but is `{type(decay).__name__}`"
        )
    return spec


def names_without_decay(
    parameters: Iterable[Any], excluded: Callable[[Any], bool] | None
) -> list[str]:
    """The names of the parameters that a function excludes from weight decay."""
    return [] if excluded is None else [p.name for p in parameters if excluded(p)]
