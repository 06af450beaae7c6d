"""One of several classes."""

from __future__ import annotations

import math
from typing import Any

from ..tensor.arguments import Tensor, as_tensor, int_list, ops
from .distribution import Distribution


class Categorical(Distribution):
    """A class by weights along the last axis.

    As in Paddle, `sample`, `probs` and `log_prob` take the weights in proportion, while `entropy`
    and `kl_divergence` take them as logits.

    >>> dice = paddle.distribution.Categorical(paddle.ones([6]))
    >>> round(dice.probs(paddle.to_tensor([2])).item(), 4)
    0.1667
    """

    def __init__(self, logits: Any, name: str | None = None) -> None:
        self.logits = as_tensor(logits, dtype="float32")
        self.name = name or "Categorical"
        super().__init__(tuple(self.logits.shape[:-1]))

    @property
    def _shares(self) -> Tensor:
        return self.logits / ops.reduce_sum(self.logits, dim=[-1], keep_dim=True)

    def sample(self, shape: Any = ()) -> Tensor:
        """Classes drawn at random, of shape `shape` + the shape of the batch."""
        shape = int_list(shape)
        count = math.prod(shape)
        batch = list(self.logits.shape[:-1])
        weights = ops.reshape2(self.logits, shape=[-1, self.logits.shape[-1]])
        drawn = ops.multinomial(weights, num_samples=count, replacement=True)
        drawn = ops.transpose2(drawn, axis=[1, 0])
        drawn.stop_gradient = True
        return ops.reshape2(drawn, shape=[*shape, *batch])

    def probs(self, value: Tensor) -> Tensor:
        """The probabilities of classes."""
        shares = self._shares
        if shares.ndim == 1:
            flat = ops.gather(shares, ops.reshape2(value, shape=[-1]))
            return ops.reshape2(flat, shape=list(value.shape))
        if value.ndim == 1:
            shape = [*self.logits.shape[:-1], value.shape[0]]
            value = ops.expand_v2(value, shape=shape)
        return ops.take_along_axis(shares, value, Axis=shares.ndim - 1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithms of the probabilities of classes."""
        return ops.log(self.probs(value))

    def entropy(self) -> Tensor:
        """The entropy of the softmax of the weights."""
        logs = ops.log_softmax(self.logits)
        return -ops.reduce_sum(ops.exp(logs) * logs, dim=[-1])

    def kl_divergence(self, other: Distribution) -> Tensor:
        """The divergence of the softmax of the weights from that of another distribution."""
        if not isinstance(other, Categorical):
            raise TypeError(f"the other must be `Categorical`, but is `{type(other).__name__}`")
        logs = ops.log_softmax(self.logits)
        apart = logs - ops.log_softmax(other.logits)
        return ops.reduce_sum(ops.exp(logs) * apart, dim=[-1], keep_dim=True)
