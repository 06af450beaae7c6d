"""Programs of collective jobs among real processes equal one process with all the data."""

import os

import numpy as np
import pytest
from running_jobs import Job, free_ports
from running_ranks import environments, run_ranks, run_well
from test_guides import LOG_LINE, expect_checksums_of, listing, write_digits


def parameters(folder, how, ranks):
    """The parameters of each rank after training."""
    run_well(folder, "static_ranks.py", ranks, {"JOB_HOW": how, "JOB_OUT": f"{folder}/"})
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(ranks)]


@pytest.mark.parametrize(
    ("how", "ranks"),
    [
        ("fleet", 2),
        ("fleet", 3),
        ("fleet apart", 2),
        ("fleet sparse", 2),
        ("fleet clip", 2),
        ("fleet merge", 2),
        ("fleet local", 2),
        ("incubate", 2),
        ("collective", 2),
        ("collective local", 2),
        ("nccl2", 2),
        ("nccl2 parallel", 2),
    ],
)
def test_ranks_are_equal_to_the_bit_and_to_one_process(tmp_path, how, ranks):
    (tmp_path / "alone").mkdir()
    found = parameters(tmp_path, how, ranks)
    for other in found[1:]:
        for name, value in found[0].items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)
    # Names of startup values: rank 0's seed is that of a process alone.
    expected = parameters(tmp_path / "alone", how, 1)[0]
    assert found[0].keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[0][name], value, atol=1e-5, err_msg=name)


DUMP = """
import atexit, os
import numpy as np

@atexit.register
def dump():
    import bireme as paddle
    scope, main = paddle.static.global_scope(), paddle.static.default_main_program()
    found = {p.name: np.array(scope.find_var(p.name).get_tensor()) for p in main.all_parameters()}
    np.savez(f"rank{os.environ['PADDLE_TRAINER_ID']}.npz", **found)
"""


def test_the_guides_digits_train_in_two_processes(tmp_path):
    script = listing("fleetrun_mnist.rst", ".. code:: py\n", r"^单机单卡训练$")
    write_digits(tmp_path / "home" / "mnist")
    expect_checksums_of(tmp_path / "home" / "mnist", tmp_path / "site")
    with open(tmp_path / "site" / "sitecustomize.py", "a") as site:
        site.write(DUMP)
    options = {
        "BIREME_DEVICE": "cpu",
        "BIREME_DATA_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), os.environ["PYTHONPATH"]]),
    }
    with Job(tmp_path) as job:
        for name, environment in environments(free_ports(2)).items():
            job.start(name, script, {**environment, **options})
        ended = job.ends(300)
        outputs = [job.output(name) for name in ended]
    assert not any(ended.values()), "\n".join(outputs)
    for output in outputs:
        lines = [LOG_LINE.fullmatch(line) for line in output.splitlines()]
        losses = [float(line[3]) for line in lines if line]
        assert len(losses) == 10 and losses[-1] < losses[0], output
    first, second = (dict(np.load(tmp_path / f"rank{rank}.npz")) for rank in range(2))
    assert first.keys() == second.keys() and len(first) == 6
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_rank_that_fails_ends_the_others(tmp_path):
    script = """
import os
import numpy as np
import paddle
import paddle.distributed.fleet as fleet
paddle.enable_static()
x = paddle.static.data("x", [None, 2], "float32")
loss = paddle.mean(paddle.static.nn.fc(x, 1))
fleet.init(is_collective=True)
fleet.distributed_optimizer(paddle.optimizer.SGD(0.1)).minimize(loss)
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
for step in range(100):
    if step == 3 and os.environ["PADDLE_TRAINER_ID"] == "1":
        raise ValueError("this rank has had enough")
    exe.run(feed={"x": np.ones([4, 2], "float32")}, fetch_list=[loss])
"""
    with Job(tmp_path) as job:
        for name, environment in environments(free_ports(2)).items():
            job.start(name, script, environment)
        ended = job.ends(60)
        outputs = {name: job.output(name) for name in ended}
    assert all(ended.values()), outputs
    assert "this rank has had enough" in outputs["rank 0"], outputs["rank 0"]


def test_ranks_with_other_learning_rates_are_refused(tmp_path):
    script = """
import os
import numpy as np
import paddle
import paddle.distributed.fleet as fleet
paddle.enable_static()
x = paddle.static.data("x", [None, 2], "float32")
loss = paddle.mean(paddle.static.nn.fc(x, 1))
fleet.init(is_collective=True)
rate = 0.5 * (1 + int(os.environ["PADDLE_TRAINER_ID"]))
fleet.distributed_optimizer(paddle.optimizer.SGD(rate)).minimize(loss)
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
exe.run(feed={"x": np.ones([4, 2], "float32")}, fetch_list=[loss])
"""
    ended, outputs = run_ranks(tmp_path, script, 2, seconds=60)
    assert all(ended.values()), outputs
    for output in outputs.values():
        assert "learning rate 0 is [1.0] on rank 1, [0.5] on rank 0" in output, output
