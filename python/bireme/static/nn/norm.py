"""Normalising layers for programs: over the batch, over a layer, and over all data seen so far."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ... import _core
from ..._names import set_public_names
from ...nn.initializer import Constant
from ...nn.parameter import make_parameter
from ..program import Variable
from .parameters import LayerNames, activate, check_sizes

ops = _core.ops


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Scales each channel to mean 0 and variance 1 over the batch, then by a learnt scale and bias.

    `in_place` has no meaning here (the plan places memory), nor has
    `do_model_average_for_mean_and_var` without a model average.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     paddle.static.nn.batch_norm(paddle.static.data("x", [None, 4])).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    if bias_attr is False:
        raise ValueError("`batch_norm` always has a bias: `bias_attr` must not be False")
    layer = LayerNames("batch_norm", name)
    shape = [_channels("batch_norm", input, data_layout)]
    scale = layer.weight(param_attr, shape, input.dtype, Constant(1.0))
    bias = layer.bias(bias_attr, shape, input.dtype)
    mean = _statistic(layer, moving_mean_name, shape, input.dtype, 0.0)
    variance = _statistic(layer, moving_variance_name, shape, input.dtype, 1.0)
    out = layer.apply(
        "batch_norm",
        input,
        scale,
        bias,
        mean,
        variance,
        momentum=momentum,
        epsilon=epsilon,
        is_test=is_test,
        data_layout=data_layout,
        use_global_stats=use_global_stats,
        _slots=("SavedMean", "SavedVariance", "ReserveSpace", "Y"),
        _into={"MeanOut": mean, "VarianceOut": variance},
    )
    return layer.activate(out, act)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Scales each row to mean 0 and variance 1, then by a learnt scale and shift.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     paddle.static.nn.layer_norm(paddle.static.data("x", [None, 4])).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    layer = LayerNames("layer_norm", name)
    shape = [math.prod(input.shape[begin_norm_axis:])]
    check_sizes(layer.name, input.shape[begin_norm_axis:])
    gain = bias = None
    if scale and param_attr is not False:
        gain = layer.weight(param_attr, shape, input.dtype, Constant(1.0))
    if shift:
        bias = layer.bias(bias_attr, shape, input.dtype)
    out = layer.apply(
        "layer_norm",
        input,
        gain,
        bias,
        epsilon=epsilon,
        begin_norm_axis=begin_norm_axis,
        _slots=("Mean", "Variance", "Y"),
    )
    return layer.activate(out, act)


def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: dict[str, float] | None = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """Normalises by the sums over all samples so far, which are kept as parameters.

    `param_attr` is a dictionary with the first values `batch_size`, `batch_sum`, `batch_square`,
    `scale_w` and `bias`. `in_place`, the names of moving averages (there are none) and
    `do_model_average_for_mean_and_var` have no meaning here. `sync_stats` and another
    `summary_decay_rate` have an effect on GPUs only: here statistics count all samples alike, and
    parameter servers add up those of all trainers.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     paddle.static.nn.data_norm(paddle.static.data("x", [None, 4])).shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    LayerNames("data_norm")
    if param_attr is not None and not isinstance(param_attr, dict):
        raise TypeError("`param_attr` of `data_norm` must be a dictionary of first values")
    if sync_stats or summary_decay_rate != 0.9999999:
        warnings.warn(
            "`sync_stats` and `summary_decay_rate` of `data_norm` have an effect on GPUs only",
            stacklevel=2,
        )
    first = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4, "scale_w": 1.0, "bias": 0.0}
    unknown = set(param_attr or {}) - set(first)
    if unknown:
        raise ValueError(f"`param_attr` has {sorted(unknown)}, but knows {sorted(first)} only")
    first.update(param_attr or {})
    shape = [_channels("data_norm", input, data_layout)]

    def statistic(suffix: str, value: float) -> Variable:
        first_value = Constant(float(value))
        return make_parameter(
            "", shape, f"{name or 'dn'}.{suffix}", input.dtype, default_initializer=first_value
        )

    scale = bias = None
    if enable_scale_and_shift:
        scale = statistic("scale_w", first["scale_w"])
        bias = statistic("bias", first["bias"])
    size = statistic("batch_size", first["batch_size"])
    total = statistic("batch_sum", first["batch_sum"])
    squares = statistic("batch_square_sum", first["batch_square"])
    out = ops.data_norm(
        input,
        size,
        total,
        squares,
        scale,
        bias,
        epsilon=epsilon,
        data_layout=data_layout,
        slot_dim=slot_dim,
        sync_stats=sync_stats,
        summary_decay_rate=summary_decay_rate,
        enable_scale_and_shift=enable_scale_and_shift,
        _outputs=("Y",),
    )
    return activate(out, act)


def _statistic(
    layer: LayerNames, name: str | None, shape: list[int], dtype: Any, value: float
) -> Variable:
    from ...framework import ParamAttr

    attr = ParamAttr(name=name, trainable=False)
    var = layer.weight(attr, shape, dtype, Constant(value))
    var.stop_gradient = True
    return var


def _channels(layer: str, input: Variable, data_layout: str) -> int:
    if not 2 <= input.ndim <= 5:
        raise ValueError(f"`{layer}` takes 2 to 5 dimensions, not the shape {tuple(input.shape)}")
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"`data_layout` must be NCHW or NHWC, not {data_layout!r}")
    return input.shape[1 if data_layout == "NCHW" else -1]


set_public_names(__name__)
