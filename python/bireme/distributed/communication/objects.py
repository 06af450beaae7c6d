"""Python objects between processes. They travel as pickles, which can hold any object, and run code
when they are read: the processes of a job with a secret trust each other so far. In a job without
one, plain data alone is taken from others.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

from ... import _core
from ..._names import set_public_names
from ...framework import pickles
from .group import Group, all_processes, group_of, is_outsider


def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> None:
    """Appends the object of each process to `object_list`.

    >>> objects = []
    >>> paddle.distributed.all_gather_object(objects, {"foo": [1, 2, 3]})
    >>> objects
    [{'foo': [1, 2, 3]}]
    """
    _require_eager("all_gather_object")
    if is_outsider(group):
        return
    parts = group_of(group).process_group.all_gather_bytes(pickle.dumps(obj))
    object_list.extend(_loads(part) for part in parts)


def broadcast_object_list(object_list: list[Any], src: int, group: Group | None = None) -> None:
    """The objects of the list become those of process `src`, which has as many.

    >>> objects = [{"foo": [1, 2, 3]}]
    >>> paddle.distributed.broadcast_object_list(objects, src=0)
    >>> objects
    [{'foo': [1, 2, 3]}]
    """
    _require_eager("broadcast_object_list")
    if is_outsider(group):
        return
    group = group_of(group)
    root = group.get_group_rank(src)
    mine = pickle.dumps(object_list) if group.rank == root else b""
    given = _loads(group.process_group.all_gather_bytes(mine)[root])
    if len(given) != len(object_list):
        raise ValueError(
            f"process {src} has {len(given)} objects, but the list here is for {len(object_list)}"
        )
    object_list[:] = given


def scatter_object_list(
    out_object_list: list[Any],
    in_object_list: list[Any] | None = None,
    src: int = 0,
    group: Group | None = None,
) -> None:
    """`out_object_list` becomes this process's one object of the list that process `src` has.

    >>> objects = []
    >>> paddle.distributed.scatter_object_list(objects, [{"foo": 1}], src=0)
    >>> objects
    [{'foo': 1}]
    """
    _require_eager("scatter_object_list")
    if is_outsider(group):
        return
    group = group_of(group)
    root = group.get_group_rank(src)
    parts = [b""] * group.nranks
    if src == all_processes().rank:
        if in_object_list is None or len(in_object_list) != group.nranks:
            count = 0 if in_object_list is None else len(in_object_list)
            raise ValueError(
                f"`in_object_list` has {count} objects, but the group has {group.nranks} ranks"
            )
        parts = [pickle.dumps(obj) for obj in in_object_list]
    part = group.process_group.all_to_all_bytes(parts)[root]
    out_object_list[:] = [_loads(part)]


def _loads(part: bytes) -> Any:
    """The object in a pickle of another process.

    >>> import pickle
    >>> from bireme.distributed.communication.objects import _loads
    >>> _loads(pickle.dumps({"foo": [1, 2, 3]}))
    {'foo': [1, 2, 3]}
    """
    if all_processes().nranks == 1 or _is_guarded():
        return pickle.loads(part)
    try:
        return _plain(pickles.restore(io.BytesIO(part)), {})
    except pickles.UnsafePickleError as error:
        raise pickles.UnsafePickleError(
            f"an object of another process is more than plain data: {error}. A job without a secret "
            "takes numbers, texts, lists, dictionaries and arrays only: set `BIREME_JOB_SECRET` to "
            "the same long random text for all processes"
        ) from None


def _is_guarded() -> bool:
    """Whether whoever is in the job has proven it: launchers give every job a secret."""
    secret = os.environ.get("BIREME_JOB_SECRET", "").strip()
    return secret not in ("", "none") or "BIREME_TLS_CERT" in os.environ


def _plain(value: Any, done: dict[int, Any]) -> Any:
    """Arrays in the place of what a pickle held.

    What it held in several places is converted once, and then in `done`: a few bytes could name it
    often.
    """
    if not isinstance(value, (pickles.StoredArray, dict, list, tuple, set, frozenset)):
        return value
    if id(value) not in done:
        done[id(value)] = _converted(value, done)
    return done[id(value)]


def _converted(value: Any, done: dict[int, Any]) -> Any:
    if isinstance(value, pickles.StoredArray):
        return value.view.copy()
    if isinstance(value, dict):
        pairs = value.items()
        return type(value)((_plain(key, done), _plain(item, done)) for key, item in pairs)
    return type(value)(_plain(item, done) for item in value)


def _require_eager(function: str) -> None:
    if not _core.in_dynamic_mode():
        raise RuntimeError(f"{function} doesn't support static graph mode.")


set_public_names(__name__)
