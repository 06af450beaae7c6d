"""When a new feature gets a row of a table on parameter servers.

An entry is kept in the program, for the servers; a run in one process has no use for it.
"""

from __future__ import annotations

from .._names import set_public_names


class CountFilterEntry:
    """A feature is trained once it was seen `count_filter` times.

    >>> paddle.distributed.CountFilterEntry(10)._to_attr()
    'count_filter_entry:10'
    """

    def __init__(self, count_filter: int) -> None:
        if not isinstance(count_filter, int) or count_filter < 0:
            raise ValueError(f"`count_filter` must be a number from 0 on, not {count_filter!r}")
        self._count = count_filter

    def _to_attr(self) -> str:
        return f"count_filter_entry:{self._count}"


class ProbabilityEntry:
    """A feature is trained with that probability.

    >>> paddle.distributed.ProbabilityEntry(0.1)._to_attr()
    'probability_entry:0.1'
    """

    def __init__(self, probability: float) -> None:
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise ValueError(f"`probability` must be between 0 and 1, not {probability!r}")
        self._probability = probability

    def _to_attr(self) -> str:
        return f"probability_entry:{self._probability}"


class ShowClickEntry:
    """The names of the variables that say how often a feature was shown and clicked.

    >>> paddle.distributed.ShowClickEntry("show", "click")._to_attr()
    'show_click_entry:show:click'
    """

    def __init__(self, show_name: str, click_name: str) -> None:
        if not isinstance(show_name, str) or not isinstance(click_name, str):
            raise TypeError("`show_name` and `click_name` must be names of variables")
        self._names = f"{show_name}:{click_name}"

    def _to_attr(self) -> str:
        return f"show_click_entry:{self._names}"


set_public_names(__name__)
