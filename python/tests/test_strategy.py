"""Strategies: modes, knobs of the communicator, and descriptions of tables."""

import json

import bireme as paddle
import pytest
from bireme.distributed import fleet
from bireme.distributed.fleet.communicator import knobs
from bireme.distributed.fleet.fleet import _settings_of
from bireme.distributed.fleet.runtime import exchange_config
from bireme.distributed.fleet.tables import describe_tables, read_fleet_desc, read_tables
from bireme.fluid import DistributeTranspilerConfig
from bireme.fluid.incubate.fleet.parameter_server import distribute_transpiler as first
from bireme.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    strategy_of,
)


def strategy_with(a_sync, **configs):
    strategy = fleet.DistributedStrategy()
    if a_sync is not None:
        strategy.a_sync = a_sync
    strategy.a_sync_configs = configs
    return strategy


@pytest.mark.parametrize(
    ("a_sync", "configs", "mode"),
    [
        (False, {}, "sync"),
        (True, {}, "async"),
        (None, {}, "async"),
        (True, {"k_steps": 0}, "async"),
        (True, {"k_steps": 100}, "geo"),
        (True, {"half_async": True}, "half_async"),
        (True, {"hybrid": True, "staleness": 3}, "hybrid"),
        (True, {"dc_asgd": 0.5}, "async"),
    ],
)
def test_a_sync_and_its_entries_choose_the_mode(a_sync, configs, mode):
    config, settings = _settings_of(strategy_with(a_sync, **configs))
    assert settings["mode"] == mode
    assert settings["staleness"] == configs.get("staleness", 4)
    settled = exchange_config(config, mode)
    assert settled["sync_mode"] == (mode == "sync")
    assert settled["geo_sgd_mode"] == (mode == "geo")
    assert settled["hybrid"] == (mode == "hybrid")
    assert settled["half_async"] == (mode == "half_async")
    assert settled["enable_dc_asgd"] == ("dc_asgd" in configs)
    assert mode != "geo" or settled["geo_sgd_need_push_nums"] == 100


@pytest.mark.parametrize(
    ("a_sync", "configs", "text"),
    [
        (False, {"k_steps": 10}, "`k_steps` of `a_sync_configs` needs `a_sync = True`"),
        (False, {"dc_asgd": 1.0}, "`dc_asgd` of `a_sync_configs` needs `a_sync = True`"),
        (True, {"k_steps": 10, "hybrid": True}, "hybrid and geo exclude each other"),
        (True, {"k_steps": 10, "dc_asgd": 1.0}, "`dc_asgd` is for asynchronous training"),
        (True, {"staleness": 2}, "`staleness` of `a_sync_configs` is for `hybrid`"),
    ],
)
def test_modes_that_exclude_each_other_are_refused(a_sync, configs, text):
    with pytest.raises(ValueError, match=text):
        strategy_with(a_sync, **configs)._mode()


def test_assigning_a_sync_resets_k_steps():
    strategy = strategy_with(True, k_steps=100, send_queue_size=32)
    strategy.a_sync_configs = {"thread_pool_size": 3}
    assert strategy.a_sync_configs["k_steps"] == 100
    strategy.a_sync = True
    assert strategy.a_sync_configs["k_steps"] == 0
    assert strategy.a_sync_configs["send_queue_size"] == 32


def test_the_defaults_are_those_of_the_proto():
    strategy = fleet.DistributedStrategy()
    assert strategy.a_sync and strategy.a_sync_configs["k_steps"] == -1
    assert strategy.amp_configs["init_loss_scaling"] == 32768.0
    assert strategy.sharding_configs["sharding_degree"] == 8
    assert strategy.gradient_scale_configs["scale_strategy"] == "avg"
    strategy.trainer_desc_configs = {"dump_fields": ["loss"]}
    assert fleet.DistributedStrategy().trainer_desc_configs["dump_fields"] == []


@pytest.mark.parametrize(
    "name", ["sharding", "dgc", "lars", "is_with_coordinator", "is_fl_ps_mode", "elastic"]
)
def test_features_that_are_not_there_are_refused_at_the_end(name):
    strategy = fleet.DistributedStrategy()
    setattr(strategy, name, True)
    with pytest.raises(NotImplementedError, match=f"`{name}` of `DistributedStrategy` is not in"):
        strategy._refuse_what_is_not_there()


def test_servers_on_gpus_train_as_in_sync():
    strategy = strategy_with(True, use_ps_gpu=1)
    strategy._refuse_what_is_not_there()
    assert strategy._mode() == "sync"


def test_knobs_come_from_the_environment_then_the_strategy_then_cpu_num(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "4")
    monkeypatch.setenv("FLAGS_communicator_thread_pool_size", "7")
    monkeypatch.setenv("FLAGS_communicator_independent_recv_thread", "false")
    given = {"send_wait_times": 9, "thread_pool_size": 2}
    assert knobs("half_async", given)["min_send_grad_num_before_recv"] == 4
    # Steps of several threads are not merged.
    assert knobs("async", given) == {
        "max_merge_var_num": 1,
        "send_queue_size": 1,
        "independent_recv_thread": 0,
        "min_send_grad_num_before_recv": 1,
        "thread_pool_size": 7,
        "send_wait_times": 9,
        "is_sgd_optimizer": 1,
    }
    assert knobs("geo", {}, 100)["max_merge_var_num"] == 100
    monkeypatch.setenv("FLAGS_communicator_send_queue_size", "many")
    with pytest.raises(ValueError, match="`FLAGS_communicator_send_queue_size=many`, which is not"):
        knobs("async", {})


def test_sync_modes_hold_as_many_gradients_as_threads(capsys):
    assert knobs("sync", {"send_queue_size": 16})["send_queue_size"] == 1
    assert "communicator_send_queue_size will be forced to 1." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "kind", "exchange"),
    [
        ({}, first.SyncStrategy, "sync"),
        ({"sync_mode": False}, first.HalfAsyncStrategy, "half_async"),
        ({"sync_mode": False, "half_async": True}, first.HalfAsyncStrategy, "half_async"),
        ({"sync_mode": False, "runtime_split_send_recv": True}, first.AsyncStrategy, "async"),
        (
            {"sync_mode": False, "runtime_split_send_recv": True, "geo_sgd_mode": True},
            first.GeoStrategy,
            "geo",
        ),
        ({"sync_mode": False, "hybrid": True}, first.HybridStrategy, "hybrid"),
    ],
)
def test_a_config_stands_for_a_strategy(settings, kind, exchange):
    config = DistributeTranspilerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    strategy = strategy_of(config)
    assert type(strategy) is kind
    assert strategy._settings()["mode"] == exchange
    assert exchange_config(strategy.get_program_config(), exchange)["sync_mode"] == (
        exchange == "sync"
    )
    # The user's own config stays as it was.
    assert config.sync_mode is settings.get("sync_mode", True)


def test_strategies_take_dictionaries():
    strategy = first.StrategyFactory.create_geo_strategy(50)
    strategy.set_program_config({"min_block_size": 81920, "geo_sgd_need_push_nums": 20})
    strategy.set_trainer_runtime_config({"communicator_send_wait_times": 2})
    strategy.set_server_runtime_config({"_rpc_get_thread_num": 3})
    strategy.set_execute_strategy({"num_threads": 2})
    strategy.set_build_strategy({"memory_optimize": True})
    settings = strategy._settings()
    assert settings["k_steps"] == settings["communicator"]["send_queue_size"] == 20
    assert settings["communicator"]["send_wait_times"] == 2
    assert settings["server"]["rpc_get_thread_num"] == 3


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("set_program_config", "DistributeTranspilerConfig"),
        ("set_trainer_runtime_config", "TrainerRuntimeConfig"),
        ("set_server_runtime_config", "ServerRuntimeConfig"),
        ("set_execute_strategy", "ExecutionStrategy"),
        ("set_build_strategy", "BuildStrategy"),
    ],
)
def test_unknown_keys_of_strategies_have_the_texts_of_paddle(method, kind):
    strategy = first.StrategyFactory.create_sync_strategy()
    with pytest.raises(ValueError, match=f"{kind} doesn't have key: speed"):
        getattr(strategy, method)({"speed": 1})
    with pytest.raises(TypeError, match=f"only accept input type: dict or {kind}"):
        getattr(strategy, method)(7)


def test_the_knobs_of_a_trainer_are_shown_as_a_table():
    strategy = first.StrategyFactory.create_half_async_strategy()
    lines = str(strategy.get_trainer_runtime_config()).splitlines()
    assert lines[1] == "=" * 50 and lines[3] == "-" * 50
    assert lines[2] == "        TrainerRuntimeConfig Overview        Value"
    assert lines[4] == f"{'communicator_max_merge_var_num':<45}1    "


def test_the_base_of_strategies_is_no_strategy():
    with pytest.raises(NotImplementedError, match="use StrategyFactory"):
        first.DistributedStrategy()


def test_a_table_is_described_by_flat_keys():
    at = "table_parameters.emb"
    tables = read_tables(
        {
            "emb": {
                f"{at}.table_class": "MemorySparseTable",
                f"{at}.shard_num": 10,
                f"{at}.accessor.accessor_class": "CtrCommonAccessor",
                f"{at}.accessor.ctr_accessor_param.delete_threshold": 0.5,
                f"{at}.accessor.embed_sgd_param.name": "SparseAdaGradSGDRule",
                f"{at}.accessor.embed_sgd_param.adagrad.learning_rate": 1,
                f"{at}.accessor.embed_sgd_param.adagrad.weight_bounds": [-5.0, 5.0],
                f"{at}.accessor.table_accessor_save_param.num": 2,
                f"{at}.accessor.table_accessor_save_param.param": [1, 2],
            }
        }
    )
    table = tables["emb"]
    assert (table["table_name"], table["shard_num"]) == ("emb", 10)
    accessor = table["accessor"]
    assert accessor["ctr_accessor_param"]["delete_threshold"] == 0.5
    # What is not said: rows are not forgotten.
    assert accessor["ctr_accessor_param"]["show_click_decay_rate"] == 1.0
    assert accessor["embed_sgd_param"]["adagrad"]["learning_rate"] == 1.0
    assert accessor["embed_sgd_param"]["adagrad"]["weight_bounds"] == [-5.0, 5.0]
    assert [save["param"] for save in accessor["table_accessor_save_param"]] == [1, 2]


@pytest.mark.parametrize(
    ("key", "value", "error", "text"),
    [
        ("accesor.embedx_dim", 8, ValueError, "has no setting `table_parameters.emb.accesor"),
        ("accessor.embedx_dim", "8", TypeError, "embedx_dim` must be of type int, not str"),
        ("table_class", "Table", ValueError, "has the table class `Table`, which is none of"),
        (
            "accessor.ctr_accessor_param.save_filter_slots",
            [1],
            NotImplementedError,
            "filters slots",
        ),
        ("accessor.accessor_class", "Mine", ValueError, "has the accessor `Mine`"),
        ("shard_num", 0, ValueError, "`shard_num` of table `emb` must be at least 1"),
    ],
)
def test_bad_descriptions_of_tables_are_named(key, value, error, text):
    with pytest.raises(error, match=text):
        fleet.DistributedStrategy().sparse_table_configs = {
            "emb": {f"table_parameters.emb.{key}": value}
        }


def test_the_older_description_of_tables():
    table = read_fleet_desc(
        {
            "emb": {
                "sparse_accessor_class": "DownpourUnitAccessor",
                "sparse_embedx_dim": 7,
                "embed_sparse_optimizer": "adagrad",
                "embed_sparse_initial_range": 0.5,
                "embedx_sparse_optimizer": "shared_adam",
                "embedx_sparse_learning_rate": 0.01,
            },
            "dense_table": {"anything": 1},
        }
    )["emb"]
    accessor = table["accessor"]
    assert (accessor["accessor_class"], accessor["fea_dim"]) == ("CtrCommonAccessor", 10)
    assert accessor["ctr_accessor_param"]["show_scale"] is False
    assert accessor["embed_sgd_param"]["name"] == "SparseAdaGradSGDRule"
    assert accessor["embed_sgd_param"]["adagrad"]["initial_range"] == 0.0
    assert accessor["embedx_sgd_param"]["name"] == "SparseSharedAdamSGDRule"
    assert accessor["embedx_sgd_param"]["adam"]["learning_rate"] == 0.01


@pytest.mark.parametrize(
    ("key", "value", "error", "text"),
    [
        ("sparse_speed", 1, ValueError, "strategy key 'sparse_speed' not support"),
        ("sparse_table_class", "Table", ValueError, "support sparse_table_class: .*actual Table"),
        ("sparse_accessor_class", "Mine", ValueError, "support sparse_accessor_class: .*Mine"),
        ("sparse_optimizer", "lamb", ValueError, "`sparse_optimizer` is `lamb`, but must be"),
        ("sparse_converter", "cat", NotImplementedError, "commands in the way of saving"),
        ("nodeid_slot", 9008, NotImplementedError, "tables of graphs"),
    ],
)
def test_bad_older_descriptions_are_named(key, value, error, text):
    with pytest.raises(error, match=text):
        fleet.DistributedStrategy().fleet_desc_configs = {"emb": {key: value}}


def test_accessors_go_into_the_lookups_of_their_table():
    paddle.enable_static()
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    attr = paddle.ParamAttr(name="emb")
    paddle.static.nn.sparse_embedding(ids, [100, 9], param_attr=attr)
    main = paddle.static.default_main_program()
    tables = read_tables({"emb": {"table_parameters.emb.shard_num": 37}})
    assert describe_tables(main, tables) == {"shard_num": 37}
    (lookup,) = [op for op in main.global_block().ops if op.type == "lookup_table"]
    accessor = json.loads(lookup.attr("entry_config"))
    assert accessor["accessor_class"] == "SparseAccessor"
    assert "embed_sgd_param" not in accessor
    assert (accessor["embedx_dim"], accessor["fea_dim"]) == (8, 11)
    wrong = read_tables({"emb": {"table_parameters.emb.accessor.embedx_dim": 9}})
    with pytest.raises(ValueError, match="it will be sparse_embedding_dim - 1: 8, but got 9"):
        describe_tables(main, wrong)
    with pytest.raises(ValueError, match="describes a table `other`; the program has emb"):
        describe_tables(main, {"other": tables["emb"]})
