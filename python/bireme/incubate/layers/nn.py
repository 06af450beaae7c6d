"""Layers of recommender models, made of the engine's ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ...nn.initializer import Assign, Constant
from ...static.nn.parameters import LayerNames
from ...tensor.arguments import int_list, integer, require_tensor, sequence_of

Variable = Any
_ops = _core.ops


def shuffle_batch(x: Variable, seed: int | None = None) -> Variable:
    """The rows of `x` (all sizes but the last) in a random order, another one in every run.

    Seed the program, or `paddle.seed`, to see the same orders again, or give a layer of a program
    a `seed` of its own.

    >>> x = paddle.to_tensor([[1.0], [2.0], [3.0]])
    >>> sorted(paddle.incubate.layers.shuffle_batch(x).numpy().ravel().tolist())
    [1.0, 2.0, 3.0]
    """
    require_tensor(x, "x")
    if seed is not None:
        if _core.in_dynamic_mode():
            raise NotImplementedError("`seed` is one of programs: in eager mode call `paddle.seed`")
        layer = LayerNames("shuffle_batch")
        first = Assign(np.array([integer(seed, "seed")], "int64"))
        state = _fixed(layer, first, [1], "int64")
        # Each run leaves the seed of the next one.
        return _ops.shuffle_batch(
            x, state, _into={"SeedOut": state}, _outputs=("Out", "ShuffleIdx")
        )[0]
    rows = _ops.reshape2(x, shape=[-1, x.shape[-1]], _outputs=("Out",))
    count = _ops.slice(_ops.shape(rows), axes=[0], starts=[0], ends=[1])
    # The order of independent random numbers is a random order, whatever the size of the batch.
    noise = _ops.uniform_random(count, dtype="float32")
    _, order = _ops.argsort(noise, axis=0)
    shuffled = _ops.gather(rows, order)
    if x.ndim == 2:
        return shuffled
    return _ops.reshape2(shuffled, shape=[-1, *x.shape[1:]], _outputs=("Out",))


def fused_seqpool_cvm(
    input: Sequence[Variable],
    pool_type: str,
    cvm: Variable,
    pad_value: float = 0.0,
    use_cvm: bool = True,
    cvm_offset: int = 2,
) -> list[Variable]:
    """The sum of each sequence of several inputs, whose show and click columns are then treated.

    An empty sequence gives `pad_value`; without `use_cvm` the `cvm_offset` columns are cut off.

    >>> paddle.enable_static()
    >>> slots = [paddle.static.data(name, [None, 11], lod_level=1) for name in "ab"]
    >>> cvm = paddle.static.data("cvm", [None, 2])
    >>> [y.shape for y in paddle.incubate.layers.fused_seqpool_cvm(slots, "sum", cvm)]
    [(-1, 11), (-1, 11)]
    """
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    made = _ops.fused_seqpool_cvm(
        inputs,
        cvm,
        pooltype=pool_type.upper(),
        pad_value=pad_value,
        use_cvm=use_cvm,
        cvm_offset=cvm_offset,
        _count=len(inputs),
    )
    return list(made) if isinstance(made, (list, tuple)) else [made]


def partial_concat(input: Sequence[Variable], start_index: int = 0, length: int = -1) -> Variable:
    """Some columns of each input side by side: `length` from `start_index` on, or all of them.

    >>> x, y = paddle.ones([1, 3]), paddle.zeros([1, 3])
    >>> paddle.incubate.layers.partial_concat([x, y], start_index=1).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """
    return _ops.concat(_columns(input, start_index, length), axis=1)


def partial_sum(input: Sequence[Variable], start_index: int = 0, length: int = -1) -> Variable:
    """The sum of some columns of each input: `length` from `start_index` on, or all of them.

    >>> x, y = paddle.ones([1, 3]), paddle.ones([1, 3])
    >>> paddle.incubate.layers.partial_sum([x, y], start_index=1).tolist()
    [[2.0, 2.0]]
    """
    return _ops.sum(_columns(input, start_index, length))


def _columns(inputs: Sequence[Variable], start: int, length: int) -> list[Variable]:
    inputs = list(sequence_of(inputs, "input"))
    width = inputs[0].shape[1]
    if any(each.shape[1] != width for each in inputs):
        widths = [each.shape[1] for each in inputs]
        raise ValueError(f"the inputs must have the same number of columns, not {widths}")
    start = start + width if start < 0 else start
    end = width if length < 0 else start + length
    if not 0 <= start < end <= width:
        raise ValueError(f"there are no columns {start} to {end}: the inputs have {width}")
    return [_ops.slice(each, axes=[1], starts=[start], ends=[end]) for each in inputs]


def batch_fc(
    input: Variable,
    param_size: Sequence[int],
    param_attr: Any,
    bias_size: Sequence[int],
    bias_attr: Any,
    act: str | None = None,
) -> Variable:
    """A fully connected layer for each slot of `input` [slots, rows, columns].

    `param_size` is [slots, columns, outputs], `bias_size` [slots, outputs].

    >>> paddle.enable_static()
    >>> x = paddle.static.data("x", [16, 2, 3])
    >>> paddle.incubate.layers.batch_fc(x, [16, 3, 10], None, [16, 10], None, act="relu").shape
    (16, 2, 10)
    """
    layer = LayerNames("batch_fc")
    weight = layer.weight(param_attr, param_size, input.dtype)
    # Not drawn as a bias would be: Paddle makes it as it makes the weight.
    bias = layer.weight(bias_attr, bias_size, input.dtype)
    return layer.activate(layer.apply("batch_fc", input, weight, bias), act)


def rank_attention(
    input: Variable,
    rank_offset: Variable,
    rank_param_shape: Sequence[int],
    rank_param_attr: Any,
    max_rank: int = 3,
    max_size: int = 0,
) -> Variable:
    """Each sample times matrices that its rank and those of its companions choose, added up.

    A row of `rank_offset` has the rank of the sample, then for each of `max_rank` companions its
    rank, from 1 on and 0 for nobody, and its row in `input`. `rank_param_shape` is
    [max_rank * max_rank * columns, outputs].

    >>> paddle.enable_static()
    >>> x = paddle.static.data("x", [None, 2])
    >>> offsets = paddle.static.data("offsets", [None, 7], "int32")
    >>> paddle.incubate.layers.rank_attention(x, offsets, [18, 3], None).shape
    (-1, 3)
    """
    layer = LayerNames("rank_attention")
    param = layer.weight(rank_param_attr, rank_param_shape, input.dtype)
    return _ops.rank_attention(
        input, rank_offset, param, MaxRank=max_rank, MaxSize=max_size, _outputs=("Out",)
    )


def tdm_child(
    x: Variable, node_nums: int, child_nums: int, param_attr: Any = None, dtype: Any = "int32"
) -> tuple[Variable, Variable]:
    """The children of nodes of a tree, and 1 for those that are items.

    The tree is a parameter of shape [node_nums, 3 + child_nums]: for each node its item or 0, its
    layer, its parent and its children, 0 where there is none.

    >>> paddle.enable_static()
    >>> tree = [[0, 0, 0, 1, 2], [1, 1, 0, 0, 0], [2, 1, 0, 0, 0]]
    >>> attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(tree))
    >>> x = paddle.static.data("x", [None, 1], "int32")
    >>> [each.shape for each in paddle.incubate.layers.tdm_child(x, 3, 2, attr)]
    [(-1, 1, 2), (-1, 1, 2)]
    """
    layer = LayerNames("tdm_child")
    tree = _fixed(layer, param_attr, [node_nums, 3 + child_nums], dtype)
    return _ops.tdm_child(x, tree, child_nums=child_nums, dtype=dtype)


def tdm_sampler(
    x: Variable,
    neg_samples_num_list: Sequence[int],
    layer_node_num_list: Sequence[int],
    leaf_node_num: int,
    tree_travel_attr: Any = None,
    tree_layer_attr: Any = None,
    output_positive: bool = True,
    output_list: bool = True,
    seed: int = 0,
    tree_dtype: Any = "int32",
    dtype: Any = "int32",
) -> tuple[Any, Any, Any]:
    """For each leaf of a tree the nodes on its way, layer by layer, with others drawn beside them.

    Two parameters describe the tree: the way of each leaf, [leaf_node_num, layers], and the nodes
    of all layers, [nodes, 1]. Returns nodes, labels (1 for those on the way) and a mask (0 where a
    way has ended); with `output_list` each as a list with an entry for each layer.

    >>> paddle.enable_static()
    >>> def fixed(values):
    ...     return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(values))
    >>> ways, nodes = [[1, 3], [1, 4], [2, 5], [2, 6]], [[1], [2], [3], [4], [5], [6]]
    >>> x = paddle.static.data("x", [None, 1], "int32")
    >>> samples, labels, mask = paddle.incubate.layers.tdm_sampler(
    ...     x, [1, 2], [2, 4], 4, fixed(ways), fixed(nodes)
    ... )
    >>> [each.shape for each in samples]
    [(-1, 2, 1), (-1, 3, 1)]
    """
    negatives = int_list(neg_samples_num_list, "neg_samples_num_list")
    counts = int_list(layer_node_num_list, "layer_node_num_list")
    if len(negatives) != len(counts):
        raise ValueError(
            f"`neg_samples_num_list` has {len(negatives)} layers, but `layer_node_num_list` "
            f"{len(counts)}"
        )
    offsets = [sum(counts[:layer]) for layer in range(len(counts) + 1)]
    if leaf_node_num >= offsets[-1]:
        raise ValueError(
            f"`leaf_node_num` must be less than the {offsets[-1]} nodes, not {leaf_node_num}"
        )
    layer = LayerNames("tdm_sampler")
    travel = _fixed(layer, tree_travel_attr, [leaf_node_num, len(counts)], tree_dtype)
    nodes = _fixed(layer, tree_layer_attr, [offsets[-1], 1], tree_dtype)
    made = _ops.tdm_sampler(
        x,
        travel,
        nodes,
        neg_samples_num_list=negatives,
        layer_offset_lod=offsets,
        output_positive=output_positive,
        seed=seed,
        dtype=dtype,
        _outputs=("Out", "Labels", "Mask"),
    )
    if not output_list:
        return made
    widths = [count + output_positive for count in negatives]
    nodes, labels, mask = (_by_layer(each, widths) for each in made)
    return nodes, labels, mask


def _fixed(layer: LayerNames, attr: Any, shape: Sequence[int], dtype: Any) -> Variable:
    """A parameter that describes a tree: training leaves it alone."""
    parameter = layer.weight(attr, shape, dtype, default=Constant(0.0))
    parameter.stop_gradient = True
    return parameter


def _by_layer(whole: Variable, widths: Sequence[int]) -> list[Variable]:
    parts, start = [], 0
    for width in widths:
        part = _ops.slice(whole, axes=[1], starts=[start], ends=[start + width])
        part = _ops.reshape2(part, shape=[-1, width, 1], _outputs=("Out",))
        part.stop_gradient = True
        parts.append(part)
        start += width
    return parts
