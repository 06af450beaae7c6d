"""Runs programs: `Executor`, and the thin `CompiledProgram` with its settings.

A fetched scalar comes back with shape [1], in `static` and in `fluid` alike: scripts of every
Paddle before 2.5 write `loss[0]`, and `float(loss)` or `loss.item()` of later ones work as well.
"""

from __future__ import annotations

import atexit
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import _core
from .._names import set_public_names
from ..framework import flags
from .program import Program, Scope, Variable, default_main_program
from .settings import Settings

Place = Any


class Executor:
    """Runs programs on a place, with values of the global scope.

    >>> import bireme as paddle, numpy as np
    >>> paddle.enable_static()
    >>> main = paddle.static.Program()
    >>> with paddle.static.program_guard(main):
    ...     x = paddle.static.data("x", [None, 2])
    ...     total = paddle.sum(x)
    >>> exe = paddle.static.Executor(paddle.CPUPlace())
    >>> exe.run(main, feed={"x": np.ones([3, 2], "float32")}, fetch_list=[total])
    [array([6.], dtype=float32)]
    >>> paddle.disable_static()
    """

    def __init__(self, place: Place = None, *, _threads: int | None = None) -> None:
        self.place = _checked_place(place)
        self._core = _core.Executor(self.place, _threads or flags.num_threads())

    def run(
        self,
        program: Program | CompiledProgram | None = None,
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        fetch_list: Sequence[Variable | str] | Variable | str | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[Any]:
        """Runs `program` once and returns what `fetch_list` names.

        `feed` is a dictionary, or a list with one (what a `DataLoader` yields). `feed_var_name`,
        `fetch_var_name`, `use_program_cache` and `use_prune` have no meaning here: a program is
        always compiled once and cut down to what is fetched and what it updates.
        Without `feed`, a program with a loader that is not iterable takes that one's next batch.
        A fetched scalar has shape [1] (see the top of this file).

        >>> import bireme as paddle
        >>> paddle.static.Executor().run(paddle.static.Program())
        []
        """
        compiled = _compiled(program)
        program = _plain_program(program if compiled is None else compiled)
        names = fetch_names(fetch_list)
        if compiled is not None and compiled._first is not None:
            first, compiled._first = compiled._first, None
            self._core.run(first, {}, [], scope, True)
        _set_learning_rate(program, scope)
        values = self._core.run(program, _feed(program, feed), names, scope, return_numpy)
        return [_at_least_1d(value) for value in values] if return_numpy else values

    def train_from_dataset(
        self,
        program: Program | CompiledProgram | None = None,
        dataset: Any = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Variable | str] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """Trains on all samples of a dataset, in threads that need no Python.

        `thread` training threads share the parameters; 0 means as many as the dataset has readers.
        Four batches at most are trained at a time, and more threads split them.
        Where trainers keep step with others (sync mode, collective jobs) one thread trains, and
        splits its batches over so many; all end with the one that has the fewest batches. What `fetch_list` names is printed under the names of
        `fetch_info` every `print_period` batches of the first thread. `debug` prints how long
        training and reading took. `program._fleet_opt["stat_var_names"]` are counters that each
        thread keeps for itself and that are added up at the end; those of `auc` are known. Its
        `dump_fields` (variables), `dump_param` (parameters) and `dump_fields_path` write values of
        every sample and every step into files, one for each thread.

        A heter worker's program runs its stage until the workers are done, and has no dataset.
        """
        shown = _fetch_settings(fetch_list, fetch_info, print_period, fetch_handler)
        self._run_from_dataset(program, dataset, scope, thread, debug, shown, infer=False)

    def infer_from_dataset(
        self,
        program: Program | CompiledProgram | None = None,
        dataset: Any = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Variable | str] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: FetchHandler | None = None,
    ) -> None:
        """As `train_from_dataset`, but nothing is learned: gradients and updates are left out."""
        shown = _fetch_settings(fetch_list, fetch_info, print_period, fetch_handler)
        self._run_from_dataset(program, dataset, scope, thread, debug, shown, infer=True)

    def _run_from_dataset(
        self,
        program: Any,
        dataset: Any,
        scope: Scope | None,
        thread: int,
        debug: bool,
        shown: dict[str, Any],
        infer: bool,
    ) -> None:
        compiled = _compiled(program)
        program = _plain_program(program if compiled is None else compiled)
        if any(op.type == "heter_listen_and_serv" for op in program.global_block().ops):
            if dataset is not None:
                raise RuntimeError("dataset should be None for heter pipeline mode")
            self._core.run(program, scope=scope)
            return
        if dataset is None:
            raise RuntimeError("dataset is need and should be initialized")
        settings = {
            **shown,
            "threads": _training_threads(thread, dataset),
            "infer": infer,
            "debug": bool(debug),
            "private": _private_counters(program),
            "dump": _dump_settings(program, dataset),
        }
        source = dataset._source()
        if compiled is not None and compiled._first is not None:
            first, compiled._first = compiled._first, None
            self._core.run(first, {}, [], scope, True)
        _set_learning_rate(program, scope)
        if any(op.type == "send_and_recv" for op in program.global_block().ops):
            # Heter workers run the later stages: a batch goes through them as in `run`.
            samples = None
            for feed in source.batches():
                self._core.run(program, feed, [], scope)
        else:
            samples = self._core.train_from_dataset(program, source, settings, scope)["samples"]
        dataset._trained(source, samples)

    def close(self) -> None:
        """Frees what the executor compiled; tells parameter servers that this trainer is done.

        A script that ends without an error tells them as well, whatever became of its executors.

        >>> import bireme as paddle
        >>> paddle.static.Executor().close() is None
        True
        """
        self._core.close()


class FetchHandler:
    """Gets values while a dataset is trained on: override `handler`.

    `var_dict` has variables by the names that `handler` gets them under, every `period_secs`
    seconds, from the first training thread.

    >>> class Watch(FetchHandler):
    ...     def handler(self, res_dict):
    ...         print(res_dict["loss"])
    >>> Watch(var_dict={"loss": "mean_0.tmp_0"}, period_secs=10).period_secs
    10
    """

    def __init__(self, var_dict: Mapping[str, Any] | None = None, period_secs: float = 60) -> None:
        if not var_dict:
            raise ValueError("`FetchHandler` needs `var_dict`: the variables to watch, by name")
        self.var_dict = dict(var_dict)
        self.period_secs = period_secs

    def handler(self, res_dict: dict[str, Any]) -> None:
        """To be overridden; prints what has a value."""
        for key, value in res_dict.items():
            print(f"{key}[0]: {value[0]} ", flush=True)


@atexit.register
def _leave_jobs() -> None:
    # A script that fails is not done: its servers must hear of a lost trainer, not of a good end, and
    # so must the other ranks.
    failure = getattr(sys, "last_value", None)
    if failure is not None:
        _core.Executor._quit(f"{type(failure).__name__}: {failure}")
        return
    _core.Executor._complete()
    _core.leave_ranks()


class BuildStrategy(Settings):
    """Paddle's settings for compiling a graph.

    The plan fuses ops and reuses memory by itself. With `num_trainers` processes, of which this is
    `trainer_id`, gradients are averaged over them (`gradient_scale_strategy`), in buckets with
    `fuse_all_reduce_ops`; the others change no result, and are checked and kept. Drawing the graph
    (`debug_graphviz_path`) is not in this version.

    >>> import bireme as paddle
    >>> strategy = paddle.static.BuildStrategy()
    >>> strategy.fuse_elewise_add_act_ops = True
    >>> strategy.fuse_elewise_add_act_ops
    True
    """

    class ReduceStrategy:
        """How several devices sum gradients; with one there is nothing to sum."""

        AllReduce, Reduce, _NoReduce = 0, 1, 2

    class GradientScaleStrategy:
        """By what gradients of several devices are divided; with one it is 1."""

        CoeffNumDevice, One, Customized = 0, 1, 2

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "allow_cuda_graph_capture": False,
        "build_cinn_pass": False,
        "cache_runtime_context": False,
        "debug_graphviz_path": "",
        "enable_addto": False,
        "enable_auto_fusion": False,
        "enable_inplace": True,
        "enable_sequential_execution": False,
        "fuse_all_optimizer_ops": False,
        "fuse_all_reduce_ops": False,
        "fuse_bn_act_ops": False,
        "fuse_bn_add_act_ops": False,
        "fuse_broadcast_ops": False,
        "fuse_elewise_add_act_ops": False,
        "fuse_gemm_epilogue": False,
        "fuse_relu_depthwise_conv": False,
        "gradient_scale_strategy": 0,
        "memory_optimize": None,
        "num_trainers": 1,
        "reduce_strategy": 0,
        "remove_unnecessary_lock": True,
        "sync_batch_norm": False,
        "trainer_id": 0,
        "trainers_endpoints": [],
    }

    def _checked(self, name: str, value: Any) -> Any:
        if name == "debug_graphviz_path" and value:
            raise NotImplementedError("graphs are not drawn in this version: print the program")
        return super()._checked(name, value)


class ExecutionStrategy(Settings):
    """Paddle's settings for running a graph on several devices.

    One program runs on one device here, so these are checked and kept without effect:
    `num_threads` warns, since an executor has its threads from `BIREME_NUM_THREADS` or
    `FLAGS_paddle_num_threads`, and what would change a run's result (`num_iteration_per_run`) raises.

    >>> import bireme as paddle
    >>> strategy = paddle.static.ExecutionStrategy()
    >>> strategy.num_iteration_per_drop_scope = 10
    >>> strategy.num_iteration_per_drop_scope
    10
    """

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "allow_op_delay": False,
        "dry_run": False,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "num_threads": 0,
        "use_thread_barrier": False,
    }

    def _checked(self, name: str, value: Any) -> Any:
        if name in ("num_iteration_per_run", "dry_run") and value not in (1, False):
            raise NotImplementedError(f"`{name}` other than its default is not in this version")
        if name == "num_threads" and value:
            warnings.warn(
                "`ExecutionStrategy.num_threads` has no effect: set `BIREME_NUM_THREADS`, or"
                " `FLAGS_paddle_num_threads` before the executor is made",
                stacklevel=3,
            )
        return super()._checked(name, value)


class CompiledProgram:
    """A program that an executor runs as it is: the executor compiles every program.

    >>> import bireme as paddle
    >>> compiled = paddle.static.CompiledProgram(paddle.static.Program())
    >>> paddle.static.Executor().run(compiled)
    []
    """

    def __init__(self, program_or_graph: Program, build_strategy: Any = None) -> None:
        if not isinstance(program_or_graph, Program):
            kind = type(program_or_graph).__name__
            raise TypeError(f"`CompiledProgram` takes a `Program`, not {kind}")
        self._program = program_or_graph
        self._build_strategy = build_strategy
        # What runs before the first step.
        self._first: Program | None = None

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: Any = None,
        places: Sequence[Place] | None = None,
    ) -> CompiledProgram:
        """The same program on one device; several places are refused.

        As one of several trainers (`DistributeTranspiler` in mode `nccl2`, or `num_trainers` of the
        build strategy) it averages gradients with the others, and starts with the parameters of
        trainer 0. With one device in a process there is nothing else to split or share, so the other
        arguments have no meaning.

        >>> import bireme as paddle
        >>> compiled = paddle.static.CompiledProgram(paddle.static.Program())
        >>> compiled.with_data_parallel(places=paddle.static.cpu_places(1)) is compiled
        True
        """
        if places is not None and len(places) > 1:
            raise NotImplementedError(
                f"one process runs on one place, not on {len(places)}: the executor uses all"
                " cores of it already"
            )
        self._reduce_over(build_strategy or self._build_strategy or BuildStrategy())
        return self

    def _reduce_over(self, strategy: BuildStrategy) -> None:
        trainer, endpoints = getattr(self._program, "_trainers", (strategy.trainer_id, ()))
        endpoints = list(endpoints or strategy.trainers_endpoints)
        count = max(len(endpoints), strategy.num_trainers)
        if count == 1 or self._first is not None:
            return
        _check_reduction(strategy)
        # Whoever runs apart must learn it here: the program alone does not say how many there are.
        from ..distributed.communication.group import all_processes, meet

        met = meet(trainer, endpoints) if endpoints else all_processes()
        if met.nranks != count:
            raise ValueError(
                f"`num_trainers` is {count}, but there are {met.nranks}: see"
                " `PADDLE_TRAINER_ENDPOINTS`"
            )
        settings = {
            "fuse": strategy.fuse_all_reduce_ops,
            "average": strategy.gradient_scale_strategy == 0,
        }
        self._first = _core.broadcast_parameters(self._program)
        program = _core.parallel_program(count, self._program, settings)
        for name in ("_lr_scheduler", "_lr_name", "_readers"):
            if hasattr(self._program, name):
                setattr(program, name, getattr(self._program, name))
        self._program = program


def _check_reduction(strategy: BuildStrategy) -> None:
    if strategy.gradient_scale_strategy == BuildStrategy.GradientScaleStrategy.Customized:
        raise NotImplementedError("a customized scale of gradients is not in this version")
    if strategy.sync_batch_norm:
        raise NotImplementedError("`sync_batch_norm` over processes is not in this version")
    if strategy.reduce_strategy != BuildStrategy.ReduceStrategy.AllReduce:
        raise NotImplementedError("`reduce_strategy` must be `AllReduce` in this version")


def fetch_names(fetch_list: Any) -> list[str]:
    """The names of what to fetch; nested lists are flattened, as Paddle does.

    >>> from bireme.static.executor import fetch_names
    >>> fetch_names(["loss", ["acc"]])
    ['loss', 'acc']
    """
    if fetch_list is None:
        return []
    if isinstance(fetch_list, (str, Variable)):
        fetch_list = [fetch_list]
    names: list[str] = []
    for item in fetch_list:
        if isinstance(item, str):
            names.append(item)
        elif isinstance(item, (list, tuple)):
            names.extend(fetch_names(item))
        elif isinstance(getattr(item, "name", None), str):
            names.append(item.name)
        else:
            kind = type(item).__name__
            raise TypeError(f"`fetch_list` must hold variables or their names, not {kind}")
    return names


def _fetch_settings(
    fetch_list: Any, fetch_info: Any, print_period: int, handler: FetchHandler | None
) -> dict[str, Any]:
    names, labels = fetch_names(fetch_list), list(fetch_info or [])
    assert len(names) == len(labels), (
        f"`fetch_list` has {len(names)} variables and `fetch_info` {len(labels)} names for them"
    )
    if not isinstance(print_period, int) or print_period < 1:
        raise ValueError(f"`print_period` must be a number from 1 on, not {print_period!r}")
    settings: dict[str, Any] = {"print_period": print_period, "printed": len(names)}
    if handler is not None:
        names += fetch_names(list(handler.var_dict.values()))
        labels += list(handler.var_dict)
        called = handler.handler
        settings["handler"] = lambda values: called(
            {name: _at_least_1d(value) for name, value in values.items()}
        )
        settings["handler_seconds"] = float(handler.period_secs)
    return {**settings, "fetches": list(zip(labels, names, strict=True))}


def _training_threads(thread: int, dataset: Any) -> int:
    if thread > 0:
        return thread
    if dataset.thread_num <= 0:
        raise RuntimeError(
            "You should set thread num first, either in Dataset or in Executor.train_from_dataset"
        )
    return dataset.thread_num


def _private_counters(program: Program) -> list[str]:
    said = getattr(program, "_fleet_opt", None) or {}
    return list(said.get("stat_var_names") or [])


def _dump_settings(program: Program, dataset: Any) -> dict[str, Any] | None:
    """What `program._fleet_opt` says about values to write into files."""
    said = getattr(program, "_fleet_opt", None) or {}
    fields, params = (list(said.get(key) or []) for key in ("dump_fields", "dump_param"))
    if not fields and not params:
        return None
    if not said.get("dump_fields_path"):
        raise ValueError("`dump_fields` and `dump_param` need `dump_fields_path`: a folder")
    if dataset._settings.parse_ins_id and dataset._settings.input_type == 1:
        raise ValueError(
            "with `input_type=1` a name (`parse_ins_id`) is that of a batch, not of the samples that"
            " are dumped: leave it out of the lines"
        )
    return {
        "fields": fields,
        "params": params,
        "folder": str(said["dump_fields_path"]),
        "rank": int(said.get("trainer_id") or 0),
        "in_memory": dataset._feed == "MultiSlotInMemoryDataFeed",
    }


def _checked_place(place: Place) -> Place:
    """A place, or the one that a name such as "cpu" stands for; that of `set_device` by default."""
    from ..framework.place import check_place, get_device

    return check_place(get_device() if place is None else place)


def _compiled(program: Any) -> CompiledProgram | None:
    """The compiled form of a program that has one: of `nccl2` mode's even where nobody made it."""
    if isinstance(program, CompiledProgram):
        return program
    program = default_main_program() if program is None else program
    if not hasattr(program, "_trainers"):
        return None
    if not hasattr(program, "_parallel"):
        program._parallel = CompiledProgram(program).with_data_parallel()
    return program._parallel


def _plain_program(program: Any) -> Program:
    if program is None:
        return default_main_program()
    if isinstance(program, CompiledProgram):
        return program._program
    if not isinstance(program, Program):
        raise TypeError(f"`program` must be a `Program`, not {type(program).__name__}")
    return program


def _feed(program: Program, feed: Any) -> dict[str, Any]:
    if not feed:
        return _next_batch(program)
    if isinstance(feed, (list, tuple)):
        if len(feed) != 1:
            raise ValueError(
                f"`feed` holds {len(feed)} dictionaries, one for each device, but there is one"
                " device: feed one dictionary"
            )
        feed = feed[0]
    if not isinstance(feed, Mapping):
        kind = type(feed).__name__
        raise TypeError(f"`feed` must be a dictionary of names and values, not {kind}")
    return {name: _fed_value(program, name, value) for name, value in feed.items()}


def _next_batch(program: Program) -> dict[str, Any]:
    """What the program's own loaders (`DataLoader.from_generator(iterable=False)`) have next."""
    feed: dict[str, Any] = {}
    for loader in getattr(program, "_readers", ()):
        feed.update(loader.next_feed())
    return feed


def _fed_value(program: Program, name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple, int, float)):
        # Lists carry no element type: they take the declared one.
        block = program.global_block()
        dtype = block.var(name).dtype.name if block.has_var(name) else None
        value = np.array(value, dtype)
    if isinstance(value, np.ndarray) and value.ndim == 1 and _is_column(program, name):
        return value.reshape(-1, 1)
    return value


def _is_column(program: Program, name: str) -> bool:
    """Whether a variable is a column of numbers: labels come as a list of them, too.

    Paddle takes those, and goes on with another shape than the program was built for.
    """
    block = program.global_block()
    if not block.has_var(name):
        return False
    shape = block.var(name).shape
    return len(shape) == 2 and shape[1] == 1


def _set_learning_rate(program: Program, scope: Scope | None) -> None:
    scheduler = getattr(program, "_lr_scheduler", None)
    if scheduler is None:
        return
    name = program._lr_name  # type: ignore[attr-defined]  # set beside the scheduler
    rate = (scope or _core.global_scope()).var(name)
    rate.get_tensor().set(np.array([scheduler()], "float32"), None)


class _OneValue(np.ndarray):
    """An array of one value, which is also a number.

    NumPy from 2.4 on refuses `float(loss)` and `"%f" % loss` unless `loss` has no dimensions, and
    scripts that need `loss[0]` write those as well.
    """

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def _at_least_1d(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.size == 1 and value.ndim < 2:
        return value.reshape(1).view(_OneValue)
    return value


set_public_names(__name__, but="FetchHandler fetch_names")
