"""Losses as layers."""

from __future__ import annotations

from typing import Any

from ..._names import set_public_names
from ...tensor.arguments import Tensor
from .. import functional as F
from .function_layer import FunctionLayer
from .layers import Layer


class _Loss(FunctionLayer):
    def extra_repr(self) -> str:
        return ""


class BCELoss(_Loss, of=F.binary_cross_entropy, takes="input label"):
    """The cross entropy of probabilities and labels of two classes.

    >>> loss = paddle.nn.BCELoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.4904
    """


class BCEWithLogitsLoss(_Loss, of=F.binary_cross_entropy_with_logits, takes="logit label"):
    """The cross entropy of logits and labels of two classes.

    >>> loss = paddle.nn.BCEWithLogitsLoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.65
    """


class CrossEntropyLoss(_Loss, of=F.cross_entropy, takes="input label"):
    """The cross entropy of logits and class labels.

    >>> loss = paddle.nn.CrossEntropyLoss()
    >>> round(loss(paddle.to_tensor([[1.0, 2.0]]), paddle.to_tensor([1])).item(), 4)
    0.3133
    """


class NLLLoss(_Loss, of=F.nll_loss, takes="input label"):
    """Minus the log-probability of the labels.

    >>> loss = paddle.nn.NLLLoss()
    >>> loss(paddle.to_tensor([[-1.0, -2.0]]), paddle.to_tensor([1])).item()
    2.0
    """


class MSELoss(_Loss, of=F.mse_loss, takes="input label", settings="reduction"):
    """The mean squared difference.

    >>> loss = paddle.nn.MSELoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.1562
    """


class L1Loss(_Loss, of=F.l1_loss, takes="input label"):
    """The mean absolute difference.

    >>> loss = paddle.nn.L1Loss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.375
    """


class SmoothL1Loss(_Loss, of=F.smooth_l1_loss, takes="input label"):
    """Half the squared difference up to `delta`, and straight on from there.

    >>> loss = paddle.nn.SmoothL1Loss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, 0.0])).item(), 4)
    0.0781
    """


class KLDivLoss(_Loss, of=F.kl_div, takes="input label", settings="reduction"):
    """The divergence of log-probabilities from probabilities.

    >>> loss = paddle.nn.KLDivLoss()
    >>> round(loss(paddle.to_tensor([-1.0, -0.5]), paddle.to_tensor([0.4, 0.6])).item(), 4)
    0.0135
    """


class MarginRankingLoss(_Loss, of=F.margin_ranking_loss, takes="input other label"):
    """How far `input` fails to be over or under `other`.

    >>> better, worse = paddle.to_tensor([2.0]), paddle.to_tensor([1.5])
    >>> round(paddle.nn.MarginRankingLoss(margin=1.0)(better, worse, paddle.ones([1])).item(), 4)
    0.5
    """


class HingeEmbeddingLoss(_Loss, of=F.hinge_embedding_loss, takes="input label"):
    """`input` where the label is 1, what it lacks to the margin where it is -1.

    >>> loss = paddle.nn.HingeEmbeddingLoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, -1.0])).item(), 4)
    0.625
    """


class SoftMarginLoss(_Loss, of=F.soft_margin_loss, takes="input label"):
    """log(1 + exp(-label * input)).

    >>> loss = paddle.nn.SoftMarginLoss()
    >>> round(loss(paddle.to_tensor([0.5, 0.25]), paddle.to_tensor([1.0, -1.0])).item(), 4)
    0.65
    """


class MultiLabelSoftMarginLoss(_Loss, of=F.multi_label_soft_margin_loss, takes="input label"):
    """The mean cross entropy over classes that may hold together.

    >>> loss = paddle.nn.MultiLabelSoftMarginLoss()
    >>> round(loss(paddle.to_tensor([[1.0, -2.0]]), paddle.to_tensor([[1.0, 0.0]])).item(), 4)
    0.2201
    """


class CosineEmbeddingLoss(_Loss, of=F.cosine_embedding_loss, takes="input1 input2 label"):
    """One less the cosine where the label is 1, the cosine over the margin where it is -1.

    >>> x, y = paddle.to_tensor([[1.0, 0.0]]), paddle.to_tensor([[3.0, 4.0]])
    >>> round(paddle.nn.CosineEmbeddingLoss()(x, y, paddle.ones([1])).item(), 4)
    0.4
    """


class TripletMarginLoss(_Loss, of=F.triplet_margin_loss, takes="input positive negative"):
    """How far the positive example fails to be nearer than the negative one.

    >>> x, near, far = (paddle.to_tensor([[v, 0.0]]) for v in (0.0, 1.0, 1.5))
    >>> round(paddle.nn.TripletMarginLoss()(x, near, far).item(), 4)
    0.5
    """


class HSigmoidLoss(Layer):
    """The cost of finding a class by the decisions on its way through a binary tree.

    With `is_custom` the ways are given with each batch, and `num_classes` is how many nodes decide;
    otherwise the tree is a complete one with `num_classes` leaves.

    >>> loss = paddle.nn.HSigmoidLoss(3, 4)
    >>> loss(paddle.ones([2, 3]), paddle.to_tensor([[0], [3]])).shape
    [2, 1]
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise ValueError(f"`num_classes` must be 2 or more, not {num_classes}")
        if is_sparse and not is_custom:
            raise ValueError("`is_sparse` needs ways of your own: set `is_custom`")
        nodes = num_classes if is_custom else num_classes - 1
        self._feature_size = feature_size
        self._num_classes = num_classes
        self._is_custom = is_custom
        self._is_sparse = is_sparse
        self.weight = self.create_parameter([nodes, feature_size], weight_attr)
        self.bias = self.create_parameter([nodes, 1], bias_attr, is_bias=True)

    def forward(
        self,
        input: Tensor,
        label: Tensor,
        path_table: Tensor | None = None,
        path_code: Tensor | None = None,
    ) -> Tensor:
        if self._is_custom and (path_table is None or path_code is None):
            raise ValueError("`path_table` and `path_code` must be given, as `is_custom` says")
        if not self._is_custom and (path_table is not None or path_code is not None):
            raise ValueError("`path_table` and `path_code` need `is_custom`")
        return F.hsigmoid_loss(
            input,
            label,
            self._num_classes,
            self.weight,
            self.bias,
            path_table,
            path_code,
            self._is_sparse,
        )

    def extra_repr(self) -> str:
        return f"feature_size={self._feature_size}, num_classes={self._num_classes}"


set_public_names(__name__)
