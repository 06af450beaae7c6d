"""The commands of Paddle's guide to `fleetrun` on machines with GPUs, which are emulated here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running_cards import emulator
from running_fleetrun import Fleetrun, run_fleetrun
from running_jobs import SCRIPTS, free_ports, free_ports_in_a_row, losses
from test_dataset_jobs import SAMPLES

SCRIPT = SCRIPTS / "cards_ctr.py"
EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Processes see emulated GPUs, as they would with this variable alone."""
    emulator()
    monkeypatch.setenv("BIREME_DEVICE", "emulated")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The losses of one process on the CPU, with the batches that all trainers have together."""
    result = python(tmp_path_factory.mktemp("alone"), BIREME_DEVICE="cpu")
    assert "on the CPU" in result.stdout
    return losses(result.stdout)


def python(folder, **variables):
    """The script without a launcher."""
    environment = {**os.environ, **variables}
    command = [sys.executable, str(SCRIPT)]
    result = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result


def trained(job, workers, alone):
    """That trainers learned together what one process learns; the GPUs that they ran on."""
    logs = [job.log(f"workerlog.{rank}") for rank in range(workers)]
    mean = np.mean([losses(log) for log in logs], axis=0)
    np.testing.assert_allclose(mean, alone, atol=1e-4, err_msg=job.logs())
    return [re.search(r"Place\(gpu:(\d+)\) of (\S+), on it", log).groups() for log in logs]


def test_one_gpu(tmp_path, alone):
    result = python(tmp_path, CUDA_VISIBLE_DEVICES="0")
    np.testing.assert_allclose(losses(result.stdout), alone, atol=1e-4)
    assert result.stderr.count("BIREME_DEVICE=emulated: GPUs are emulated") == 1, result.stderr
    environment = {"CUDA_VISIBLE_DEVICES": "0"}
    job = run_fleetrun(tmp_path / "variable", SCRIPT, **environment)
    assert trained(job, 1, alone) == [("0", "0")]


def fleetrun_where_all_are_visible(folder, *arguments, **variables):
    """As `run_fleetrun`, which hides the GPUs of the machine."""
    variables = {"BIREME_EMULATED_CARDS": "4", "CUDA_VISIBLE_DEVICES": "0,1,2,3", **variables}
    return run_fleetrun(folder, *arguments, **variables)


def test_some_gpus_of_a_machine(tmp_path, alone):
    job = fleetrun_where_all_are_visible(tmp_path / "one", "--gpus=0", SCRIPT)
    assert trained(job, 1, alone) == [("0", "0,1,2,3")]
    job = fleetrun_where_all_are_visible(tmp_path / "all", "--gpus=0,1,2,3", SCRIPT)
    assert trained(job, 4, alone) == [(str(gpu), "0,1,2,3") for gpu in range(4)]
    assert "BIREME_DEVICE=emulated: GPU 0,1,2,3 emulated" in job.said()


def test_more_processes_than_gpus_share_them(tmp_path, alone):
    arguments = ("--gpus=1", "--nproc_per_node=2", SCRIPT)
    job = fleetrun_where_all_are_visible(tmp_path, *arguments)
    assert trained(job, 2, alone) == [("1", "0,1,2,3")] * 2


def test_a_list_of_machines(tmp_path, alone):
    port = free_ports_in_a_row(2)
    arguments = ("--ips=127.0.0.1", "--gpus=0,1", f"--start_port={port}", SCRIPT)
    job = fleetrun_where_all_are_visible(tmp_path, *arguments)
    assert [gpu for gpu, _ in trained(job, 2, alone)] == ["0", "1"]
    assert "Run collective mode. gpu arguments:['--ips'], cuda count:2" in job.said()


def test_servers_with_a_gpu_for_each_worker(tmp_path, alone):
    counts = ("--server_num=2", "--worker_num=4")
    job = run_fleetrun(tmp_path, *counts, SCRIPT, CUDA_VISIBLE_DEVICES="0,1,2,3")
    assert trained(job, 4, alone) == [("0", str(gpu)) for gpu in range(4)]
    assert "accelerators count:4" in job.said()


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_workers_that_share_a_gpu(tmp_path, alone, mode):
    counts = ("--server_num=2", "--worker_num=2")
    job = run_fleetrun(tmp_path, *counts, SCRIPT, CUDA_VISIBLE_DEVICES="0", MODE=mode)
    if mode == "sync":
        assert trained(job, 2, alone) == [("0", "0"), ("0", "0")]
    else:
        for rank in range(2):
            log = job.log(f"workerlog.{rank}")
            assert len(losses(log)) == 4 and "on it" in log, job.logs()


def test_lists_of_servers_and_workers(tmp_path, alone):
    ports = free_ports(4)
    servers, workers = (",".join(f"127.0.0.1:{p}" for p in half) for half in (ports[:2], ports[2:]))
    arguments = (f"--servers={servers}", f"--workers={workers}", SCRIPT)
    job = run_fleetrun(tmp_path, *arguments, CUDA_VISIBLE_DEVICES="0,1")
    assert trained(job, 2, alone) == [("0", "0"), ("0", "1")]


def test_heter_workers_run_their_stage_on_gpus(tmp_path):
    script = EXAMPLES / "heter_ctr.py"
    counts = ("--server_num=2", "--worker_num=2", "--heter_worker_num=2")
    settings = {"HETER_SYNC": "1", "STEPS": "4", "CUDA_VISIBLE_DEVICES": "0,1"}
    on_cards = run_fleetrun(tmp_path / "gpu", *counts, script, **settings)
    settings["BIREME_DEVICE"] = "cpu"
    on_cpus = run_fleetrun(tmp_path / "cpu", *counts, script, **settings)
    for rank in range(2):
        name = f"workerlog.{rank}"
        expected = losses(on_cpus.log(name))
        assert len(expected) == 4
        np.testing.assert_allclose(losses(on_cards.log(name)), expected, atol=1e-4)
        stage = on_cards.log(f"heterlog.{rank}")
        assert "Heter worker runs its stage on emulated card" in stage, on_cards.logs()
        assert "runs its stage on" not in on_cpus.log(f"heterlog.{rank}")


def test_without_gpus_one_line_says_what_to_set(tmp_path):
    hidden = {"BIREME_DEVICE": "", "BIREME_CUDA_LIBRARIES": str(tmp_path)}
    with Fleetrun(tmp_path, "--gpus=0", SCRIPT, CUDA_VISIBLE_DEVICES="0", **hidden) as job:
        if job.end() == 0:
            pytest.skip("this machine has a GPU")
    last = job.log("workerlog.0").strip().splitlines()[-1]
    assert "GPU 0 cannot be used: no NVIDIA driver" in last
    assert "or set BIREME_DEVICE=cpu to run this script on the CPU" in last
    said = [line for line in job.said().splitlines() if "this machine has no NVIDIA GPU" in line]
    assert len(said) == 1 and "set BIREME_DEVICE=cpu to train on CPUs" in said[0]


def test_a_variable_that_means_nothing_is_refused(tmp_path):
    script = "import bireme as paddle; paddle.CUDAPlace(0)"
    environment = {**os.environ, "BIREME_DEVICE": "gpu"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=300
    )
    assert "`BIREME_DEVICE` is `gpu`, which must be `cpu` or `emulated`" in done.stderr


SPAWNED = """
import bireme as paddle

def train():
    paddle.set_device("gpu")
    x = paddle.to_tensor([1.0, 2.0])
    return f"{(x * 2).place} {float((x * 2).sum())}"

if __name__ == "__main__":
    for gpus, count in (("0,1", -1), ("1", 2)):
        context = paddle.distributed.spawn(train, nprocs=count, gpus=gpus)
        print(*[queue.get() for queue in context.return_queues], flush=True)
    try:
        paddle.distributed.spawn(train, nprocs=1, gpus="0,1")
    except ValueError as error:
        print(error)
"""


def test_spawn_gives_processes_gpus(tmp_path):
    (tmp_path / "spawned.py").write_text(SPAWNED)
    command = [sys.executable, "spawned.py"]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    first, second, refused = done.stdout.splitlines()
    assert first == "Place(gpu:0) 6.0 Place(gpu:1) 6.0"
    assert second == "Place(gpu:1) 6.0 Place(gpu:1) 6.0"
    assert "`gpus` names 2 GPUs, and `nprocs` is 1" in refused


DATASET = (
    SAMPLES
    + """
import os

fleet.init()
rows = static.nn.sparse_embedding(ids, [50, 4])
hidden = static.nn.fc(paddle.concat([paddle.reshape(rows, [-1, 4]), dense], axis=1), 16, activation="tanh")
predict = static.nn.fc(hidden, 2, activation="softmax")
loss = paddle.mean(paddle.fluid.layers.cross_entropy(predict, label))
strategy = fleet.DistributedStrategy()
strategy.a_sync = os.environ.get("MODE") == "async"
# Values that lack some steps bear small steps only.
rate = 0.05 if strategy.a_sync else 0.5
fleet.distributed_optimizer(paddle.optimizer.SGD(rate), strategy).minimize(loss)
place = paddle.CUDAPlace(0)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    executor = static.Executor(place)
    executor.run(static.default_startup_program())
    fleet.init_worker()
    data = dataset(f"data-{fleet.worker_index()}")
    first = next(iter(data._source().batches()))
    for _ in range(3):
        executor.train_from_dataset(static.default_main_program(), data)
        print("loss", executor.run(feed=first, fetch_list=[loss])[0].item(), flush=True)
    fleet.stop_worker()
"""
)


def test_workers_train_from_datasets_on_gpus(tmp_path):
    (tmp_path / "dataset.py").write_text(DATASET)
    script, counts = tmp_path / "dataset.py", ("--server_num=2", "--worker_num=2")
    settings = {"CUDA_VISIBLE_DEVICES": "0,1"}
    card = run_fleetrun(tmp_path / "gpu", *counts, script, **settings)
    host = run_fleetrun(tmp_path / "cpu", *counts, script, BIREME_DEVICE="cpu", **settings)
    for rank in range(2):
        name = f"workerlog.{rank}"
        expected = losses(host.log(name))
        assert len(expected) == 3 and expected[-1] < expected[0]
        np.testing.assert_allclose(losses(card.log(name)), expected, atol=1e-4)
    # A queue of gradients lets rows of the next batch be pulled while a step runs.
    ahead = {"MODE": "async", "FLAGS_communicator_send_queue_size": "4", **settings}
    job = run_fleetrun(tmp_path / "ahead", *counts, script, **ahead)
    for rank in range(2):
        found = losses(job.log(f"workerlog.{rank}"))
        assert len(found) == 3 and found[-1] < found[0], job.logs()
