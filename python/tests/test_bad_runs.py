"""Runs that end badly: Ctrl-C, exceptions of the user's functions, devices, lines in errors."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import bireme as paddle
import numpy as np
import pytest
from bireme import static


def start(code):
    """A process that runs `code`, up to the moment when it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert any("ready" in line for line in process.stdout)
    return process


ONE_LONG_STEP = """
import numpy as np, bireme as paddle
paddle.enable_static()
x = paddle.static.data("x", [1024, 1024])
y = paddle.static.Print(x, message="ready", summarize=1)
for _ in range(3000):
    y = paddle.matmul(y, x)
exe, feed = paddle.static.Executor(), {"x": np.ones([1024, 1024], "float32")}
exe.run(feed=feed, fetch_list=[y])
"""

WAITING_FOR_A_WORKER = """
import time
from bireme.io import DataLoader, Dataset
class Slow(Dataset):
    def __getitem__(self, idx):
        print("ready", flush=True)
        time.sleep(600)
    def __len__(self):
        return 4
list(DataLoader(Slow(), num_workers=1))
"""

LONG_EAGER_LOOP = """
import bireme as paddle
x = paddle.ones([512, 512])
print("ready", flush=True)
while True:
    x = paddle.matmul(x, x) * 0.001
"""


@pytest.mark.parametrize("code", [ONE_LONG_STEP, WAITING_FOR_A_WORKER, LONG_EAGER_LOOP])
def test_ctrl_c_ends_it_at_once(code):
    process = start(code)
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    errors, _ = process.communicate(timeout=30)
    # The machine may be busy; what is waited for would take minutes.
    assert time.monotonic() - sent < 20
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt") and "panicked" not in errors


def test_an_executor_works_after_an_interrupted_step():
    paddle.enable_static()
    x = static.data("x", [2])
    y = x
    for _ in range(100):
        y = paddle.scale(y, 1.0)
    exe, feed = static.Executor(), {"x": np.ones(2, "float32")}
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        with pytest.raises(KeyboardInterrupt):
            while True:
                exe.run(feed=feed, fetch_list=[y])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert exe.run(feed=feed, fetch_list=[y])[0].tolist() == [1.0, 1.0]


def here():
    return f"{__file__}:{sys._getframe(1).f_lineno}"


def test_an_op_that_does_not_fit_names_the_line_when_it_is_added():
    paddle.enable_static()
    x = static.data("x", [None, 3])
    other = paddle.ones([4, 2])
    with pytest.raises(ValueError, match="op `matmul_v2`") as caught:
        paddle.matmul(x, other)
    assert f"{__file__}:{caught.traceback[0].lineno + 1}" in str(caught.value)


def test_an_op_that_fails_in_a_run_names_the_line_that_added_it():
    paddle.enable_static()
    ids = static.data("ids", [None], "int64")
    where, rows = here(), static.nn.embedding(ids, [10, 4])
    exe = static.Executor()
    exe.run(static.default_startup_program())
    with pytest.raises(ValueError, match="id 99 at position 0") as caught:
        exe.run(feed={"ids": np.array([99])}, fetch_list=[rows])
    assert where in str(caught.value)


def fail(*_args):
    raise ZeroDivisionError("on purpose")


def test_exceptions_of_hooks_arrive_with_their_traceback():
    layer = paddle.nn.Linear(2, 2)
    x = paddle.ones([1, 2])
    for register in (layer.register_forward_pre_hook, layer.register_forward_post_hook):
        hook = register(fail)
        with pytest.raises(ZeroDivisionError) as caught:
            layer(x)
        assert caught.traceback[-1].name == "fail"
        hook.remove()
    out = layer(x)
    out.register_hook(fail)
    with pytest.raises(ZeroDivisionError) as caught:
        out.backward()
    assert caught.traceback[-1].name == "fail"


def test_a_gradient_hook_cannot_change_the_shape():
    x = paddle.ones([2])
    x.stop_gradient = False
    y = x * 2.0
    y.register_hook(lambda _: paddle.ones([7]))
    with pytest.raises(ValueError, match=r"shape \[2\] cannot be float32 of shape \[7\]"):
        y.backward()


ON_A_GPU = """
import bireme as paddle
paddle.enable_static()
for _ in range(3):
    paddle.static.Executor(paddle.CUDAPlace(0)).run(paddle.static.Program())
paddle.set_device("gpu")
paddle.to_tensor([1.0], place="gpu:0")
"""


@pytest.mark.parametrize(("device", "code"), [(None, 1), ("cpu", 0)])
def test_a_gpu_is_an_error_or_the_cpu_with_one_warning(device, code):
    if paddle.is_compiled_with_cuda():
        pytest.skip("there is a GPU")
    asked = {} if device is None else {"BIREME_DEVICE": device}
    done = subprocess.run(
        [sys.executable, "-c", ON_A_GPU],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.count("RuntimeWarning") == code ^ 1
    assert code == 0 or "GPU 0 cannot be used" in done.stderr


@pytest.mark.parametrize(
    "use", [float, int, len, list, np.array, lambda x: x.numpy(), lambda x: x.tolist()]
)
def test_a_variable_of_a_program_has_no_value(use):
    paddle.enable_static()
    x = static.data("x", [None, 3])
    with pytest.raises((TypeError, AttributeError, ValueError), match="`x`|tolist|size of axis 0"):
        use(x)
