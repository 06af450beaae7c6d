"""A YAML file as flat settings: `runner.train_batch_size: 2`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any

from .. import _core
from .log import logger

Config = dict[str, Any]

_PARTS = ("workspace", "runner", "hyper_parameters")


def load_yaml(path: str, other_parts: Iterable[str] = ()) -> Config:
    """The settings of a file's known parts, by dotted names; `{workspace}` is filled in.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "config.yaml")
    >>> _ = path.write_text("workspace: here\\nrunner: {epochs: 3, data: '{workspace}/data'}\\n")
    >>> load_yaml(str(path))
    {'workspace': 'here', 'runner.epochs': 3, 'runner.data': 'here/data'}
    """
    if not os.path.isfile(path):
        raise OSError(f"model config: {path} invalid")
    parts = (*_PARTS, *other_parts)
    flat = {key: value for key, value in _flatten(_parse(path)) if key.startswith(parts)}
    workspace = flat.get("workspace")
    for key, value in flat.items():
        if isinstance(value, str) and "{workspace}" in value:
            if workspace is None:
                raise ValueError(
                    f"`{key}` of `{path}` has {{workspace}}, which the file does not say"
                )
            flat[key] = value.replace("{workspace}", workspace)
    return flat


def override(config: Config, options: Iterable[str] | None) -> Config:
    """Sets what `-o key=value` says, in the type that the setting has.

    >>> override({"runner.epochs": 3, "runner.use_gpu": True}, ["runner.epochs=1"])
    {'runner.epochs': 1, 'runner.use_gpu': True}
    """
    for option in options or ():
        key, equals, text = option.strip().partition("=")
        if not equals:
            raise ValueError(f"`-o {option}` must have the form key=value")
        config[key] = _as_type(key, text, config.get(key))
    return config


def use_as_paddle() -> None:
    """Lets `import paddle` mean Bireme, here and in processes that are started: folders say it.

    Even where real Paddle is installed, as the loops are Bireme's; `BIREME_ALIAS=0` keeps it out.
    """
    from .._alias import export_alias, install_alias

    os.environ.setdefault("BIREME_ALIAS", "1")
    if install_alias():
        export_alias()


def load(
    path: str, options: Iterable[str] | None = None, other_parts: Iterable[str] = ()
) -> Config:
    """`load_yaml` and `override`, with where the file is as `yaml_path` and `config_abs_dir`."""
    use_as_paddle()
    config = load_yaml(path, other_parts)
    config["yaml_path"] = path
    config["config_abs_dir"] = os.path.dirname(os.path.abspath(path))
    return override(config, options)


def arguments(description: str, *, options: bool = True) -> argparse.ArgumentParser:
    """The parser of `-m config.yaml` and `-o key=value ...`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("-m", "--config_yaml", required=True, help="config file path")
    if options:
        parser.add_argument("-o", "--opt", nargs="*", help="settings over those of the file")
    return parser


def table(config: Config, title: str = "PaddleRec Benchmark Envs") -> str:
    """The settings in a box, sorted, as PaddleRec prints them.

    >>> print(table({"runner.epochs": 3}).splitlines()[4].rstrip())
        |                           runner.epochs                       3                      |
    """
    wide, value_wide, gap = max([40, *map(len, config)]), 45, "  "
    border = "    +" + "=" * (wide + value_wide + len(gap)) + "+"
    lines = [border, f"    |{title:>{wide}}{gap}{'Value':^{value_wide}}|", border.replace("=", "-")]
    for key, value in sorted(config.items()):
        text = str(value)
        if isinstance(value, str) and len(text) >= value_wide:
            text = "... " + text[-41:]
        lines.append(f"    |{key:>{wide}}{gap}{text:^{value_wide}}|")
    return "\n" + "\n".join([*lines, border]) + "\n"


def _parse(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as text:
        parsed, problems = _core.parse_yaml(text.read(), path)
    for problem in problems:
        logger.warning(problem)
    return parsed


def _flatten(nested: dict[Any, Any], above: tuple[str, ...] = ()) -> Iterable[tuple[str, Any]]:
    for key, value in nested.items():
        names = (*above, str(key))
        if isinstance(value, dict):
            yield from _flatten(value, names)
        else:
            yield ".".join(names), value


def _as_type(key: str, text: str, old: Any) -> Any:
    if isinstance(old, bool):
        return text.lower() == "true"
    for kind in (int, float):
        if type(old) is kind:
            try:
                return kind(text)
            except ValueError:
                raise ValueError(
                    f"`-o {key}={text}`: the setting is {old!r}, so it must be a number"
                ) from None
    if isinstance(old, list):
        return _core.parse_yaml(f"value: {text}", f"-o {key}={text}")[0]["value"]
    return text
