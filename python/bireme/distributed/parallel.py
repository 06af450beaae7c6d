"""Which process this is among how many, as the launcher says in the environment."""

from __future__ import annotations

from typing import Any

from . import environment


def get_rank(group: Any = None) -> int:
    """The number of this process, from 0.

    >>> paddle.distributed.get_rank()
    0
    """
    _refuse_group(group)
    return environment.number("PADDLE_TRAINER_ID", 0)


def get_world_size(group: Any = None) -> int:
    """How many processes train together.

    >>> paddle.distributed.get_world_size()
    1
    """
    _refuse_group(group)
    return environment.number("PADDLE_TRAINERS_NUM", 1)


def _refuse_group(group: Any) -> None:
    if group is not None:
        raise NotImplementedError("groups of processes are not in this version: leave `group` out")


class ParallelEnv:
    """The same as properties.

    >>> paddle.distributed.ParallelEnv().world_size
    1
    """

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return get_rank()

    @property
    def local_rank(self) -> int:
        """As `rank`."""
        return get_rank()

    @property
    def world_size(self) -> int:
        """How many processes train together."""
        return get_world_size()

    @property
    def nranks(self) -> int:
        """As `world_size`."""
        return get_world_size()

    @property
    def dev_id(self) -> int:
        """The number of the GPU that the launcher chose."""
        return int(environment.text("FLAGS_selected_gpus", "0").split(",")[0])

    device_id = dev_id

    @property
    def current_endpoint(self) -> str:
        """The address of this process."""
        return environment.text("PADDLE_CURRENT_ENDPOINT", "")

    @property
    def trainer_endpoints(self) -> list[str]:
        """The addresses of all processes."""
        return environment.endpoints("PADDLE_TRAINER_ENDPOINTS")


def init_parallel_env() -> ParallelEnv:
    """Gets ready to train together with the other processes; there must be none.

    >>> paddle.distributed.init_parallel_env().rank
    0
    """
    require_one_process()
    return ParallelEnv()


def require_one_process() -> None:
    """Raises where the launcher started several processes: they would train apart unnoticed.

    >>> from bireme.distributed.parallel import require_one_process
    >>> require_one_process()
    """
    size = get_world_size()
    if size > 1:
        raise NotImplementedError(
            "collective training over several processes is not in this version, but"
            f" `PADDLE_TRAINERS_NUM` is {size}"
        )
