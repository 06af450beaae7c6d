"""`flops`: how many multiply-adds a network does for one input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._missing import missing_names

__all__ = ["flops"]

HEADINGS = ("Layer Name", "Input Shape", "Output Shape", "Params", "Flops")


def flops(
    net: Any,
    input_size: list[int],
    custom_ops: dict[type, Callable[..., None]] | None = None,
    print_detail: bool = False,
) -> int:
    """Runs the network once on random input and counts; prints the sum, and the layers on request.

    Layers that are not known count as zero. `custom_ops` maps kinds of layers to functions of
    layer, inputs and output that add to `layer.total_ops`.

    >>> import bireme as paddle
    >>> paddle.flops(paddle.nn.Sequential(paddle.nn.Linear(4, 2)), [1, 4])
    <class 'bireme.nn...Linear'>'s flops has been counted
    Total Flops: 8     Total Params: 10
    8
    """
    from ..nn import Layer

    if not isinstance(net, Layer):
        raise TypeError(f"`flops` counts a layer, not {type(net).__name__}")
    rows = _run(net, input_size, custom_ops or {})
    if print_detail:
        _print_table([list(map(str, row)) for row in rows])
    total, params = sum(row[4] for row in rows), sum(row[3] for row in rows)
    print(f"Total Flops: {total}     Total Params: {params}")
    return total


def _run(net: Any, input_size: list[int], custom_ops: dict[type, Any]) -> list[tuple[Any, ...]]:
    import bireme

    leaves = [layer for layer in net.sublayers() if not layer.sublayers()]
    rows: dict[Any, tuple[Any, ...]] = {}
    counters = _counters(leaves, custom_ops)

    def note(layer: Any, inputs: Any, output: Any) -> None:
        count = counters[type(layer)]
        if count is not None:
            count(layer, inputs, output)
        first = output[0] if isinstance(output, (list, tuple)) else output
        params = sum(math.prod(parameter.shape) for parameter in layer.parameters())
        operations = abs(int(layer.__dict__["total_ops"]))
        rows[layer] = (
            layer.full_name(),
            list(inputs[0].shape),
            list(first.shape),
            params,
            operations,
        )

    hooks = []
    for layer in leaves:
        # Not through the layer, which would make a buffer of it: custom functions add to it.
        layer.__dict__["total_ops"] = 0
        hooks.append(layer.register_forward_post_hook(note))
    was_training = net.training
    net.eval()
    try:
        with bireme.no_grad():
            net(bireme.randn(list(input_size)))
    finally:
        for layer, hook in zip(leaves, hooks, strict=True):
            hook.remove()
            del layer.__dict__["total_ops"]
        if was_training:
            net.train()
    return [rows[layer] for layer in leaves if layer in rows]


def _counters(layers: list[Any], custom_ops: dict[type, Any]) -> dict[type, Any]:
    """The counting function of each kind of layer, announced as Paddle does."""
    known, counters = _known(), {}
    for kind in dict.fromkeys(map(type, layers)):
        if kind in custom_ops:
            counters[kind] = custom_ops[kind]
            print(f"Customize Function has been applied to {kind}")
        elif kind.__name__ in known and kind.__module__.startswith("bireme."):
            counters[kind] = known[kind.__name__]
            print(f"{kind}'s flops has been counted")
        else:
            counters[kind] = None
            print(f"Cannot find suitable count function for {kind}. Treat it as zero FLOPs.")
    return counters


def _known() -> dict[str, Callable[..., None]]:
    dimensions = ("1D", "2D", "3D")
    return {
        **{f"Conv{d}{kind}": _convolution for d in dimensions for kind in ("", "Transpose")},
        **{f"AvgPool{d}": _each_output for d in dimensions},
        **{f"AdaptiveAvgPool{d}": _adaptive_pool for d in dimensions},
        **dict.fromkeys(("BatchNorm", "BatchNorm2D"), _batch_norm),
        **dict.fromkeys(("ReLU", "ReLU6", "Dropout"), _nothing),
        "LeakyReLU": _each_input,
        "Linear": _linear,
    }


def _convolution(layer: Any, inputs: Any, output: Any) -> None:
    kernel = math.prod(layer.weight.shape[2:])
    bias = 0 if layer.bias is None else 1
    each = inputs[0].shape[1] / layer._groups * kernel + bias
    layer.total_ops += int(math.prod(output.shape) * each)


def _linear(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += layer.weight.shape[0] * math.prod(output.shape)


def _batch_norm(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += 2 * math.prod(inputs[0].shape)


def _adaptive_pool(layer: Any, inputs: Any, output: Any) -> None:
    sizes = zip(inputs[0].shape[2:], output.shape[2:], strict=True)
    each = math.prod(whole // part for whole, part in sizes) + 1
    layer.total_ops += each * math.prod(output.shape)


def _each_input(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += math.prod(inputs[0].shape)


def _each_output(layer: Any, inputs: Any, output: Any) -> None:
    layer.total_ops += math.prod(output.shape)


def _nothing(layer: Any, inputs: Any, output: Any) -> None:
    pass


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) + 2 for column in zip(HEADINGS, *rows, strict=True)]
    shelf = "+" + "+".join("-" * width for width in widths) + "+"
    print(shelf)
    for number, row in enumerate([HEADINGS, *rows]):
        print("|" + "|".join(cell.center(w) for cell, w in zip(row, widths, strict=True)) + "|")
        if number == 0:
            print(shelf)
    print(shelf)


__getattr__ = missing_names(__name__)
