"""Waits until servers listen, before a trainer starts to talk to them."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence

from .. import environment

# A host that does not answer at all must not use up the time of the others.
_CONNECT_SECONDS = 2.0
_POLL_SECONDS = 0.1
# How often Paddle tries, and so how often it says so.
_SAY_SECONDS = 3.0


def wait_server_ready(endpoints: Sequence[str], timeout_s: float | None = None) -> None:
    """Returns when every endpoint accepts connections; raises after `FLAGS_rpc_deadline`.

    >>> from bireme.distributed.transpiler.ports import wait_server_ready
    >>> wait_server_ready([]) is None
    True
    """
    limit = environment.number("FLAGS_rpc_deadline", 180_000) / 1000
    limit = limit if timeout_s is None else timeout_s
    start = time.monotonic()
    said = start - _SAY_SECONDS
    missing = _not_ready(endpoints)
    while missing:
        now = time.monotonic()
        if now - start >= limit:
            raise TimeoutError(
                f"no server listens on {', '.join(missing)} after {limit:g} s: start the servers,"
                " or wait longer with `FLAGS_rpc_deadline` (in ms)"
            )
        if now - said >= _SAY_SECONDS:
            said = now
            sys.stderr.write("server not ready, wait 3 sec to retry...\n")
            sys.stderr.write(f"not ready endpoints:{missing}\n")
            sys.stderr.flush()
        time.sleep(_POLL_SECONDS)
        missing = _not_ready(missing)


def _not_ready(endpoints: Sequence[str]) -> list[str]:
    return [endpoint for endpoint in endpoints if not _listens(endpoint)]


def _listens(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
