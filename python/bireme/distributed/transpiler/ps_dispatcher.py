"""Which server holds which block of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class PSDispatcher:
    """Base class of dispatchers: gives each variable one of the servers.

    >>> from bireme.distributed.transpiler import RoundRobin
    >>> RoundRobin(["a:1", "b:1"]).eps
    ['a:1', 'b:1']
    """

    def __init__(self, pserver_endpoints: Sequence[str]) -> None:
        if not pserver_endpoints:
            raise ValueError("there is no server to choose: name at least one")
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The servers."""
        return self._eps

    def reset(self) -> None:
        """Starts anew with the first server."""
        self._step = 0

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The server of each variable."""
        raise NotImplementedError("`PSDispatcher` is a base class: use `RoundRobin` or `HashName`")


class RoundRobin(PSDispatcher):
    """One server after the other.

    >>> from bireme.distributed.transpiler import RoundRobin
    >>> RoundRobin(["a:1", "b:1"]).dispatch(["fc.w", "fc.b", "fc2.w"])
    ['a:1', 'b:1', 'a:1']
    """

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The next server for each variable; the last one is followed by the first."""
        start, self._step = self._step, (self._step + len(varlist)) % len(self._eps)
        return [self._eps[(start + place) % len(self._eps)] for place in range(len(varlist))]


class HashName(PSDispatcher):
    """The server that a variable's name hashes to, by 64-bit FNV-1a: the same in every process.

    >>> from bireme.distributed.transpiler import HashName
    >>> HashName(["a:1", "b:1"]).dispatch(["fc.w", "fc.b"])
    ['b:1', 'a:1']
    """

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The server of each variable."""
        names = [var if isinstance(var, str) else var.name for var in varlist]
        return [self._eps[_fnv1a(name.encode()) % len(self._eps)] for name in names]


def _fnv1a(content: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
