"""`summary`: a table of the layers of a network with their shapes and parameters."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._missing import missing_names

__all__ = ["summary"]

MEGABYTE = 1024.0**2
HEADINGS = ("Layer (type)", "Input Shape", "Output Shape", "Param #")


def summary(
    net: Any, input_size: Any = None, dtypes: Any = None, input: Any = None
) -> dict[str, int]:
    """Runs the network once and prints its layers; returns the numbers of parameters.

    The input is given, or made up of `input_size` (a shape, an `InputSpec`, or a list of them;
    None or -1 once per shape stands for a batch of one) and `dtypes`.

    >>> import bireme as paddle
    >>> paddle.summary(paddle.nn.Linear(4, 2), (1, 4))
    ---------------------------------------------------------------------------
     Layer (type)       Input Shape          Output Shape         Param #
    ===========================================================================
       Linear-1           [[1, 4]]              [1, 2]              10
    ===========================================================================
    Total params: 10
    Trainable params: 10
    Non-trainable params: 0
    ---------------------------------------------------------------------------
    Input size (MB): 0.00
    Forward/backward pass size (MB): 0.00
    Params size (MB): 0.00
    Estimated Total Size (MB): 0.00
    ---------------------------------------------------------------------------
    <BLANKLINE>
    {'total_params': 10, 'trainable_params': 10}
    """
    if input_size is None and input is None:
        raise ValueError("`summary` needs `input_size` or `input`")
    sizes = _shapes_of(input) if input_size is None else _checked(input_size)
    rows = _run(net, sizes, dtypes, input)
    print(_table(rows, _elements(sizes)))
    return {
        "total_params": sum(row["params"] for row in rows),
        "trainable_params": sum(row["trainable"] for row in rows),
    }


def _shapes_of(input: Any) -> Any:
    if isinstance(input, (list, tuple)):
        return [_shapes_of(item) for item in input]
    if isinstance(input, dict):
        return [_shapes_of(item) for item in input.values()]
    if isinstance(input, (_core.Tensor, _core.Variable)):
        return tuple(input.shape)
    raise ValueError(
        f"`input` must be a tensor or tensors in a list, tuple or dict, not {type(input).__name__}"
    )


def _checked(size: Any) -> Any:
    """Shapes as tuples, with one in the place of an unknown size."""
    if hasattr(size, "shape"):
        size = tuple(size.shape)
    if isinstance(size, int):
        size = (size,)
    if any(isinstance(item, (list, tuple)) or hasattr(item, "shape") for item in size):
        return [_checked(item) for item in size]
    if isinstance(size, list):
        # A list holds shapes, and a number is one; a tuple is a shape.
        return [_checked(item) for item in size]
    if sum(item in (None, -1) for item in size) > 1:
        raise ValueError(
            f"input size {size} has more than one unknown size: only the batch's may be"
        )
    shape = tuple(1 if item in (None, -1) else int(item) for item in size)
    if min(shape, default=1) <= 0:
        raise ValueError(f"input size {size} must have positive sizes")
    return shape


def _run(net: Any, sizes: Any, dtypes: Any, input: Any) -> list[dict[str, Any]]:
    import bireme

    rows: dict[str, dict[str, Any]] = {}
    hooks = [
        layer.register_forward_post_hook(lambda *call: _note(rows, *call))
        for layer in _counted_layers(net)
    ]
    was_training = net.training
    net.eval()
    try:
        with bireme.no_grad():
            if input is not None:
                net(input)
            else:
                sizes = sizes if isinstance(sizes, list) else [sizes]
                net(*_made_up(sizes, dtypes))
    finally:
        for hook in hooks:
            hook.remove()
        if was_training:
            net.train()
    return list(rows.values())


def _counted_layers(net: Any) -> list[Any]:
    from ..nn import LayerList, Sequential

    sublayers = [sub for sub in net.sublayers() if not isinstance(sub, (LayerList, Sequential))]
    return sublayers or [net]


def _note(rows: dict[str, dict[str, Any]], layer: Any, inputs: Any, output: Any) -> None:
    try:
        number = int(layer.full_name().rpartition("_")[2])
    except ValueError:
        number = len(rows)
    name = f"{type(layer).__name__}-{number + 1}"
    own = layer.parameters(include_sublayers=False)
    rows[name] = {
        "name": name,
        "input": _shape(inputs),
        "output": _shape(output),
        "params": sum(math.prod(parameter.shape) for parameter in own),
        "trainable": sum(math.prod(p.shape) for p in own if p.trainable and not p.stop_gradient),
    }


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape(item) for item in value]
    return list(value.shape) if hasattr(value, "shape") else []


def _made_up(sizes: list[Any], dtypes: Any) -> list[Any]:
    import bireme

    if not isinstance(dtypes, (list, tuple)):
        dtypes = [dtypes or "float32"] * len(sizes)
    if len(dtypes) != len(sizes):
        raise ValueError(f"there are {len(dtypes)} dtypes for {len(sizes)} inputs")
    return [
        _made_up(size, dtype) if isinstance(size, list) else bireme.rand(list(size)).astype(dtype)
        for size, dtype in zip(sizes, dtypes, strict=True)
    ]


def _elements(shape: Any) -> int:
    """The number of elements of a shape, or of shapes in lists."""
    if any(isinstance(item, (list, tuple)) for item in shape):
        return sum(map(_elements, shape))
    return math.prod(shape)


def _table(rows: list[dict[str, Any]], input_elements: int) -> str:
    cells = [(r["name"], str(r["input"]), str(r["output"]), f"{r['params']:,}") for r in rows]
    # A column is as wide as its widest cell; numbers count without their commas, as in Paddle.
    bare = [(r["name"], str(r["input"]), str(r["output"]), str(r["params"])) for r in rows]
    widths = [max(w, *(len(c[i]) for c in bare), 0) for i, w in enumerate((15, 20, 20, 15))]
    width = max(75, sum(widths) + 5)
    line = lambda row: " ".join(f"{cell:^{w}}" for cell, w in zip(row, widths, strict=True))
    total, trainable = (sum(row[key] for row in rows) for key in ("params", "trainable"))
    # Twice, for the gradients; four bytes each, whatever the type.
    output_size = 2.0 * sum(_elements(row["output"]) for row in rows) * 4.0 / MEGABYTE
    params_size, input_size = total * 4.0 / MEGABYTE, input_elements * 4.0 / MEGABYTE
    return "\n".join(
        [
            "-" * width,
            line(HEADINGS),
            "=" * width,
            *map(line, cells),
            "=" * width,
            f"Total params: {total:,}",
            f"Trainable params: {trainable:,}",
            f"Non-trainable params: {total - trainable:,}",
            "-" * width,
            f"Input size (MB): {input_size:0.2f}",
            f"Forward/backward pass size (MB): {output_size:0.2f}",
            f"Params size (MB): {params_size:0.2f}",
            f"Estimated Total Size (MB): {params_size + output_size + input_size:0.2f}",
            "-" * width,
            "",
        ]
    )


__getattr__ = missing_names(__name__)
