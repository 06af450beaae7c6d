"""Data parallel training among real processes equals one process with all the data."""

import json
import os
import signal

import numpy as np
import pytest
from running_jobs import Job, free_ports, losses
from running_ranks import environments, run_ranks, run_well
from test_collective import HEAD


def parameters(folder, how, ranks):
    """The parameters of each rank after training."""
    run_well(folder, "data_parallel.py", ranks, {"JOB_HOW": how, "JOB_OUT": f"{folder}/"})
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(ranks)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Trains one process with all the data, each way once."""
    known = {}

    def train(how):
        if how not in known:
            known[how] = parameters(tmp_path_factory.mktemp("alone"), how, 1)[0]
        return known[how]

    return train


@pytest.mark.parametrize(
    ("how", "ranks"),
    [
        ("plain", 2),
        ("plain", 3),
        ("sparse", 2),
        ("no_sync", 2),
        ("unused", 2),
        ("sparse unused", 2),
        ("fleet clip", 2),
        ("fleet merge", 2),
    ],
)
def test_ranks_are_equal_to_the_bit_and_to_one_process(tmp_path, alone, how, ranks):
    found = parameters(tmp_path, how, ranks)
    for other in found[1:]:
        for name, value in found[0].items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)
    expected = alone(how)
    assert found[0].keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[0][name], value, atol=1e-5, err_msg=name)


def test_a_head_that_one_rank_alone_uses_has_the_average_everywhere(tmp_path):
    first, second = parameters(tmp_path, "unused uneven", 2)
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_parameter_without_a_part_in_the_loss_is_named(tmp_path):
    script = f"""{HEAD}
dist.init_parallel_env()
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.used = paddle.nn.Linear(2, 1)
        self.unused = paddle.nn.Linear(2, 1)
    def forward(self, x):
        return self.used(x)
model = paddle.DataParallel(Net())
try:
    model(paddle.ones([1, 2])).backward()
except ValueError as error:
    assert "does not depend on parameter `linear_1.w_0`, `linear_1.b_0`" in str(error), error
    assert "`find_unused_parameters=True`" in str(error)
    print("refused")
dist.barrier()
"""
    assert all("refused" in output for output in run_well(tmp_path, script, 2))


def test_different_models_are_refused(tmp_path):
    script = f"""{HEAD}
dist.init_parallel_env()
paddle.DataParallel(paddle.nn.Linear(2, 1 + dist.get_rank()))
"""
    ended, outputs = run_ranks(tmp_path, script, 2, seconds=60)
    assert all(ended.values())
    text = "rank 1 has another model than rank 0: its tensor 0 is float32 of shape [2, 2]"
    assert any(text in output for output in outputs.values()), outputs


def test_tools_of_fleet_work_among_ranks(tmp_path):
    script = f"""{HEAD}
from paddle.distributed import fleet
fleet.init(is_collective=True)
me, size = fleet.worker_index(), fleet.worker_num()
assert fleet.util.all_reduce([me, 1]).tolist() == [3, 3]
assert fleet.util.all_reduce(np.array([me]), "max").tolist() == [2]
assert fleet.util.all_gather("rank %d" % me) == ["rank 0", "rank 1", "rank 2"]
fleet.util.barrier()
fleet.barrier_worker()
assert fleet.metrics.acc(np.array([me]), np.array([me + 1])) == 0.5
assert fleet.all_reduce(np.array([1.5])).tolist() == [4.5]
assert fleet.util.get_file_shard(list("abcd")) == [["a", "b"], ["c"], ["d"]][me]
assert isinstance(fleet.distributed_model(paddle.nn.Linear(1, 1)), paddle.DataParallel)
"""
    run_well(tmp_path, script, 3)


def test_workers_without_servers_are_told_to_be_collective(tmp_path):
    script = f"""{HEAD}
paddle.distributed.fleet.init()
"""
    ended, outputs = run_ranks(tmp_path, script, 2)
    assert all(ended.values())
    for output in outputs.values():
        assert "there are 2 workers and no servers: call `fleet.init(is_collective=True)`" in output


@pytest.mark.parametrize("kind", ["sync", "task", "backward"])
def test_ctrl_c_ends_a_wait(tmp_path, kind):
    calls = {
        "sync": "dist.all_reduce(x)",
        "task": "dist.all_reduce(x, sync_op=False).wait()",
        "backward": "model(paddle.ones([1, 2])).backward()",
    }
    script = f"""{HEAD}
import time
dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Linear(2, 1))
x = paddle.ones([3])
dist.barrier()
print("ready", flush=True)
if dist.get_rank() == 0:
    {calls[kind]}
else:
    time.sleep(60)
"""
    with Job(tmp_path) as job:
        for name, environment in environments(free_ports(2)).items():
            job.start(name, script, environment)
        job.wait_for("rank 0", "ready")
        job.wait_for("rank 1", "ready")
        # It may not wait yet: then Ctrl-C comes before the wait, and ends it as well.
        job.processes["rank 0"].send_signal(signal.SIGINT)
        job.processes["rank 0"].wait(60)
        assert "KeyboardInterrupt" in job.output("rank 0")
        assert job.processes["rank 0"].returncode in (-signal.SIGINT, 130)


def test_static_programs_make_the_same_calls(tmp_path):
    script = f"""{HEAD}
paddle.enable_static()
me = dist.get_rank()
x = paddle.static.data("x", [2], "float32")
y = x * 1.0
dist.all_reduce(y)
parts = []
dist.all_gather(parts, x * 2.0)
z = x + 0.0
dist.broadcast(z, src=1)
exe = paddle.static.Executor()
values = exe.run(feed={{"x": np.array([me, 1.0], "float32")}}, fetch_list=[y, *parts, z])
assert [value.tolist() for value in values] == [[1, 2], [0, 2], [2, 2], [1, 1]], values
"""
    run_well(tmp_path, script, 2)


def test_losses_fall(tmp_path):
    outputs = run_well(
        tmp_path, "data_parallel.py", 2, {"JOB_HOW": "plain", "JOB_OUT": f"{tmp_path}{os.sep}"}
    )
    for output in outputs:
        assert len(losses(output)) == 6


def test_models_are_fitted_by_ranks_together(tmp_path):
    results = []
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        outputs = run_well(folder, "model_fit.py", count)
        found = [line for output in outputs for line in output.splitlines() if "RESULT" in line]
        assert len(found) == count
        results += [json.loads(line.split("RESULT", 1)[1]) for line in found]
        # Only the first rank prints; samples that fill up the shares do not count.
        shown = [output.count("Eval samples: 5") for output in outputs]
        assert shown == [1] + [0] * (count - 1)
    alone, *together = results
    for one in together:
        assert one["acc"] == alone["acc"]
        np.testing.assert_allclose(one["weights"], alone["weights"], rtol=1e-3, atol=1e-5)
