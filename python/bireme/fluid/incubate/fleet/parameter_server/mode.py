"""When trainers and servers exchange."""

from enum import IntEnum

from ....._missing import missing_names

__all__ = ["DistributedMode", "PSMode"]


class PSMode(IntEnum):
    """The kinds of parameter servers.

    >>> from bireme.fluid.incubate.fleet.parameter_server.mode import PSMode
    >>> PSMode.PSLIB.value
    2
    """

    TRANSPILER = 1
    PSLIB = 2


class DistributedMode(IntEnum):
    """When trainers and servers exchange; the last is Bireme's own.

    >>> from bireme.fluid.incubate.fleet.parameter_server.mode import DistributedMode
    >>> DistributedMode.GEO.value
    3
    """

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3
    HYBRID = 4


__getattr__ = missing_names(__name__)
