"""Groups of processes: the one of all processes of a job, and those that scripts make of it."""

from __future__ import annotations

import atexit
import datetime
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._names import set_public_names

_DEFAULT_NAME = "_default_pg"
_BACKEND = "GLOO"
# Paddle's own groups have lower numbers.
_FIRST_ID = 10
_DEFAULT_TIMEOUT = datetime.timedelta(seconds=1800)

# By number; the group of all processes is 0.
_groups: dict[int, Group] = {}
_next_id = _FIRST_ID


class Group:
    """Some processes of a job; calls that are given a group are made by its members alone.

    >>> group = paddle.distributed.new_group([0])
    >>> group.rank, group.nranks, group.ranks
    (0, 1, [0])
    """

    def __init__(
        self,
        rank_in_group: int,
        id: int,
        ranks: Sequence[int],
        pg: Any = None,
        name: str | None = None,
    ) -> None:
        self._rank_in_group = rank_in_group
        self._id = id
        self._ranks = list(ranks)
        self._pg = pg
        self._name = name

    @property
    def rank(self) -> int:
        """The number of this process in the group, -1 where it is no member."""
        return self._rank_in_group

    @property
    def ranks(self) -> list[int]:
        """The numbers of the members in the job."""
        return self._ranks

    @property
    def nranks(self) -> int:
        """How many members there are."""
        return len(self._ranks)

    @property
    def world_size(self) -> int:
        """How many members there are, -1 where this process is none."""
        return len(self._ranks) if self._rank_in_group >= 0 else -1

    @property
    def name(self) -> str | None:
        """Its name."""
        return self._name

    @property
    def id(self) -> int:
        """Its number: 0 is the group of all processes."""
        return self._id

    @property
    def process_group(self) -> Any:
        """What does the work; `None` where this process is no member."""
        return self._pg

    @property
    def backend(self) -> str:
        """The name that Paddle gives to collective calls on CPUs."""
        return _BACKEND

    def is_member(self) -> bool:
        """Whether this process belongs to it.

        >>> paddle.distributed.new_group([0]).is_member()
        True
        """
        return self._rank_in_group >= 0

    def get_group_rank(self, rank: int) -> int:
        """The number within the group of a process of the job; -1 where this process is no member.

        >>> paddle.distributed.new_group([0]).get_group_rank(0)
        0
        """
        if not self.is_member():
            return -1
        if rank not in self._ranks:
            raise ValueError(
                f"The input rank {rank} can not be found inside the group {self._name}, which has"
                f" the ranks {self._ranks}"
            )
        return self._ranks.index(rank)

    def __repr__(self) -> str:
        members = ", ".join(map(str, self._ranks))
        return (
            f"rank: {self.rank}, nranks: {self.nranks}, id: {self._id}, ranks: {members};"
            f" name: {self._name}"
        )


def all_processes() -> Group:
    """The group of all processes of the job; connects when it is first asked for.

    >>> from bireme.distributed.communication.group import all_processes
    >>> all_processes().nranks
    1
    """
    group = _groups.get(0)
    if group is None:
        made = _core.ProcessGroup.all()
        group = Group(made.rank, 0, range(made.size), made, _DEFAULT_NAME)
        _groups[0] = group
    return group


_get_global_group = all_processes


def meet(rank: int, endpoints: Sequence[str]) -> Group:
    """As `all_processes`, of processes that a script names and not the environment.

    >>> from bireme.distributed.communication.group import meet
    >>> meet(0, ["127.0.0.1:36011"]).nranks
    1
    """
    if 0 not in _groups:
        made = _core.ProcessGroup.all(rank, list(endpoints))
        _groups[0] = Group(made.rank, 0, range(made.size), made, _DEFAULT_NAME)
    return _groups[0]


def group_of(group: Group | None) -> Group:
    """The given group, or that of all processes.

    >>> from bireme.distributed.communication.group import group_of
    >>> group_of(None).id
    0
    """
    if group is None:
        return all_processes()
    if not isinstance(group, Group):
        kind = type(group).__name__
        raise TypeError(f"`group` must be what `new_group` returned, not {kind}")
    return group


def is_outsider(group: Group | None) -> bool:
    """Whether this process is no member of a group; warns then, as Paddle does.

    >>> from bireme.distributed.communication.group import is_outsider
    >>> is_outsider(None)
    False
    """
    if group is None or group_of(group).is_member():
        return False
    rank = all_processes().rank
    warnings.warn(f"Current global rank {rank} is not in group {group.name}", stacklevel=3)
    return True


def new_group(
    ranks: Sequence[int] | None = None,
    backend: str | None = None,
    timeout: datetime.timedelta = _DEFAULT_TIMEOUT,
) -> Group:
    """A group of some processes of the job; every process of the job must make the call.

    How long a call waits for others is set by `FLAGS_rpc_deadline`, for all groups alike.

    >>> paddle.distributed.new_group([0]).ranks
    [0]
    """
    global _next_id
    if backend not in (None, "gloo", "auto"):
        raise ValueError(f"`backend` {backend!r} is not in this version: on CPUs it is 'gloo'")
    if timeout != _DEFAULT_TIMEOUT:
        warnings.warn("`timeout` has no effect: set `FLAGS_rpc_deadline`", stacklevel=2)
    everybody = all_processes()
    ranks = _checked_ranks(ranks, everybody)
    number, _next_id = _next_id, _next_id + 1
    if len(ranks) > 1:
        made = everybody.process_group.subgroup(ranks)
    else:
        made = _core.ProcessGroup.alone() if everybody.rank in ranks else None
    rank = made.rank if made is not None else -1
    group = Group(rank, number, ranks, made, f"{_DEFAULT_NAME}{number}")
    _groups[number] = group
    return group


def _checked_ranks(ranks: Sequence[int] | None, everybody: Group) -> list[int]:
    if ranks is None:
        return list(everybody.ranks)
    chosen = sorted(ranks)
    if not chosen:
        raise ValueError("a group needs a rank: `ranks` is empty")
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"a rank is named twice in {list(ranks)}")
    unknown = [rank for rank in chosen if rank not in everybody.ranks]
    if unknown:
        raise ValueError(
            f"rank {unknown[0]} is none of the job: it has the ranks 0 to {everybody.nranks - 1}"
        )
    return chosen


def get_group(id: int = 0) -> Group | None:
    """The group of a number, 0 for that of all processes.

    >>> paddle.distributed.get_group(paddle.distributed.new_group([0]).id).ranks
    [0]
    """
    if id not in _groups:
        warnings.warn(f"Group {id} is not initialized.", stacklevel=2)
    return _groups.get(id)


def is_initialized() -> bool:
    """Whether the processes of the job have found each other.

    >>> group = paddle.distributed.init_parallel_env()
    >>> paddle.distributed.is_initialized()
    True
    """
    return 0 in _groups


def is_available() -> bool:
    """Whether there are collective calls: always.

    >>> paddle.distributed.is_available()
    True
    """
    return True


def destroy_process_group(group: Group | None = None) -> None:
    """Lets go of a group; of that of all processes, and with it of all others, by default.

    >>> group = paddle.distributed.init_parallel_env()
    >>> paddle.distributed.destroy_process_group()
    >>> paddle.distributed.is_initialized()
    False
    """
    number = 0 if group is None else group.id
    if number not in _groups:
        raise ValueError(f"Destroy group with id {number} is invalid.")
    if number:
        del _groups[number]
        return
    _groups.clear()
    _core.ProcessGroup.forget_all()


@atexit.register
def leave() -> None:
    """Says goodbye to the other processes, or why this one has failed.

    >>> from bireme.distributed.communication.group import leave
    >>> leave()
    >>> paddle.distributed.is_initialized()
    False
    """
    _groups.clear()
    failure = getattr(sys, "last_value", None)
    if failure is not None:
        _core.ProcessGroup.abort_all(f"{type(failure).__name__}: {failure}")
    else:
        _core.ProcessGroup.forget_all()


def get_backend(group: Group | None = None) -> str:
    """The name that Paddle gives to collective calls on CPUs.

    >>> paddle.distributed.get_backend()
    'GLOO'
    """
    if is_outsider(group):
        raise RuntimeError("Invalid group specified")
    return group_of(group).backend


def barrier(group: Group | None = None) -> None:
    """Waits until all members have come.

    >>> paddle.distributed.barrier() is None
    True
    """
    if group is not None and not group_of(group).is_member():
        return
    if not _core.in_dynamic_mode():
        from .static_ops import append_barrier

        append_barrier(group)
        return
    group_of(group).process_group.barrier()


def wait(tensor: Any, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """Waits for the calls that were made with `sync_op=False`, the one on `tensor` among them.

    >>> x = paddle.ones([2])
    >>> task = paddle.distributed.all_reduce(x, sync_op=False)
    >>> paddle.distributed.wait(x)
    >>> x.tolist()
    [1.0, 1.0]
    """
    if group is not None and not group_of(group).is_member():
        return
    # In a program each op waits for those before it.
    if _core.in_dynamic_mode():
        group_of(group).process_group.settle()


set_public_names(__name__, but="all_processes group_of is_outsider leave meet")
