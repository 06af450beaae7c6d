"""What all kinds of `fleet` of Paddle 1.x have in common."""

from __future__ import annotations

from typing import Any

from ....._missing import missing_names
from .....distributed.fleet.role import Identity
from .....distributed.fleet.role import RoleMakerBase as AnyRoleMaker
from .....distributed.fleet.runtime import Runtime
from .....distributed.fleet.util import UtilBase, share_of
from .....optimizer import Optimizer
from .mode import Mode
from .role_maker import MPISymetricRoleMaker, RoleMakerBase

__all__ = ["DistributedOptimizer", "Fleet", "Mode"]


class Fleet:
    """A job as one process sees it; use the object `fleet` of a kind of training."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._role_maker: AnyRoleMaker | None = None
        self._runtime: Runtime | None = None
        self._util = UtilBase(self)

    def init(self, role_maker: AnyRoleMaker | None = None) -> None:
        """Says who this process is; without a role maker MPI does."""
        role_maker = MPISymetricRoleMaker() if role_maker is None else role_maker
        if not isinstance(role_maker, AnyRoleMaker):
            raise TypeError("role_maker must be an instance of RoleMakerBase")
        role_maker._generate_role()
        if isinstance(role_maker, RoleMakerBase):
            role_maker._util = self._util
        self._role_maker, self._runtime = role_maker, None

    def is_first_worker(self) -> bool:
        """Whether this is worker 0."""
        return self._known_role()._is_first_worker()

    def worker_index(self) -> int:
        """The number of this worker, from 0."""
        return self._known_role()._worker_index()

    def worker_num(self) -> int:
        """How many workers there are."""
        return self._known_role()._worker_num()

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self._known_role()._is_worker()

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """The addresses of the workers, as a list or with commas between."""
        endpoints = self._known_role()._get_trainer_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def server_num(self) -> int:
        """How many servers there are."""
        return self._known_role()._server_num()

    def server_index(self) -> int:
        """The number of this server, from 0."""
        return self._known_role()._server_index()

    def server_endpoints(self, to_string: bool = False) -> Any:
        """The addresses of the servers, as a list or with commas between."""
        endpoints = self._known_role()._get_pserver_endpoints()
        return ",".join(endpoints) if to_string else endpoints

    def is_server(self) -> bool:
        """Whether this process holds parameters."""
        return self._known_role()._is_server()

    def split_files(self, files: list[str]) -> list[str]:
        """The files of this worker: the list cut into equal runs, the first ones a file longer."""
        return share_of(files, self.worker_index(), self.worker_num())

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Writes the sum over workers into `output`."""
        role_maker = self._known_role()
        if not isinstance(role_maker, RoleMakerBase):
            raise TypeError(
                "`all_reduce_worker` is for role makers of `incubate`: use `fleet.util`"
            )
        role_maker.all_reduce_worker(input, output)

    def barrier_worker(self) -> None:
        """Waits for the other workers."""
        role_maker = self._known_role()
        if isinstance(role_maker, MPISymetricRoleMaker):
            role_maker.barrier_worker()
        else:
            self._util.barrier("worker")

    def _known_role(self) -> AnyRoleMaker:
        if self._role_maker is None:
            raise RuntimeError("`fleet` does not know who this process is: call `fleet.init(role)`")
        return self._role_maker

    def _distributed_identity(self) -> Identity | None:
        identity = self._role_maker._generate_role() if self._role_maker is not None else None
        return identity if identity is not None and identity.server_endpoints else None

    def _runtime_handle(self) -> Runtime:
        self._known_role()
        if self._runtime is None:
            raise ValueError(
                "startup_program is None, need invoke DistributedOptimizer.minimize first"
            )
        return self._runtime


class DistributedOptimizer:
    """An optimizer of a job: the user's own, with something after it."""

    def __init__(self, optimizer: Any, strategy: Any = None) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError("optimizer must be an instance of Optimizer")
        self._optimizer = optimizer
        self._strategy = strategy

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """The first half of `minimize`: adds the gradients."""
        return self._optimizer.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks
        )

    def apply_gradients(self, params_grads: Any) -> Any:
        """The second half of `minimize`: adds the updates."""
        return self._optimizer.apply_gradients(params_grads)


__getattr__ = missing_names(__name__)
