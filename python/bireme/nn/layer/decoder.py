"""Transformer decoders, and the whole transformer."""

from __future__ import annotations

from typing import Any

from ...tensor.arguments import Tensor, default_dtype, ops
from .layers import Layer
from .norm import LayerNorm
from .transformer import (
    MultiHeadAttention,
    TransformerEncoder,
    TransformerEncoderLayer,
    TransformerLayer,
    TransformerStack,
    additive_mask,
)

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer"]


class TransformerDecoderLayer(TransformerLayer):
    """Attention to the target, attention to the memory, and two linear maps.

    >>> x, memory = paddle.ones([1, 3, 8]), paddle.ones([1, 5, 8])
    >>> paddle.nn.TransformerDecoderLayer(8, 2, 16)(x, memory).shape
    [1, 3, 8]
    """

    _attentions = ("self_attn", "cross_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Any:
        tgt_mask = additive_mask(tgt_mask, tgt.dtype)
        memory_mask = additive_mask(memory_mask, memory.dtype)
        caches = [None, None] if cache is None else list(cache)

        def attend(attention: Layer, x: Tensor, other: Tensor, mask: Any, place: int) -> Tensor:
            if caches[place] is None:
                return attention(x, other, other, mask)
            out, caches[place] = attention(x, other, other, mask, caches[place])
            return out

        def to_itself(x: Tensor) -> Tensor:
            return attend(self.self_attn, x, x, tgt_mask, 0)

        def to_memory(x: Tensor) -> Tensor:
            return attend(self.cross_attn, x, memory, memory_mask, 1)

        tgt = self._around(1, tgt, to_itself)
        tgt = self._around(2, tgt, to_memory)
        tgt = self._around(3, tgt, self._through_lines)
        return tgt if cache is None else (tgt, tuple(caches))

    def gen_cache(self, memory: Tensor) -> tuple[Any, Any]:
        """An empty cache for the target, and the keys and values of the memory."""
        fixed = MultiHeadAttention.StaticCache
        return self.self_attn.gen_cache(memory), self.cross_attn.gen_cache(memory, memory, fixed)


class TransformerDecoder(TransformerStack):
    """Several decoder layers like the given one, each with parameters of its own.

    >>> decoder = paddle.nn.TransformerDecoder(paddle.nn.TransformerDecoderLayer(8, 2, 16), 2)
    >>> decoder(paddle.ones([1, 3, 8]), paddle.ones([1, 5, 8])).shape
    [1, 3, 8]
    """

    def __init__(self, decoder_layer: Layer, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: Any = None,
    ) -> Any:
        masks = (additive_mask(tgt_mask, tgt.dtype), additive_mask(memory_mask, memory.dtype))
        return self._through_layers(tgt, (memory, *masks), cache)

    def gen_cache(self, memory: Tensor, do_zip: bool = False) -> list[Any]:
        """Caches for `forward`, one for each layer, or by kind if `do_zip`."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches)) if do_zip else caches


class Transformer(Layer):
    """An encoder of sources and a decoder of targets.

    >>> model = paddle.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(paddle.ones([1, 5, 8]), paddle.ones([1, 3, 8])).shape
    [1, 3, 8]
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        custom_encoder: Layer | None = None,
        custom_decoder: Layer | None = None,
    ) -> None:
        super().__init__()
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout)
        weights, biases = _of_both(weight_attr), _of_both(bias_attr)
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*sizes, normalize_before, weights[0], biases[0])
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model))
        if custom_decoder is None:
            last = TransformerDecoderLayer(*sizes, normalize_before, weights[1], biases[1])
            custom_decoder = TransformerDecoder(last, num_decoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self.d_model = d_model
        self.nhead = nhead

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int) -> Tensor:
        """A mask that hides what comes after each place."""
        hidden = ops.fill_constant(
            shape=[length, length], dtype=default_dtype(), value=float("-inf"), str_value="-inf"
        )
        return ops.tril_triu(hidden, diagonal=1, lower=False)


def _of_both(attr: Any) -> tuple[Any, Any]:
    """Descriptions for an encoder layer (two) and a decoder layer (three) from one to three."""
    if not isinstance(attr, (list, tuple)):
        return attr, attr
    if len(attr) not in (1, 2, 3):
        raise AssertionError(f"there must be one to three attributes, but there are {len(attr)}")
    first, last = attr[0], attr[-1]
    return [first, last], list(attr) if len(attr) == 3 else [first, first, last]
