"""What goes wrong with a card is one clear line, and leaves files whole."""

import sys
from pathlib import Path

import pytest
from running_cards import emulator, last_line, printed
from test_card_static import MODEL


def test_no_driver():
    import subprocess

    code = "import bireme; bireme.CUDAPlace(0)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    if done.returncode == 0:
        pytest.skip("there is a GPU")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("bireme.UnavailableError: GPU 0 cannot be used: no NVIDIA driver"), last
    assert "use `CPUPlace()`, or set BIREME_DEVICE=cpu" in last


def test_an_old_driver():
    last = last_line(
        """
        import bireme as paddle
        control("set_driver_version", 12080)
        assert not paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count() == 0
        paddle.set_device("gpu")
        """
    )
    assert "the NVIDIA driver is too old: it supports CUDA 12.8, and 13.0 (driver 580)" in last


def test_a_card_that_is_not_there():
    assert "there is no card 77: this machine has" in last_line(
        "import bireme; bireme.CUDAPlace(77)"
    )
    assert "this machine has 0" in last_line(
        """
        import bireme as paddle
        control("set_count", 0)
        assert not paddle.is_compiled_with_cuda()
        paddle.CUDAPlace(0)
        """
    )


def test_no_products(tmp_path):
    # A folder with the driver alone.
    (tmp_path / "libcuda.so.1").symlink_to(Path(emulator(), "libcuda.so"))
    (tmp_path / "libcuda.so").symlink_to(Path(emulator(), "libcuda.so"))
    # Products with few rows are kernels of our own.
    last = last_line(
        MODEL
        + """
_, _, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
exe.run(main, feed=batch(0, 2000), scope=scope)
""",
        tmp_path,
        BIREME_CUDA_LIBRARIES=str(tmp_path),
    )
    assert "`libcublasLt.so.13` was not found; install it with `pip install nvidia-cublas`" in last


def test_out_of_memory_says_the_plan_and_what_would_fit():
    last = last_line(
        MODEL
        + """
control("set_memory", 256 << 20)
_, _, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
exe.run(main, feed=batch(0, 600_000), scope=scope)
"""
    )
    assert last.startswith(
        "bireme.ResourceExhaustedError: the card is out of memory: a step with a batch of"
    ), last
    assert "(parameters " in last and "; a batch of at most " in last, last


def test_a_table_too_large_stays_on_the_host_with_a_warning():
    text = printed(
        """
        import warnings
        import numpy as np
        import bireme as paddle
        import bireme.static as static
        paddle.enable_static()
        control("set_memory", 64 << 10)
        ids = static.data("ids", [None, 2], "int64")
        rows = static.nn.embedding(ids, [5000, 8], is_sparse=True)
        loss = paddle.mean(static.nn.fc(paddle.reshape(rows, [-1, 16]), 1))
        paddle.optimizer.SGD(0.5).minimize(loss)
        def run(place):
            with static.scope_guard(static.Scope()):
                exe = static.Executor(place)
                static.default_startup_program().random_seed = 3
                exe.run(static.default_startup_program())
                feed = {"ids": np.arange(12).reshape(6, 2)}
                return [exe.run(feed=feed, fetch_list=[loss])[0] for _ in range(3)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            card = run(paddle.CUDAPlace(0))
        print(caught[-1].message)
        np.testing.assert_allclose(card, run(paddle.CPUPlace()), atol=1e-5)
        """
    )
    assert text.startswith("the card has no memory for `embedding_0.w_0` ("), text


def test_an_id_outside_of_its_table_is_named():
    last = last_line(
        MODEL
        + """
_, _, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
feed = batch(0)
feed["ids"][3, 1] = 50
exe.run(main.clone(for_test=True), feed=feed, fetch_list=[out], scope=scope)
"""
    )
    assert "50" in last and "InvalidArgumentError" in last and "op `" in last, last


def test_nan_is_named_with_its_op():
    last = last_line(
        """
        import numpy as np
        import bireme as paddle
        paddle.enable_static()
        paddle.set_flags({"FLAGS_check_nan_inf": 1})
        x = paddle.static.data("x", [None, 2], "float32")
        y = paddle.log(x)
        z = y * 2.0
        exe = paddle.static.Executor(paddle.CUDAPlace(0))
        exe.run(feed={"x": np.ones([2, 2], "float32")}, fetch_list=[z])
        exe.run(feed={"x": -np.ones([2, 2], "float32")}, fetch_list=[z])
        """
    )
    assert "step 2: op `log` created at" in last and "produced NaN" in last, last


def test_a_lost_card_leaves_files_whole(tmp_path):
    text = printed(
        MODEL
        + """
control("set_quiet", 1)
_, values, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
with static.scope_guard(scope):
    static.save(main, "saved/model")
    before = open("saved/model.pdparams", "rb").read()
    exe.run(main, feed=batch(7))
    control("lose")
    for work in (
        lambda: exe.run(main, feed=batch(8)),
        lambda: static.save(main, "saved/model"),
        lambda: paddle.device.cuda.synchronize(),
    ):
        try:
            work()
        except paddle.BiremeError as error:
            print(error)
        else:
            raise AssertionError("nobody noticed")
assert open("saved/model.pdparams", "rb").read() == before
with static.scope_guard(static.Scope()):
    cpu = static.Executor(paddle.CPUPlace())
    static.load(main, "saved/model", cpu)
    cpu.run(main, feed=batch(8))
""",
        tmp_path,
    )
    lines = text.splitlines()
    assert len(lines) == 3 and all("the card is lost" in line for line in lines), text


def test_a_kernel_that_fails_is_named():
    last = last_line(
        MODEL
        + """
control("set_quiet", 1)
_, _, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
control("fail_launch", 3)
for at in range(3):
    exe.run(main.clone(for_test=True), feed=batch(at), fetch_list=[out], scope=scope)
"""
    )
    assert "a kernel failed on the card" in last, last
