"""`fluid.layers`: what programs of Paddle 1.x are built of.

Names that 2.x kept are the same functions; the others have their 1.x signatures. Readers inside
programs (`py_reader`), control flow and detection layers are missing.
"""

from ..._missing import missing_names
from . import (
    control_flow,
    elementwise,
    io,
    learning_rate_scheduler,
    loss,
    manipulation,
    math,
    metric_op,
    nn,
    ops,
    rnn,
    sequence_lod,
    tensor,
)
from .control_flow import *
from .elementwise import *
from .io import data
from .learning_rate_scheduler import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    linear_lr_warmup,
    natural_exp_decay,
    noam_decay,
    piecewise_decay,
    polynomial_decay,
)
from .loss import (
    bpr_loss,
    cross_entropy,
    huber_loss,
    kldiv_loss,
    label_smooth,
    log_loss,
    margin_rank_loss,
    mse_loss,
    rank_loss,
    sigmoid_cross_entropy_with_logits,
    smooth_l1,
    softmax_with_cross_entropy,
    square_error_cost,
)
from .manipulation import *
from .math import (
    clip,
    clip_by_norm,
    cos_sim,
    cumsum,
    l2_normalize,
    matmul,
    mean,
    mul,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    scale,
    sum,
    sums,
)
from .metric_op import *
from .nn import *
from .ops import *
from .rnn import *
from .sequence_lod import *
from .tensor import *

_FROM_PARTS = (
    control_flow,
    elementwise,
    manipulation,
    metric_op,
    nn,
    ops,
    rnn,
    sequence_lod,
    tensor,
)

__all__ = [  # noqa: PLE0604 (the names of the parts are strings)
    "bpr_loss",
    "clip",
    "clip_by_norm",
    "cos_sim",
    "cosine_decay",
    "cross_entropy",
    "cumsum",
    "data",
    "exponential_decay",
    "huber_loss",
    "inverse_time_decay",
    "io",
    "kldiv_loss",
    "l2_normalize",
    "label_smooth",
    "learning_rate_scheduler",
    "linear_lr_warmup",
    "log_loss",
    "loss",
    "margin_rank_loss",
    "math",
    "matmul",
    "mean",
    "mse_loss",
    "mul",
    "natural_exp_decay",
    "noam_decay",
    "piecewise_decay",
    "polynomial_decay",
    "rank_loss",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "scale",
    "sigmoid_cross_entropy_with_logits",
    "smooth_l1",
    "softmax_with_cross_entropy",
    "square_error_cost",
    "sum",
    "sums",
    *(name for part in _FROM_PARTS for name in part.__all__),
]

__getattr__ = missing_names(__name__)
