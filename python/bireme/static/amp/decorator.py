"""`static.amp.decorate`: an optimizer that trains static programs with mixed precision."""

from __future__ import annotations

from typing import Any

from .lists import AutoMixedPrecisionLists

__all__ = ["OptimizerWithMixedPrecision", "decorate"]


class OptimizerWithMixedPrecision:
    """What `decorate` returns: the optimizer, whose `minimize` first rewrites the program.

    `cast` ops are inserted by the lists of op types, and gradients arrive in 32 bits; with `float16` the loss is scaled,
    and gradients of a step in which one is NaN or infinite are zero.
    """

    def __init__(self, optimizer: Any, config: dict[str, Any], level: str, dtype: str) -> None:
        self._optimizer = optimizer
        self._amp_level, self._amp_dtype = level, dtype
        self._config = config
        optimizer._use_amp(config)
        self._program: Any = None

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """Rewrites the program of `loss`, and adds gradients and updates to it."""
        self._program = loss.block.program
        return self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """Rewrites the program of `loss`, and adds the gradients to it."""
        self._program = loss.block.program
        return self._optimizer.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks
        )

    def apply_gradients(self, params_grads: Any) -> Any:
        """Divides gradients by the factor of the loss, and adds the updates."""
        return self._optimizer.apply_gradients(params_grads)

    def apply_optimize(self, loss: Any, startup_program: Any, params_grads: Any) -> Any:
        """As `apply_gradients`."""
        return self.apply_gradients(params_grads)

    def get_loss_scaling(self) -> Any:
        """The variable that holds the factor of the loss; none where the loss is not scaled."""
        return self._scaled(1)

    def get_scaled_loss(self) -> Any:
        """The loss that gradients are computed of; none where the loss is not scaled."""
        return self._scaled(0)

    def _scaled(self, which: int) -> Any:
        if self._program is None:
            raise AssertionError("Please call minimize() before calling get_loss_scaling().")
        names = self._optimizer._groups[0].engine.scaled_loss_names
        return None if names is None else self._program.global_block().var(names[which])

    def amp_init(
        self,
        place: Any,
        scope: Any = None,
        test_program: Any = None,
        use_fp16_test: bool = False,
        rewrite_master_weight: bool = False,
    ) -> None:
        """Nothing to do: the startup program gives parameters their types.

        A program for tests reads parameters of 16 bits as they are; `use_fp16_test` would rewrite it, and raises.
        """
        if use_fp16_test:
            raise NotImplementedError(
                "`use_fp16_test` is not in this version: build the test program from a clone of the"
                " program that `minimize` has rewritten, by `clone(for_test=True)`"
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_optimizer":
            raise AttributeError(name)
        return getattr(self._optimizer, name)


def decorate(
    optimizer: Any,
    amp_lists: Any = None,
    level: str | float = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    master_grad: bool = False,
    init_loss_scaling: float | None = None,
    incr_every_n_steps: int | None = None,
    decr_every_n_nan_or_inf: int | None = None,
    incr_ratio: float = 2.0,
    decr_ratio: float | None = None,
    use_dynamic_loss_scaling: bool | None = None,
    use_amp_guard: bool | None = None,
    use_promote: bool = False,
    *,
    use_pure_fp16: bool | None = None,
    use_fp16_guard: bool | None = None,
    use_bf16: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """An optimizer that trains with mixed precision.

    At level `O1` products and what follows them compute with 16 bits, by `amp_lists`, and parameters of 32 bits are
    cast once a step. At `O2` parameters that only such ops use are kept in 16 bits, with master copies of 32 in the
    optimizer (unless `master_weight=False`). Embedding tables and losses are always of 32 bits. The loss is scaled with
    `float16` alone, by a factor that follows what happens unless `use_dynamic_loss_scaling=False`. `master_grad` is how
    it always is. The three last arguments are those of Paddle before 2.5.

    >>> sgd = paddle.optimizer.SGD(0.1, parameters=paddle.nn.Linear(1, 1).parameters())
    >>> paddle.static.amp.decorate(sgd, dtype="bfloat16").get_lr()
    0.1
    """
    old = any(one is not None for one in (use_pure_fp16, use_fp16_guard, use_bf16))
    if not isinstance(level, str):
        # Paddle before 2.5 has the factor of the loss in its place.
        old, init_loss_scaling, level = True, level, "O1"
    if old:
        level = "O2" if use_pure_fp16 else "O1"
        dtype = "bfloat16" if use_bf16 else "float16"
    if use_fp16_guard or use_amp_guard:
        raise NotImplementedError(
            "rewriting the ops of an `fp16_guard` alone is not in this version: name op types or"
            " variables in `amp_lists`, and leave the guard off"
        )
    if use_promote:
        raise NotImplementedError("`use_promote` of static programs is not in this version")
    level, dtype = level.upper(), dtype.lower()
    if level not in ("O1", "O2"):
        raise ValueError(f"level should be O1 or O2, but is {level!r}")
    lists = amp_lists if amp_lists is not None else AutoMixedPrecisionLists(dtype=dtype)
    if not hasattr(optimizer, "_use_amp"):
        raise TypeError(f"`decorate` is for an optimizer, not `{type(optimizer).__name__}`")
    half = dtype == "float16"
    dynamic = half if use_dynamic_loss_scaling is None else use_dynamic_loss_scaling and half
    factor = init_loss_scaling if init_loss_scaling is not None else 2.0 ** (15 if old else 16)
    config = {
        "dtype": dtype,
        "level": level,
        "white": list(lists._custom_white_list),
        "black": list(lists._custom_black_list),
        "black_varnames": sorted(lists.black_varnames),
        "master_weight": master_weight is not False,
        "init_loss_scaling": float(factor) if half else 1.0,
        "use_dynamic_loss_scaling": bool(dynamic),
        "incr_every_n_steps": incr_every_n_steps or (1000 if old else 2000),
        "decr_every_n_nan_or_inf": decr_every_n_nan_or_inf or (2 if old else 1),
        "incr_ratio": float(incr_ratio),
        "decr_ratio": float(decr_ratio or (0.8 if old else 0.5)),
    }
    return OptimizerWithMixedPrecision(optimizer, config, level, dtype)
