"""Attention and transformer encoders."""

from __future__ import annotations

import copy
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


class TransformerEncoderLayer(Layer):
    """Attention and two linear maps, each with a shortcut and a normalisation.

    >>> paddle.nn.TransformerEncoderLayer(8, 2, 16)(paddle.ones([1, 3, 8])).shape
    [1, 3, 8]
    """

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
        weights, biases = _attrs(weight_attr, 2), _attrs(bias_attr, 2)
        self.normalize_before = normalize_before
        self.self_attn = MultiHeadAttention(
            d_model, nhead, attn_dropout, weight_attr=weights[0], bias_attr=biases[0]
        )
        self.linear1 = Linear(d_model, dim_feedforward, weights[1], biases[1])
        self.dropout = Dropout(act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[1], biases[1])
        self.norm1 = LayerNorm(d_model)
        self.norm2 = LayerNorm(d_model)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = getattr(F, activation)

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: Any = None) -> Any:
        src_mask = additive_mask(src_mask, src.dtype)
        inner = self.norm1(src) if self.normalize_before else src
        if cache is None:
            inner = self.self_attn(inner, inner, inner, src_mask)
        else:
            inner, cache = self.self_attn(inner, inner, inner, src_mask, cache)
        src = src + self.dropout1(inner)
        src = src if self.normalize_before else self.norm1(src)
        inner = self.norm2(src) if self.normalize_before else src
        inner = self.linear2(self.dropout(self.activation(self.linear1(inner))))
        src = src + self.dropout2(inner)
        src = src if self.normalize_before else self.norm2(src)
        return src if cache is None else (src, cache)

    def gen_cache(self, src: Tensor) -> Any:
        """An empty cache for `forward`."""
        return self.self_attn.gen_cache(src)


class TransformerEncoder(Layer):
    """Several encoder layers like the given one, each with parameters of its own.

    >>> layer = paddle.nn.TransformerEncoderLayer(8, 2, 16)
    >>> paddle.nn.TransformerEncoder(layer, 2)(paddle.ones([1, 3, 8])).shape
    [1, 3, 8]
    """

    def __init__(self, encoder_layer: Layer, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__()
        others = [type(encoder_layer)(**encoder_layer._config) for _ in range(num_layers - 1)]
        self.layers = LayerList([encoder_layer, *others])
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src: Tensor, src_mask: Tensor | None = None, cache: Any = None) -> Any:
        src_mask = additive_mask(src_mask, src.dtype)
        caches = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                src = layer(src, src_mask)
            else:
                src, new = layer(src, src_mask, cache[i])
                caches.append(new)
        src = src if self.norm is None else self.norm(src)
        return src if cache is None else (src, caches)

    def gen_cache(self, src: Tensor) -> list[Any]:
        """Empty caches for `forward`, one for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]
