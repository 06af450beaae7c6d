"""The methods that `tensor/methods.py` gives tensors and variables, for type checkers and editors.

A test compares the list with what is attached, so that it cannot fall behind.
"""

from collections.abc import Callable, Iterator
from typing import Any

from .tensor import (
    attribute,
    creation,
    linalg,
    logic,
    manipulation,
    math,
    methods,
    ops,
    random,
    scatter,
    search,
    stat,
)

class TensorMethods:
    @property
    def T(self) -> Any: ...
    @property
    def place(self) -> Any: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    def __eq__(self, other: object) -> Any: ...
    def __ne__(self, other: object) -> Any: ...
    def __hash__(self) -> int: ...
    abs = ops.abs
    acosh = ops.acosh
    add = math.add
    add_n = math.add_n
    addmm = math.addmm
    all = math.all
    allclose = logic.allclose
    amax = math.amax
    amin = math.amin
    any = math.any
    argmax = search.argmax
    argmin = search.argmin
    argsort = search.argsort
    asinh = ops.asinh
    astype = methods.astype
    atanh = ops.atanh
    atleast_1d = manipulation.atleast_1d
    atleast_2d = manipulation.atleast_2d
    atleast_3d = manipulation.atleast_3d
    bernoulli = random.bernoulli
    bincount = linalg.bincount
    bitwise_and = logic.bitwise_and
    bitwise_not = logic.bitwise_not
    bitwise_or = logic.bitwise_or
    bitwise_xor = logic.bitwise_xor
    bmm = linalg.bmm
    broadcast_shape = math.broadcast_shape
    broadcast_tensors = manipulation.broadcast_tensors
    broadcast_to = manipulation.broadcast_to
    bucketize = search.bucketize
    cast = manipulation.cast
    cdist = linalg.cdist
    ceil = ops.ceil
    chunk = manipulation.chunk
    clip = math.clip
    clone = creation.clone
    concat = manipulation.concat
    cos = ops.cos
    cosh = ops.cosh
    count_nonzero = math.count_nonzero
    cov = linalg.cov
    cpu = methods.cpu
    crop = manipulation.crop
    cross = linalg.cross
    cuda = methods.cuda
    cumsum = math.cumsum
    deg2rad = ops.deg2rad
    diag = creation.diag
    diagflat = creation.diagflat
    diagonal = math.diagonal
    diff = math.diff
    dim = methods.dim
    dist = linalg.dist
    divide = math.divide
    dot = linalg.dot
    element_size = methods.element_size
    equal = logic.equal
    equal_all = logic.equal_all
    erf = ops.erf
    exp = ops.exp
    expand = manipulation.expand
    expand_as = manipulation.expand_as
    expm1 = ops.expm1
    flatten = manipulation.flatten
    flip = manipulation.flip
    floor = ops.floor
    floor_divide = math.floor_divide
    floor_mod = math.floor_mod
    fmax = math.fmax
    fmin = math.fmin
    frac = ops.frac
    gather = manipulation.gather
    gather_nd = manipulation.gather_nd
    greater_equal = logic.greater_equal
    greater_than = logic.greater_than
    heaviside = math.heaviside
    histogram = linalg.histogram
    hypot = math.hypot
    increment = math.increment
    index_add = scatter.index_add
    index_fill = scatter.index_fill
    index_put = scatter.index_put
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
    less_equal = logic.less_equal
    less_than = logic.less_than
    log = ops.log
    log10 = ops.log10
    log1p = ops.log1p
    log2 = ops.log2
    logaddexp = math.logaddexp
    logical_and = logic.logical_and
    logical_not = logic.logical_not
    logical_or = logic.logical_or
    logical_xor = logic.logical_xor
    logit = ops.logit
    logsumexp = math.logsumexp
    masked_fill = search.masked_fill
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
    mod = math.mod
    moveaxis = manipulation.moveaxis
    multinomial = random.multinomial
    multiplex = math.multiplex
    multiply = math.multiply
    mv = linalg.mv
    nan_to_num = math.nan_to_num
    nanmean = stat.nanmean
    nansum = math.nansum
    ndimension = methods.dim
    neg = ops.neg
    nonzero = search.nonzero
    norm = linalg.norm
    not_equal = logic.not_equal
    numel = stat.numel
    outer = math.outer
    pow = math.pow
    prod = math.prod
    put_along_axis = scatter.put_along_axis
    quantile = stat.quantile
    rad2deg = ops.rad2deg
    rank = attribute.rank
    reciprocal = ops.reciprocal
    remainder = math.remainder
    repeat_interleave = manipulation.repeat_interleave
    reshape = manipulation.reshape
    reverse = manipulation.reverse
    roll = manipulation.roll
    rot90 = manipulation.rot90
    round = ops.round
    rsqrt = ops.rsqrt
    scale = math.scale
    scatter = scatter.scatter
    scatter_nd_add = scatter.scatter_nd_add
    searchsorted = search.searchsorted
    select_scatter = scatter.select_scatter
    sgn = ops.sgn
    shard_index = manipulation.shard_index
    sigmoid = ops.sigmoid
    sign = ops.sign
    sin = ops.sin
    sinh = ops.sinh
    slice = manipulation.slice
    softmax = methods.softmax
    sort = search.sort
    split = manipulation.split
    sqrt = ops.sqrt
    square = ops.square
    squeeze = manipulation.squeeze
    stack = manipulation.stack
    stanh = ops.stanh
    std = stat.std
    strided_slice = manipulation.strided_slice
    subtract = math.subtract
    sum = math.sum
    t = linalg.t
    take = search.take
    take_along_axis = manipulation.take_along_axis
    tan = ops.tan
    tanh = ops.tanh
    tensordot = manipulation.tensordot
    tile = manipulation.tile
    to = methods.to
    topk = search.topk
    trace = math.trace
    transpose = manipulation.transpose
    tril = creation.tril
    triu = creation.triu
    trunc = ops.trunc
    unbind = manipulation.unbind
    unflatten = manipulation.unflatten
    unique = search.unique
    unique_consecutive = search.unique_consecutive
    unsqueeze = manipulation.unsqueeze
    unstack = manipulation.unstack
    var = stat.var
    view = manipulation.view
    view_as = manipulation.view_as
    vsplit = manipulation.vsplit
    where = search.where
    register_hook = methods.register_hook
    copy_ = methods.copy_
    value = methods.value
    # In place: made from the functions without the underscore.
    abs_: Callable[..., Any]
    acosh_: Callable[..., Any]
    add_: Callable[..., Any]
    addmm_: Callable[..., Any]
    asinh_: Callable[..., Any]
    atanh_: Callable[..., Any]
    bitwise_and_: Callable[..., Any]
    bitwise_not_: Callable[..., Any]
    bitwise_or_: Callable[..., Any]
    bitwise_xor_: Callable[..., Any]
    cast_: Callable[..., Any]
    ceil_: Callable[..., Any]
    clip_: Callable[..., Any]
    cos_: Callable[..., Any]
    cosh_: Callable[..., Any]
    cumsum_: Callable[..., Any]
    divide_: Callable[..., Any]
    equal_: Callable[..., Any]
    erf_: Callable[..., Any]
    exp_: Callable[..., Any]
    expm1_: Callable[..., Any]
    fill_: Callable[..., Any]
    flatten_: Callable[..., Any]
    floor_: Callable[..., Any]
    floor_divide_: Callable[..., Any]
    floor_mod_: Callable[..., Any]
    frac_: Callable[..., Any]
    greater_equal_: Callable[..., Any]
    greater_than_: Callable[..., Any]
    hypot_: Callable[..., Any]
    index_add_: Callable[..., Any]
    index_fill_: Callable[..., Any]
    index_put_: Callable[..., Any]
    lerp_: Callable[..., Any]
    less_equal_: Callable[..., Any]
    less_than_: Callable[..., Any]
    log10_: Callable[..., Any]
    log1p_: Callable[..., Any]
    log2_: Callable[..., Any]
    log_: Callable[..., Any]
    logical_and_: Callable[..., Any]
    logical_not_: Callable[..., Any]
    logical_or_: Callable[..., Any]
    logical_xor_: Callable[..., Any]
    logit_: Callable[..., Any]
    masked_fill_: Callable[..., Any]
    mod_: Callable[..., Any]
    multiply_: Callable[..., Any]
    nan_to_num_: Callable[..., Any]
    neg_: Callable[..., Any]
    normal_: Callable[..., Any]
    not_equal_: Callable[..., Any]
    pow_: Callable[..., Any]
    put_along_axis_: Callable[..., Any]
    reciprocal_: Callable[..., Any]
    remainder_: Callable[..., Any]
    reshape_: Callable[..., Any]
    round_: Callable[..., Any]
    rsqrt_: Callable[..., Any]
    scale_: Callable[..., Any]
    scatter_: Callable[..., Any]
    sigmoid_: Callable[..., Any]
    sin_: Callable[..., Any]
    sinh_: Callable[..., Any]
    sqrt_: Callable[..., Any]
    square_: Callable[..., Any]
    squeeze_: Callable[..., Any]
    subtract_: Callable[..., Any]
    t_: Callable[..., Any]
    tan_: Callable[..., Any]
    tanh_: Callable[..., Any]
    transpose_: Callable[..., Any]
    tril_: Callable[..., Any]
    triu_: Callable[..., Any]
    trunc_: Callable[..., Any]
    uniform_: Callable[..., Any]
    unsqueeze_: Callable[..., Any]
    zero_: Callable[..., Any]
