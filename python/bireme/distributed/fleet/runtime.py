"""A process's part of a job with parameter servers: its programs, and its connection to the rest.

Both generations of `fleet` work on it. What it hands to `_core.Fleet`:

- settings: `mode` ("sync", "async", "half_async", "geo" or "hybrid"), `k_steps` (batches between
  two exchanges in geo mode), `staleness` (steps, in hybrid mode), `communicator` (see
  `communicator.knobs`), `launch_barrier`, and `rpc_deadline` (ms) and `rpc_retry_times` where a
  strategy of 1.x says them;
- for GPUBox, `gpubox`, which is not handed on: it decides how programs are split;
- programs: those of this role, None for the other role's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import _core
from ...static.program import Program, global_scope
from .. import environment
from ..transpiler.config import DistributeTranspilerConfig, ServerRuntimeConfig
from ..transpiler.distribute_transpiler import rate_of
from ..transpiler.ports import wait_server_ready
from .exchange import decode, encode
from .role import Identity, Role
from .stages import place_of
from .tables import describe_tables

FORMATS = ("native", "paddle_text")
# A table for an inference model is fetched in parts, so that no message is huge.
_ROWS_AT_ONCE = 1 << 16
_TABLE_BYTES_MAX = 2 << 30
# What the transpiler is told for each mode; the first form that says it wins.
_EXCHANGE = {
    "sync": {"sync_mode": True},
    "async": {"sync_mode": False, "runtime_split_send_recv": True},
    "half_async": {"sync_mode": False, "half_async": True},
    "geo": {"sync_mode": False, "geo_sgd_mode": True},
    "hybrid": {"sync_mode": False, "hybrid": True},
}


class Runtime:
    """The programs of one role and, once it is started, its connection to the others."""

    def __init__(
        self, identity: Identity, config: DistributeTranspilerConfig, settings: Mapping[str, Any]
    ) -> None:
        self.identity = identity
        self._config = config
        self._settings = dict(settings)
        self._core: Any = None
        self._is_started = False
        self._scope: Any = None
        # The program before it was split: what is saved for prediction is cut out of it.
        self.origin: Any = None
        self.main: Any = None
        self.startup: Any = None

    def split(
        self, main: Program, startup: Program, tables: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Splits a program; a worker's `main` and `startup` become those of the trainer."""
        identity, mode = self.identity, self._settings["mode"]
        server = self._settings.get("server") or ServerRuntimeConfig()._settled()
        transpiler = _core.Transpiler(
            {
                **exchange_config(self._config, mode),
                **server,
                **rate_of(main),
                **describe_tables(main, tables),
            }
        )
        self._transpile(transpiler, main, startup)
        if self._config.print_log:
            print(transpiler.log())
        self.origin = main.clone()
        own = ("server", "micro_batches", "gpubox")
        told = {name: value for name, value in self._settings.items() if name not in own}
        self._core = _core.Fleet(told)
        if identity.role != Role.SERVER:
            main._replace(transpiler.trainer_program())
            startup._replace(transpiler.trainer_startup())
            self.main, self.startup = main, startup
            self._core.set_programs(main, None, None)
            self._core.set_whole(transpiler.whole_program())
        else:
            endpoint = identity.server_endpoints[identity.index]
            self.main = transpiler.pserver_program(endpoint)
            self.startup = transpiler.startup_program(endpoint)
            self._core.set_programs(None, self.main, self.startup)

    def _transpile(self, transpiler: Any, main: Program, startup: Program) -> None:
        identity, sync = self.identity, self._settings["mode"] == "sync"
        servers, workers = list(identity.server_endpoints), identity.worker_num
        index = 0 if identity.role == Role.SERVER else identity.index
        if self._settings.get("gpubox"):
            if identity.heter_stages:
                raise ValueError(
                    "`use_ps_gpu` has workers that drive cards, and no heter workers: leave out"
                    " `--heter_worker_num`"
                )
            transpiler.transpile_gpubox(index, main, startup, servers, workers)
            return
        if not identity.heter_stages:
            transpiler.transpile(index, main, startup, servers, workers, sync)
            return
        stage = 1
        if identity.role == Role.HETER_WORKER:
            stage, index = place_of(index, identity.heter_stages)
        transpiler.transpile_heter(
            stage - 1,
            index,
            main,
            startup,
            servers,
            workers,
            [list(places) for places in identity.heter_stages],
            self._settings.get("micro_batches", 1),
            sync,
        )

    def init_server(self, dirname: str | None, var_names: list[str] | None) -> None:
        """Fills the parameters of this server, from a folder where one is named."""
        self._require(Role.SERVER, "init_server")
        if dirname is not None and not os.path.isdir(dirname):
            raise ValueError(f"There is no directory named '{dirname}'")
        if var_names is not None:
            self._check_tables(var_names)
        self._core.init_server(global_scope(), dirname, var_names)
        self._is_started = True

    def run_server(self) -> None:
        """Serves until the workers are done."""
        self._require(Role.SERVER, "run_server")
        if not self._is_started:
            raise RuntimeError("this server has no parameters: call `init_server` before")
        self._core.run_server(global_scope())

    def init_worker(self, scope: Any = None) -> None:
        """Connects this worker to the servers, once they listen."""
        self._require_member("init_worker")
        if self._settings["launch_barrier"] and environment.text("FLAGS_LAUNCH_BARRIER") != "0":
            wait_server_ready(self.identity.server_endpoints)
        self._scope = scope or global_scope()
        self._core.init_worker(self.main, self._scope)
        self._is_started = True

    def stop_worker(self) -> None:
        """Tells the servers that this worker is done."""
        self._require_member("stop_worker")
        self._is_started = False
        self._core.stop_worker()

    def run_heter_worker(self, executor: Any = None) -> None:
        """Runs this heter worker's stage until the workers are done."""
        self._require(Role.HETER_WORKER, "run_heter_worker")
        if not self._is_started:
            raise RuntimeError("`run_heter_worker` needs the servers: call `init_worker` before")
        (executor or _core.Executor()).run(self.main, scope=self._scope)

    def begin_pass(self, dataset: Any, device: int | None) -> None:
        """Brings the rows of what a dataset holds to this worker, on a card where one is named."""
        self._require_gpubox("begin_pass").begin_pass(dataset, device, self._scope)

    def end_pass(self) -> str:
        """Gives the servers what was trained; says what the pass was."""
        return self._require_gpubox("end_pass").end_pass()

    def _require_gpubox(self, method: str) -> Any:
        if not self._settings.get("gpubox"):
            raise RuntimeError(
                f"`{method}` is for GPUBox: set `a_sync_configs` of the strategy to"
                ' {"use_ps_gpu": 1}'
            )
        return self._started(method)

    def barrier(self, group: str) -> None:
        """Waits for all processes of a group: worker, server or all."""
        self._started("barrier").barrier(group)

    def all_gather(self, value: Any, group: str) -> list[Any]:
        """The value of each process of a group."""
        parts = self._started("all_gather").all_gather(encode(value), group)
        return [decode(part) for part in parts]

    def save(
        self, dirname: str, mode: int, table: int | None = None, format: str = "native"
    ) -> None:
        """Lets the servers write their parameters; worker 0 asks, the others return at once."""
        if format not in FORMATS:
            raise ValueError(f"`format` must be {' or '.join(FORMATS)}, not {format!r}")
        core = self._started("save")
        if self.identity.index == 0:
            core.save(dirname, _number("mode", mode), _table(table), format)

    def load(self, dirname: str, mode: int, table: int | None = None) -> None:
        """Lets the servers read their parameters; every worker must call it, and returns after."""
        core = self._started("load")
        mode, table = _number("mode", mode), _table(table)
        core.barrier("worker")
        problem = None
        if self.identity.index == 0:
            try:
                core.load(dirname, mode, table)
            except (RuntimeError, ValueError, OSError) as error:
                problem = error
        # The others must not go on, or wait, where worker 0 failed.
        told = self.all_gather("" if problem is None else str(problem), "worker")[0]
        if problem is not None:
            raise problem
        if told:
            raise RuntimeError(f"worker 0 could not let the servers load `{dirname}`: {told}")
        core.refresh(global_scope())

    def shrink(self, table: int | None = None) -> None:
        """Lets tables forget what their accessors say; worker 0 asks, the others return at once."""
        core = self._started("shrink")
        if self.identity.index == 0:
            core.shrink(_table(table))

    def clear(self, table: int | None = None) -> None:
        """Empties tables; worker 0 asks, the others return at once."""
        core = self._started("clear")
        if self.identity.index == 0:
            core.clear(_table(table))

    def stat(self) -> list[dict[str, Any]]:
        """The tables: `id`, `name`, `rows` and `bytes` of each."""
        return self._started("stat").stat()

    def dense(self) -> dict[str, np.ndarray]:
        """Whole parameters by name, as the servers have them."""
        return self._started("dense").dense()

    def save_inference(
        self, dirname: str, feeds: list[str], targets: list[str], program: Program | None
    ) -> None:
        """Writes what predicts, with the servers' parameters; worker 0 does."""
        core = self._started("save_inference_model")
        if self.identity.index:
            return
        program = self.origin if program is None or program is self.main else program
        scope = _core.Scope()
        # What servers do not hold, such as the averages of a batch norm, is this worker's own.
        values = _own_values(program.prune(targets))
        values.update(self.dense())
        values.update(self._whole_tables(core, program, targets))
        for name, value in values.items():
            scope.var(name).get_tensor().set(value, None)
        _core.save_inference(scope, program, feeds, targets, dirname, "dir")

    def _whole_tables(self, core: Any, program: Program, targets: list[str]) -> dict[str, Any]:
        """The tables that the targets look things up in, as parameters."""
        tables = {}
        block = program.global_block()
        for op in program.prune(targets).global_block().ops:
            if op.type not in ("lookup_table", "lookup_table_v2"):
                continue
            # In GPUBox every embedding with sparse gradients is a table.
            kinds = ["is_distributed", "is_sparse"][: 2 if self._settings.get("gpubox") else 1]
            if not any(op.has_attr(kind) and op.attr(kind) for kind in kinds):
                continue
            name = op.input("W")[0]
            if name not in tables:
                tables[name] = _fetch_table(core, name, block.var(name).shape)
        return tables

    def _check_tables(self, names: list[str]) -> None:
        ops = self.origin.global_block().ops
        known = {op.input("W")[0] for op in ops if op.type in ("lookup_table", "lookup_table_v2")}
        if not set(names) <= known:
            raise ValueError(f"fleet.init server can only load sparse variables in {sorted(known)}")

    def _require(self, role: Role, method: str) -> None:
        if self._core is None:
            raise ValueError(f"`{method}` has no program: call `minimize` before")
        if self.identity.role != role:
            raise RuntimeError(
                f"`{method}` is for a {_word(role)}, but this process is"
                f" {_word(self.identity.role)} {self.identity.index}"
            )

    def _require_member(self, method: str) -> None:
        trains = self.identity.role == Role.HETER_WORKER
        self._require(Role.HETER_WORKER if trains else Role.WORKER, method)

    def _started(self, method: str) -> Any:
        self._require(Role.WORKER, method)
        if not self._is_started:
            raise RuntimeError(f"`{method}` needs the servers: call `init_worker` before")
        return self._core


def exchange_config(config: DistributeTranspilerConfig, mode: str) -> dict[str, Any]:
    """The settings of the transpiler, with those that say when to exchange as the mode wants them.

    >>> config = paddle.fluid.DistributeTranspilerConfig()
    >>> exchange_config(config, "geo")["geo_sgd_mode"]
    True
    """
    keys = {key for said in _EXCHANGE.values() for key in said} | {"completely_not_async"}
    settled = config._settled() if mode == "sync" or config.sync_mode is False else None
    if settled is None:
        # The defaults are those of sync mode, which may contradict what else was set.
        config = _as_asynchronous(config)
        settled = config._settled()
    return {**settled, **dict.fromkeys(keys, False), **_EXCHANGE[mode]}


def _as_asynchronous(config: DistributeTranspilerConfig) -> DistributeTranspilerConfig:
    other = DistributeTranspilerConfig()
    other.sync_mode = False
    for name in config.DEFAULTS:
        if name != "sync_mode":
            setattr(other, name, getattr(config, name))
    return other


def _word(role: Role) -> str:
    return role.name.lower().replace("_", " ")


def _own_values(program: Program) -> dict[str, np.ndarray]:
    """The values that this process has of a program's persistable variables."""
    values = {}
    for var in program.list_vars():
        found = global_scope().find_var(var.name) if var.persistable else None
        if found is None or not found.is_initialized():
            continue
        value = np.array(found.get_tensor())
        # A worker holds tables of servers without their rows.
        if value.shape == tuple(var.shape):
            values[var.name] = value
    return values


def _fetch_table(core: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    rows, width = shape
    if rows * width * 4 > _TABLE_BYTES_MAX:
        raise ValueError(
            f"table `{name}` has {rows} rows of {width}, too many for a model for prediction:"
            " save it with `save_persistables`"
        )
    table = np.empty([rows, width], "float32")
    for start in range(0, rows, _ROWS_AT_ONCE):
        ids = np.arange(start, min(start + _ROWS_AT_ONCE, rows), dtype="int64")
        table[start : start + len(ids)] = core.pull_rows(name, ids)
    return table


def _table(table: Any) -> int | None:
    return None if table is None else _number("table_id", table)


def _number(name: str, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"`{name}` must be a number from 0 on, not {value!r}")
    return value
