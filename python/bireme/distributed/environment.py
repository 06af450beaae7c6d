"""The environment variables of distributed jobs: the only place in Python to read them.

What they are called and say is in one table, `environment/variables.rs` of `crates/fleet`, from
which `docs/environment.md` is written. Read anew at every call: a launcher, or a test, may set the
variables after the import.
"""

from __future__ import annotations

import os
from typing import overload

from .. import _core
from ..static.settings import unknown_setting

# What each variable says. A name that is not here cannot be read.
VARIABLES = {name: meaning for name, _, meaning in _core.environment_variables()}


@overload
def text(name: str, default: str) -> str: ...
@overload
def text(name: str, default: None = None) -> str | None: ...
def text(name: str, default: str | None = None) -> str | None:
    """What a variable says, or the default where it is not set.

    >>> from bireme.distributed import environment
    >>> environment.text("TRAINING_ROLE", "TRAINER")
    'TRAINER'
    >>> environment.text("TRAINING_ROLL")
    Traceback (most recent call last):
    ...
    KeyError: '`the environment` has no setting `TRAINING_ROLL`: did you mean `TRAINING_ROLE`?'
    """
    if name not in VARIABLES:
        raise KeyError(unknown_setting("the environment", name, VARIABLES))
    return os.environ.get(name, default)


def required(name: str) -> str:
    """What a variable says that must be set.

    >>> from bireme.distributed import environment
    >>> environment.required("PADDLE_TRAINERS_NUM")
    Traceback (most recent call last):
    ...
    ValueError: Can not find PADDLE_TRAINERS_NUM, please check your environment.
    """
    value = text(name)
    if value is None:
        raise ValueError(f"Can not find {name}, please check your environment.")
    return value


def number(name: str, default: int | None = None) -> int:
    """A whole number from 0 on; without a default it must be set.

    >>> from bireme.distributed import environment
    >>> environment.number("PADDLE_TRAINER_ID", 0)
    0
    """
    value = required(name) if default is None else text(name) or str(default)
    if not value.isdecimal():
        raise ValueError(f"the environment says `{name}={value}`, which is not a number from 0 on")
    return int(value)


def endpoints(name: str) -> list[str]:
    """Addresses with commas between, as a list; empty where the variable is not set.

    >>> from bireme.distributed import environment
    >>> environment.endpoints("PADDLE_TRAINER_ENDPOINTS")
    []
    """
    return [part.strip() for part in (text(name) or "").split(",") if part.strip()]


def all_set() -> dict[str, str]:
    """What every variable says that is set.

    >>> from bireme.distributed import environment
    >>> "PADDLE_TRAINER_ID" in environment.all_set()
    False
    """
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}
