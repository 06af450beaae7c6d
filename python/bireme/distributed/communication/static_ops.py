"""Collective calls in programs: each appends an op to the program that is built.

As in Paddle they are about all processes of the job; a group of some of them is for eager mode.
"""

from __future__ import annotations

from typing import Any

from ... import _core
from .group import Group
from .reduce_op import ReduceOp

_NAMES = {
    ReduceOp.SUM: "sum",
    ReduceOp.MAX: "max",
    ReduceOp.MIN: "min",
    ReduceOp.PROD: "prod",
}


def all_reduce(tensor: Any, op: int, group: Group | None) -> None:
    """The variable becomes the reduction of those of all processes."""
    _append(f"c_allreduce_{_name(op)}", group, tensor, tensor)


def reduce(tensor: Any, dst: int, op: int, group: Group | None) -> None:
    """As `all_reduce`, in process `dst` alone."""
    _append(f"c_reduce_{_name(op)}", group, tensor, tensor, root_id=dst)


def broadcast(tensor: Any, src: int, group: Group | None) -> None:
    """The variable becomes that of process `src`."""
    _append("c_broadcast", group, tensor, tensor, root=src)


def all_gather(tensor_list: Any, tensor: Any, group: Group | None) -> None:
    """`tensor_list` becomes the variables of all processes."""
    if not isinstance(tensor_list, list):
        text = "Only support passing a tensor list to `all_gather` in static graph mode now."
        raise RuntimeError(text)  # noqa: TRY004 (as Paddle)
    ranks = _ranks()
    whole = _variable(tensor, [_rows(tensor, ranks), *tensor.shape[1:]])
    _append("c_allgather", group, tensor, whole, nranks=ranks)
    tensor_list.clear()
    tensor_list.extend(_parts(whole, ranks))


def scatter(tensor: Any, parts: Any, src: int, group: Group | None) -> None:
    """The variable becomes this process's part of what process `src` has."""
    ranks = _ranks()
    if isinstance(parts, list) or parts is None:
        # Every process has the same program: where nothing is given, something of the shape is.
        parts = _joined(parts or [tensor] * ranks)
    _append("c_scatter", group, parts, tensor, root=src, nranks=ranks)


def reduce_scatter(tensor: Any, parts: Any, op: int, group: Group | None) -> None:
    """The variable becomes this process's part of the sum of all."""
    if op != ReduceOp.SUM:
        raise NotImplementedError("in a program `reduce_scatter` has `ReduceOp.SUM` alone")
    whole = _joined(parts) if isinstance(parts, list) else parts
    _append("c_reducescatter", group, whole, tensor, nranks=_ranks())


def alltoall(out: Any, given: Any, group: Group | None) -> None:
    """Part i of what is given goes to process i."""
    if not isinstance(out, list):
        _append("alltoall", group, given, out)
        return
    if out:
        raise ValueError("The 'out_tensor_list' for all_to_all must be an empty list.")
    if not given:
        raise RuntimeError("The input tensor_list should not be empty.")
    whole = _joined(given)
    made = _variable(whole, whole.shape)
    _append("alltoall", group, whole, made)
    out.extend(_parts(made, len(given)))


def send(tensor: Any, dst: int, group: Group | None) -> None:
    """Sends the variable to process `dst`."""
    _append("send_v2", group, tensor, None, peer=dst)


def recv(tensor: Any, src: int, group: Group | None) -> None:
    """The variable becomes what process `src` sends."""
    _append(
        "recv_v2", group, None, tensor, peer=src, out_shape=list(tensor.shape), dtype=tensor.dtype
    )


def append_barrier(group: Group | None) -> None:
    """The program waits for all processes."""
    from ...tensor import full

    token = full([1], 1, dtype="int32")
    _append("barrier", group, token, token)


def _append(kind: str, group: Group | None, given: Any, out: Any, **attrs: Any) -> None:
    if group is not None and group.id != 0:
        raise RuntimeError("Group can not be used in static graph mode for now.")
    block = _core.default_main_program().current_block()
    inputs: dict[str, Any] = {} if given is None else {"X": [given]}
    outputs: dict[str, Any] = {} if out is None else {"Out": [out]}
    if kind != "barrier":
        attrs["use_calc_stream"] = True
    block.append_op(kind, inputs, outputs, {"ring_id": 0, **attrs})


def _name(op: int) -> str:
    if op not in _NAMES:
        raise NotImplementedError(
            "a program has no `ReduceOp.AVG`: take the sum and divide it by the number of processes"
        )
    return _NAMES[op]


def _ranks() -> int:
    from ..parallel import get_world_size

    return get_world_size()


def _variable(like: Any, shape: list[int]) -> Any:
    block = _core.default_main_program().current_block()
    name = _core.unique_name("collective.tmp")
    return block.create_var(name=name, shape=list(shape), dtype=like.dtype)


def _rows(tensor: Any, factor: int) -> int:
    if not tensor.shape:
        raise ValueError("a variable of rank 0 has no rows: reshape it to [1]")
    return tensor.shape[0] * factor if tensor.shape[0] >= 0 else -1


def _joined(parts: list[Any]) -> Any:
    from ...tensor import concat

    return concat(parts, axis=0)


def _parts(whole: Any, count: int) -> list[Any]:
    from ...tensor import split

    return split(whole, count, axis=0)
