"""`DistributeTranspiler`: one program in, a program for each trainer and server out.

The splitting itself is the engine's; here are Paddle's call forms, and Paddle's habit of turning
the user's own programs into those of the trainer.
"""

# ruff: noqa: TRY004 - Paddle raises ValueError here, and so does user code that catches it.

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any

from ... import _core
from ...static.program import Program, default_main_program, default_startup_program
from .. import environment
from ..fleet.role import check_endpoint
from .config import DistributeTranspilerConfig, ServerRuntimeConfig
from .ports import wait_server_ready
from .ps_dispatcher import HashName, PSDispatcher, RoundRobin

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "HashName",
    "PSDispatcher",
    "RoundRobin",
    "ServerRuntimeConfig",
]

_DEPRECATED = "DistributeTranspiler: API is deprecated since 2.0.0 Please use FleetAPI instead."


class DistributeTranspiler:
    """Splits a program that was built for one process into those of trainers and servers.

    Every process builds the same program and calls `transpile`; then a server runs what
    `get_startup_program` and `get_pserver_program` return, and a trainer its startup program and
    what `get_trainer_program` returns.

    >>> config = paddle.fluid.DistributeTranspilerConfig()
    >>> config.min_block_size = 100
    >>> paddle.fluid.DistributeTranspiler(config)
    Traceback (most recent call last):
    ...
    ValueError: `min_block_size` must be at least 8192, as in Paddle, but is 100; ...
    """

    _said_deprecated = False

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        if config is not None and not isinstance(config, DistributeTranspilerConfig):
            kind = type(config).__name__
            raise TypeError(f"`config` must be a `DistributeTranspilerConfig`, not {kind}")
        self.config = config or DistributeTranspilerConfig()
        self.config._settled()
        self._server_config = ServerRuntimeConfig()
        self._core: Any = None
        self._program: Any = None
        self._endpoints: list[str] = []
        # The number of this trainer, and how many there are.
        self._trainer = (0, 1)
        self._trainer_is_made = False
        self._ports_are_open = False

    def transpile(self, *arguments: Any, **options: Any) -> None:
        """Splits a program; takes its arguments in either of two forms.

        - `transpile(trainer_id, program=None, pservers="127.0.0.1:6174", trainers=1,
          sync_mode=True, startup_program=None, current_endpoint="127.0.0.1:6174")`;
        - `transpile(optimize_ops, params_grads, trainer_id, ...)`, with what `minimize` returned
          in front. Here `trainer_id` may be missing; it is `PADDLE_TRAINER_ID` then, or 0.

        `pservers` are addresses with commas between. `trainers` is a number, and in the modes
        `nccl2` and `collective` the addresses of the trainers, of which `current_endpoint` is
        this one. `slice_var_up`, as a keyword, is that of the config.

        The startup program becomes the trainer's: it fetches the parameters from the servers.
        """
        old_form = isinstance(arguments[0] if arguments else None, (list, tuple))
        form = _by_minimize if old_form or "optimize_ops" in options else _by_trainer
        try:
            bound = inspect.signature(form).bind(*arguments, **options)
        except TypeError as problem:
            raise TypeError(f"`transpile` {problem}: see its documentation") from None
        self._transpile(form(*bound.args, **bound.kwargs))

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """The program of the trainer, which is the one that was split, changed.

        Waits for the servers' ports unless `wait_port` (here or in the config) is False.
        """
        self._require_split("get_trainer_program")
        number, count = self._trainer
        # Not when splitting: servers call `transpile` with any number.
        if number >= count:
            raise ValueError(f"trainer {number} is none of {count} trainers, numbered from 0")
        if not self._trainer_is_made:
            self._program._replace(self._core.trainer_program())
            self._trainer_is_made = True
        # A loop may ask for the program in every step; servers that were there once are there.
        if wait_port and self.config.wait_port and not self._ports_are_open:
            wait_server_ready(self._endpoints)
            self._ports_are_open = True
        return self._program

    def get_pserver_program(self, endpoint: str) -> Program:
        """The program of the server at `endpoint`, which serves until the trainers are done."""
        self._require_split("get_pserver_program")
        return self._core.pserver_program(self._known(endpoint))

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """The program and the startup program of the server at `endpoint`."""
        return self.get_pserver_program(endpoint), self.get_startup_program(endpoint)

    def get_startup_program(
        self,
        endpoint: str,
        pserver_program: Program | None = None,
        startup_program: Program | None = None,
    ) -> Program:
        """The program that fills the parameters of the server at `endpoint`.

        `pserver_program` and `startup_program` have no meaning: both are known from `transpile`.
        """
        self._require_split("get_startup_program")
        return self._core.startup_program(self._known(endpoint))

    def _transpile(self, call: dict[str, Any]) -> None:
        self._say_deprecated()
        if call["slice_var_up"] is not None:
            self.config.slice_var_up = call["slice_var_up"]
        main = _program("program", call["program"], default_main_program)
        startup = _program("startup_program", call["startup_program"], default_startup_program)
        trainer_id = _trainer_id(call["trainer_id"])
        self._core = _core.Transpiler(
            {**self.config._settled(), **self._server_config._settled(), **rate_of(main)}
        )
        if self.config.mode != "pserver":
            return self._transpile_collective(trainer_id, main, startup, call)
        self._endpoints = _addresses("pservers", call["pservers"])
        self._trainer = (trainer_id, _trainer_count(call["trainers"]))
        # Either place may say that trainers do not wait for each other.
        apart = self.config.geo_sgd_mode or self.config.hybrid
        sync = bool(call["sync_mode"]) and self.config.sync_mode and not apart
        if self.config.enable_dc_asgd and sync:
            raise ValueError(
                "`enable_dc_asgd` is for asynchronous training: call `transpile` with"
                " `sync_mode=False`"
            )
        self._core.transpile(trainer_id, main, startup, self._endpoints, self._trainer[1], sync)
        if self.config.print_log:
            print(self._core.log())
        self._program, self._trainer_is_made, self._ports_are_open = main, False, False
        startup._replace(self._core.trainer_startup())

    def _transpile_collective(
        self, trainer_id: int, main: Program, startup: Program, call: dict[str, Any]
    ) -> None:
        trainers, here = call["trainers"], call["current_endpoint"]
        if not isinstance(trainers, str):
            raise ValueError(f"invalid trainers config: {trainers}")
        endpoints = _addresses("trainers", trainers)
        if len(endpoints) == 1 and self.config.mode == "collective":
            raise ValueError("invalid trainer number in distributed: 1")
        if trainer_id >= len(endpoints) or endpoints[trainer_id] != here:
            raise ValueError(
                f"`current_endpoint` is `{here}`, but trainer {trainer_id} of `trainers` is"
                f" {endpoints[trainer_id] if trainer_id < len(endpoints) else 'not there'}"
            )
        self._core.transpile_collective(trainer_id, main, startup, endpoints, here)
        if self.config.mode == "nccl2" and len(endpoints) > 1:
            # The program stays as it is; what runs it reduces gradients.
            main._trainers = (trainer_id, endpoints)  # type: ignore[attr-defined]
        if self.config.print_log:
            print(self._core.log())
        self._program, self._trainer_is_made, self._ports_are_open = main, True, True

    def _require_split(self, method: str) -> None:
        if self._program is None:
            raise RuntimeError(f"`{method}` has nothing to return: call `transpile` first")

    def _known(self, endpoint: str) -> str:
        if endpoint not in self._endpoints:
            raise ValueError(
                f"`{endpoint}` is none of the servers: {', '.join(self._endpoints) or 'none'}"
            )
        return endpoint

    @classmethod
    def _say_deprecated(cls) -> None:
        if not cls._said_deprecated:
            cls._said_deprecated = True
            print(_DEPRECATED, file=sys.stderr)


def rate_of(program: Program) -> dict[str, bool]:
    """What the transpiler is told where a schedule of Paddle 2.x sets the learning rate.

    Such a schedule is not in the program: the executor of each trainer sets the rate before a
    step, and the servers get it from there.

    >>> from bireme.distributed.transpiler.distribute_transpiler import rate_of
    >>> rate_of(paddle.static.Program())
    {}
    """
    scheduled = getattr(program, "_lr_scheduler", None) is not None
    return {"learning_rate_from_trainer": True} if scheduled else {}


def _by_trainer(
    trainer_id: int,
    program: Program | None = None,
    pservers: str = "127.0.0.1:6174",
    trainers: int | str = 1,
    sync_mode: bool = True,
    startup_program: Program | None = None,
    current_endpoint: str = "127.0.0.1:6174",
    slice_var_up: bool | None = None,
) -> dict[str, Any]:
    return locals()


def _by_minimize(
    optimize_ops: Sequence[Any],
    params_grads: Sequence[Any],
    trainer_id: int | None = None,
    program: Program | None = None,
    pservers: str = "127.0.0.1:6174",
    trainers: int | str = 1,
    sync_mode: bool = True,
    startup_program: Program | None = None,
    current_endpoint: str = "127.0.0.1:6174",
    slice_var_up: bool | None = None,
) -> dict[str, Any]:
    block = _program("program", program, default_main_program).global_block()
    for param, _ in params_grads:
        if not block.has_var(param.name):
            raise ValueError(
                f"`params_grads` names `{param.name}`, which the program does not have: hand over"
                " the `program` that `minimize` changed"
            )
    if trainer_id is None:
        trainer_id = environment.number("PADDLE_TRAINER_ID", 0)
    return {
        "trainer_id": trainer_id,
        "program": program,
        "pservers": pservers,
        "trainers": trainers,
        "sync_mode": sync_mode,
        "startup_program": startup_program,
        "current_endpoint": current_endpoint,
        "slice_var_up": slice_var_up,
    }


def _program(name: str, program: Any, default: Any) -> Program:
    if program is not None and not isinstance(program, Program):
        raise TypeError(f"`{name}` must be a `Program`, not {type(program).__name__}")
    return default() if program is None else program


def _trainer_id(trainer_id: Any) -> int:
    if not isinstance(trainer_id, int) or isinstance(trainer_id, bool):
        raise TypeError(f"`trainer_id` must be a number, not {type(trainer_id).__name__}")
    if trainer_id < 0:
        raise ValueError(f"`trainer_id` is counted from 0, but is {trainer_id}")
    return trainer_id


def _trainer_count(trainers: Any) -> int:
    if not isinstance(trainers, int) or isinstance(trainers, bool):
        raise TypeError(
            f"`trainers` is the number of trainers in mode `pserver`, not {trainers!r}; addresses"
            " are for the mode `nccl2`"
        )
    if trainers < 1:
        raise ValueError(f"`trainers` must be at least 1, not {trainers}")
    return trainers


def _addresses(name: str, addresses: Any) -> list[str]:
    if not isinstance(addresses, str):
        raise TypeError(f"`{name}` must be addresses with commas between, not {addresses!r}")
    endpoints = [address.strip() for address in addresses.split(",")]
    for endpoint in endpoints:
        check_endpoint(endpoint, name)
    for endpoint in endpoints:
        if endpoints.count(endpoint) > 1:
            raise ValueError(f"`{name}` names `{endpoint}` more than once")
    return endpoints
