"""The methods that `tensor/methods.py` gives tensors and variables, for type checkers and editors.

Written by `python/tests/test_core_stubs.py`.
"""

from collections.abc import Iterator
from typing import Any

import bireme.tensor.scatter as _scatter

from .tensor import (
    attribute,
    creation,
    inplace,
    linalg,
    logic,
    manipulation,
    math,
    methods,
    ops,
    random,
    search,
    stat,
)  # type: ignore[no-redef]

class TensorMethods:
    @property
    def T(self) -> Any: ...
    @property
    def place(self) -> Any: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def __hash__(self) -> int: ...
    abs = ops.abs
    abs_ = ops.abs
    acosh = ops.acosh
    acosh_ = ops.acosh
    add = math.add
    add_ = math.add
    add_n = math.add_n
    addmm = math.addmm
    addmm_ = math.addmm
    all = math.all
    allclose = logic.allclose
    amax = math.max
    amin = math.min
    any = math.any
    argmax = search.argmax
    argmin = search.argmin
    argsort = search.argsort
    asinh = ops.asinh
    asinh_ = ops.asinh
    astype = methods.astype
    atanh = ops.atanh
    atanh_ = ops.atanh
    atleast_1d = manipulation.atleast_1d
    atleast_2d = manipulation.atleast_2d
    atleast_3d = manipulation.atleast_3d
    bernoulli = random.bernoulli
    bincount = linalg.bincount
    bitwise_and = logic.bitwise_and
    bitwise_and_ = logic.bitwise_and
    bitwise_not = logic.bitwise_not
    bitwise_not_ = logic.bitwise_not
    bitwise_or = logic.bitwise_or
    bitwise_or_ = logic.bitwise_or
    bitwise_xor = logic.bitwise_xor
    bitwise_xor_ = logic.bitwise_xor
    bmm = linalg.bmm
    broadcast_shape = math.broadcast_shape
    broadcast_tensors = manipulation.broadcast_tensors
    broadcast_to = manipulation.expand
    bucketize = search.bucketize
    cast = manipulation.cast
    cast_ = manipulation.cast
    cdist = linalg.cdist
    ceil = ops.ceil
    ceil_ = ops.ceil
    chunk = manipulation.chunk
    clip = math.clip
    clip_ = math.clip
    clone = creation.clone
    concat = manipulation.concat
    copy_ = methods.copy_
    cos = ops.cos
    cos_ = ops.cos
    cosh = ops.cosh
    cosh_ = ops.cosh
    count_nonzero = math.count_nonzero
    cov = linalg.cov
    cpu = methods.cpu
    crop = manipulation.crop
    cross = linalg.cross
    cuda = methods.cuda
    cumsum = math.cumsum
    cumsum_ = math.cumsum
    deg2rad = ops.deg2rad
    diag = creation.diag
    diagflat = creation.diagflat
    diagonal = math.diagonal
    diff = math.diff
    dim = methods.dim
    dist = linalg.dist
    divide = math.divide
    divide_ = math.divide
    dot = linalg.dot
    element_size = methods.element_size
    equal = logic.equal
    equal_ = logic.equal
    equal_all = logic.equal_all
    erf = ops.erf
    erf_ = ops.erf
    exp = ops.exp
    exp_ = ops.exp
    expand = manipulation.expand
    expand_as = manipulation.expand_as
    expm1 = ops.expm1
    expm1_ = ops.expm1
    fill_ = inplace.fill_
    flatten = manipulation.flatten
    flatten_ = manipulation.flatten
    flip = manipulation.flip
    floor = ops.floor
    floor_ = ops.floor
    floor_divide = math.floor_divide
    floor_divide_ = math.floor_divide
    floor_mod = math.remainder
    floor_mod_ = math.remainder
    fmax = math.fmax
    fmin = math.fmin
    frac = ops.frac
    frac_ = ops.frac
    gather = manipulation.gather
    gather_nd = manipulation.gather_nd
    greater_equal = logic.greater_equal
    greater_equal_ = logic.greater_equal
    greater_than = logic.greater_than
    greater_than_ = logic.greater_than
    heaviside = math.heaviside
    histogram = linalg.histogram
    hypot = math.hypot
    hypot_ = math.hypot
    increment = math.increment
    index_add = _scatter.index_add
    index_add_ = _scatter.index_add
    index_fill = _scatter.index_fill
    index_fill_ = _scatter.index_fill
    index_put = _scatter.index_put
    index_put_ = _scatter.index_put
    index_sample = search.index_sample
    index_select = search.index_select
    inner = math.inner
    is_complex = attribute.is_complex
    is_empty = logic.is_empty
    is_floating_point = attribute.is_floating_point
    is_integer = attribute.is_integer
    is_tensor = logic.is_tensor
    isclose = logic.isclose
    isfinite = ops.isfinite
    isinf = ops.isinf
    isnan = ops.isnan
    kron = math.kron
    kthvalue = search.kthvalue
    lerp = math.lerp
    lerp_ = math.lerp
    less_equal = logic.less_equal
    less_equal_ = logic.less_equal
    less_than = logic.less_than
    less_than_ = logic.less_than
    log = ops.log
    log10 = ops.log10
    log10_ = ops.log10
    log1p = ops.log1p
    log1p_ = ops.log1p
    log2 = ops.log2
    log2_ = ops.log2
    log_ = ops.log
    logaddexp = math.logaddexp
    logical_and = logic.logical_and
    logical_and_ = logic.logical_and
    logical_not = logic.logical_not
    logical_not_ = logic.logical_not
    logical_or = logic.logical_or
    logical_or_ = logic.logical_or
    logical_xor = logic.logical_xor
    logical_xor_ = logic.logical_xor
    logit = ops.logit
    logit_ = ops.logit
    logsumexp = math.logsumexp
    masked_fill = search.masked_fill
    masked_fill_ = search.masked_fill
    masked_select = search.masked_select
    matmul = linalg.matmul
    matrix_power = linalg.matrix_power
    max = math.max
    maximum = math.maximum
    mean = stat.mean
    median = stat.median
    min = math.min
    minimum = math.minimum
    mm = linalg.mm
    mod = math.remainder
    mod_ = math.remainder
    moveaxis = manipulation.moveaxis
    multinomial = random.multinomial
    multiplex = math.multiplex
    multiply = math.multiply
    multiply_ = math.multiply
    mv = linalg.mv
    nan_to_num = math.nan_to_num
    nan_to_num_ = math.nan_to_num
    nanmean = stat.nanmean
    nansum = math.nansum
    ndimension = methods.dim
    neg = ops.neg
    neg_ = ops.neg
    nonzero = search.nonzero
    norm = linalg.norm
    normal_ = inplace.normal_
    not_equal = logic.not_equal
    not_equal_ = logic.not_equal
    numel = stat.numel
    outer = math.outer
    pin_memory = methods.pin_memory
    pow = math.pow
    pow_ = math.pow
    prod = math.prod
    put_along_axis = _scatter.put_along_axis
    put_along_axis_ = _scatter.put_along_axis
    quantile = stat.quantile
    rad2deg = ops.rad2deg
    rank = attribute.rank
    reciprocal = ops.reciprocal
    reciprocal_ = ops.reciprocal
    register_hook = methods.register_hook
    remainder = math.remainder
    remainder_ = math.remainder
    repeat_interleave = manipulation.repeat_interleave
    reshape = manipulation.reshape
    reshape_ = manipulation.reshape
    reverse = manipulation.flip
    roll = manipulation.roll
    rot90 = manipulation.rot90
    round = ops.round
    round_ = ops.round
    rsqrt = ops.rsqrt
    rsqrt_ = ops.rsqrt
    scale = math.scale
    scale_ = math.scale
    scatter = _scatter.scatter
    scatter_ = _scatter.scatter
    scatter_nd_add = _scatter.scatter_nd_add
    searchsorted = search.searchsorted
    select_scatter = _scatter.select_scatter
    sgn = ops.sign
    shard_index = manipulation.shard_index
    sigmoid = ops.sigmoid
    sigmoid_ = ops.sigmoid
    sign = ops.sign
    sin = ops.sin
    sin_ = ops.sin
    sinh = ops.sinh
    sinh_ = ops.sinh
    slice = manipulation.slice
    softmax = methods.softmax
    sort = search.sort
    split = manipulation.split
    sqrt = ops.sqrt
    sqrt_ = ops.sqrt
    square = ops.square
    square_ = ops.square
    squeeze = manipulation.squeeze
    squeeze_ = manipulation.squeeze
    stack = manipulation.stack
    stanh = ops.stanh
    std = stat.std
    strided_slice = manipulation.strided_slice
    subtract = math.subtract
    subtract_ = math.subtract
    sum = math.sum
    t = linalg.t
    t_ = linalg.t
    take = search.take
    take_along_axis = manipulation.take_along_axis
    tan = ops.tan
    tan_ = ops.tan
    tanh = ops.tanh
    tanh_ = ops.tanh
    tensordot = manipulation.tensordot
    tile = manipulation.tile
    to = methods.to
    topk = search.topk
    trace = math.trace
    transpose = manipulation.transpose
    transpose_ = manipulation.transpose
    tril = creation.tril
    tril_ = creation.tril
    triu = creation.triu
    triu_ = creation.triu
    trunc = ops.trunc
    trunc_ = ops.trunc
    unbind = manipulation.unbind
    unflatten = manipulation.unflatten
    uniform_ = inplace.uniform_
    unique = search.unique
    unique_consecutive = search.unique_consecutive
    unsqueeze = manipulation.unsqueeze
    unsqueeze_ = manipulation.unsqueeze
    unstack = manipulation.unstack
    value = methods.value
    var = stat.var
    view = manipulation.view
    view_as = manipulation.view_as
    vsplit = manipulation.vsplit
    where = search.where
    zero_ = inplace.zero_
