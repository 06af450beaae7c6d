"""Who a process is in a job: from a script, or from the environment that a launcher sets.

A role maker answers with one `Identity`; the questions of both generations of `fleet` are asked of
it. What Gloo does in Paddle (barriers, sums over workers) goes through the servers here, so
`init_gloo`, `path` and the variables `PADDLE_WITH_GLOO` and `PADDLE_GLOO_*` have no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ... import _core
from .. import environment
from .stages import environment_device, given_stages, place_of


class Role(IntEnum):
    """What a process does.

    >>> paddle.distributed.fleet.Role.WORKER.name
    'WORKER'
    """

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4
    COORDINATOR = 5


@dataclass(frozen=True)
class Identity:
    """One process of a job, and how many others there are."""

    role: Role = Role.WORKER
    # Among the processes of the same role, from 0.
    index: int = 0
    worker_num: int = 1
    server_endpoints: tuple[str, ...] = ()
    worker_endpoints: tuple[str, ...] = ()
    is_collective: bool = False
    # The heter workers of each stage after the first, and the device of this one.
    heter_stages: tuple[tuple[str, ...], ...] = ()
    heter_device: str = "cpu"
    # Whether a launcher, or a script, made more of it than one process alone.
    is_distributed: bool = field(default=False)


class RoleMakerBase:
    """Base class of role makers; subclasses say who the process is in `_find_identity`.

    >>> paddle.distributed.fleet.PaddleCloudRoleMaker(is_collective=True)._worker_num()
    1
    """

    def __init__(self) -> None:
        self._known: Identity | None = None

    def _find_identity(self) -> Identity:
        raise NotImplementedError("Please implement this method in child class")

    def _generate_role(self) -> Identity:
        if self._known is None:
            self._known = self._find_identity()
        return self._known

    @property
    def _role_is_generated(self) -> bool:
        return self._known is not None

    @property
    def _role(self) -> Role:
        return self._generate_role().role

    @property
    def _current_id(self) -> int:
        identity = self._generate_role()
        # As in Paddle, heter workers are counted after the trainers.
        before = identity.worker_num if identity.role == Role.HETER_WORKER else 0
        return before + identity.index

    def _is_worker(self) -> bool:
        return self._role == Role.WORKER

    def _is_server(self) -> bool:
        return self._role == Role.SERVER

    def _is_heter_worker(self) -> bool:
        return self._role == Role.HETER_WORKER

    @property
    def _is_heter_parameter_server_mode(self) -> bool:
        return bool(self._generate_role().heter_stages)

    def _is_coordinator(self) -> bool:
        return self._role == Role.COORDINATOR

    def _is_first_worker(self) -> bool:
        return self._is_worker() and self._current_id == 0

    def _is_non_distributed(self) -> bool:
        return not self._generate_role().is_distributed

    def _worker_index(self) -> int:
        return self._current_id

    def _server_index(self) -> int:
        return self._current_id

    def _role_id(self) -> int:
        return self._current_id

    def _worker_num(self) -> int:
        return self._generate_role().worker_num

    def _server_num(self) -> int:
        return len(self._generate_role().server_endpoints)

    def _node_num(self) -> int:
        return len({address.rpartition(":")[0] for address in self._get_trainer_endpoints()}) or 1

    def _get_trainer_endpoints(self) -> list[str]:
        return list(self._generate_role().worker_endpoints)

    def _get_pserver_endpoints(self) -> list[str]:
        return list(self._generate_role().server_endpoints)

    def _heter_worker_num(self) -> int:
        return len(self._get_heter_worker_endpoints())

    def _get_heter_worker_endpoints(self) -> list[str]:
        return [place for stage in self._generate_role().heter_stages for place in stage]

    def _get_heter_worker_endpoint(self) -> str:
        identity = self._generate_role()
        if identity.role != Role.HETER_WORKER:
            raise ValueError("_get_heter_worker_endpoint should be invoked by heter worker")
        return self._get_heter_worker_endpoints()[identity.index]

    def _get_stage_id(self) -> int:
        identity = self._generate_role()
        if identity.role != Role.HETER_WORKER:
            return 1
        return place_of(identity.index, identity.heter_stages)[0]

    def _get_num_stage(self) -> int:
        return len(self._generate_role().heter_stages) + 1

    def _get_stage_trainers(self) -> tuple[int, ...]:
        identity = self._generate_role()
        return (identity.worker_num, *(len(stage) for stage in identity.heter_stages))

    def _get_next_trainers(self) -> list[str]:
        return self._stage(self._get_stage_id() + 1)

    def _get_previous_trainers(self) -> list[str]:
        return self._stage(self._get_stage_id() - 1)

    def _stage(self, number: int) -> list[str]:
        identity = self._generate_role()
        stages = ((), identity.worker_endpoints, *identity.heter_stages)
        return list(stages[number]) if number < len(stages) else []

    def _heter_device_type(self) -> str:
        return self._generate_role().heter_device

    def _heter_device(self) -> str:
        device = self._heter_device_type()
        return device if device == "cpu" else f"{device}:0"

    def to_string(self) -> str:
        """The role, in words.

        >>> paddle.distributed.fleet.PaddleCloudRoleMaker().to_string()
        'role: WORKER, current_id: 0, worker_endpoints: [], server_endpoints: []'
        """
        return (
            f"role: {self._role.name}, current_id: {self._current_id}, worker_endpoints:"
            f" {self._get_trainer_endpoints()}, server_endpoints: {self._get_pserver_endpoints()}"
        )


class PaddleCloudRoleMaker(RoleMakerBase):
    """The role that the environment (`TRAINING_ROLE`, `PADDLE_*`) gives this process.

    Without `PADDLE_PSERVERS_IP_PORT_LIST` (in collective jobs `PADDLE_TRAINER_ENDPOINTS`) the job
    is this process alone.

    >>> paddle.distributed.fleet.PaddleCloudRoleMaker(is_collective=True)._worker_num()
    1
    """

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        super().__init__()
        if kwargs:
            raise TypeError(f"`PaddleCloudRoleMaker` does not take {', '.join(sorted(kwargs))}")
        self._is_collective = is_collective

    def _find_identity(self) -> Identity:
        return collective_identity() if self._is_collective else server_identity()


class UserDefinedRoleMaker(RoleMakerBase):
    """The role that a script gives its process.

    >>> role = paddle.distributed.fleet.UserDefinedRoleMaker(
    ...     current_id=0,
    ...     role=paddle.distributed.fleet.Role.SERVER,
    ...     worker_num=2,
    ...     server_endpoints=["127.0.0.1:36011", "127.0.0.1:36012"],
    ... )
    >>> role._is_server(), role._server_num(), role._worker_num()
    (True, 2, 2)
    """

    def __init__(
        self,
        is_collective: bool = False,
        init_gloo: bool = False,
        *,
        current_id: int = 0,
        role: Role = Role.WORKER,
        worker_num: int = 0,
        worker_endpoints: Sequence[str] | None = None,
        server_endpoints: Sequence[str] | None = None,
        heter_worker_endpoints: Sequence[Any] | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__()
        workers = checked_endpoints("worker_endpoints", worker_endpoints)
        servers = checked_endpoints("server_endpoints", server_endpoints)
        if is_collective and role != Role.WORKER:
            raise ValueError("a collective job has workers only: leave `role` out")
        if worker_num and workers and worker_num != len(workers):
            raise ValueError(
                f"`worker_num` is {worker_num}, but `worker_endpoints` names {len(workers)}:"
                " leave one of them out"
            )
        count = worker_num or len(workers) or 1
        stages = given_stages(heter_worker_endpoints)
        check_index(role, current_id, count, servers, sum(map(len, stages)))
        self._known = Identity(
            role=Role(role),
            index=current_id,
            worker_num=count,
            server_endpoints=servers,
            worker_endpoints=workers,
            is_collective=is_collective,
            heter_stages=stages,
            is_distributed=bool(servers) or count > 1,
        )


def server_identity() -> Identity:
    """Who this process is in a job with parameter servers, by the environment.

    >>> from bireme.distributed.fleet.role import server_identity
    >>> server_identity().is_distributed
    False
    """
    named = environment.text("TRAINING_ROLE")
    if named == "COORDINATOR":
        raise NotImplementedError(
            "coordinators are not in this version: `TRAINING_ROLE` must be TRAINER, PSERVER or"
            " HETER_TRAINER"
        )
    if environment.endpoints("PADDLE_PSERVERS_IP_PORT_LIST"):
        # As in Paddle 2.x, a server finds itself by its address alone.
        return environment_identity(PADDLE_PSERVER_ID="")
    if named == "PSERVER":
        environment.required("PADDLE_PSERVERS_IP_PORT_LIST")
    return Identity()


def environment_identity(**given: str) -> Identity:
    """Who the environment of a launcher says this process is; `given` counts before it.

    >>> from bireme.distributed.fleet.role import environment_identity
    >>> environment_identity(PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:6174")
    Traceback (most recent call last):
    ...
    ValueError: Can not find PADDLE_TRAINERS_NUM, please check your environment.
    """
    role, index, workers, servers, endpoints, stages = _core.environment_role(
        {**environment.all_set(), **given}
    )
    return Identity(
        Role(role),
        index,
        workers,
        tuple(servers),
        tuple(endpoints),
        heter_stages=tuple(tuple(stage) for stage in stages),
        heter_device=environment_device() if role == Role.HETER_WORKER else "cpu",
        is_distributed=True,
    )


def collective_identity() -> Identity:
    """Who this process is in a job without servers, by the environment.

    >>> from bireme.distributed.fleet.role import collective_identity
    >>> collective_identity().worker_num
    1
    """
    named = environment.text("PADDLE_TRAINING_ROLE", "TRAINER")
    if named != "TRAINER":
        raise ValueError(f"`PADDLE_TRAINING_ROLE` is `{named}`, but a collective job has TRAINERs")
    workers = tuple(environment.endpoints("PADDLE_TRAINER_ENDPOINTS"))
    index = environment.number("PADDLE_TRAINER_ID", 0)
    count = environment.number("PADDLE_TRAINERS_NUM", len(workers) or 1)
    return Identity(
        index=index,
        worker_num=max(count, len(workers)),
        worker_endpoints=workers,
        is_collective=True,
        is_distributed=bool(workers),
    )


def checked_endpoints(name: str, endpoints: Sequence[str] | None) -> tuple[str, ...]:
    """Addresses of the form `host:port`, none of them twice.

    >>> checked_endpoints("server_endpoints", ["127.0.0.1:6174"])
    ('127.0.0.1:6174',)
    >>> checked_endpoints("server_endpoints", ["127.0.0.1:6174", "127.0.0.1:6174"])
    Traceback (most recent call last):
    ...
    ValueError: server_endpoints can't have duplicate elements
    """
    if endpoints is None:
        return ()
    if not isinstance(endpoints, (list, tuple)):
        raise TypeError(f"{name} must be as string list")
    for endpoint in endpoints:
        if not isinstance(endpoint, str):
            raise TypeError(f"every element in {name} list must be as string")
        check_endpoint(endpoint, name)
    if len(endpoints) != len(set(endpoints)):
        raise ValueError(f"{name} can't have duplicate elements")
    return tuple(endpoints)


def check_endpoint(endpoint: str, source: str) -> None:
    """Raises unless an address is `host:port`.

    >>> check_endpoint("127.0.0.1", "pservers")
    Traceback (most recent call last):
    ...
    ValueError: `pservers` has the address `127.0.0.1`, which is not of the form host:port
    """
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(
            f"`{source}` has the address `{endpoint}`, which is not of the form host:port"
        )


def check_index(
    role: Role, index: int, workers: int, servers: Sequence[str], heter: int = 0
) -> None:
    """Raises where there is no process of that number.

    >>> check_index(Role.WORKER, 2, 2, ["127.0.0.1:6174"])
    Traceback (most recent call last):
    ...
    ValueError: worker 2 is none of 2 workers, which are numbered from 0
    """
    if role not in (Role.WORKER, Role.SERVER, Role.HETER_WORKER):
        raise TypeError("role must be as Role")
    if not isinstance(index, int):
        raise TypeError("current_id must be as int")
    if index < 0:
        raise ValueError("current_id must be greater than or equal to 0")
    if not isinstance(workers, int):
        raise TypeError("worker_num must be as int")
    if workers <= 0:
        raise ValueError("worker_num must be greater than 0")
    if role == Role.SERVER and index >= len(servers):
        raise ValueError(
            "if role is Role.SERVER, current_id must be less than or equal to"
            " len(server_endpoints) - 1"
        )
    if role == Role.HETER_WORKER and index >= heter:
        raise ValueError(
            f"heter worker {index} is none of {heter} heter workers, which are numbered from 0"
        )
    if role == Role.WORKER and index >= workers:
        raise ValueError(f"worker {index} is none of {workers} workers, which are numbered from 0")
