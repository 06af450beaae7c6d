"""Who a process is in a job."""

from __future__ import annotations

import os
from enum import IntEnum
from typing import Any

from ..environment import ParallelEnv, get_rank, get_world_size


class Role(IntEnum):
    """What a process does.

    >>> paddle.distributed.fleet.Role.WORKER.name
    'WORKER'
    """

    WORKER = 1
    SERVER = 2


class PaddleCloudRoleMaker:
    """The role that the environment (`TRAINING_ROLE`, `PADDLE_*`) gives this process.

    >>> paddle.distributed.fleet.PaddleCloudRoleMaker(is_collective=True)._worker_num()
    1
    """

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        if kwargs:
            raise TypeError(f"`PaddleCloudRoleMaker` does not take {', '.join(sorted(kwargs))}")
        self._is_collective = is_collective

    def _role(self) -> Role:
        named = os.environ.get("TRAINING_ROLE", "TRAINER")
        if named not in ("TRAINER", "PSERVER"):
            raise ValueError(f"`TRAINING_ROLE` is `{named}`, but must be TRAINER or PSERVER")
        return Role.SERVER if named == "PSERVER" else Role.WORKER

    def _worker_index(self) -> int:
        return get_rank()

    def _worker_num(self) -> int:
        return get_world_size()

    def _worker_endpoints(self) -> list[str]:
        return ParallelEnv().trainer_endpoints


class UserDefinedRoleMaker(PaddleCloudRoleMaker):
    """The role that a script gives its process; only one worker is in this version.

    >>> role = paddle.distributed.fleet.UserDefinedRoleMaker(current_id=0, worker_num=1)
    >>> role._worker_num()
    1
    """

    def __init__(
        self,
        is_collective: bool = False,
        *,
        current_id: int = 0,
        role: Role = Role.WORKER,
        worker_num: int = 1,
        worker_endpoints: list[str] | None = None,
        server_endpoints: list[str] | None = None,
        init_gloo: bool = False,
        path: str | None = None,
    ) -> None:
        super().__init__(is_collective)
        if server_endpoints or role == Role.SERVER:
            raise NotImplementedError("parameter servers are not in this version")
        if init_gloo or path:
            raise NotImplementedError("there is no Gloo here: leave out `init_gloo` and `path`")
        self._given = (current_id, len(worker_endpoints or []) or worker_num, worker_endpoints)

    def _role(self) -> Role:
        return Role.WORKER

    def _worker_index(self) -> int:
        return self._given[0]

    def _worker_num(self) -> int:
        return self._given[1]

    def _worker_endpoints(self) -> list[str]:
        return list(self._given[2] or [])
