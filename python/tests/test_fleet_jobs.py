"""Jobs with parameter servers as users write them: one process for each role on the loopback."""

import json

import bireme as paddle
import numpy as np
import pytest
from bireme import fluid
from running_jobs import SCRIPTS, losses, roles, run_job, trainers_mean

# A row of the table is trained as in one process, and the losses are printed with 7 digits.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def local(folder, script, **options):
    """The losses of the same script in one process."""
    outputs = run_job(folder / "local", script, {"local": {}}, options)
    return losses(outputs["local"])


def check_learning(outputs):
    """A model that knows nothing has a loss of 0.69; a late trainer may start from a better one."""
    for name, output in outputs.items():
        if name.startswith("trainer"):
            seen = losses(output)
            assert seen[-20:].mean() < 0.6, seen


@pytest.mark.parametrize("embedding", ["layer", "sparse_embedding"])
def test_synchronous_training_equals_the_run_of_one_process(tmp_path, embedding):
    options = {"EMBEDDING": embedding, "OPTIMIZER": "adam", "SCHEDULE": "1"}
    outputs = run_job(tmp_path, "fleet2.py", roles(2, 2), options)
    expected = local(tmp_path, "fleet2.py", **options)
    np.testing.assert_allclose(trainers_mean(outputs), expected, **CLOSE)


@pytest.mark.parametrize("mode", ["async", "half_async", "geo", "hybrid"])
def test_every_mode_learns(tmp_path, mode):
    options = {"MODE": mode, "OPTIMIZER": "sgd" if mode == "geo" else "adam", "STEPS": 150}
    check_learning(run_job(tmp_path, "fleet2.py", roles(1, 2), options))


@pytest.mark.parametrize(
    ("entry", "rows"), [("count", 50), ("probability", range(5, 45)), ("show_click", 50)]
)
def test_tables_admit_what_their_entry_says(tmp_path, entry, rows):
    options = {"EMBEDDING": "sparse_embedding", "ENTRY": entry, "OPTIMIZER": "adam", "STEPS": 100}
    outputs = run_job(tmp_path, "fleet2.py", roles(1, 1), {**options, "TABLES": "1"})
    check_learning(outputs)
    (table,) = json.loads(outputs["trainer 0"].split("tables ")[1])
    assert table["name"] == "emb"
    assert table["rows"] in (rows if isinstance(rows, range) else [rows])


@pytest.mark.parametrize("embedding", ["layer", "sparse_embedding"])
def test_a_checkpoint_goes_on_with_another_number_of_servers(tmp_path, embedding):
    options = {"EMBEDDING": embedding, "OPTIMIZER": "adam"}
    folder = tmp_path / "checkpoint"
    run_job(tmp_path, "fleet2.py", roles(2, 1), {**options, "SAVE": folder})
    outputs = run_job(tmp_path, "fleet2.py", roles(3, 2), {**options, "LOAD": folder, "SEEDS": "4"})
    expected = local(tmp_path, "fleet2.py", **options, SEEDS="3,4")
    np.testing.assert_allclose(trainers_mean(outputs), expected[10:], **CLOSE)


@pytest.mark.parametrize("embedding", ["layer", "sparse_embedding"])
def test_a_saved_model_predicts_what_the_job_predicted(tmp_path, embedding):
    options = {"EMBEDDING": embedding, "MODEL": tmp_path / "model"}
    outputs = run_job(tmp_path, "fleet2.py", roles(2, 2), options)
    said = json.loads(outputs["trainer 0"].split("prediction ")[1].splitlines()[0])
    paddle.enable_static()
    exe = fluid.Executor(fluid.CPUPlace())
    program, feeds, targets = fluid.io.load_inference_model(str(tmp_path / "model"), exe)
    feed = dict(zip(feeds, _inputs(), strict=True))
    (got,) = exe.run(program, feed=feed, fetch_list=targets)
    np.testing.assert_allclose(got, said, rtol=1e-6)


LOADED = """
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
from paddle import fluid
fluid.io.load_persistables(exe, option("LOAD"), paddle.static.default_main_program())
(feed,) = ctr_model.batches(1, seed=99)
program = paddle.static.default_main_program().clone(for_test=True)
(said,) = exe.run(program, feed=feed, fetch_list=[prediction])
print("prediction " + json.dumps(said.tolist()))
"""


@pytest.mark.parametrize("embedding", ["layer", "sparse_embedding"])
def test_one_process_loads_what_the_servers_saved(tmp_path, embedding):
    options = {"EMBEDDING": embedding, "OPTIMIZER": "adam", "MODEL": tmp_path / "model"}
    outputs = run_job(tmp_path, "fleet2.py", roles(2, 1), {**options, "SAVE": tmp_path / "saved"})
    said = json.loads(outputs["trainer 0"].split("prediction ")[1].splitlines()[0])
    text = (SCRIPTS / "fleet2.py").read_text().split("if fleet.is_server():")[0] + LOADED
    options = {**options, "LOAD": tmp_path / "saved"}
    loaded = run_job(tmp_path / "local", text, {"local": {}}, options)["local"]
    np.testing.assert_allclose(json.loads(loaded.split("prediction ")[1]), said, rtol=1e-5)


def test_a_checkpoint_of_another_program_says_what_it_lacks(tmp_path):
    run_job(tmp_path, "fleet2.py", roles(1, 1), {"SAVE": tmp_path / "saved"})
    paddle.enable_static()
    paddle.static.nn.fc(paddle.static.data("x", [None, 3]), 2, name="other")
    with pytest.raises(
        RuntimeError, match=r"is a checkpoint of parameter servers, and has no other"
    ):
        fluid.io.load_persistables(None, str(tmp_path / "saved"))
    # A weight of another shape leaves the bias, which fits, as it is.
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        paddle.static.nn.fc(paddle.static.data("x", [None, 1]), 16)
    exe = paddle.static.Executor()
    exe.run(startup)
    with pytest.raises(RuntimeError, match="has `fc_0.w_0` in shape"):
        fluid.io.load_persistables(exe, str(tmp_path / "saved"), main)
    bias = np.array(paddle.static.global_scope().find_var("fc_0.b_0").get_tensor())
    np.testing.assert_array_equal(bias, np.zeros(16))


def _inputs():
    """What `fleet2.py` predicts from: the batch of seed 99."""
    random = np.random.RandomState(99)
    ids = random.randint(0, 50, [32, 3])
    return [*np.split(ids.astype("int64"), 3, axis=1), random.rand(32, 2).astype("float32")]


def test_workers_talk_and_tables_are_looked_after(tmp_path):
    outputs = run_job(tmp_path, "tools.py", roles(2, 2), {"FOLDER": tmp_path})
    assert "only here" in outputs["trainer 1"]
    assert "only here" not in outputs["trainer 0"]
    dense = [f"fc_{at}.{kind}_0" for at in range(3) for kind in "bw"]
    assert json.loads(outputs["trainer 0"].split("done ")[1]) == dense
    assert (tmp_path / "text" / "layout.json").exists()


@pytest.mark.parametrize("mode", ["sync", "half_async", "async", "geo"])
def test_every_strategy_of_the_older_fleet_learns(tmp_path, mode):
    options = {"MODE": mode, "STEPS": 150}
    check_learning(run_job(tmp_path, "incubate.py", roles(1, 2), options))


@pytest.mark.parametrize(
    ("config", "distributed", "offset"),
    [
        ({"slice_var_up": False}, "", 0),
        ({"split_method": "HashName"}, "", 0),
        # Any 64-bit id, though the table is declared with 50 rows.
        ({}, "1", -(2**63) + 5),
    ],
)
def test_the_transpiler_equals_the_run_of_one_process(tmp_path, config, distributed, offset):
    options = {"CONFIG": json.dumps(config), "DISTRIBUTED": distributed}
    outputs = run_job(tmp_path, "transpiled.py", roles(2, 2), {**options, "OFFSET": offset})
    expected = local(tmp_path, "transpiled.py")
    np.testing.assert_allclose(trainers_mean(outputs), expected, **CLOSE)


@pytest.mark.parametrize("how", ["enable_dc_asgd", "geo_sgd_mode"])
def test_the_transpiler_learns_asynchronously(tmp_path, how):
    config = {"sync_mode": False, how: True, "geo_sgd_need_push_nums": 3}
    options = {"CONFIG": json.dumps(config), "STEPS": 150}
    check_learning(run_job(tmp_path, "transpiled.py", roles(2, 2), options))


def test_servers_of_a_cluster_have_names_and_listen_at_their_address(tmp_path):
    environments = roles(2, 2)
    for environment in environments.values():
        servers = environment["PADDLE_PSERVERS_IP_PORT_LIST"]
        environment["PADDLE_PSERVERS_IP_PORT_LIST"] = servers.replace("127.0.0.1", "localhost")
        if environment["TRAINING_ROLE"] == "PSERVER":
            environment |= {"POD_IP": "localhost", "BIREME_BIND": "127.0.0.1"}
    outputs = run_job(tmp_path, "fleet2.py", environments)
    np.testing.assert_allclose(trainers_mean(outputs), local(tmp_path, "fleet2.py"), **CLOSE)
