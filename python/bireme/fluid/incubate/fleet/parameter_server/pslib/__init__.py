"""`fleet` of Paddle 1.x with tables described by dictionaries; trains asynchronously."""

from __future__ import annotations

from typing import Any

from ......_missing import missing_names
from ......distributed.fleet.tables import read_fleet_desc
from ...base.mode import Mode
from ..distribute_transpiler import (
    DistributedStrategy,
    FleetTranspiler,
    StrategyFactory,
    TranspilerOptimizer,
)

__all__ = ["PSLib", "fleet"]


class PSLib(FleetTranspiler):
    """A job whose tables live on parameter servers; use the object `fleet`."""

    def __init__(self) -> None:
        super().__init__(Mode.PSLIB)

    def distributed_optimizer(
        self, optimizer: Any, strategy: dict[str, Any] | None = None
    ) -> TranspilerOptimizer:
        """The optimizer of the job; `strategy` describes tables by name, see
        `DistributedStrategy.fleet_desc_configs`."""
        made = super().distributed_optimizer(optimizer, strategy)
        made._tables = read_fleet_desc(strategy or {})
        return made

    def print_table_stat(self, table_id: int) -> None:
        """Prints how many rows and bytes a table has."""
        for table in self._runtime_handle().stat():
            if table["id"] == table_id:
                print(
                    f"table id: {table_id}, name: {table['name']}, rows: {table['rows']},"
                    f" bytes: {table['bytes']}"
                )
                return
        raise ValueError(f"there is no table {table_id}")

    def save_model(self, dirname: str, mode: int = 0) -> None:
        """Lets the servers save all tables; worker 0's call does."""
        self._runtime_handle().save(dirname, mode)

    def save_persistables(
        self, executor: Any, dirname: str, main_program: Any = None, **kwargs: Any
    ) -> None:
        """Lets the servers save all tables; `mode` as in `distributed.fleet`."""
        if set(kwargs) - {"mode"}:
            raise TypeError(f"`save_persistables` does not take {', '.join(sorted(kwargs))}")
        self._runtime_handle().save(dirname, kwargs.get("mode", 0))

    def save_one_table(self, table_id: int, model_dir: str, mode: int = 0) -> None:
        """Lets the servers save one table; worker 0's call does."""
        self._runtime_handle().save(model_dir, mode, table_id)

    def load_model(self, model_dir: str, mode: int = 0) -> None:
        """Lets the servers load all tables; all workers must call it."""
        self._runtime_handle().load(model_dir, mode)

    def load_one_table(self, table_id: int, model_path: str, mode: int = 0) -> None:
        """Lets the servers load one table; all workers must call it."""
        self._runtime_handle().load(model_path, mode, table_id)

    def shrink_sparse_table(self) -> None:
        """Lets tables forget rows as their accessors say; worker 0's call does."""
        self._runtime_handle().shrink()

    def clear_one_table(self, table_id: int) -> None:
        """Empties a table; worker 0's call does."""
        self._runtime_handle().clear(table_id)

    def clear_model(self) -> None:
        """Empties all tables; worker 0's call does."""
        self._runtime_handle().clear()

    def _strategy_of(self, strategy: Any) -> DistributedStrategy:
        if strategy is not None and not isinstance(strategy, dict):
            raise TypeError("strategy must be a dictionary of tables")
        return StrategyFactory.create_async_strategy()


fleet = PSLib()

__getattr__ = missing_names(__name__)
