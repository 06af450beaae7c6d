"""Jobs under `fleetrun`, as a user starts them: guides' scripts, interrupts, and who is blamed."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from running_fleetrun import Fleetrun, run_fleetrun
from running_jobs import losses
from test_guides import LOG_LINE, expect_checksums_of, listing, write_digits

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"

# Runs at the start of the script's processes: writes what they begin with, are fed and end with.
RECORD = """
import atexit, os
import numpy as np
import bireme as paddle
from bireme.static import Executor

rank = os.environ.get("PADDLE_TRAINER_ID")
run, fed = Executor.run, []

def parameters():
    scope, main = paddle.static.global_scope(), paddle.static.default_main_program()
    return {p.name: np.array(scope.find_var(p.name).get_tensor()) for p in main.all_parameters()}

def recorded(self, program=None, feed=None, **others):
    if feed and os.environ.get("RECORD"):
        feeds = feed[0] if isinstance(feed, (list, tuple)) else feed
        fed.append({name: np.array(value) for name, value in feeds.items()})
    values = run(self, program, feed=feed, **others)
    if not feed:
        np.savez(f"start{rank}.npz", **parameters())
    return values

Executor.run = recorded

@atexit.register
def dump():
    if rank is None:  # The launcher itself.
        return
    np.savez(f"end{rank}.npz", **parameters())
    if fed:
        np.savez(f"fed{rank}.npz", **{n: np.stack([f[n] for f in fed]) for n in fed[0]})
"""


def digits_job(folder, count, **options):
    """The guide's MNIST script in two processes, on `count` images; no word of it is changed."""
    folder.mkdir(exist_ok=True)
    script = listing("fleetrun_mnist.rst", ".. code:: py\n", r"^单机单卡训练$")
    (folder / "train.py").write_text(script, encoding="utf-8")
    write_digits(folder / "home" / "mnist", count)
    expect_checksums_of(folder / "home" / "mnist", folder / "site")
    with open(folder / "site" / "sitecustomize.py", "a") as site:
        site.write(RECORD)
    options = {"BIREME_DATA_HOME": str(folder / "home"), **options}
    path = os.pathsep.join([str(folder / "site"), os.environ["PYTHONPATH"]])
    return run_fleetrun(folder, "--nproc_per_node=2", "train.py", PYTHONPATH=path, **options)


def values(folder, *names):
    return [dict(np.load(folder / f"{name}.npz")) for name in names]


def test_the_guides_digits_train_in_two_processes(tmp_path):
    # 201 batches of 64: each epoch reaches step 200, where the script prints.
    job = digits_job(tmp_path, 201 * 64)
    for name in ("workerlog.0", "workerlog.1"):
        lines = [LOG_LINE.fullmatch(line) for line in job.log(name).splitlines()]
        found = [float(line[3]) for line in lines if line]
        assert len(found) == 10 and found[-1] < found[0], job.logs()
    assert "[worker 0] epoch: 9, step:200, train_loss: " in job.said()
    assert "BIREME_DEVICE=cpu for every process" in job.said()
    first, second = values(tmp_path, "end0", "end1")
    assert first.keys() == second.keys() and len(first) == 6
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


REPLAY = """
import sys
import numpy as np
import paddle
import paddle.static.nn as nn

paddle.enable_static()
fed = [dict(np.load(f"fed{rank}.npz")) for rank in range(2)]
x_fed, y_fed = (np.concatenate([part[name] for part in fed], axis=1) for name in "xy")
rows = x_fed.shape[1]
x = paddle.static.data("x", [rows, 28, 28], "float32")
y = paddle.static.data("y", [rows, 1], "int64")
hidden = paddle.reshape(x, [rows, 784])
for _ in range(2):
    hidden = nn.fc(x=hidden, size=128, activation="tanh")
prediction = nn.fc(x=[hidden], size=10, activation="softmax")
loss = paddle.mean(paddle.fluid.layers.cross_entropy(input=prediction, label=y))
paddle.optimizer.Adam(learning_rate=0.01).minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
scope, main = paddle.static.global_scope(), paddle.static.default_main_program()
tensors = {p.name: scope.find_var(p.name).get_tensor() for p in main.all_parameters()}
for name, value in np.load("start0.npz").items():
    tensors[name].set(value, paddle.CPUPlace())
for images, labels in zip(x_fed, y_fed, strict=True):
    exe.run(feed={"x": images, "y": labels}, fetch_list=[loss])
np.savez("alone.npz", **{name: np.array(tensor) for name, tensor in tensors.items()})
"""


def test_the_guides_digits_equal_one_process_on_the_joint_batch(tmp_path):
    # Two batches of each process in each of the ten epochs, each in an order of its own.
    digits_job(tmp_path, 128, RECORD="1")
    start, first, second = values(tmp_path, "start0", "end0", "end1")
    (tmp_path / "replay.py").write_text(REPLAY)
    run_fleetrun(tmp_path, "replay.py")
    (alone,) = values(tmp_path, "alone")
    for name, value in alone.items():
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
        np.testing.assert_allclose(first[name], value, atol=1e-5, err_msg=name)
        assert not np.array_equal(start[name], value), f"{name} did not move"


def test_heter_workers(tmp_path):
    (tmp_path / "alone").mkdir()
    run_fleetrun(tmp_path / "alone", EXAMPLES / "heter_ctr.py", OMP_NUM_THREADS="1")
    with open(tmp_path / "alone" / "log" / "workerlog.0") as log:
        alone = losses(log.read())
    counts = ("--server_num=2", "--worker_num=2", "--heter_worker_num=2")
    job = run_fleetrun(tmp_path, *counts, EXAMPLES / "heter_ctr.py", HETER_SYNC="1")
    both = np.mean([losses(job.log(f"workerlog.{rank}")) for rank in range(2)], axis=0)
    np.testing.assert_allclose(both, alone, rtol=1e-4)
    for rank in range(2):
        assert "Server listening on" in job.log(f"serverlog.{rank}")
        assert "Heter worker listening on" in job.log(f"heterlog.{rank}")
    assert "Local heter_worker start 2 processes" in job.said()
    assert "all heter_worker are killed" in job.said()


SERVERS = ("--server_num=2", "--worker_num=2")
LONG = {"JOB_STEPS": "1000000"}


def fleet2(folder, *arguments, **variables):
    script = Path(__file__).parent / "jobs" / "fleet2.py"
    return Fleetrun(folder, *arguments, script, **variables)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_ctrl_c_ends_a_job_with_130(tmp_path, mode):
    with fleet2(tmp_path, *SERVERS, **LONG, JOB_MODE=mode) as job:
        job.wait_for("workerlog.0", "loss", 3)
        job.launcher.send_signal(signal.SIGINT)
        assert job.end() == 130, job.logs()
        job.assert_nobody_is_left()
        assert "Terminating with signal 2\n" in job.said()
        assert "KeyboardInterrupt" in job.log("workerlog.0")
        assert "did not end in time" not in job.said(), job.logs()
        assert "error:" not in job.said(), job.logs()


def test_a_killed_fleetrun_leaves_nobody_behind(tmp_path):
    with fleet2(tmp_path, *SERVERS, **LONG) as job:
        job.wait_for("workerlog.0", "loss", 3)
        assert len([e for e in job.processes().values() if e.get("TRAINING_ROLE")]) == 4
        job.launcher.kill()
        job.launcher.wait()
        job.assert_nobody_is_left()


@pytest.mark.parametrize(
    ("role", "rank", "name"),
    [("PSERVER", 1, "server 1"), ("TRAINER", 0, "worker 0"), ("TRAINER", 1, "worker 1")],
)
def test_who_was_killed_is_blamed(tmp_path, role, rank, name):
    with fleet2(tmp_path, *SERVERS, **LONG) as job:
        job.wait_for("workerlog.0", "loss", 3)
        job.kill(role, rank)
        assert job.end() == 137, job.logs()
        assert f"error: {name} (of 2) was ended by signal 9 (SIGKILL)" in job.said(), job.logs()
        job.assert_nobody_is_left()


@pytest.mark.parametrize(
    ("role", "rank", "name"),
    [("HETER_TRAINER", 0, "heter worker 0 (of 1)"), ("TRAINER", 1, "worker 1 (of 2)")],
)
def test_who_was_killed_is_blamed_with_heter_workers(tmp_path, role, rank, name):
    counts = ("--server_num=1", "--worker_num=2", "--heter_worker_num=1")
    script = EXAMPLES / "heter_ctr.py"
    with Fleetrun(tmp_path, *counts, script, HETER_SYNC="1", STEPS="1000000") as job:
        job.wait_for("workerlog.0", "loss", 3)
        job.kill(role, rank)
        assert job.end() == 137, job.logs()
        assert f"error: {name} was ended by signal 9 (SIGKILL)" in job.said(), job.logs()
        job.assert_nobody_is_left()


FAILING = """
import os
import numpy as np
import paddle
from paddle.distributed import fleet
import ctr_model

paddle.enable_static()
embed = paddle.nn.Embedding(ctr_model.IDS, ctr_model.WIDTH, sparse=True)
prediction, loss = ctr_model.network(embed)
fleet.init(is_collective=os.environ["JOB_KIND"] == "collective")
fleet.distributed_optimizer(paddle.optimizer.SGD(0.1)).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    if os.environ["JOB_WHO"] == f"server {fleet.server_index()}":
        raise KeyError("no such shelf")
    fleet.run_server()
    raise SystemExit
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
fleet.init_worker()
who = f"worker {fleet.worker_index()}"
for step, feed in enumerate(ctr_model.batches(100000, fleet.worker_index(), fleet.worker_num())):
    if step == 4 and os.environ["JOB_WHO"] == who:
        raise KeyError("no such shelf")
    exe.run(feed=feed, fetch_list=[loss])
"""


@pytest.mark.parametrize(
    ("kind", "who"),
    [
        ("servers", "worker 0"),
        ("servers", "worker 1"),
        ("servers", "server 1"),
        ("collective", "worker 0"),
        ("collective", "worker 1"),
    ],
)
def test_whose_script_failed_is_blamed(tmp_path, kind, who):
    (tmp_path / "train.py").write_text(FAILING)
    counts = SERVERS if kind == "servers" else ("--nproc_per_node=2",)
    with Fleetrun(tmp_path, *counts, "train.py", JOB_KIND=kind, JOB_WHO=who) as job:
        assert job.end() == 1, job.logs()
        assert f"error: {who} (of 2) ended with exit code 1\n" in job.said(), job.logs()
        assert "KeyError: 'no such shelf'" in job.said(), job.logs()
        job.assert_nobody_is_left()
