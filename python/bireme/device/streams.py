"""Streams and events of GPUs.

A GPU runs everything it is given in one order here, so every `Stream` of a GPU is that one order:
waiting for another stream is nothing to do, and an event is a point in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from .._names import set_public_names


def card_number(device: Any = None) -> int:
    """The number of the GPU that `device` names: a number, `"gpu:0"` or a place.

    Without one it is the GPU of `set_device`, or the first.

    >>> card_number("gpu:3"), card_number(1)
    (3, 1)
    """
    if device is None:
        return _core.current_card() or 0
    if isinstance(device, _core.CUDAPlace):
        return device.get_device_id()
    if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return device
    if isinstance(device, str):
        kind, _, index = device.lower().partition(":")
        if kind == "gpu" and (not index or index.isdigit()):
            return int(index or 0)
    raise ValueError(f"`device` must be a GPU such as 0, 'gpu:0' or CUDAPlace(0), not {device!r}")


class Event:
    """A point in the work of a GPU.

    `enable_timing` is not needed to ask `elapsed_time`. `blocking` and `interprocess` have no
    meaning here: a wait always sleeps, and events belong to their process.

    >>> import bireme as paddle
    >>> paddle.device.cuda.Event().query()
    True
    """

    def __init__(
        self,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        # `device.cuda.Event` has no device, and begins with the switch.
        self._device = None if isinstance(device, bool) else device
        self._core = _core.CardEvent()

    def record(self, stream: Stream | None = None) -> None:
        """Moves the event behind all that the GPU was given until now."""
        self._core.record(card_number(self._device) if stream is None else stream.device_id)

    def query(self) -> bool:
        """Whether the GPU has reached it; one that was never recorded is reached."""
        return self._core.query()

    def synchronize(self) -> None:
        """Waits until the GPU has reached it."""
        self._core.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; waits for both."""
        return self._core.elapsed_time(end_event._core)


class Stream:
    """The order in which a GPU works.

    >>> import bireme as paddle
    >>> paddle.device.cuda.Stream(0).device_id
    0
    """

    def __init__(self, device: Any = None, priority: int | None = None) -> None:
        self.device_id = card_number(device)

    def synchronize(self) -> None:
        """Waits until the GPU has done all that it was given."""
        _core.synchronize_card(self.device_id)

    def query(self) -> bool:
        """Whether the GPU has done all that it was given."""
        return _core.is_card_idle(self.device_id)

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, or a new one, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Lets what follows run after the event: it does, if it is of the same GPU; else waits."""
        event.synchronize()

    def wait_stream(self, stream: Stream) -> None:
        """Lets what follows run after what `stream` has been given."""
        if stream.device_id != self.device_id:
            stream.synchronize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device_id == self.device_id

    def __hash__(self) -> int:
        return hash(self.device_id)

    def __repr__(self) -> str:
        return f"Stream(gpu:{self.device_id})"


def current_stream(device: Any = None) -> Stream:
    """The stream of a GPU.

    >>> import bireme as paddle
    >>> paddle.device.cuda.current_stream(0)
    Stream(gpu:0)
    """
    return Stream(device)


def set_stream(stream: Stream) -> Stream:
    """Chooses a stream, and returns the one before: a GPU has one.

    >>> import bireme as paddle
    >>> paddle.device.set_stream(paddle.device.Stream(0))
    Stream(gpu:0)
    """
    return Stream(stream.device_id)


@contextmanager
def stream_guard(stream: Stream | None) -> Iterator[None]:
    """Runs what is inside on a stream: a GPU has one.

    >>> import bireme as paddle
    >>> with paddle.device.cuda.stream_guard(paddle.device.cuda.current_stream(0)):
    ...     pass
    """
    yield


set_public_names(__name__, but="card_number")
