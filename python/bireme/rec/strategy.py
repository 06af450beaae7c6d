"""How a config wants a job with parameter servers to be distributed."""

from __future__ import annotations

import os
from typing import Any

from .config import Config
from .log import logger

_MODES = ("async", "sync", "geo", "heter", "gpubox")


def is_distributed() -> bool:
    """Whether a launcher has started this process."""
    role = os.environ.get("TRAINING_ROLE")
    logger.info(f"-- Role: {role} --")
    return role is not None


def strategy_of(config: Config) -> Any:
    """The strategy of a distributed job; `None` for training in this process alone."""
    from ..distributed import fleet

    if not is_distributed():
        logger.warning(
            "Not Find Distributed env, Change To local train mode. If you want train with fleet,"
            " please use [fleetrun] command."
        )
        return None
    mode = config.get("runner.sync_mode")
    assert mode in _MODES, f"`runner.sync_mode` is {mode!r}: it must be one of {', '.join(_MODES)}"
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode == "geo":
        strategy.a_sync_configs = {"k_steps": config.get("runner.geo_step", 100)}
    elif mode == "heter":
        strategy.a_sync_configs = {"heter_worker_device_guard": "gpu"}
    elif mode == "gpubox":
        strategy.a_sync_configs = {"use_ps_gpu": 1}
    strategy.trainer_desc_configs = {
        "dump_fields_path": config.get("runner.dump_fields_path", ""),
        "dump_fields": config.get("runner.dump_fields", []),
        "dump_param": config.get("runner.dump_param", []),
        "stat_var_names": config.get("stat_var_names", []),
    }
    tables = _tables(config)
    if tables:
        strategy.sparse_table_configs = tables
    if config.get("hyper_parameters.adam_d2sum") is not None:
        strategy.adam_d2sum = config["hyper_parameters.adam_d2sum"]
    return strategy


def _tables(config: Config) -> dict[str, dict[str, Any]]:
    """`table_parameters.NAME.*` by table, with the keys as they are: so strategies take them."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in config.items():
        if key.startswith("table_parameters."):
            tables.setdefault(key.split(".")[1], {})[key] = value
    return tables
