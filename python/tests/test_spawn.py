"""`paddle.distributed.spawn`: results, failures, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import bireme as paddle
import bireme.distributed as dist
import numpy as np
import pytest


def total(start):
    dist.init_parallel_env()
    x = paddle.to_tensor([start + dist.get_rank()])
    dist.all_reduce(x)
    return x.item()


def much():
    return np.zeros(1 << 20)


def fails_in_one():
    dist.init_parallel_env()
    if dist.get_rank() == 1:
        raise ValueError("rank 1 has enough")
    dist.all_reduce(paddle.ones([1]))


def killed_in_one():
    dist.init_parallel_env()
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(paddle.ones([1]))


def ends_with_a_code():
    raise SystemExit(7)


def test_the_function_runs_in_every_process():
    context = dist.spawn(total, args=(10,), nprocs=2)
    assert [results.get() for results in context.return_queues] == [21, 21]
    assert all(process.exitcode == 0 for process in context.processes)


def test_large_results_come_back():
    context = dist.spawn(much, nprocs=2)
    assert all(len(results.get()) == 1 << 20 for results in context.return_queues)


def test_join_can_wait_later():
    context = dist.spawn(total, args=(1,), nprocs=2, join=False)
    assert len(context.pids()) == 2
    while not context.join(timeout=60):
        pass
    assert context.join()


def test_the_first_failure_is_raised_with_its_traceback():
    with pytest.raises(RuntimeError) as raised:
        dist.spawn(fails_in_one, nprocs=2)
    text = str(raised.value)
    assert "Process 1 terminated with the following error" in text
    assert "in fails_in_one" in text and "ValueError: rank 1 has enough" in text


def test_a_killed_process_is_named_and_the_others_are_ended():
    context = dist.spawn(killed_in_one, nprocs=2, join=False)
    with pytest.raises(RuntimeError, match="Process 0 terminated with signal SIGKILL"):
        while not context.join():
            pass
    assert not any(process.is_alive() for process in context.processes)


def test_an_exit_code_is_named():
    with pytest.raises(RuntimeError, match="Process 0 terminated with exit code 7"):
        dist.spawn(ends_with_a_code, nprocs=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nprocs": 0}, "`nprocs` must be a number from 1 on"),
        ({"npocs": 2}, r"The config option \(npocs\) of `paddle.distributed.spawn` is not"),
        ({"backend": "nccl"}, "`backend` 'nccl' is not in this version"),
        ({"ips": "10.0.0.1,10.0.0.2"}, "`spawn` is for one machine"),
    ],
)
def test_misuse_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        dist.spawn(total, args=(1,), **options)


def test_children_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\n"
        "import bireme.distributed as dist\n"
        "def wait():\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    print(*dist.spawn(wait, nprocs=2, join=False).pids(), flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    end = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < end, f"{pids} still run"
        time.sleep(0.05)


def is_alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
