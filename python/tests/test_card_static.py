"""Programs on the emulated card, from Python: the same values as on the host."""

import os
import re

import numpy as np
import pytest
import test_guides
from running_cards import emulator, on_card, printed

# A click model with a table, trained for some steps: `train(place)` returns losses and parameters.
MODEL = """
import numpy as np
import bireme as paddle
import bireme.static as static

def build(lr=0.1):
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 7
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        ids = static.data("ids", [None, 4], "int64")
        label = static.data("label", [None, 1], "float32")
        rows = static.nn.embedding(ids, [50, 8], is_sparse=True)
        hidden = static.nn.fc(paddle.reshape(rows, [-1, 32]), 16, activation="relu")
        out = paddle.nn.functional.sigmoid(static.nn.fc(hidden, 1))
        loss = paddle.mean(paddle.nn.functional.log_loss(out, label))
        paddle.optimizer.Adam(lr).minimize(loss)
    return main, startup, out, loss

def batch(step, rows=16):
    random = np.random.default_rng(step)
    ids = random.integers(0, 50, [rows, 4])
    return {"ids": ids, "label": (ids[:, :1] % 2).astype("float32")}

def train(place, steps=4):
    main, startup, out, loss = build()
    scope = static.Scope()
    with static.scope_guard(scope):
        exe = static.Executor(place)
        exe.run(startup)
        losses = [exe.run(main, feed=batch(at), fetch_list=[loss])[0] for at in range(steps)]
    names = [v.name for v in main.list_vars() if v.persistable]
    values = {n: np.array(scope.find_var(n).get_tensor()) for n in names}
    return np.ravel(losses), values, (main, out, scope, exe)
"""


def test_training_equals_the_host():
    text = printed(
        MODEL
        + """
host, mine, _ = train(paddle.CPUPlace())
card, theirs, _ = train(paddle.CUDAPlace(0))
np.testing.assert_allclose(card, host, rtol=0, atol=1e-5)
assert mine.keys() == theirs.keys() and len(mine) > 10
for name in mine:
    np.testing.assert_allclose(theirs[name], mine[name], rtol=0, atol=1e-4, err_msg=name)
print(paddle.device.cuda.memory_allocated() > 0)
"""
    )
    assert text == "True\n"


def test_the_device_that_is_chosen():
    text = printed(
        """
        import bireme as paddle
        print(paddle.get_device(), paddle.is_compiled_with_cuda(), paddle.static.cuda_places())
        print(paddle.set_device("gpu"), paddle.get_device(), paddle.static.Executor().place)
        print(paddle.set_device("gpu:1"), paddle.get_device(), paddle.static.Executor("cpu").place)
        print(paddle.set_device("cpu"), paddle.get_device(), paddle.static.Executor().place)
        print(paddle.device.get_all_device_type(), paddle.device.get_available_device()[:2])
        place = paddle.CUDAPlace(0)
        print(place.is_gpu_place(), place.is_cpu_place(), place.get_device_id(), place.gpu_device_id())
        print(place == paddle.CUDAPlace(0), place == paddle.CUDAPlace(1), paddle.CUDAPinnedPlace())
        """
    )
    assert text.splitlines() == [
        f"cpu True [{', '.join(f'Place(gpu:{n})' for n in range(count(text)))}]",
        "Place(gpu:0) gpu:0 Place(gpu:0)",
        "Place(gpu:1) gpu:1 Place(cpu)",
        "Place(cpu) cpu Place(cpu)",
        "['cpu', 'gpu'] ['cpu', 'gpu:0']",
        "True False 0 0",
        "True False Place(gpu_pinned)",
    ]


def count(text):
    return text.splitlines()[0].count("gpu:")


def test_what_device_cuda_says():
    printed(
        MODEL
        + """
cuda = paddle.device.cuda
assert cuda.device_count() >= 2
found = cuda.get_device_properties("gpu:0")
assert found.name == cuda.get_device_name(0) == "emulated card", found
assert (found.major, found.minor) == cuda.get_device_capability() >= (8, 0)
assert found.total_memory > 1 << 20 and found.multi_processor_count > 0
start = cuda.Event(enable_timing=True)
assert start.query() and start.synchronize() is None
start.record()
_, _, kept = train(paddle.CUDAPlace(0))
end = cuda.current_stream().record_event()
assert start.elapsed_time(end) >= 0 and start.elapsed_time(start) == 0
cuda.synchronize()
paddle.device.synchronize("gpu:0")
assert end.query() and cuda.current_stream().query()
used, peak = cuda.memory_allocated(), cuda.max_memory_allocated(0)
assert 0 < used <= peak and cuda.memory_reserved() >= used
assert cuda.max_memory_reserved() >= peak
del kept
import gc
gc.collect()
assert cuda.memory_allocated() < used
cuda.reset_max_memory_allocated()
cuda.reset_max_memory_reserved()
assert cuda.max_memory_allocated() == cuda.memory_allocated()
cuda.empty_cache()
with cuda.stream_guard(cuda.Stream()):
    cuda.current_stream().wait_stream(cuda.Stream(1))
for wrong in (-1, "cpu", 1.5):
    try:
        cuda.memory_allocated(wrong)
    except ValueError as error:
        assert "must be a GPU" in str(error)
    else:
        raise AssertionError(wrong)
"""
    )


def test_values_go_between_places():
    printed(
        MODEL
        + """
_, values, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
test = main.clone(for_test=True)
cpu = static.Executor(paddle.CPUPlace())
feed = batch(9)
with static.scope_guard(scope):
    of_card, = exe.run(test, feed=feed, fetch_list=[out])
    of_host, = cpu.run(test, feed=feed, fetch_list=[out])
    np.testing.assert_allclose(of_card, of_host, atol=1e-5)
    # What is set counts, on the next step.
    tensor = scope.find_var("fc_1.b_0").get_tensor()
    tensor.set(np.full([1], 100, "float32"), paddle.CUDAPlace(0))
    assert exe.run(test, feed=feed, fetch_list=[out])[0].min() > 0.99
    fetched, = exe.run(test, feed=feed, fetch_list=[out], return_numpy=False)
    assert np.array(fetched).shape == (16, 1)
    # A scalar list, a compiled program, a learning rate that changes.
    compiled = static.CompiledProgram(test)
    assert exe.run(compiled, feed=feed, fetch_list=[out.name])[0].shape == (16, 1)
"""
    )


def test_tensors_of_the_card_are_fed_where_they_are():
    printed(
        MODEL
        + """
_, _, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
test = main.clone(for_test=True)
feed = batch(9)
expected, = exe.run(test, feed=feed, fetch_list=[out], scope=scope)
paddle.disable_static()
paddle.set_device("gpu:0")
ids = paddle.to_tensor(feed["ids"]) * 1
label = paddle.to_tensor(feed["label"])
paddle.enable_static()
for _ in range(3):
    got, = exe.run(test, feed={"ids": ids, "label": label}, fetch_list=[out], scope=scope)
    assert (got == expected).all()
# An executor elsewhere takes copies; the type is checked as always.
paddle.disable_static()
narrow = ids.astype("int32")
paddle.enable_static()
got, = static.Executor("cpu").run(test, feed={"ids": ids, "label": label}, fetch_list=[out],
                                  scope=scope)
np.testing.assert_allclose(got, expected, atol=1e-5)
try:
    exe.run(test, feed={"ids": narrow, "label": label}, fetch_list=[out], scope=scope)
except ValueError as error:
    assert "feed `ids`: expected int64" in str(error)
else:
    raise AssertionError("int32 is taken for int64")
"""
    )


def test_files_are_the_same_from_every_place(tmp_path):
    printed(
        MODEL
        + """
import filecmp, os
_, values, (main, out, scope, exe) = train(paddle.CUDAPlace(0))
feeds = [main.global_block().var("ids")]
def save(folder, place):
    exe = static.Executor(place)
    with static.scope_guard(scope):
        static.save(main, f"{folder}/model")
        static.save_inference_model(f"{folder}/infer", feeds, [out], exe, program=main)
        paddle.fluid.io.save_persistables(exe, f"{folder}/vars", main)
        paddle.fluid.io.save_params(exe, f"{folder}/params", main, filename="all")
save("card", paddle.CUDAPlace(0))
# The same values, brought home before.
home = static.Scope()
for name, value in values.items():
    home.var(name).get_tensor().set(value, paddle.CPUPlace())
scope = home
save("host", paddle.CPUPlace())
files = [os.path.relpath(os.path.join(at, f), "card") for at, _, fs in os.walk("card") for f in fs]
assert len(files) > 10, files
same, differ, missing = filecmp.cmpfiles("card", "host", files, shallow=False)
assert not differ and not missing, (differ, missing)

# And back: what a host wrote a card loads.
fresh = static.Scope()
with static.scope_guard(fresh):
    other = static.Executor(paddle.CUDAPlace(0))
    static.load(main, "host/model", other)
    expected, = exe.run(main.clone(for_test=True), feed=batch(3), fetch_list=[out], scope=home)
    got, = other.run(main.clone(for_test=True), feed=batch(3), fetch_list=[out])
    np.testing.assert_allclose(got, expected, atol=1e-6)
    program, names, targets = static.load_inference_model("host/infer", other)
    got, = other.run(program, feed={names[0]: batch(3)["ids"]}, fetch_list=targets)
    np.testing.assert_allclose(got, expected, atol=1e-6)

config = paddle.inference.Config("host/infer.pdmodel", "host/infer.pdiparams")
config.enable_use_gpu(100, 0)
assert config.use_gpu()
predictor = paddle.inference.create_predictor(config)
got, = predictor.run([batch(3)["ids"]])
np.testing.assert_allclose(got, expected, atol=1e-6)
got, = predictor.clone().run([batch(3)["ids"]])
np.testing.assert_allclose(got, expected, atol=1e-6)
""",
        tmp_path,
    )


def test_a_saved_layer_runs_on_the_current_device(tmp_path):
    printed(
        """
        import numpy as np
        import bireme as paddle
        paddle.seed(3)
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 2))
        net.eval()
        x = np.random.default_rng(0).standard_normal([5, 4]).astype("float32")
        spec = [paddle.static.InputSpec([None, 4], "float32")]
        paddle.jit.save(paddle.jit.to_static(net, input_spec=spec), "saved/net")
        host = paddle.jit.load("saved/net")(paddle.to_tensor(x)).numpy()
        paddle.set_device("gpu:0")
        card = paddle.jit.load("saved/net")(paddle.to_tensor(x)).numpy()
        np.testing.assert_allclose(card, host, atol=1e-6)
        assert paddle.device.cuda.max_memory_allocated() > 0
        """,
        tmp_path,
    )


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_training_over_a_dataset(kind, tmp_path):
    lines = []
    random = np.random.default_rng(1)
    for _ in range(96):
        ids = random.integers(0, 50, 4)
        lines.append(f"4 {' '.join(map(str, ids))} 1 {ids[0] % 2}")
    for part in range(3):
        (tmp_path / f"part-{part}").write_text("\n".join(lines[part::3]) + "\n")
    printed(
        MODEL
        + f"""
def over_dataset(place, thread):
    main, startup, out, loss = build()
    scope = static.Scope()
    with static.scope_guard(scope), static.program_guard(main, startup):
        exe = static.Executor(place)
        exe.run(startup)
        dataset = paddle.distributed.{kind}()
        block = main.global_block()
        dataset.init(batch_size=8, thread_num=thread, use_var=[block.var("ids"), block.var("label")],
                     pipe_command="cat")
        dataset.set_filelist(["part-0", "part-1", "part-2"])
        if "{kind}" == "InMemoryDataset":
            dataset.load_into_memory()
        for _ in range(2):
            exe.train_from_dataset(main, dataset, thread=thread, fetch_list=[loss],
                                   fetch_info=["loss"], print_period=1)
        before = np.array(scope.find_var("fc_0.w_0").get_tensor())
        exe.infer_from_dataset(main.clone(for_test=True), dataset, thread=thread)
        after = np.array(scope.find_var("fc_0.w_0").get_tensor())
        assert (before == after).all()
    return after

host = over_dataset(paddle.CPUPlace(), 1)
card = over_dataset(paddle.CUDAPlace(0), 1)
np.testing.assert_allclose(card, host, atol=1e-4)
# As many readers as there are files; one thread trains, so that it is the same each time.
first = over_dataset(paddle.CUDAPlace(0), 3)
assert (first == over_dataset(paddle.CUDAPlace(0), 3)).all()
""",
        tmp_path,
    )


def test_flags_and_environment(tmp_path):
    printed(
        """
        import bireme as paddle
        assert paddle.get_flags("FLAGS_allow_tf32") == {"FLAGS_allow_tf32": True}
        paddle.set_flags({"FLAGS_allow_tf32": 0})
        assert paddle.get_flags("FLAGS_allow_tf32") == {"FLAGS_allow_tf32": False}
        """,
        FLAGS_allow_tf32="1",
    )
    done = on_card(
        """
        import bireme as paddle
        print(paddle.set_device("gpu"), paddle.get_device(), paddle.is_compiled_with_cuda())
        print(paddle.static.Executor(paddle.CUDAPlace(0)).run(paddle.static.Program()))
        print(paddle.device.cuda.device_count())
        """,
        BIREME_DEVICE="cpu",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Place(gpu:0) cpu False\n[]\n0\n"
    assert done.stderr.count("RuntimeWarning") == 1


def test_the_guide_for_mnist_has_the_losses_of_the_host(tmp_path):
    script = test_guides.listing("fleetrun_mnist.rst", ".. code:: py\n", r"^单机单卡训练$")
    # An emulated card is slow: fewer steps, all of which are printed.
    script = script.replace("epoch = 10", "epoch = 2").replace("step % 200", "step % 1")
    script = "import numpy; numpy.random.seed(1)\n" + script.replace("\nimport os", "import os", 1)
    test_guides.write_digits(tmp_path / "home" / "mnist", images=6 * 64)
    test_guides.expect_checksums_of(tmp_path / "home" / "mnist", tmp_path / "site")
    path = os.pathsep.join([str(tmp_path / "site"), os.environ["PYTHONPATH"]])
    home = {"BIREME_DATA_HOME": str(tmp_path / "home"), "PYTHONPATH": path}

    def losses(**environment):
        result = test_guides.run_unchanged(script, tmp_path, **home, **environment)
        assert result.returncode == 0, result.stderr
        return [float(loss) for loss in re.findall(r"train_loss: ([\d.]+)", result.stdout)]

    host = losses(BIREME_DEVICE="cpu")
    card = losses(BIREME_CUDA_LIBRARIES=emulator())
    assert len(host) == 12
    np.testing.assert_allclose(card, host, rtol=0, atol=1e-4)


def test_gpu_without_a_number_is_the_one_that_the_launcher_chose():
    printed(
        """
        import bireme as paddle
        assert str(paddle.set_device("gpu")) == "Place(gpu:1)"
        assert paddle.get_device() == paddle.device.get_device() == "gpu:1"
        assert paddle.distributed.ParallelEnv().dev_id == 1
        assert str(paddle.to_tensor([1.0]).place) == "Place(gpu:1)"
        assert str(paddle.set_device("gpu:0")) == "Place(gpu:0)"
        """,
        FLAGS_selected_gpus="1,0",
    )


def test_a_server_takes_no_gpu():
    printed(
        """
        import bireme as paddle
        paddle.enable_static()
        exe = paddle.static.Executor(paddle.CUDAPlace(0))
        exe.run(paddle.static.default_startup_program())
        assert paddle._core.current_card() is None
        """,
        TRAINING_ROLE="PSERVER",
        CUDA_VISIBLE_DEVICES="",
    )
