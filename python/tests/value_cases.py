"""Expressions whose values real Paddle 2.6.2 has computed: see `tools/paddle_values.py`.

Each is evaluated with `paddle`, its functional module `F` and the inputs below. The tests compare
values, element types and gradients, eagerly and in a program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_random = np.random.RandomState(7)


def _floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return _random.uniform(low, high, shape).astype("float32")


INPUTS: dict[str, np.ndarray] = {
    "x": _floats(2, 3),
    "y": _floats(2, 3),
    "p": _floats(2, 3, low=0.5, high=3.0),
    "u": _floats(2, 3, low=0.1, high=0.9),
    "v": _floats(3),
    "m": _floats(3, 4),
    "b": _floats(2, 3, 4),
    "d": _floats(2, 4, 5),
    "label": _random.randint(0, 2, (2, 3)).astype("float32"),
    "one": _floats(1, 3),
    "picture": _floats(1, 2, 5, 6),
    "filters": _floats(4, 2, 3, 3),
    "wave": _floats(2, 2, 7),
    "kernel": _floats(3, 2, 3),
    "i": np.array([1, 0], "int64"),
    "j": np.array([2, 0, 1], "int64"),
    "n": _random.randint(0, 5, (2, 3)).astype("int64"),
    "k": _random.randint(1, 5, (2, 3)).astype("int32"),
    "c": np.array([[True, False, True], [False, True, True]]),
    "classes": np.array([2, 0], "int64"),
    "column": np.array([[2], [0]], "int64"),
}

MATH = """
paddle.add(x, y) ; paddle.add(x, v) ; paddle.subtract(x, one) ; paddle.multiply(x, v) ; paddle.divide(x, p)
paddle.floor_divide(n, n + 1) ; paddle.remainder(n, n + 1) ; paddle.mod(x, p) ; paddle.maximum(x, y) ; paddle.minimum(x, v)
paddle.fmax(x, y) ; paddle.fmin(x, y) ; paddle.pow(p, 2) ; paddle.pow(p, 2.5) ; paddle.pow(p, y) ; paddle.pow(n, 2)
paddle.scale(x, 2.0, 1.0) ; paddle.scale(x, 2.0, 1.0, bias_after_scale=False) ; paddle.add_n([x, y])
paddle.sum(x) ; paddle.sum(b, axis=1) ; paddle.sum(b, axis=[0, -1], keepdim=True) ; paddle.sum(k) ; paddle.sum(c) ; paddle.sum(x, dtype="float64")
paddle.mean(x) ; paddle.mean(b, axis=-1) ; paddle.mean(b, axis=[0, 1]) ; paddle.max(b, axis=1) ; paddle.min(b) ; paddle.prod(p, axis=0)
paddle.amax(x, axis=1) ; paddle.all(c, axis=0) ; paddle.any(c) ; paddle.logsumexp(x, axis=1) ; paddle.logsumexp(x)
paddle.cumsum(x) ; paddle.cumsum(x, axis=0) ; paddle.clip(x, -0.5, 0.5) ; paddle.clip(x, min=0.0) ; paddle.clip(n, 1, 3)
paddle.std(b, axis=1) ; paddle.var(x) ; paddle.var(x, unbiased=False) ; paddle.median(b, axis=2) ; paddle.numel(b) ; paddle.nansum(x)
paddle.abs(x) ; paddle.exp(x) ; paddle.exp(n) ; paddle.log(p) ; paddle.log2(p) ; paddle.log10(p) ; paddle.log1p(p) ; paddle.sqrt(p) ; paddle.rsqrt(p)
paddle.square(x) ; paddle.sign(x) ; paddle.floor(x) ; paddle.ceil(x) ; paddle.round(x) ; paddle.reciprocal(p) ; paddle.tanh(x) ; paddle.sin(x) ; paddle.cos(x)
paddle.erf(x) ; paddle.tan(u) ; paddle.sinh(x) ; paddle.cosh(x) ; paddle.asinh(x) ; paddle.acosh(p + 1.0) ; paddle.atanh(u) ; paddle.expm1(x) ; paddle.trunc(x) ; paddle.frac(x)
paddle.neg(x) ; paddle.logit(u) ; paddle.stanh(x) ; paddle.lerp(x, y, 0.3) ; paddle.logaddexp(x, y) ; paddle.outer(v, v) ; paddle.inner(x, y) ; paddle.kron(v, v)
paddle.addmm(x, x, paddle.ones([3, 3]), beta=0.5, alpha=2.0) ; paddle.diff(b, axis=1) ; paddle.trace(m) ; paddle.diagonal(b, axis1=1, axis2=2, offset=1)
paddle.matmul(x, m) ; paddle.matmul(b, d) ; paddle.matmul(b, b, transpose_y=True) ; paddle.bmm(b, d) ; paddle.dot(x, y) ; paddle.mv(x, v) ; paddle.mm(x, m)
paddle.norm(x) ; paddle.norm(x, p=2, axis=1) ; paddle.norm(x, p=1) ; paddle.norm(x, p=float("inf"), axis=0) ; paddle.norm(b, p="fro", axis=[0, 1]) ; paddle.dist(x, y, 2)
paddle.t(m) ; paddle.cross(x, y) ; paddle.einsum("ij,jk->ik", x, m) ; paddle.einsum("bij,bjk->bk", b, d) ; paddle.einsum("ij->ji", x)
x + y ; x - 1.5 ; 2.0 - x ; x * v ; x / p ; 2.0 / p ; n / 2 ; n // 2 ; n % 2 ; p ** 2 ; 2.0 ** x ; -x ; n + 1.5 ; n * 2 ; x @ m ; x + n
"""

SHAPES = """
paddle.reshape(b, [4, -1]) ; paddle.reshape(b, [0, -1]) ; paddle.flatten(b, 1) ; paddle.flatten(b, 0, 1) ; paddle.transpose(b, [2, 0, 1]) ; b.T ; paddle.moveaxis(b, 0, 2)
paddle.squeeze(one) ; paddle.squeeze(one, 0) ; paddle.squeeze(x, 0) ; paddle.unsqueeze(x, [0, -1]) ; paddle.unsqueeze(x, 1) ; paddle.concat([x, y], axis=1) ; paddle.concat([x, one])
paddle.stack([x, y], axis=-1) ; paddle.split(b, 2, axis=2)[1] ; paddle.split(b, [1, -1], axis=1)[1] ; paddle.chunk(b, 2, axis=-1)[0] ; paddle.unbind(b, 1)[2] ; paddle.add_n(paddle.unstack(b, 1))
paddle.tile(x, [2, 1]) ; paddle.tile(v, [2, 2]) ; paddle.expand(one, [4, 3]) ; paddle.expand(one, [4, -1]) ; paddle.expand_as(v, x) ; paddle.broadcast_to(v, [2, 3]) ; paddle.flip(x, [0, 1])
paddle.roll(x, 1) ; paddle.roll(b, 2, axis=1) ; paddle.roll(b, [1, 1], axis=[0, 1]) ; paddle.rot90(x) ; paddle.slice(b, [1, 2], [0, 1], [2, 3]) ; paddle.strided_slice(b, [2], [0], [4], [2])
paddle.crop(x, [1, 2], [1, 1]) ; paddle.gather(x, i) ; paddle.gather(b, i) ; paddle.gather_nd(b, column[1:]) ; paddle.index_select(x, j, axis=1) ; paddle.index_sample(x, column)
paddle.take_along_axis(x, column, 1) ; paddle.put_along_axis(x, column, 5.0, 1) ; paddle.repeat_interleave(v, 2) ; paddle.repeat_interleave(x, 2, axis=1) ; paddle.unflatten(b, 2, [2, 2])
paddle.masked_select(x, c) ; paddle.masked_fill(x, c, 3.0) ; paddle.where(c, x, y) ; paddle.where(c, x, v) ; paddle.nonzero(c) ; paddle.tril(x) ; paddle.triu(x, 1)
paddle.scatter(x, i, y) ; paddle.scatter(x, i, y, overwrite=False) ; paddle.scatter_nd_add(x, column[1:], one) ; paddle.index_add(x, i, 0, y) ; paddle.tensordot(b, d, axes=[[0, 2], [0, 1]])
paddle.topk(x, 2)[0] ; paddle.topk(x, 2)[1] ; paddle.topk(x, 1, largest=False)[0] ; paddle.argsort(x) ; paddle.argsort(x, descending=True) ; paddle.sort(x, axis=0) ; paddle.argmax(x) ; paddle.argmax(x, axis=1, keepdim=True)
paddle.argmin(x, axis=0) ; paddle.kthvalue(x, 2)[0] ; paddle.unique(n) ; paddle.unique(n, return_counts=True)[1] ; paddle.bincount(j) ; paddle.searchsorted(paddle.sort(v), x)
paddle.diag(v) ; paddle.diag(v, 1) ; paddle.diag(m, -1) ; paddle.diagflat(x) ; paddle.add_n(paddle.meshgrid(v, p[0])) ; paddle.cast(x, "int32") ; x.astype("bool") ; paddle.cast(c, "float32") ; paddle.shape(b) ; paddle.rank(b)
paddle.zeros_like(x) ; paddle.ones_like(n) ; paddle.full_like(x, 3) ; paddle.full([2], 3) ; paddle.full([], 2.5) ; paddle.arange(5) ; paddle.arange(1, 2, 0.25) ; paddle.linspace(0, 1, 5) ; paddle.eye(2, 3) ; paddle.ones([2], "int64") ; paddle.tril_indices(3, 3)
x[0] ; x[-1] ; x[:, 1] ; x[0, 2] ; b[:, 1:3] ; b[..., 0] ; b[None, :, 0] ; b[:, ::2] ; b[:, ::-1] ; b[1, ..., 1:] ; x[i] ; b[:, j] ; b[i, j[:2]] ; x[c] ; b[[0, 1], :, [1, 2]] ; b[:, [0, 2], [1, 3]] ; b[0, :, [1, 2]] ; b[:, c[0]] ; x[paddle.to_tensor([True, False])]
x == y ; x > 0 ; n >= 2 ; x != y ; paddle.equal(n, k.astype("int64")) ; paddle.less_than(x, y) ; paddle.greater_equal(x, v) ; paddle.logical_and(c, c) ; paddle.logical_not(c) ; paddle.logical_xor(c, x > 0) ; paddle.equal_all(x, x) ; paddle.isclose(x, y) ; paddle.allclose(x, x) ; paddle.bitwise_and(n, n + 3) ; paddle.bitwise_or(n, k.astype("int64")) ; paddle.bitwise_xor(k, k + 1) ; paddle.bitwise_not(k) ; paddle.bitwise_or(c, x > 0) ; n & (n + 1) ; n | (n + 1) ; ~k ; ~c
paddle.isnan(x) ; paddle.isfinite(x) ; paddle.count_nonzero(n) ; paddle.is_empty(x) ; ~c ; c & (x > 0) ; c | (x > 0) ; paddle.index_put(x, (i, j[:2]), v[:2]) ; paddle.select_scatter(x, v, 0, 1) ; paddle.quantile(x, 0.3, axis=1)
paddle.take(x, n) ; paddle.take(x, n + 5, mode="wrap") ; paddle.take(x, n - 3, mode="clip") ; paddle.atleast_3d(x) ; paddle.sgn(x) ; paddle.multiplex([x, y], (column // 2).astype("int32")) ; paddle.nan_to_num(x) ; paddle.heaviside(x, y) ; paddle.hypot(x, y)
"""

NETWORKS = """
F.relu(x) ; F.relu6(x * 5.0) ; F.elu(x, 0.5) ; F.celu(x, 0.5) ; F.selu(x) ; F.gelu(x) ; F.gelu(x, True) ; F.sigmoid(x) ; F.silu(x) ; F.swish(x) ; F.mish(x) ; F.softplus(x, 2.0, 1.0) ; F.softsign(x)
F.softshrink(x) ; F.hardshrink(x) ; F.tanhshrink(x) ; F.thresholded_relu(x) ; F.hardsigmoid(x) ; F.hardswish(x) ; F.hardtanh(x) ; F.leaky_relu(x, 0.1) ; F.log_sigmoid(x) ; F.prelu(x, v[:1]) ; F.prelu(b, v)
F.softmax(x) ; F.softmax(b, axis=1) ; F.log_softmax(x) ; F.glu(b) ; F.maxout(picture, 2) ; F.linear(x, m, m[0]) ; F.embedding(n[:, :2] % 3, m) ; F.embedding(i, m, padding_idx=0) ; F.one_hot(n, 5)
F.cosine_similarity(x, y) ; F.cosine_similarity(b, b * 2.0, axis=-1) ; F.normalize(x) ; F.normalize(b, p=1.0, axis=-1) ; F.label_smooth(u) ; F.pairwise_distance(x, y) ; F.sequence_mask(j, 4) ; F.diag_embed(v) ; F.hsigmoid_loss(x, column, 4, m[:, :3]) ; F.hsigmoid_loss(x, column, 4, m[:, :3], v.reshape([3, 1]))
F.layer_norm(x, [3]) ; F.layer_norm(b, [3, 4]) ; F.layer_norm(x, 3, v, v) ; F.batch_norm(x, v, p[0], v, v) ; F.instance_norm(picture) ; F.group_norm(picture, 2) if hasattr(F, "group_norm") else paddle.nn.GroupNorm(2, 2)(picture) ; F.local_response_norm(picture, 3)
F.pad(wave, [1, 2], data_format="NCL") ; F.pad(picture, [1, 0, 2, 1]) ; F.pad(picture, [1, 1, 1, 1], mode="reflect") ; F.pad(x, [0, 1, 1, 0], value=2.0) ; F.zeropad2d(picture, [1, 0, 0, 2])
F.conv2d(picture, filters) ; F.conv2d(picture, filters, m[0], stride=2, padding=1) ; F.conv2d(picture, filters, padding="SAME") ; F.conv2d(picture, filters[:, :1], groups=2, dilation=2) ; F.conv1d(wave, kernel, v) ; F.conv1d(wave, kernel, stride=2, padding=1)
F.max_pool2d(picture, 2) ; F.max_pool2d(picture, 3, 2, 1) ; F.avg_pool2d(picture, 2) ; F.avg_pool2d(picture, 3, 2, 1) ; F.avg_pool2d(picture, 3, 2, 1, exclusive=False) ; F.max_pool2d(picture, 2, ceil_mode=True)
F.max_pool1d(wave, 2) ; F.avg_pool1d(wave, 3, 2, 1) ; F.adaptive_avg_pool2d(picture, 2) ; F.adaptive_max_pool2d(picture, [2, 3]) ; F.adaptive_avg_pool1d(wave, 3) ; F.adaptive_max_pool1d(wave, 2)
F.square_error_cost(x, y) ; F.mse_loss(x, y) ; F.mse_loss(x, y, "sum") ; F.l1_loss(x, y) ; F.smooth_l1_loss(x, y) ; F.smooth_l1_loss(x, y, delta=0.5) ; F.log_loss(u[:, :1], label[:, :1]) ; F.binary_cross_entropy(u, label) ; F.binary_cross_entropy(u, label, weight=p, reduction="sum")
F.binary_cross_entropy_with_logits(x, label) ; F.binary_cross_entropy_with_logits(x, label, pos_weight=p[0]) ; F.kl_div(F.log_softmax(x), u) ; F.kl_div(x, u, "batchmean") ; F.margin_ranking_loss(x, y, paddle.sign(v), 0.1)
F.hinge_embedding_loss(x, label * 2.0 - 1.0) ; F.soft_margin_loss(x, label * 2.0 - 1.0) ; F.cosine_embedding_loss(x, y, (i * 2 - 1)) ; F.triplet_margin_loss(x, y, x * 2.0) ; F.multi_label_soft_margin_loss(x, label) ; F.sigmoid_focal_loss(x, label)
F.cross_entropy(x, classes) ; F.cross_entropy(x, column) ; F.cross_entropy(x, classes, reduction="none") ; F.cross_entropy(x, column, reduction="none") ; F.cross_entropy(x, classes, ignore_index=0) ; F.cross_entropy(x, classes, weight=p[0])
F.cross_entropy(x, F.softmax(y), soft_label=True) ; F.cross_entropy(F.softmax(x), classes, use_softmax=False) ; F.cross_entropy(x, classes, label_smoothing=0.2) ; F.softmax_with_cross_entropy(x, column) ; F.nll_loss(F.log_softmax(x), classes) ; F.nll_loss(F.log_softmax(x), classes, weight=p[0])
F.scaled_dot_product_attention(b.unsqueeze(2), b.unsqueeze(2), b.unsqueeze(2)) ; F.npair_loss(x, y, paddle.to_tensor([0.0, 1.0])) ; F.bilinear(x, y, paddle.ones([4, 3, 3])) ; F.dropout(x, 0.5, training=False) ; F.dropout(x, 0.5, training=False, mode="downscale_in_infer")
F.gaussian_nll_loss(x, y, p, full=True) ; F.poisson_nll_loss(x, p, full=True) ; F.multi_margin_loss(x, classes, p=2, weight=p[0]) ; F.triplet_margin_with_distance_loss(x, y, x * 2.0) ; F.pixel_shuffle(filters[:, :1].reshape([1, 4, 3, 3]), 2) ; F.pixel_unshuffle(picture[:, :, :4, :4], 2) ; F.channel_shuffle(filters.reshape([2, 4, 3, 3]), 2)
"""


def _expressions(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" ; ")]


CASES = {
    "math": _expressions(MATH),
    "shapes": _expressions(SHAPES),
    "networks": _expressions(NETWORKS),
}


def used_inputs(expression: str) -> list[str]:
    """The names of the inputs that an expression reads."""
    code = compile(expression, expression, "eval")
    names = set(code.co_names)
    return [name for name in INPUTS if name in names]


def weights_like(out: np.ndarray) -> np.ndarray:
    """What outputs are multiplied by before they are summed, so that no gradient is trivial."""
    return np.cos(np.arange(out.size, dtype="float64")).reshape(out.shape).astype(out.dtype)


def evaluate(paddle: Any, expression: str) -> dict[str, Any]:
    """The value of an expression, and the gradients of its float inputs, eagerly."""
    tensors = {name: paddle.to_tensor(INPUTS[name]) for name in used_inputs(expression)}
    for name, tensor in tensors.items():
        tensor.stop_gradient = INPUTS[name].dtype != np.float32
    out = eval(expression, {"paddle": paddle, "F": paddle.nn.functional, **tensors})
    result: dict[str, Any] = {"dtype": str(out.dtype).replace("paddle.", ""), "out": out.numpy()}
    if not out.stop_gradient and "float" in result["dtype"]:
        (out * paddle.to_tensor(weights_like(out.numpy()))).sum().backward()
        result["grads"] = {
            name: tensor.grad.numpy() for name, tensor in tensors.items() if tensor.grad is not None
        }
    return result
