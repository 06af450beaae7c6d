"""How the values of several processes become one."""

from ..._names import set_public_names


class ReduceOp:
    """The numbers that `all_reduce` and its kin take for `op`.

    >>> paddle.distributed.ReduceOp.SUM, paddle.distributed.ReduceOp.AVG
    (0, 4)
    """

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


def checked_op(op: object, function: str) -> int:
    """An `op` that is one of `ReduceOp`.

    >>> from bireme.distributed.communication.reduce_op import checked_op
    >>> checked_op("sum", "all_reduce")
    Traceback (most recent call last):
    ...
    ValueError: Unknown reduce_op type for all_reduce: 'sum' is none of ReduceOp.SUM, MAX, MIN, PROD, AVG.
    """
    if isinstance(op, int) and not isinstance(op, bool) and 0 <= op <= ReduceOp.AVG:
        return op
    names = "ReduceOp.SUM, MAX, MIN, PROD, AVG"
    raise ValueError(f"Unknown reduce_op type for {function}: {op!r} is none of {names}.")


set_public_names(__name__, but="checked_op")
