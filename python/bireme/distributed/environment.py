"""The environment variables of distributed jobs: every one by name, and the only place to read them.

Read anew at every call: a launcher, or a test, may set the variables after the import.
"""

from __future__ import annotations

import os

from ..static.settings import unknown_setting

# What each variable says. A name that is not here cannot be read.
VARIABLES = {
    # Who a process is.
    "TRAINING_ROLE": "what this process does: TRAINER, PSERVER or HETER_TRAINER",
    "PADDLE_TRAINING_ROLE": "the same in collective jobs, where all are TRAINER",
    "PADDLE_TRAINER_ID": "the number of this trainer, from 0",
    "PADDLE_TRAINERS_NUM": "how many trainers there are",
    "PADDLE_PSERVERS_IP_PORT_LIST": "the addresses of all servers, with commas between",
    "PADDLE_TRAINER_ENDPOINTS": "the addresses of all trainers, with commas between",
    "PADDLE_CURRENT_ENDPOINT": "the address of this trainer in a collective job",
    "PADDLE_PSERVER_ID": "the number of this server, for `GeneralRoleMaker`",
    "PADDLE_IS_BARRIER_ALL_ROLE": "whether servers wait at barriers too, for `GeneralRoleMaker`",
    "POD_IP": "the host of this process",
    "PADDLE_PORT": "the port of this process",
    "PADDLE_COORDINATOR_ENDPOINTS": "the addresses of coordinators, which Bireme has not",
    "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST": "the addresses of heter workers of all stages",
    "PADDLE_HETER_TRAINER_IP_PORT_LIST": "the same in jobs of Paddle 2.0 and 2.1",
    "PADDLE_STAGE_TRAINERS_NUM": "how many processes each stage has: [2, 1]",
    "STAGE_ID": "the stage of this process; 1 for trainers",
    "STAGE_NUM": "how many stages there are",
    "HETER_DEVICE_TYPE": "the device of this heter worker's stage",
    "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST": "the addresses of the next stage",
    "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST": "the addresses of the stage before",
    "PADDLE_RANK_IN_NODE": "the number of this trainer on its host",
    "PADDLE_LOCAL_DEVICE_IDS": "the devices of this trainer",
    "PADDLE_WORLD_DEVICE_IDS": "the devices of all trainers",
    "FLAGS_selected_gpus": "the GPUs of this process",
    # How trainers and servers talk.
    "CPU_NUM": "how many batches the communicator holds and merges unless a flag below says it",
    "FLAGS_communicator_max_merge_var_num": "how many gradients are merged before they are sent",
    "FLAGS_communicator_send_queue_size": "how many gradients may wait to be sent",
    "FLAGS_communicator_independent_recv_thread": "whether parameters are fetched beside training",
    "FLAGS_communicator_min_send_grad_num_before_recv": "how many sends between two fetches",
    "FLAGS_communicator_thread_pool_size": "how many threads send and fetch",
    "FLAGS_communicator_send_wait_times": "how often 10 ms are waited for more to merge",
    "FLAGS_communicator_is_sgd_optimizer": "whether merged gradients are summed, not averaged",
    "FLAGS_rpc_deadline": "how long a request, and the start of a server, is waited for, in ms",
    "FLAGS_rpc_retry_times": "how often a request is sent again",
    "FLAGS_rpc_send_thread_num": "how many connections send to a server",
    "FLAGS_rpc_get_thread_num": "how many connections fetch from a server",
    "FLAGS_rpc_prefetch_thread_num": "how many connections fetch rows of tables from a server",
    "FLAGS_LAUNCH_BARRIER": "0: workers do not wait for the servers' ports when they start",
}


def text(name: str, default: str | None = None) -> str | None:
    """What a variable says, or the default where it is not set.

    >>> from bireme.distributed import environment
    >>> environment.text("TRAINING_ROLE", "TRAINER")
    'TRAINER'
    >>> environment.text("TRAINING_ROLL")
    Traceback (most recent call last):
    ...
    KeyError: '`the environment` has no setting `TRAINING_ROLL`: did you mean `TRAINING_ROLE`?'
    """
    if name not in VARIABLES:
        raise KeyError(unknown_setting("the environment", name, VARIABLES))
    return os.environ.get(name, default)


def required(name: str) -> str:
    """What a variable says that must be set.

    >>> from bireme.distributed import environment
    >>> environment.required("PADDLE_TRAINERS_NUM")
    Traceback (most recent call last):
    ...
    ValueError: Can not find PADDLE_TRAINERS_NUM, please check your environment.
    """
    value = text(name)
    if value is None:
        raise ValueError(f"Can not find {name}, please check your environment.")
    return value


def number(name: str, default: int | None = None) -> int:
    """A whole number from 0 on; without a default it must be set.

    >>> from bireme.distributed import environment
    >>> environment.number("PADDLE_TRAINER_ID", 0)
    0
    """
    value = required(name) if default is None else text(name) or str(default)
    if not value.isdecimal():
        raise ValueError(f"the environment says `{name}={value}`, which is not a number from 0 on")
    return int(value)


def endpoints(name: str) -> list[str]:
    """Addresses with commas between, as a list; empty where the variable is not set.

    >>> from bireme.distributed import environment
    >>> environment.endpoints("PADDLE_TRAINER_ENDPOINTS")
    []
    """
    return [part.strip() for part in (text(name) or "").split(",") if part.strip()]
