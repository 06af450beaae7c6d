"""Losses as layers."""

from __future__ import annotations

from ..._names import public_names
from ...tensor.arguments import Tensor
from .. import functional as F
from .layers import Layer


class BCELoss(Layer):
    """The cross entropy of probabilities and labels of two classes.

    >>> loss = paddle.nn.BCELoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.4904
    """

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__()
        self._weight = weight
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, label, self._weight, self._reduction)


class BCEWithLogitsLoss(Layer):
    """The cross entropy of logits and labels of two classes.

    >>> loss = paddle.nn.BCEWithLogitsLoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.65
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._weight = weight
        self._reduction = reduction
        self._pos_weight = pos_weight

    def forward(self, logit: Tensor, label: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            logit, label, self._weight, self._reduction, self._pos_weight
        )


class CrossEntropyLoss(Layer):
    """The cross entropy of logits and class labels.

    >>> loss = paddle.nn.CrossEntropyLoss()
    >>> round(loss(paddle.to_tensor([[1.0, 2.0]]), paddle.to_tensor([1])).item(), 4)
    0.3133
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._weight = weight
        self._ignore_index = ignore_index
        self._reduction = reduction
        self._soft_label = soft_label
        self._axis = axis
        self._use_softmax = use_softmax
        self._label_smoothing = label_smoothing

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            label,
            self._weight,
            self._ignore_index,
            self._reduction,
            self._soft_label,
            self._axis,
            self._use_softmax,
            self._label_smoothing,
        )


class NLLLoss(Layer):
    """Minus the log-probability of the labels.

    >>> loss = paddle.nn.NLLLoss()
    >>> loss(paddle.to_tensor([[-1.0, -2.0]]), paddle.to_tensor([1])).item()
    2.0
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._weight = weight
        self._ignore_index = ignore_index
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.nll_loss(input, label, self._weight, self._ignore_index, self._reduction)


class MSELoss(Layer):
    """The mean squared difference.

    >>> loss = paddle.nn.MSELoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.1562
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.mse_loss(input, label, self._reduction)


class L1Loss(Layer):
    """The mean absolute difference.

    >>> loss = paddle.nn.L1Loss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.375
    """

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__()
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.l1_loss(input, label, self._reduction)


class SmoothL1Loss(Layer):
    """Half the squared difference up to `delta`, and straight on from there.

    >>> loss = paddle.nn.SmoothL1Loss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.0781
    """

    def __init__(
        self, reduction: str = "mean", delta: float = 1.0, name: str | None = None
    ) -> None:
        super().__init__()
        self._reduction = reduction
        self._delta = delta

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, label, self._reduction, self._delta)


class KLDivLoss(Layer):
    """The divergence of log-probabilities from probabilities.

    >>> loss = paddle.nn.KLDivLoss()
    >>> round(loss(paddle.to_tensor([-1.0, -0.5]), paddle.to_tensor([0.4, 0.6])).item(), 4)
    0.0135
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.kl_div(input, label, self._reduction)


class MarginRankingLoss(Layer):
    """How far `input` fails to be over or under `other`.

    >>> better, worse = paddle.to_tensor([2.0]), paddle.to_tensor([1.5])
    >>> round(paddle.nn.MarginRankingLoss(margin=1.0)(better, worse, paddle.ones([1])).item(), 4)
    0.5
    """

    def __init__(
        self, margin: float = 0.0, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__()
        self._margin = margin
        self._reduction = reduction

    def forward(self, input: Tensor, other: Tensor, label: Tensor) -> Tensor:
        return F.margin_ranking_loss(input, other, label, self._margin, self._reduction)


class HingeEmbeddingLoss(Layer):
    """`input` where the label is 1, what it lacks to the margin where it is -1.

    >>> loss = paddle.nn.HingeEmbeddingLoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, -1.0])).item(), 4)
    0.625
    """

    def __init__(
        self, margin: float = 1.0, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__()
        self._margin = margin
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, label, self._margin, self._reduction)


class SoftMarginLoss(Layer):
    """log(1 + exp(-label * input)).

    >>> loss = paddle.nn.SoftMarginLoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, -1.0])).item(), 4)
    0.65
    """

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__()
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.soft_margin_loss(input, label, self._reduction)


class MultiLabelSoftMarginLoss(Layer):
    """The mean cross entropy over classes that may hold together.

    >>> loss = paddle.nn.MultiLabelSoftMarginLoss()
    >>> round(loss(paddle.to_tensor([[1.0, -2.0]]), paddle.to_tensor([[1.0, 0.0]])).item(), 4)
    0.2201
    """

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__()
        self._weight = weight
        self._reduction = reduction

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.multi_label_soft_margin_loss(input, label, self._weight, self._reduction)


class CosineEmbeddingLoss(Layer):
    """One less the cosine where the label is 1, the cosine over the margin where it is -1.

    >>> x, y = paddle.to_tensor([[1.0, 0.0]]), paddle.to_tensor([[3.0, 4.0]])
    >>> round(paddle.nn.CosineEmbeddingLoss()(x, y, paddle.ones([1])).item(), 4)
    0.4
    """

    def __init__(self, margin: float = 0, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__()
        self._margin = margin
        self._reduction = reduction

    def forward(self, input1: Tensor, input2: Tensor, label: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, label, self._margin, self._reduction)


class TripletMarginLoss(Layer):
    """How far the positive example fails to be nearer than the negative one.

    >>> x, near, far = (paddle.to_tensor([[v, 0.0]]) for v in (0.0, 1.0, 1.5))
    >>> round(paddle.nn.TripletMarginLoss()(x, near, far).item(), 4)
    0.5
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        epsilon: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._margin = margin
        self._p = p
        self._epsilon = epsilon
        self._swap = swap
        self._reduction = reduction

    def forward(self, input: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            input,
            positive,
            negative,
            self._margin,
            self._p,
            self._epsilon,
            self._swap,
            self._reduction,
        )


__all__ = public_names(__name__)
