"""The kinds of `fleet`."""

from enum import IntEnum

from ....._missing import missing_names

__all__ = ["Mode"]


class Mode(IntEnum):
    """What a `fleet` trains with.

    >>> from bireme.fluid.incubate.fleet.base.mode import Mode
    >>> Mode.TRANSPILER.value
    1
    """

    TRANSPILER = 1
    PSLIB = 2
    COLLECTIVE = 3


__getattr__ = missing_names(__name__)
