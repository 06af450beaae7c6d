"""What a strategy says of tables: Paddle's flat keys in, the settings of an accessor out.

Field names and defaults are those of `TableParameter` in Paddle's proto. An accessor leaves here as
JSON in the attribute `entry_config` of the lookups of its table, where the transpiler finds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...static.settings import unknown_setting

_LOOKUPS = ("lookup_table", "lookup_table_v2")
_NAIVE = {"learning_rate": 0.05, "initial_range": 1e-4, "weight_bounds": [-10.0, 10.0]}
_ADAGRAD = {**_NAIVE, "initial_g2sum": 3.0}
_ADAM = {
    **_NAIVE,
    "learning_rate": 0.001,
    "beta1_decay_rate": 0.9,
    "beta2_decay_rate": 0.999,
    "ada_epsilon": 1e-8,
}
_RULE: dict[str, Any] = {"name": "", "naive": _NAIVE, "adagrad": _ADAGRAD, "adam": _ADAM}
_SAVE_PARAM = "table_accessor_save_param"
_SAVE = {"param": 0, "converter": "", "deconverter": ""}
# What counts where nothing is said: rows are neither admitted late nor forgotten.
_TABLE: dict[str, Any] = {
    "table_id": 0,
    "table_name": "",
    "table_class": "MemorySparseTable",
    "shard_num": 1000,
    "type": 0,
    "accessor": {
        "accessor_class": "SparseAccessor",
        "fea_dim": None,
        "embedx_dim": None,
        "embedx_threshold": 0,
        "ctr_accessor_param": {
            "nonclk_coeff": 0.1,
            "click_coeff": 1.0,
            "base_threshold": 0.0,
            "delta_threshold": 0.0,
            "delta_keep_days": 16.0,
            "show_click_decay_rate": 1.0,
            "delete_threshold": 0.0,
            "delete_after_unseen_days": 30.0,
            "ssd_unseenday_threshold": 1,
            "show_scale": True,
            "zero_init": True,
            "load_filter_slots": [],
            "save_filter_slots": [],
        },
        "table_accessor_save_param": [_SAVE],
        "embed_sgd_param": _RULE,
        "embedx_sgd_param": _RULE,
    },
    "compress_in_save": False,
    "enable_sparse_table_cache": True,
    "sparse_table_cache_rate": 0.00055,
    "sparse_table_cache_file_num": 16,
    "enable_revert": False,
    "shard_merge_rate": 1.0,
}
_TABLE_CLASSES = ("MemorySparseTable", "CommonSparseTable", "SSDSparseTable")
_ACCESSORS = ("SparseAccessor", "CtrCommonAccessor", "CtrDoubleAccessor", "CtrDymfAccessor")
# The names of `fleet_desc_configs` for the rules, with the part of `_RULE` that sets them.
_RULES = {
    "naive": ("SparseNaiveSGDRule", "naive"),
    "adagrad": ("SparseAdaGradSGDRule", "adagrad"),
    "std_adagrad": ("StdAdaGradSGDRule", "adagrad"),
    "adam": ("SparseAdamSGDRule", "adam"),
    "shared_adam": ("SparseSharedAdamSGDRule", "adam"),
}
_DESC_ACCESSORS = (
    "DownpourSparseValueAccessor",
    "DownpourCtrAccessor",
    "DownpourCtrDoubleAccessor",
    "DownpourUnitAccessor",
    "DownpourDoubleUnitAccessor",
    "DownpourCtrDymfAccessor",
)
_RULE_KEYS = (
    "optimizer",
    "learning_rate",
    "weight_bounds",
    "initial_range",
    "initial_g2sum",
    "beta1_decay_rate",
    "beta2_decay_rate",
    "ada_epsilon",
)
# Keys of `fleet_desc_configs` with their place in an accessor's settings, and their defaults.
_DESC_NUMBERS = {
    "sparse_nonclk_coeff": ("nonclk_coeff", 0.1),
    "sparse_click_coeff": ("click_coeff", 1.0),
    "sparse_base_threshold": ("base_threshold", 1.5),
    "sparse_delta_threshold": ("delta_threshold", 0.25),
    "sparse_delta_keep_days": ("delta_keep_days", 16.0),
    "sparse_show_click_decay_rate": ("show_click_decay_rate", 0.98),
    "sparse_delete_threshold": ("delete_threshold", 0.8),
    "sparse_delete_after_unseen_days": ("delete_after_unseen_days", 30.0),
    "sparse_ssd_unseenday_threshold": ("ssd_unseenday_threshold", 1),
    "sparse_load_filter_slots": ("load_filter_slots", []),
    "sparse_save_filter_slots": ("save_filter_slots", []),
}
_DESC_KEYS = {
    *_DESC_NUMBERS,
    "sparse_table_class",
    "sparse_compress_in_save",
    "sparse_shard_num",
    "sparse_accessor_class",
    "sparse_fea_dim",
    "sparse_embedx_dim",
    "sparse_embedx_threshold",
    "sparse_converter",
    "sparse_deconverter",
    "sparse_enable_cache",
    "sparse_cache_rate",
    "sparse_cache_file_num",
    "feature_learning_rate",
    "nodeid_slot",
    *(f"{prefix}sparse_{key}" for prefix in ("", "embed_", "embedx_") for key in _RULE_KEYS),
}


def read_tables(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Tables by name, from flat keys `table_parameters.<table>.<field>`.

    >>> tables = read_tables({"emb": {"table_parameters.emb.accessor.embedx_dim": 7}})
    >>> tables["emb"]["accessor"]["embedx_dim"], tables["emb"]["shard_num"]
    (7, 1000)
    >>> tables = read_tables({"emb": {"table_parameters.emb.accessor.embed_dim": 7}})
    Traceback (most recent call last):
    ...
    ValueError: `sparse_table_configs` has no setting `table_parameters.emb.accessor.embed_dim`: \
did you mean `table_parameters.emb.accessor.embedx_dim`?
    """
    tables = {}
    for name, given in configs.items():
        if not isinstance(given, Mapping):
            raise TypeError(f"`sparse_table_configs` of `{name}` must be a dictionary")
        known: set[str] = set()
        table = _filled(_TABLE, f"table_parameters.{name}", given, 0, known)
        for key in given:
            if key not in known:
                raise ValueError(unknown_setting("sparse_table_configs", key, known))
        table["table_name"] = name
        tables[name] = _checked_table(name, table)
    return tables


def read_fleet_desc(configs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Tables by name, from the keys of Paddle's older `fleet_desc.prototxt`.

    >>> read_fleet_desc({"emb": {"sparse_embedx_dim": 7}})["emb"]["accessor"]["accessor_class"]
    'CtrCommonAccessor'
    >>> read_fleet_desc({"emb": {"sparse_dim": 7}})
    Traceback (most recent call last):
    ...
    ValueError: strategy key 'sparse_dim' not support
    """
    tables = {}
    for name, given in configs.items():
        # Dense tables follow from the program, and what is not a table are switches such as
        # `use_cvm`.
        if name in ("dense_table", "datanorm_table") or not isinstance(given, Mapping):
            continue
        tables[name] = _checked_table(name, _desc_table(name, given, configs.get("use_cvm", True)))
    return tables


def describe_tables(program: Any, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Writes what is known of tables into the lookups of a program.

    Returns what the transpiler is told of all tables together: their `shard_num`.

    >>> describe_tables(paddle.static.Program(), {})
    {}
    """
    lookups: dict[str, list[Any]] = {}
    for op in program.global_block().ops:
        if op.type in _LOOKUPS:
            lookups.setdefault(op.input("W")[0], []).append(op)
    for name, table in tables.items():
        if name not in lookups:
            found = ", ".join(sorted(lookups)) or "none"
            raise ValueError(f"the strategy describes a table `{name}`; the program has {found}")
        width = program.global_block().var(name).shape[-1]
        accessor = json.dumps(_written(_fitted(table["accessor"], width)), sort_keys=True)
        for op in lookups[name]:
            op._set_attr("entry_config", accessor)
            op._set_attr("table_class", table["table_class"])
    shards = {table["shard_num"] for table in tables.values()}
    if len(shards) > 1:
        raise ValueError(f"tables have different `shard_num`, {sorted(shards)}: give them the same")
    return {"shard_num": shards.pop()} if shards else {}


def _filled(
    fields: Mapping[str, Any], path: str, given: Mapping[str, Any], index: int, known: set[str]
) -> dict[str, Any]:
    """The fields with what `given` says of them; `known` gets every key that could be said."""
    filled: dict[str, Any] = {}
    for name, default in fields.items():
        key = f"{path}.{name}"
        if isinstance(default, Mapping):
            filled[name] = _filled(default, key, given, index, known)
        elif isinstance(default, list) and default and isinstance(default[0], Mapping):
            known.add(f"{key}.num")
            count = given.get(f"{key}.num", 0)
            filled[name] = [_filled(default[0], key, given, i, known) for i in range(count)]
            _filled(default[0], key, {}, 0, known)
        else:
            known.add(key)
            value = given.get(key, default)
            if isinstance(value, list) and not isinstance(default, list):
                if index >= len(value):
                    raise ValueError(f"`{key}` has {len(value)} values, but `.num` says more")
                value = value[index]
            filled[name] = _as(default, value, key)
    return filled


def _as(default: Any, value: Any, key: str) -> Any:
    wanted = int if default is None else type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is int and isinstance(value, float) and value == int(value):
        return int(value)
    if value is not None and not isinstance(value, wanted):
        kind = type(value).__name__
        raise TypeError(f"`{key}` must be of type {wanted.__name__}, not {kind}")
    return list(value) if isinstance(value, list) else value


def _checked_table(name: str, table: dict[str, Any]) -> dict[str, Any]:
    accessor = table["accessor"]
    for kind, value, choices in (
        ("table class", table["table_class"], _TABLE_CLASSES),
        ("accessor", accessor["accessor_class"], _ACCESSORS),
    ):
        if value not in choices:
            raise ValueError(
                f"table `{name}` has the {kind} `{value}`, which is none of {', '.join(choices)}"
            )
    if any(
        save["converter"] or save["deconverter"] for save in accessor["table_accessor_save_param"]
    ):
        raise NotImplementedError(
            f"table `{name}` has a converter: commands in the way of saving are not in this version"
        )
    counters = accessor["ctr_accessor_param"]
    if counters["load_filter_slots"] or counters["save_filter_slots"]:
        raise NotImplementedError(f"table `{name}` filters slots, which is not in this version")
    if table["shard_num"] < 1:
        raise ValueError(f"`shard_num` of table `{name}` must be at least 1")
    return table


def _fitted(accessor: Mapping[str, Any], width: int) -> dict[str, Any]:
    """An accessor with the widths that a table of `width` columns has, which Paddle checks so."""
    sparse = accessor["accessor_class"] == "SparseAccessor"
    wanted = {
        "fea_dim": ("sparse_embedding_dim + 2", width + 2)
        if sparse
        else ("sparse_embedding_dim", width),
        "embedx_dim": ("sparse_embedding_dim - 1", width - 1)
        if sparse
        else ("sparse_embedding_dim - 3", width - 3),
    }
    fitted = dict(accessor)
    for name, (formula, value) in wanted.items():
        if fitted[name] is None:
            fitted[name] = value
        if fitted[name] != value:
            raise ValueError(
                f"The {name} is wrong, it will be {formula}: {value}, but got {fitted[name]}"
            )
    return fitted


def _written(accessor: dict[str, Any]) -> dict[str, Any]:
    """An accessor without what says nothing: the table's rules follow from the optimizer then."""
    written = {name: value for name, value in accessor.items() if name != _SAVE_PARAM}
    written["ctr_accessor_param"] = {
        name: value
        for name, value in accessor["ctr_accessor_param"].items()
        if not name.endswith("_filter_slots")
    }
    for name in ("embed_sgd_param", "embedx_sgd_param"):
        if not accessor[name]["name"]:
            if accessor[name] != _RULE:
                raise ValueError(f"`{name}` has settings, but no `name` of a rule")
            del written[name]
    return written


def _desc_table(name: str, given: Mapping[str, Any], use_cvm: bool) -> dict[str, Any]:
    for key in given:
        if key not in _DESC_KEYS:
            raise ValueError(f"strategy key '{key}' not support")
        if key in ("feature_learning_rate", "nodeid_slot"):
            raise NotImplementedError(f"`{key}`: tables of graphs are not in this version")
    kind = given.get("sparse_table_class", "DownpourSparseTable")
    if kind not in ("DownpourSparseTable", "DownpourSparseSSDTable"):
        raise ValueError(
            "support sparse_table_class: ['DownpourSparseTable, DownpourSparseSSDTable'], but"
            f" actual {kind}"
        )
    known: set[str] = set()
    table = _filled(_TABLE, "", {}, 0, known)
    table["table_name"] = name
    table["table_class"] = "SSDSparseTable" if "SSD" in kind else "MemorySparseTable"
    table["shard_num"] = _as(1000, given.get("sparse_shard_num", 1000), "sparse_shard_num")
    table["compress_in_save"] = bool(given.get("sparse_compress_in_save", False))
    table["enable_sparse_table_cache"] = bool(given.get("sparse_enable_cache", True))
    table["sparse_table_cache_rate"] = given.get("sparse_cache_rate", 0.00055)
    table["sparse_table_cache_file_num"] = given.get("sparse_cache_file_num", 16)
    table["accessor"].update(_desc_accessor(given, use_cvm))
    return table


def _desc_accessor(given: Mapping[str, Any], use_cvm: bool) -> dict[str, Any]:
    kind = given.get("sparse_accessor_class", "DownpourCtrAccessor")
    if kind not in _DESC_ACCESSORS:
        raise ValueError(
            f"support sparse_accessor_class: {list(_DESC_ACCESSORS)}, but actual {kind}"
        )
    ours = "Double" if "Double" in kind else "Dymf" if "Dymf" in kind else "Common"
    counters = {"show_scale": kind != "DownpourUnitAccessor", "zero_init": True}
    for key, (field, default) in _DESC_NUMBERS.items():
        counters[field] = _as(default, given.get(key, default), key)
    save = {
        "converter": given.get("sparse_converter", ""),
        "deconverter": given.get("sparse_deconverter", ""),
    }
    one_rule = kind in ("DownpourCtrAccessor", "DownpourCtrDoubleAccessor")
    width = _as(8, given.get("sparse_embedx_dim", 8), "sparse_embedx_dim")
    return {
        "accessor_class": f"Ctr{ours}Accessor" if use_cvm else "SparseAccessor",
        "embedx_dim": width,
        "fea_dim": width + 3,
        "embedx_threshold": given.get("sparse_embedx_threshold", 10),
        "ctr_accessor_param": counters,
        "table_accessor_save_param": [{"param": param, **save} for param in (1, 2)],
        "embed_sgd_param": _desc_rule(given, "" if one_rule else "embed_"),
        "embedx_sgd_param": _desc_rule(given, "" if one_rule else "embedx_"),
    }


def _desc_rule(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    chosen = given.get(f"{prefix}sparse_optimizer", "adagrad")
    if chosen not in _RULES:
        raise ValueError(
            f"`{prefix}sparse_optimizer` is `{chosen}`, but must be {', '.join(_RULES)}"
        )
    name, part = _RULES[chosen]
    numbers = {
        field: _as(default, given.get(f"{prefix}sparse_{field}", default), field)
        for field, default in _RULE[part].items()
    }
    if prefix == "embed_" and part == "adagrad":
        numbers["initial_range"] = 0.0
    return {"name": name, part: numbers}
