"""The knobs of the communicator, which sends gradients and fetches parameters beside training.

The environment wins over what a strategy says, and that over defaults that follow from `CPU_NUM`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import environment

# None: `CPU_NUM`, or the number of batches between two exchanges in geo mode; 1 in async mode, where
# merged steps of several threads would be one update only of an optimizer such as Adam.
DEFAULTS = {
    "max_merge_var_num": None,
    "send_queue_size": None,
    "independent_recv_thread": 1,
    "min_send_grad_num_before_recv": None,
    "thread_pool_size": 5,
    "send_wait_times": 5,
    "is_sgd_optimizer": 1,
}
_PER_STEP = ("max_merge_var_num", "send_queue_size")


def cpu_num() -> int:
    """How many training threads `CPU_NUM` says there are.

    >>> from bireme.distributed.fleet.communicator import cpu_num
    >>> cpu_num()
    1
    """
    return environment.number("CPU_NUM", 1)


def knobs(mode: str, given: Mapping[str, Any], k_steps: int = 0) -> dict[str, int]:
    """The knobs of a mode by name, without Paddle's prefix `communicator_`.

    >>> from bireme.distributed.fleet.communicator import knobs
    >>> knobs("geo", {"thread_pool_size": 2}, k_steps=100)["send_queue_size"]
    100
    """
    settled = {}
    for name, default in DEFAULTS.items():
        if default is None:
            default = 1 if mode == "async" else cpu_num()
            default = k_steps if mode == "geo" and name in _PER_STEP else default
        flag = f"FLAGS_communicator_{name}"
        settled[name] = _number(flag, given.get(name, default))
    if mode in ("sync", "half_async"):
        for name in _PER_STEP:
            settled[name] = force_to_cpu_num(name, settled[name])
    return settled


def force_to_cpu_num(name: str, value: int, note: str = "sync or half_async") -> int:
    """`CPU_NUM`, with a warning where the knob had another value.

    >>> from bireme.distributed.fleet.communicator import force_to_cpu_num
    >>> force_to_cpu_num("send_queue_size", 1)
    1
    """
    wanted = cpu_num()
    if value != wanted:
        knob = f"communicator_{name}"
        print(
            f"WARNING: In {note} mode, {knob} must be equal to CPU_NUM. But received, {knob} ="
            f" {value}, CPU_NUM = {wanted}. {knob} will be forced to {wanted}."
        )
    return wanted


def _number(flag: str, default: Any) -> int:
    said = environment.text(flag)
    if said in ("True", "true", "False", "false"):
        return int(said in ("True", "true"))
    return environment.number(flag, int(default))
