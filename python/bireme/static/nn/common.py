"""Layers with parameters, for programs: fully connected, embedding, normalisation, convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import _core
from ..._names import set_public_names
from ...nn.initializer import Constant, Normal
from ..program import Variable
from .parameters import LayerNames, check_sizes

ops = _core.ops


def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Variable:
    """Fully connected: `activation(x @ w + b)`; several inputs each have a weight and are summed.

    Sizes up to `num_flatten_dims` stay, the rest is flattened; -1 keeps all but the last.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 13])
    ...     paddle.static.nn.fc(x, 4, activation="relu").shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    layer = LayerNames("fc", name)
    inputs: list[Any] = list(x) if isinstance(x, (list, tuple)) else [x]
    attrs = weight_attr if isinstance(weight_attr, (list, tuple)) else [weight_attr] * len(inputs)
    if len(attrs) != len(inputs):
        raise ValueError(f"`fc` has {len(inputs)} inputs but {len(attrs)} weight attributes")
    products = []
    for each, attr in zip(inputs, attrs):
        kept = each.ndim - 1 if num_flatten_dims == -1 else num_flatten_dims
        check_sizes(layer.name, each.shape[kept:])
        weight = layer.weight(attr, [math.prod(each.shape[kept:]), size], each.dtype)
        products.append(layer.apply("mul", each, weight, x_num_col_dims=kept))
    out = products[0] if len(products) == 1 else ops.sum(products)
    bias = layer.bias(bias_attr, [size], out.dtype)
    if bias is not None:
        out = layer.apply("elementwise_add", out, bias, axis=kept)
    return layer.activate(out, activation)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """The rows of a table of `size` that the ids of `input` name, in a new last dimension.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     ids = paddle.static.data("ids", [None, 3], "int64")
    ...     paddle.static.nn.embedding(ids, [100, 8], is_sparse=True).shape
    (-1, 3, 8)
    >>> paddle.disable_static()
    """
    layer = LayerNames("embedding")
    return layer.apply(
        "lookup_table_v2",
        layer.weight(param_attr, size, dtype),
        input,
        padding_idx=padding_row(padding_idx, size),
        is_sparse=is_sparse,
        is_distributed=is_distributed,
    )


def sparse_embedding(
    input: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: Any = None,
    table_class: str = "MemorySparseTable",
    param_attr: Any = None,
    dtype: Any = "float32",
    slot: int | None = None,
) -> Variable:
    """An embedding whose table belongs on parameter servers; in one process it is in memory.

    `entry`, `table_class` and `slot` describe the table to the servers: they are kept in the
    program, and have no effect in a run without servers.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    ...     paddle.static.nn.sparse_embedding(ids, [100, 8]).shape
    (-1, 8)
    >>> paddle.disable_static()
    """
    if table_class not in ("CommonSparseTable", "SSDSparseTable", "MemorySparseTable"):
        raise ValueError(f"there is no table class `{table_class}`")
    if entry is not None and not hasattr(entry, "_to_attr"):
        raise TypeError(f"`entry` must be an entry of `paddle.distributed`, not {entry!r}")
    layer = LayerNames("sparse_embedding")
    return layer.apply(
        "lookup_table",
        layer.weight(param_attr, size, dtype),
        input,
        padding_idx=padding_row(padding_idx, size),
        is_sparse=True,
        is_distributed=True,
        remote_prefetch=True,
        is_test=is_test,
        entry="none" if entry is None else entry._to_attr(),
        table_class=table_class,
        slot=slot or 0,
    )


def padding_row(padding_idx: int | None, size: Sequence[int]) -> int:
    """The row that stays zero, counted from the start; -1 where there is none.

    >>> padding_row(None, [10, 4]), padding_row(-1, [10, 4])
    (-1, 9)
    """
    if padding_idx is None:
        return -1
    row = padding_idx if padding_idx >= 0 else size[0] + padding_idx
    if not 0 <= row < size[0]:
        raise ValueError(f"`padding_idx` is {padding_idx}, but the table has {size[0]} rows")
    return row


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Convolves images with `num_filters` learnt filters; `use_cudnn` has no meaning here.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 1, 28, 28])
    ...     paddle.static.nn.conv2d(x, 6, 5, act="relu").shape
    (-1, 6, 24, 24)
    >>> paddle.disable_static()
    """
    layer = LayerNames("conv2d", name)
    channels = input.shape[1 if data_format == "NCHW" else -1]
    height, width = _pair("filter_size", filter_size)
    std = math.sqrt(2.0 / (height * width * channels))
    weight = layer.weight(
        param_attr,
        [num_filters, channels // (groups or 1), height, width],
        input.dtype,
        Normal(0.0, std),
    )
    algorithm = padding.upper() if isinstance(padding, str) else "EXPLICIT"
    out = layer.apply(
        "conv2d",
        input,
        weight,
        _slots=("Output",),
        strides=_pair("stride", stride),
        paddings=[0, 0] if isinstance(padding, str) else image_padding(padding),
        dilations=_pair("dilation", dilation),
        groups=groups or 1,
        padding_algorithm=algorithm,
        data_format=data_format,
    )
    bias = layer.bias(bias_attr, [num_filters], input.dtype)
    if bias is not None:
        out = layer.apply("elementwise_add", out, bias, axis=1 if data_format == "NCHW" else 3)
    return layer.activate(out, act)


def prelu(
    x: Variable,
    mode: str,
    param_attr: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """`x` where positive, else `x` times a learnt slope: one for "all", each "channel" or "element".

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     paddle.static.nn.prelu(paddle.static.data("x", [None, 4]), "all").shape
    (-1, 4)
    >>> paddle.disable_static()
    """
    layer = LayerNames("prelu", name)
    if mode == "all":
        shape = [1]
    elif mode == "channel":
        channels = x.shape[1] if data_format == "NCHW" else x.shape[-1]
        # Four sizes whatever the input has, as in Paddle's files.
        shape = [1, channels, 1, 1] if data_format == "NCHW" else [1, 1, 1, channels]
    elif mode == "element":
        shape = [1, *x.shape[1:]]
    else:
        raise ValueError(f"`mode` must be all, channel or element, not {mode!r}")
    alpha = layer.weight(param_attr, shape, x.dtype, Constant(0.25))
    return layer.apply("prelu", x, alpha, mode=mode, data_format=data_format)


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Variable:
    """`x @ w[i] @ y` for each of `size` learnt matrices `w[i]`, plus a bias.

    >>> import bireme as paddle
    >>> paddle.enable_static()
    >>> with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    ...     x = paddle.static.data("x", [None, 3])
    ...     y = paddle.static.data("y", [None, 4])
    ...     paddle.static.nn.bilinear_tensor_product(x, y, 5).shape
    (-1, 5)
    >>> paddle.disable_static()
    """
    layer = LayerNames("bilinear_tensor_product", name)
    weight = layer.weight(param_attr, [size, x.shape[1], y.shape[1]], x.dtype)
    # [size, m, n] is read as m rows of size * n, so that one product serves all matrices.
    rows = ops.transpose2(weight, axis=[1, 0, 2])
    wide = ops.mul(x, ops.reshape2(rows, shape=[x.shape[1], size * y.shape[1]]))
    split = ops.reshape2(wide, shape=[-1, size, y.shape[1]])
    weighted = ops.elementwise_mul(split, ops.unsqueeze2(y, axes=[1]))
    out = ops.reduce_sum(weighted, dim=[2])
    bias = layer.bias(bias_attr, [1, size], x.dtype)
    return layer.activate(out if bias is None else ops.elementwise_add(out, bias), act)


def _pair(what: str, value: int | Sequence[int]) -> list[int]:
    pair = [value, value] if isinstance(value, int) else list(value)
    if len(pair) != 2:
        raise ValueError(f"`{what}` must be one number or two, not {value!r}")
    return pair


def image_padding(padding: int | Sequence[Any]) -> list[int]:
    """Padding of height and width as the ops take it: two numbers, or four for the four sides.

    >>> image_padding(1), image_padding([1, 2])
    ([1, 1], [1, 2])
    """
    if isinstance(padding, int):
        return [padding, padding]
    flat = list(padding)
    if flat and isinstance(flat[0], (list, tuple)):
        raise ValueError("give `padding` as one, two or four numbers, not as pairs")
    if len(flat) not in (2, 4):
        raise ValueError(f"`padding` must be one, two or four numbers, not {padding!r}")
    return flat


set_public_names(__name__, but="image_padding padding_row")
