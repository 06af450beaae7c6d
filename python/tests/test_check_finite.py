"""NaN and infinity are errors where that is asked for, and never reach parameter servers."""

import os
import subprocess
import sys

import bireme as paddle
import numpy as np
import pytest
from running_jobs import Job, roles


@pytest.fixture
def checked():
    paddle.set_flags({"FLAGS_check_nan_inf": 1})
    yield
    paddle.set_flags({"FLAGS_check_nan_inf": 0})


def _program():
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [None, 2])
        out = paddle.mean(paddle.log(x))
    return main, out


def test_an_executor_obeys_the_flag_at_once():
    paddle.enable_static()
    main, out = _program()
    exe = paddle.static.Executor(paddle.CPUPlace())
    bad = {"x": np.array([[1, -1]], "float32")}
    (value,) = exe.run(main, feed=bad, fetch_list=[out])
    assert np.isnan(value).all()
    paddle.set_flags({"FLAGS_check_nan_inf": True})
    try:
        assert paddle.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": True}
        with pytest.raises(RuntimeError, match="op `log`.* produced NaN"):
            exe.run(main, feed=bad, fetch_list=[out])
        exe.run(main, feed={"x": np.ones([1, 2], "float32")}, fetch_list=[out])
    finally:
        paddle.set_flags({"FLAGS_check_nan_inf": False})
    exe.run(main, feed=bad, fetch_list=[out])
    paddle.disable_static()


def test_eager_ops_and_gradients_obey_the_flag(checked):
    x = paddle.to_tensor([1.0, 0.0], stop_gradient=False)
    with pytest.raises(RuntimeError, match="op `log` produced infinity in `Out`"):
        paddle.log(x)
    root = paddle.sqrt(x)
    with pytest.raises(RuntimeError, match="op `sqrt` produced infinity"):
        root.sum().backward()


@pytest.mark.parametrize(("value", "code"), [("1", 1), ("0", 0)])
def test_the_environment_sets_the_flag(value, code):
    script = "import bireme as paddle; paddle.log(paddle.to_tensor([-1.0]))"
    environment = {**os.environ, "FLAGS_check_nan_inf": value}
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stderr
    assert ("op `log` produced NaN" in ended.stderr) == bool(code)


@pytest.mark.parametrize("mode", ["sync", "async", "half_async", "geo", "hybrid"])
def test_a_poisoned_batch_never_reaches_the_servers(tmp_path, mode):
    embedding = "layer" if mode == "geo" else "sparse_embedding"
    options = {"JOB_MODE": mode, "JOB_EMBEDDING": embedding, "JOB_POISON": "3"}
    with Job(tmp_path) as job:
        for name, environment in roles(1, 1).items():
            job.start(name, "fleet2.py", {**environment, **options})
        ended = job.ends()
        said = job.output("trainer 0")
    assert ended["trainer 0"] != 0, said
    assert "has NaN" in said, said
    assert "was not sent to the servers: check what is fed" in said, said
    assert "trainer 0 of 1: step 4:" in said, said
