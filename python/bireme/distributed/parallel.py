"""Which process this is among how many, as the launcher says in the environment, and how they meet."""

from __future__ import annotations

from typing import Any

from .._names import set_public_names
from ..framework.place import selected_gpu
from . import environment
from .communication.group import Group, all_processes, group_of, is_initialized


def get_rank(group: Group | None = None) -> int:
    """The number of this process, from 0, in the job or in a group.

    >>> paddle.distributed.get_rank()
    0
    """
    if group is not None:
        return group_of(group).rank
    if is_initialized() and all_processes().nranks > 1:
        return all_processes().rank
    return environment.number("PADDLE_TRAINER_ID", 0)


def get_world_size(group: Group | None = None) -> int:
    """How many processes train together, in the job or in a group.

    >>> paddle.distributed.get_world_size()
    1
    """
    if group is not None:
        return group_of(group).world_size
    if is_initialized() and all_processes().nranks > 1:
        return all_processes().nranks
    return environment.number("PADDLE_TRAINERS_NUM", 1)


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
        return selected_gpu()

    device_id = dev_id

    @property
    def device_type(self) -> str:
        """The name of a device of another maker: there is none in this version."""
        return ""

    @property
    def nrings(self) -> int:
        """How many rings of GPUs there are: one."""
        return 1

    @property
    def current_endpoint(self) -> str:
        """The address of this process."""
        return environment.text("PADDLE_CURRENT_ENDPOINT", "")

    @property
    def trainer_endpoints(self) -> list[str]:
        """The addresses of all processes."""
        return environment.endpoints("PADDLE_TRAINER_ENDPOINTS")


def init_parallel_env() -> Group:
    """Meets the other processes of the job; returns the group of all, of one without a launcher.

    >>> paddle.distributed.init_parallel_env().rank
    0
    """
    return all_processes()


def split(
    x: Any,
    size: Any,
    operation: str,
    axis: int = 0,
    num_partitions: int = 1,
    gather_out: bool = True,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Any:
    """A layer whose weights lie in several processes, which is not in this version: it raises.

    >>> paddle.distributed.split(paddle.ones([2, 8]), (8, 4), "linear", num_partitions=2)
    Traceback (most recent call last):
    ...
    NotImplementedError: a layer cut over several processes is not in this version: every process keeps the whole model, see `paddle.DataParallel`; for large tables use parameter servers
    """
    raise NotImplementedError(
        "a layer cut over several processes is not in this version: every process keeps the whole"
        " model, see `paddle.DataParallel`; for large tables use parameter servers"
    )


set_public_names(__name__)
