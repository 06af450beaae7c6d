"""What readers of PaddleRec import in a pipe command: its folder is their second argument."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from bireme._names import set_public_names
from bireme.rec import config as _config


class YamlHelper:
    """Reads a YAML file as flat settings."""

    def load_yaml(self, yaml_file: str, other_part: list[str] | None = None) -> dict[str, Any]:
        """See `bireme.rec.load_yaml`."""
        return _config.load_yaml(yaml_file, other_part or ())

    def print_yaml(self, config: dict[str, Any]) -> None:
        """Prints the settings in a box."""
        print(_config.table(config))


def is_distributed_env() -> bool:
    """Whether a launcher has started this process."""
    return os.environ.get("TRAINING_ROLE") is not None


def get_utils_file_path() -> str:
    """The folder of this file."""
    return os.path.dirname(os.path.abspath(__file__))


def lazy_instance_by_fliename(path: str, class_name: str) -> Any:
    """A class of a Python file; spelt as PaddleRec spells it."""
    folder, name = os.path.split(path)
    sys.path.append(folder)
    return getattr(importlib.import_module(name.removesuffix(".py")), class_name)


def is_number(text: str) -> bool:
    """Whether a text is a number.

    >>> is_number("1e-3"), is_number("1:2")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


set_public_names(__name__)
