"""A bounded hand-over of items between threads that can end and fail.

Every thread that waits on a channel wakes up when the channel is closed or has failed, so a reader
that raises, or a consumer that walks away, never leaves another thread hanging.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Channel:
    """A queue of at most `capacity` items (0: no limit) between producers and one consumer.

    >>> channel = Channel(2)
    >>> channel.put("a")
    True
    >>> channel.finish()
    >>> list(channel)
    ['a']
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = max(0, int(capacity))
        self._items: deque[Any] = deque()
        self._finished = False  # no more items will come; those that are here are still read
        self._closed = False  # the consumer went away; nothing is read any more
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, item: Any) -> bool:
        """Adds an item, waits while the channel is full; False says that the consumer went away."""
        with self._changed:
            while self._capacity and len(self._items) >= self._capacity and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def finish(self) -> None:
        """Says that no item follows."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Makes the consumer raise `error`, with the traceback that it carries, after the items."""
        with self._changed:
            self._error = self._error or error
            self._finished = True
            self._changed.notify_all()

    def close(self) -> None:
        """Drops what is left and lets every waiting producer go."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._changed:
            while not self._items and not self._finished and not self._closed:
                self._changed.wait()
            if self._items:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            if self._error is not None and not self._closed:
                raise self._error
            raise StopIteration


def fill_in_thread(channel: Channel, source: Callable[[], Iterable[Any]]) -> threading.Thread:
    """Starts a thread that puts the items of `source()` into the channel, then ends or fails it."""

    def run() -> None:
        try:
            for item in source():
                if not channel.put(item):
                    return
            channel.finish()
        except BaseException as error:  # noqa: BLE001 - raised again by the consumer
            channel.fail(error)

    thread = threading.Thread(target=run, name="bireme-reader", daemon=True)
    thread.start()
    return thread
