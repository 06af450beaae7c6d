"""A rank on an emulated card is killed, runs out of memory or is late: the whole job ends within ten seconds, names it,
and leaves nothing behind."""

import os
import time

import pytest
from running_cards import emulator
from running_fleetrun import Fleetrun

RANKS = 3
BOUND_S = 10
DEADLINE_S = 4

SCRIPT = """
import os, signal, time
import numpy as np
import bireme as paddle
from bireme.distributed import fleet

paddle.enable_static()
fleet.init(is_collective=True)
rank, fault = fleet.worker_index(), os.environ["FAULT"]
print("endpoints", os.environ["PADDLE_TRAINER_ENDPOINTS"], flush=True)
x = paddle.static.data("x", [None, 64])
loss = paddle.mean(paddle.static.nn.fc(x, 8))
optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), fleet.DistributedStrategy())
optimizer.minimize(loss)
exe = paddle.static.Executor(paddle.CUDAPlace(int(os.environ["FLAGS_selected_gpus"])))
exe.run(paddle.static.default_startup_program())
for step in range(100000):
    rows = 4
    if rank == 1 and step == 5:
        print("fault", time.monotonic(), flush=True)
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "late":
            time.sleep(100)
        else:
            rows = 1 << 17  # 32 MiB, and the card has 16
    exe.run(feed={"x": np.ones([rows, 64], "float32")}, fetch_list=[loss])
    print("step", step, flush=True)
"""


def shared_memory():
    return {entry.name for entry in os.scandir("/dev/shm")} if os.path.isdir("/dev/shm") else set()


def sockets(endpoints):
    """Names of Unix sockets of a job, by which its processes find each other."""
    with open("/proc/net/unix") as lines:
        names = [line.split()[7] for line in lines if len(line.split()) > 7]
    return [name for name in names if any(name.endswith(endpoint) for endpoint in endpoints)]


def printed(job, word):
    """What rank 1 has printed after a word."""
    lines = job.log("workerlog.1").splitlines()
    found = [line.split()[1] for line in lines if line.startswith(word)]
    assert found, job.logs()
    return found[0]


@pytest.mark.parametrize("road", ["host", "nccl"])
@pytest.mark.parametrize("fault", ["killed", "memory", "late"])
def test_all_ranks_end_soon_and_name_the_one_that_failed(tmp_path, fault, road):
    emulator()
    (tmp_path / "train.py").write_text(SCRIPT)
    variables = {
        "BIREME_DEVICE": "emulated",
        "BIREME_EMULATED_CARDS": str(RANKS),
        "BIREME_EMULATED_MEMORY": "16",
        "BIREME_COLLECTIVE": road,
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(RANKS))),
        "OMP_NUM_THREADS": "1",
        "FAULT": fault,
    }
    if fault == "late":
        variables["FLAGS_rpc_deadline"] = str(DEADLINE_S * 1000)
    before = shared_memory()
    gpus = ",".join(map(str, range(RANKS)))
    with Fleetrun(tmp_path, f"--gpus={gpus}", "train.py", **variables) as job:
        assert job.end() != 0, job.logs()
        job.assert_nobody_is_left()
        ended = time.monotonic()
    took = ended - float(printed(job, "fault"))
    print(f"{fault}, {road}: the last process ended {took:.2f} s after the fault")
    assert took < BOUND_S + (DEADLINE_S if fault == "late" else 0), job.logs()
    assert "rank 1" in job.said() or "trainer 1" in job.said() or "worker 1" in job.said(), (
        job.logs()
    )
    if fault == "memory":
        assert "out of memory" in job.log("workerlog.1"), job.logs()
    if fault == "late":
        said = [job.log(f"workerlog.{rank}") for rank in (0, 2)]
        assert any("trainer 1 (" in text for text in said), job.logs()
    assert sockets(printed(job, "endpoints").split(",")) == []
    assert {name for name in shared_memory() - before if "bireme" in name} == set()
