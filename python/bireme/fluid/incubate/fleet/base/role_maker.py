"""Role makers of Paddle 1.x: the identity of `distributed.fleet`, with questions in public.

What Gloo or HDFS do in Paddle (barriers, sums over workers) goes through the servers here.
"""

from __future__ import annotations

import atexit
import os
import secrets
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..... import _core, distributed
from ....._missing import missing_names
from .....distributed import environment
from .....distributed.fleet.exchange import decode, encode, reduce
from .....distributed.fleet.mpi import start_mpi
from .....distributed.fleet.role import (
    Identity,
    Role,
    check_index,
    checked_endpoints,
    collective_identity,
    environment_identity,
)

__all__ = [
    "GeneralRoleMaker",
    "MPISymetricRoleMaker",
    "PaddleCloudRoleMaker",
    "Role",
    "RoleMakerBase",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
]


class RoleMakerBase(distributed.fleet.base.role_maker.RoleMakerBase):
    """Base class of role makers; subclasses say who the process is in `_find_identity`."""

    def __init__(self) -> None:
        super().__init__()
        # The job's way to the other processes; `fleet.init` sets it.
        self._util: Any = None

    def generate_role(self) -> None:
        """Finds out who this process is."""
        self._generate_role()

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self._is_worker()

    def is_server(self) -> bool:
        """Whether this process holds parameters."""
        return self._is_server()

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self._is_first_worker()

    def worker_num(self) -> int:
        """How many workers there are."""
        return self._worker_num()

    def server_num(self) -> int:
        """How many servers there are."""
        return self._server_num()

    def role_id(self) -> int:
        """The number of this process among those of its role."""
        return self._role_id()

    def worker_index(self) -> int:
        """The number of this worker."""
        return self._worker_index()

    def server_index(self) -> int:
        """The number of this server."""
        return self._server_index()

    def get_trainer_endpoints(self) -> list[str]:
        """The addresses of the workers."""
        return self._get_trainer_endpoints()

    def get_pserver_endpoints(self) -> list[str]:
        """The addresses of the servers."""
        return self._get_pserver_endpoints()

    def all_gather(self, input: Any) -> list[Any]:
        """The value of each worker."""
        return self._known_util("all_gather").all_gather(input)

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Writes the sum, min or max over workers into `output`."""
        _write_total(self._known_util("all_reduce_worker").all_reduce(input, mode), output)

    def barrier_worker(self) -> None:
        """Waits for the other workers."""
        self._known_util("barrier_worker").barrier("worker")

    def barrier_all(self) -> None:
        """Waits for all other processes."""
        self._known_util("barrier_all").barrier("all")

    def _known_util(self, method: str) -> Any:
        if self._util is None:
            raise RuntimeError(f"`{method}` needs a job: call `fleet.init` with this role maker")
        return self._util


class UserDefinedRoleMaker(RoleMakerBase):
    """The role that a script gives its process.

    >>> from bireme.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
    >>> role = UserDefinedRoleMaker(0, Role.WORKER, 3, ["127.0.0.1:6001", "127.0.0.1:6002"])
    >>> role.is_first_worker(), role.worker_num(), role.server_num()
    (True, 3, 2)
    """

    def __init__(
        self,
        current_id: int = 0,
        role: Role = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        servers = _some_endpoints("server_endpoints", server_endpoints)
        check_index(role, current_id, worker_num, servers)
        self._known = Identity(Role(role), current_id, worker_num, servers, is_distributed=True)


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """The number that a script gives its process in a job without servers.

    >>> from bireme.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker
    >>> UserDefinedCollectiveRoleMaker(0, ["127.0.0.1:6001"]).worker_num()
    1
    """

    def __init__(self, current_id: int = 0, worker_endpoints: Sequence[str] | None = None) -> None:
        super().__init__()
        workers = _some_endpoints("worker_endpoints", worker_endpoints)
        check_index(Role.WORKER, 0, len(workers), ())
        if not isinstance(current_id, int):
            raise TypeError("current_id must be as int")
        if current_id < 0:
            raise ValueError("current_id must be greater than or equal to 0")
        if current_id >= len(workers):
            raise ValueError("current_id must be less than or equal to len(worker_endpoints) - 1")
        self._known = Identity(
            index=current_id,
            worker_num=len(workers),
            worker_endpoints=workers,
            is_collective=True,
            is_distributed=len(workers) > 1,
        )


class PaddleCloudRoleMaker(RoleMakerBase):
    """The role that the environment gives this process; all of its variables must be set.

    >>> from bireme.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
    >>> PaddleCloudRoleMaker().generate_role()
    Traceback (most recent call last):
    ...
    ValueError: something wrong with PaddleCloud, please check environment: Can not find \
PADDLE_PSERVERS_IP_PORT_LIST, please check your environment.
    """

    def __init__(self, is_collective: bool = False) -> None:
        super().__init__()
        self._is_collective = is_collective

    def _find_identity(self) -> Identity:
        if self._is_collective:
            environment.required("PADDLE_TRAINER_ENDPOINTS")
            return collective_identity()
        try:
            environment.required("PADDLE_PSERVERS_IP_PORT_LIST")
            return _identity_with(PADDLE_TRAINER_ENDPOINTS="")
        except ValueError as problem:
            raise ValueError(
                f"something wrong with PaddleCloud, please check environment: {problem}"
            ) from None


class GeneralRoleMaker(RoleMakerBase):
    """The role that the environment gives this process, with the addresses of all of them.

    `path`, `hdfs_name`, `hdfs_ugi`, `http_ip_port` and the timeouts say how Gloo meets: there is
    none here, and they warn.

    >>> from bireme.fluid.incubate.fleet.base.role_maker import GeneralRoleMaker
    >>> GeneralRoleMaker().generate_role()
    Traceback (most recent call last):
    ...
    ValueError: Can not find PADDLE_PSERVERS_IP_PORT_LIST, please check your environment.
    """

    def __init__(
        self,
        *,
        hdfs_name: str = "",
        hdfs_ugi: str = "",
        path: str = "",
        init_timeout_seconds: int = 3600,
        run_timeout_seconds: int = 9999999,
        use_metric: bool = False,
        http_ip_port: str = "",
        use_ps_gpu: bool = False,
    ) -> None:
        super().__init__()
        # Roles are the same with passes on a card: the strategy says how they train.
        self.use_ps_gpu = bool(use_ps_gpu)
        if (init_timeout_seconds, run_timeout_seconds) != (3600, 9999999):
            warnings.warn(
                "the timeouts of `GeneralRoleMaker` have no effect, because there is no Gloo: set"
                " `FLAGS_rpc_deadline` (milliseconds) in the environment",
                stacklevel=2,
            )
        if hdfs_name or hdfs_ugi or path or http_ip_port:
            warnings.warn(
                "`path`, `hdfs_name`, `hdfs_ugi` and `http_ip_port` have no effect, because there is"
                " no Gloo: workers meet on their servers",
                stacklevel=2,
            )

    def _find_identity(self) -> Identity:
        environment.required("PADDLE_PSERVERS_IP_PORT_LIST")
        environment.required("PADDLE_TRAINER_ENDPOINTS")
        workers = environment.endpoints("PADDLE_TRAINER_ENDPOINTS")
        return _identity_with(PADDLE_TRAINERS_NUM=str(len(workers)))


class MPISymetricRoleMaker(RoleMakerBase):
    """Roles by `mpirun`: of each two processes the first is a server and the second a worker.

    `mpirun -n 4 python train.py` makes two servers and two workers. Barriers and sums over workers
    go by MPI, from `fleet.init` on. Needs a build with the feature `mpi`, or mpi4py.
    """

    def __init__(self) -> None:
        super().__init__()
        self._mpi: Any = None

    def _find_identity(self) -> Identity:
        self._mpi = start_mpi()
        address = _core.own_address().encode()
        hosts = [part.decode() for part in self._mpi.all_gather("all", address)]
        # Servers listen at addresses that others reach: the job gets a secret, by way of MPI.
        made = self._mpi.all_gather("all", secrets.token_hex(16).encode())[0].decode()
        if not os.environ.get("BIREME_JOB_SECRET", "").strip():
            os.environ["BIREME_JOB_SECRET"] = made
        is_server, index, servers = _core.symmetric_role(self._mpi.rank, hosts)
        # A process that fails must not wait for the others to end: `mpirun` ends them.
        atexit.register(self._end_in_peace)
        return Identity(
            Role.SERVER if is_server else Role.WORKER,
            index,
            len(servers),
            tuple(servers),
            tuple(hosts[1::2]),
            is_distributed=True,
        )

    def all_gather(self, input: Any) -> list[Any]:
        """The value of each process of this role."""
        return [decode(part) for part in self._started().all_gather("role", encode(input))]

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Writes the sum, min or max over workers into `output`."""
        if self._is_worker():
            _write_total(reduce(self.all_gather(np.asarray(input)), mode), output)

    def barrier_worker(self) -> None:
        """Waits for the other workers."""
        if self._is_worker():
            self._started().barrier("role")

    def barrier_all(self) -> None:
        """Waits for all other processes."""
        self._started().barrier("all")

    def _finalize(self) -> None:
        self._started().finalize()

    def _end_in_peace(self) -> None:
        job = getattr(self._util, "_job", None)
        runtime = getattr(job, "_runtime", None)
        in_the_middle = runtime is not None and runtime._is_started and self._is_worker()
        if not hasattr(sys, "last_type") and not in_the_middle:
            self._mpi.finalize()

    def _started(self) -> Any:
        self._generate_role()
        return self._mpi


def _write_total(total: np.ndarray, output: Any) -> None:
    if len(output) != len(total):
        raise ValueError(f"`output` has {len(output)} elements, but `input` has {len(total)}")
    output[:] = total if isinstance(output, np.ndarray) else total.tolist()


def _identity_with(**given: str) -> Identity:
    if environment.required("TRAINING_ROLE") not in ("TRAINER", "PSERVER"):
        raise ValueError("TRAINING_ROLE must be PSERVER or TRAINER")
    return environment_identity(**given)


def _some_endpoints(name: str, endpoints: Any) -> tuple[str, ...]:
    if not isinstance(endpoints, list):
        raise TypeError(f"{name} must be as string list")
    if not endpoints:
        raise ValueError(f"the length of {name} list must be greater than 0")
    return checked_endpoints(name, endpoints)


__getattr__ = missing_names(__name__)
