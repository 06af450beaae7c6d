"""Attention and transformer encoders."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from ...tensor.arguments import Tensor, ops
from .. import functional as F
from ..parameter import parameter_attr
from .common import Dropout, Linear
from .container import LayerList
from .layers import Layer
from .norm import LayerNorm

__all__ = ["MultiHeadAttention", "TransformerEncoder", "TransformerEncoderLayer"]


class _Cache(NamedTuple):
    """Keys and values of the steps so far: new ones are added."""

    k: Any
    v: Any


class _StaticCache(NamedTuple):
    """Keys and values that stay as they are."""

    k: Any
    v: Any


class MultiHeadAttention(Layer):
    """Attention with several heads over tensors of shape [batch, length, embed_dim].

    >>> paddle.nn.MultiHeadAttention(8, 2)(paddle.ones([1, 3, 8])).shape
    [1, 3, 8]
    """

    Cache = _Cache
    StaticCache = _StaticCache

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise AssertionError(
                f"`embed_dim` {embed_dim} must be a positive multiple of `num_heads` {num_heads}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.need_weights = need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x: Tensor) -> Tensor:
        x = ops.reshape2(x, shape=[0, 0, self.num_heads, self.head_dim])
        return ops.transpose2(x, axis=[0, 2, 1, 3])

    def compute_kv(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all heads."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def gen_cache(self, key: Tensor, value: Tensor | None = None, type: Any = _Cache) -> Any:
        """A cache for `forward`: of given keys and values, or empty."""
        if type is _StaticCache:
            return _StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is not None:
            return _Cache(key, value)
        shape = [key.shape[0], self.num_heads, 0, self.head_dim]
        return _Cache(*(ops.fill_constant(shape=shape, dtype=key.dtype) for _ in range(2)))

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Any:
        key = query if key is None else key
        value = query if value is None else value
        q = self._heads(self.q_proj(query))
        k, v = cache if isinstance(cache, _StaticCache) else self.compute_kv(key, value)
        if isinstance(cache, _Cache):
            k = ops.concat([cache.k, k], axis=2) if cache.k.shape[2] else k
            v = ops.concat([cache.v, v], axis=2) if cache.v.shape[2] else v
            cache = _Cache(k, v)
        scores = ops.matmul_v2(ops.scale(q, scale=self.head_dim**-0.5), k, trans_y=True)
        if attn_mask is not None:
            scores = scores + additive_mask(attn_mask, scores.dtype)
        weights = F.dropout(ops.softmax(scores), self.dropout, training=self.training)
        out = ops.transpose2(ops.matmul_v2(weights, v), axis=[0, 2, 1, 3])
        out = self.out_proj(ops.reshape2(out, shape=[0, 0, self.embed_dim]))
        results = [out] + [weights] * self.need_weights + [cache] * (cache is not None)
        return out if len(results) == 1 else tuple(results)


def additive_mask(mask: Tensor | None, dtype: Any) -> Tensor | None:
    """A mask to be added to scores: truth values and integers hide where they are 0."""
    if mask is None or mask.dtype == dtype:
        return mask
    hides = mask.dtype == "bool" or "int" in mask.dtype.name
    mask = ops.cast(mask, in_dtype=mask.dtype, out_dtype=dtype)
    return ops.scale(mask, scale=1e9, bias=-1e9) if hides else mask


def _attrs(attr: Any, count: int) -> list[Any]:
    """One description for each part: given as a list, or one for all with numbered names."""
    if isinstance(attr, (list, tuple)):
        if len(attr) != count:
            raise AssertionError(f"there must be {count} attributes, but there are {len(attr)}")
        return list(attr)
    if isinstance(attr, bool):
        return [None if attr else False] * count
    copies = [copy.copy(parameter_attr(attr)) for _ in range(count)]
    for i, part in enumerate(copies):
        part.name = f"{part.name}_{i}" if part.name else part.name
    return copies


class TransformerLayer(Layer):
    """Attentions and two linear maps, each with a shortcut and a normalisation."""

    _attentions: tuple[str, ...] = ()

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__()
        self._config = config
        if dim_feedforward <= 0:
            raise AssertionError(f"`dim_feedforward` must be positive, but is {dim_feedforward}")
        attn_dropout = dropout if attn_dropout is None else attn_dropout
        act_dropout = dropout if act_dropout is None else act_dropout
        parts = len(self._attentions) + 1
        weights, biases = _attrs(weight_attr, parts), _attrs(bias_attr, parts)
        self.normalize_before = normalize_before
        for name, weight, bias in zip(self._attentions, weights, biases):
            attention = MultiHeadAttention(
                d_model, nhead, attn_dropout, weight_attr=weight, bias_attr=bias
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, weights[-1], biases[-1])
        self.dropout = Dropout(act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[-1], biases[-1])
        for number in range(1, parts + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model))
        for number in range(1, parts + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = getattr(F, activation)

    def _around(self, number: int, x: Tensor, inner: Callable[[Tensor], Tensor]) -> Tensor:
        """A part with its shortcut, and its normalisation before or after."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        out = x + dropout(inner(norm(x) if self.normalize_before else x))
        return out if self.normalize_before else norm(out)

    def _through_lines(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(TransformerLayer):
    """Attention and two linear maps, each with a shortcut and a normalisation.

    >>> paddle.nn.TransformerEncoderLayer(8, 2, 16)(paddle.ones([1, 3, 8])).shape
    [1, 3, 8]
    """

    _attentions = ("self_attn",)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: Any = None) -> Any:
        src_mask = additive_mask(src_mask, src.dtype)

        def to_itself(x: Tensor) -> Tensor:
            nonlocal cache
            if cache is None:
                return self.self_attn(x, x, x, src_mask)
            out, cache = self.self_attn(x, x, x, src_mask, cache)
            return out

        src = self._around(1, src, to_itself)
        src = self._around(2, src, self._through_lines)
        return src if cache is None else (src, cache)

    def gen_cache(self, src: Tensor) -> Any:
        """An empty cache for `forward`."""
        return self.self_attn.gen_cache(src)


class TransformerStack(Layer):
    """Several layers like the given one, each with parameters of its own."""

    def __init__(self, layer: Layer, num_layers: int, norm: Layer | None) -> None:
        super().__init__()
        others = [type(layer)(**layer._config) for _ in range(num_layers - 1)]
        self.layers = LayerList([layer, *others])
        self.num_layers = num_layers
        self.norm = norm

    def _through_layers(self, x: Tensor, others: tuple[Any, ...], cache: Any) -> Any:
        caches = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, *others)
            else:
                x, new = layer(x, *others, cache[i])
                caches.append(new)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, caches)


class TransformerEncoder(TransformerStack):
    """Several encoder layers like the given one, each with parameters of its own.

    >>> layer = paddle.nn.TransformerEncoderLayer(8, 2, 16)
    >>> paddle.nn.TransformerEncoder(layer, 2)(paddle.ones([1, 3, 8])).shape
    [1, 3, 8]
    """

    def __init__(self, encoder_layer: Layer, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: Any = None) -> Any:
        return self._through_layers(src, (additive_mask(src_mask, src.dtype),), cache)

    def gen_cache(self, src: Tensor) -> list[Any]:
        """Empty caches for `forward`, one for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]
