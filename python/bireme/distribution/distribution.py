"""The base class of distributions."""

from __future__ import annotations

from typing import Any


class Distribution:
    """Base class of distributions: subclasses sample and tell probabilities."""

    def __init__(self, batch_shape: Any = (), event_shape: Any = ()) -> None:
        self._batch_shape = tuple(batch_shape)
        self._event_shape = tuple(event_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the parameters: one distribution for each element."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one event."""
        return self._event_shape

    def sample(self, shape: Any = ()) -> Any:
        """Events drawn at random; no gradient passes through."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `sample()`")

    def entropy(self) -> Any:
        """The entropy."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `entropy()`")

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability (density) of an event."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `log_prob()`")

    def prob(self, value: Any) -> Any:
        """The probability (density) of an event."""
        return self.log_prob(value).exp()

    def probs(self, value: Any) -> Any:
        """As `prob`."""
        return self.prob(value)

    def kl_divergence(self, other: Distribution) -> Any:
        """The Kullback-Leibler divergence from another distribution of this kind."""
        raise NotImplementedError(f"`{type(self).__name__}` must define `kl_divergence()`")
