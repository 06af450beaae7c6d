"""Strategies of Paddle 1.x: when trainers and servers exchange, with all settings around it."""

from __future__ import annotations

from typing import Any

from ......_missing import missing_names
from ......_names import set_public_names
from ......distributed import environment
from ......distributed.fleet.communicator import DEFAULTS, cpu_num, force_to_cpu_num
from ......distributed.transpiler import DistributeTranspilerConfig, ServerRuntimeConfig
from ......static import BuildStrategy, ExecutionStrategy
from ..mode import DistributedMode

_KNOBS = (
    *((f"communicator_{name}", default) for name, default in DEFAULTS.items()),
    ("rpc_deadline", 180000),
    ("rpc_retry_times", 3),
)
_SHOWN = (
    "communicator_max_merge_var_num",
    "communicator_send_wait_times",
    "communicator_thread_pool_size",
    "communicator_send_queue_size",
)


class TrainerRuntimeConfig:
    """The knobs of a trainer's communicator, as `FLAGS_…` or a script set them.

    >>> from bireme.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    ...     TrainerRuntimeConfig,
    ... )
    >>> TrainerRuntimeConfig().get_communicator_flags()["communicator_thread_pool_size"]
    '5'
    """

    def __init__(self) -> None:
        self.mode: DistributedMode | None = None
        self.runtime_configs: dict[str, Any] = {
            name: environment.text(f"FLAGS_{name}", str(cpu_num() if default is None else default))
            for name, default in _KNOBS
        }

    def get_communicator_flags(self) -> dict[str, str]:
        """The knobs that count in this mode, as text."""
        if self.mode in (None, DistributedMode.ASYNC):
            shown = [name for name, _ in _KNOBS]
        else:
            shown = list(_SHOWN)
        if self.mode in (DistributedMode.SYNC, DistributedMode.HALF_ASYNC):
            for name in ("max_merge_var_num", "send_queue_size"):
                value = self._number(f"communicator_{name}")
                self.runtime_configs[f"communicator_{name}"] = force_to_cpu_num(name, value)
        return {name: str(self.runtime_configs[name]) for name in shown}

    def display(self, configs: dict[str, str]) -> str:
        """The knobs as a table."""
        border, line = "=" * 50, "-" * 50
        head = f"{'TrainerRuntimeConfig Overview':^45s}{'Value':<5s}"
        rows = [f"{name:<45s}{value:<5s}" for name, value in configs.items()]
        return "\n".join(["", border, head, line, *rows, border, ""])

    def __repr__(self) -> str:
        return self.display(self.get_communicator_flags())

    def _number(self, name: str) -> int:
        said = self.runtime_configs[name]
        if str(said) in ("True", "False"):
            return int(str(said) == "True")
        if not str(said).isdecimal():
            raise ValueError(f"`{name}` of `TrainerRuntimeConfig` is `{said}`, not a number")
        return int(said)

    def _settings(self) -> dict[str, Any]:
        """The knobs as the runtime takes them."""
        self.get_communicator_flags()
        numbers = {name: self._number(name) for name, _ in _KNOBS}
        prefix = "communicator_"
        knobs = {n[len(prefix) :]: value for n, value in numbers.items() if n.startswith(prefix)}
        rest = {name: value for name, value in numbers.items() if not name.startswith(prefix)}
        return {"communicator": knobs, **rest}


class DistributedStrategy:
    """Base class of strategies; use a subclass, or `StrategyFactory`."""

    # As `distributed.fleet` calls it.
    _exchange = ""

    def __init__(self) -> None:
        if not self._exchange:
            raise NotImplementedError(
                "`DistributedStrategy` is a base class: use StrategyFactory to create one"
            )
        self._program_config = DistributeTranspilerConfig()
        self._trainer_runtime_config = TrainerRuntimeConfig()
        self._server_runtime_config = ServerRuntimeConfig()
        self._execute_strategy = ExecutionStrategy()
        self._build_strategy = BuildStrategy()
        # Paddle's default, which nobody asked for: past the check that warns.
        object.__setattr__(self._execute_strategy, "num_threads", cpu_num())
        self.check_program_config()
        self.check_trainer_runtime_config()

    def get_program_config(self) -> DistributeTranspilerConfig:
        """How the program is split."""
        return self._program_config

    def set_program_config(self, config: DistributeTranspilerConfig | dict[str, Any]) -> None:
        """Sets how the program is split; a dictionary sets single entries."""
        self._set("program_config", config)
        self.check_program_config()

    def get_trainer_runtime_config(self) -> TrainerRuntimeConfig:
        """The knobs of trainers."""
        return self._trainer_runtime_config

    def set_trainer_runtime_config(self, config: TrainerRuntimeConfig | dict[str, Any]) -> None:
        """Sets the knobs of trainers; a dictionary sets single ones."""
        if isinstance(config, TrainerRuntimeConfig):
            self._trainer_runtime_config = config
        elif isinstance(config, dict):
            for key, value in config.items():
                if key not in self._trainer_runtime_config.runtime_configs:
                    raise ValueError(f"TrainerRuntimeConfig doesn't have key: {key}")
                self._trainer_runtime_config.runtime_configs[key] = value
        else:
            raise TypeError(
                "trainer_runtime_config only accept input type: dict or TrainerRuntimeConfig"
            )
        self.check_trainer_runtime_config()

    def get_server_runtime_config(self) -> ServerRuntimeConfig:
        """The knobs of servers."""
        return self._server_runtime_config

    def set_server_runtime_config(self, config: ServerRuntimeConfig | dict[str, Any]) -> None:
        """Sets the knobs of servers; a dictionary sets single ones."""
        self._set("server_runtime_config", config)

    def get_execute_strategy(self) -> ExecutionStrategy:
        """How trainers run their program."""
        return self._execute_strategy

    def set_execute_strategy(self, config: ExecutionStrategy | dict[str, Any]) -> None:
        """Sets how trainers run their program; a dictionary sets single entries."""
        self._set("execute_strategy", config)

    def get_build_strategy(self) -> BuildStrategy:
        """How trainers compile their program."""
        return self._build_strategy

    def set_build_strategy(self, config: BuildStrategy | dict[str, Any]) -> None:
        """Sets how trainers compile their program; a dictionary sets single entries."""
        self._set("build_strategy", config)

    def _set(self, name: str, config: Any) -> None:
        ours = getattr(self, f"_{name}")
        if isinstance(config, type(ours)):
            setattr(self, f"_{name}", config)
        else:
            _assign(ours, config, name)

    def check_program_config(self) -> None:
        """Makes the config say what the strategy is."""
        config = self._program_config
        config.runtime_split_send_recv = False
        config.sync_mode = False
        config.runtime_split_send_recv = True

    def check_trainer_runtime_config(self) -> None:
        """Makes the knobs say what the strategy is."""
        self._trainer_runtime_config.mode = DistributedMode[self._exchange.upper()]

    def _settings(self) -> dict[str, Any]:
        """What the runtime is told, see `distributed.fleet.runtime`."""
        return {
            "mode": self._exchange,
            "k_steps": 0,
            "staleness": self._program_config.staleness,
            "launch_barrier": self._program_config.wait_port,
            **self._trainer_runtime_config._settings(),
            "server": self._server_runtime_config._settled(),
        }


class SyncStrategy(DistributedStrategy):
    """All trainers' gradients are applied together, then all fetch."""

    _exchange = "sync"

    def check_program_config(self) -> None:
        """Makes the config say what the strategy is."""
        super().check_program_config()
        self._program_config.half_async = True
        self._program_config.completely_not_async = True


class AsyncStrategy(DistributedStrategy):
    """Gradients are applied as they come."""

    _exchange = "async"


class HalfAsyncStrategy(DistributedStrategy):
    """Gradients are applied as they come, and each trainer waits for its own."""

    _exchange = "half_async"

    def check_program_config(self) -> None:
        """Makes the config say what the strategy is."""
        super().check_program_config()
        self._program_config.half_async = True


class GeoStrategy(DistributedStrategy):
    """Trainers train on their own, and exchange differences every `update_frequency` batches."""

    _exchange = "geo"

    def __init__(self, update_frequency: int = 100) -> None:
        super().__init__()
        self._program_config.geo_sgd_need_push_nums = update_frequency
        self.check_trainer_runtime_config()

    def check_program_config(self) -> None:
        """Makes the config say what the strategy is."""
        super().check_program_config()
        self._program_config.geo_sgd_mode = True
        self.check_trainer_runtime_config()

    def check_trainer_runtime_config(self) -> None:
        """Makes the knobs say what the strategy is."""
        super().check_trainer_runtime_config()
        for name in ("communicator_send_queue_size", "communicator_max_merge_var_num"):
            frequency = self._program_config.geo_sgd_need_push_nums
            self._trainer_runtime_config.runtime_configs[name] = frequency

    def _settings(self) -> dict[str, Any]:
        frequency = self._program_config.geo_sgd_need_push_nums
        return {**super()._settings(), "k_steps": frequency}


class HybridStrategy(DistributedStrategy):
    """Tables are asynchronous, at most `staleness` steps old; the rest is synchronous."""

    _exchange = "hybrid"

    def check_program_config(self) -> None:
        """Makes the config say what the strategy is."""
        super().check_program_config()
        self._program_config.hybrid = True


class StrategyFactory:
    """Makes strategies.

    >>> from bireme.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    ...     StrategyFactory,
    ... )
    >>> StrategyFactory.create_geo_strategy(50).get_program_config().geo_sgd_need_push_nums
    50
    """

    @staticmethod
    def create_sync_strategy() -> SyncStrategy:
        """All trainers' gradients are applied together, then all fetch."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy() -> HalfAsyncStrategy:
        """Gradients are applied as they come, and each trainer waits for its own."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy() -> AsyncStrategy:
        """Gradients are applied as they come."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency: int = 100) -> GeoStrategy:
        """Trainers exchange differences every `update_frequency` batches."""
        return GeoStrategy(update_frequency)


def strategy_of(config: DistributeTranspilerConfig) -> DistributedStrategy:
    """The strategy that a config of the transpiler stands for; the config itself stays as it is.

    >>> strategy_of(paddle.fluid.DistributeTranspilerConfig())._exchange
    'sync'
    """
    copy = DistributeTranspilerConfig()
    if not config.sync_mode:
        copy.sync_mode = False
    for name in config.DEFAULTS:
        setattr(copy, name, getattr(config, name))
    if copy.hybrid:
        strategy: DistributedStrategy = HybridStrategy()
    elif copy.sync_mode:
        strategy = SyncStrategy()
    elif copy.geo_sgd_mode:
        strategy = GeoStrategy(copy.geo_sgd_need_push_nums)
    elif copy.runtime_split_send_recv and not copy.half_async:
        strategy = AsyncStrategy()
    else:
        strategy = HalfAsyncStrategy()
    strategy.set_program_config(copy)
    return strategy


def _assign(target: Any, config: Any, name: str) -> None:
    kind = type(target).__name__
    if not isinstance(config, dict):
        raise TypeError(f"{name} only accept input type: dict or {kind}")
    for key, value in config.items():
        # Paddle's own names for the knobs of servers have an underscore in front.
        known = next((k for k in (key, f"_{key}") if hasattr(target, k)), None)
        if known is None:
            raise ValueError(f"{kind} doesn't have key: {key}")
        setattr(target, known, value)


set_public_names(__name__, but="strategy_of")
__getattr__ = missing_names(__name__)
