"""Types, places, flags, modes of gradients, and other small things of `paddle.*`."""

import subprocess
import sys

import bireme as paddle
import numpy as np
import pytest


def test_dtypes_are_names_and_types():
    assert str(paddle.float32) == "paddle.float32"
    assert paddle.float32 == "float32"
    assert paddle.int64 == np.dtype("int64")
    assert (paddle.iinfo("uint8").max, paddle.iinfo(paddle.int64).bits) == (255, 64)
    assert paddle.finfo(paddle.bfloat16).eps == 0.0078125
    assert paddle.finfo("float16").max == 65504.0
    with pytest.raises(ValueError, match="use `finfo`"):
        paddle.iinfo("float32")
    with pytest.raises(ValueError, match="use `iinfo`"):
        paddle.finfo("int8")


def test_default_dtype():
    paddle.set_default_dtype(np.float64)
    assert paddle.get_default_dtype() == "float64"
    with pytest.raises(TypeError, match="must be float16, float32, float64 or bfloat16, not int64"):
        paddle.set_default_dtype("int64")
    assert paddle.get_default_dtype() == "float64"


def test_param_attr_is_made_of_what_users_pass():
    attr = paddle.ParamAttr
    assert attr._to_attr("w").name == "w"
    assert attr._to_attr(None).name is None
    assert attr._to_attr(False) is False
    assert attr._to_attr(True).trainable is True
    decay = paddle.regularizer.L2Decay(0.1)
    assert attr._to_attr(decay).regularizer is decay
    assert [a.name for a in attr._to_attr(["a", "b"])] == ["a", "b"]
    with pytest.raises(TypeError, match="cannot make a ParamAttr of int"):
        attr._to_attr(3)
    with pytest.raises(TypeError, match="`learning_rate` of a ParamAttr must be float or int"):
        attr(learning_rate="fast")
    with pytest.raises(ValueError, match="must not be empty"):
        attr(name="")


def test_flags():
    with pytest.raises(ValueError, match="nearest: `FLAGS_benchmark`"):
        paddle.set_flags({"FLAGS_benchmarks": True})
    with pytest.raises(ValueError, match="flag `FLAGS_zzz` is not in Bireme"):
        paddle.get_flags("FLAGS_zzz")
    with pytest.raises(NotImplementedError, match="can only be True"):
        paddle.set_flags({"FLAGS_cudnn_deterministic": 0})
    with pytest.raises(ValueError, match="must be 0 or 1, not 'maybe'"):
        paddle.set_flags({"FLAGS_check_nan_inf": "maybe"})
    paddle.set_flags({"FLAGS_cudnn_deterministic": 1, "FLAGS_check_nan_inf": False})
    assert paddle.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": False}


def test_grad_modes_nest_and_decorate():
    seen = []

    @paddle.no_grad()
    def inside(depth):
        seen.append(paddle.is_grad_enabled())
        if depth:
            inside(depth - 1)

    @paddle.no_grad
    def numbers():
        for i in range(2):
            seen.append(paddle.is_grad_enabled())
            yield i

    inside(1)
    for _ in numbers():
        seen.append(paddle.is_grad_enabled())
    assert seen == [False, False, False, True, False, True]
    with pytest.raises(KeyError), paddle.no_grad():
        raise KeyError
    assert paddle.is_grad_enabled()
    paddle.set_grad_enabled(False)
    assert not paddle.is_grad_enabled()
    paddle.set_grad_enabled(True)
    assert inside.__name__ == "inside"


def test_grad_checks_its_arguments():
    x = paddle.to_tensor([1.0], stop_gradient=False)
    with pytest.raises(NotImplementedError, match="`only_inputs` must be True"):
        paddle.grad(x, x, only_inputs=False)
    with pytest.raises(ValueError, match="has 2 tensors, but there are 1 outputs"):
        paddle.grad(x, x, grad_outputs=[x, x])


def test_devices():
    assert paddle.device.cuda.device_count() == 0
    assert isinstance(paddle.set_device("cpu"), paddle.CPUPlace)
    for wrong in ("cpu:0", "gpu:x", "tpu"):
        with pytest.raises(ValueError, match=f"device `{wrong}`"):
            paddle.set_device(wrong)
    with pytest.raises(TypeError, match="must be a string"):
        paddle.set_device(0)


@pytest.mark.parametrize("code", ["paddle.CUDAPlace(0)", "paddle.set_device('gpu')"])
def test_gpu_without_one_says_so(code, monkeypatch):
    with pytest.raises(RuntimeError, match="BIREME_DEVICE=cpu"):
        eval(code, {"paddle": paddle})
    monkeypatch.setenv("BIREME_DEVICE", "cpu")
    program = f"import bireme as paddle; {code}; {code}; print(paddle.get_device())"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "cpu\n"
    assert result.stderr.lower().count("warning") == 1


def test_unique_names():
    unique = paddle.utils.unique_name
    with unique.guard():
        outer = unique.generate("fc")
        with unique.guard(b"A_"):
            assert unique.generate("fc") == "A_fc_0"
        assert (outer, unique.generate("fc")) == ("fc_0", "fc_1")


def test_versions():
    assert paddle.version.full_version == "2.6.2"
    paddle.utils.require_version("2.6", "2.6.2")
    with pytest.raises(RuntimeError, match="2.5 or lower is required"):
        paddle.utils.require_version("2.0", "2.5")
    with pytest.raises(ValueError, match="one to four numbers"):
        paddle.utils.require_version("two")
    with pytest.raises(ImportError, match="pip install opencv-python"):
        paddle.utils.try_import("cv2")


def test_import_is_quick_and_light():
    code = (
        "import sys, time, numpy; start = time.process_time(); import bireme;"
        "print(time.process_time() - start, *sys.modules)"
    )
    taken, *modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    # The budget is 0.15 s with NumPy's 0.07 s; time of the processor, as machines are busy.
    assert float(taken) < 0.3
    heavy = {
        "multiprocessing",
        "urllib.request",
        "gzip",
        "ast",
        "asyncio",
        "bireme.nn",
        "bireme.jit",
    }
    assert not heavy.intersection(set(modules) - numpy_modules())


def numpy_modules():
    """What NumPy has imported by itself."""
    code = "import sys, numpy; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_scripts_that_compare_versions_find_the_api():
    assert [int(part) for part in paddle.__version__.split(".")[:2]] == [2, 6]
    assert paddle.__version__.endswith(paddle.version.bireme_version)
