"""MPI, from whoever has it: Bireme itself (a build with the feature `mpi`), or mpi4py.

Both answer the same questions: `rank`, `size`, `all_gather(group, data)`, `barrier(group)` and
`finalize()`, where a group is `all` or `role` (servers have even ranks, workers odd ones).
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from ... import _core


def start_mpi() -> Any:
    """This process among those that `mpirun` started; all of them must call it."""
    if _core.Mpi.is_built_in():
        return _core.Mpi()
    if importlib.util.find_spec("mpi4py") is None:
        raise ImportError(
            "`MPISymetricRoleMaker` asks MPI, which is not built in and not installed: `pip install"
            " mpi4py` (it needs an MPI such as Open MPI), build Bireme with the feature `mpi`, or"
            " hand a `UserDefinedRoleMaker` or a `PaddleCloudRoleMaker` to `fleet.init`"
        )
    return Mpi4Py()


class Mpi4Py:
    """MPI by mpi4py."""

    def __init__(self) -> None:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            # It would end MPI at the process's exit, and wait there for processes that failed.
            mpi4py.rc.finalize = False
        from mpi4py import MPI

        self._mpi = MPI
        world = MPI.COMM_WORLD
        self.rank, self.size = world.Get_rank(), world.Get_size()
        self._groups = {"all": world.Dup(), "role": world.Split(self.rank % 2 == 0)}

    def all_gather(self, group: str, data: bytes) -> list[bytes]:
        """What each process of a group brings, by rank."""
        return self._groups[group].allgather(data)

    def barrier(self, group: str) -> None:
        """Waits for all processes of a group."""
        self._groups[group].Barrier()

    def finalize(self) -> None:
        """Ends MPI for this process."""
        if not self._mpi.Is_finalized():
            self._mpi.Finalize()
