"""Training on datasets, held against a loop that feeds the same batches."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import bireme as paddle
import numpy as np
import pytest
from dataset_files import DENSE, read_plainly, write_samples


def model():
    """Variables to feed, the loss, its AUC and the counters of that."""
    label = paddle.static.data("label", [None, 1], "int64")
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    rows = paddle.fluid.layers.embedding(ids, [50, 4], is_sparse=True)
    pooled = paddle.static.nn.sequence_lod.sequence_pool(rows, "sum")
    hidden = paddle.concat([pooled, dense], axis=1)
    scores = paddle.static.nn.fc(hidden, 2)
    loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
    predicted = paddle.nn.functional.softmax(scores)
    auc, _, counters = paddle.static.auc(predicted, label, num_thresholds=255)
    paddle.optimizer.Adam(0.05, lazy_mode=True).minimize(loss)
    return [label, ids, dense], loss, auc, counters


class Trained:
    """A fresh program, trained by `work(executor, program, dataset, model)`."""

    def __init__(self, paths, work, kind=None, threads=1):
        paddle.enable_static()
        main, startup, scope = (
            paddle.static.Program(),
            paddle.static.Program(),
            paddle.static.Scope(),
        )
        main.random_seed = startup.random_seed = 3
        with (
            paddle.static.scope_guard(scope),
            paddle.static.program_guard(main, startup),
            paddle.utils.unique_name.guard(),
        ):
            built = model()
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(startup)
            dataset = (kind or paddle.distributed.QueueDataset)()
            dataset.init(use_var=built[0], batch_size=4, thread_num=threads)
            dataset.set_filelist(paths)
            if kind is paddle.distributed.InMemoryDataset:
                dataset.load_into_memory()
            self.result = work(executor, main, dataset, built)
            self.values = {
                var.name: np.array(scope.find_var(var.name).get_tensor())
                for var in main.list_vars()
                if var.persistable and scope.find_var(var.name) is not None
            }
        paddle.disable_static()


def by_feeding(executor, program, dataset, built):
    for feed in dataset._source().batches():
        executor.run(program, feed=feed, fetch_list=[built[1]])


def by_dataset(executor, program, dataset, built):
    executor.train_from_dataset(program, dataset)


@pytest.mark.parametrize("name", ["QueueDataset", "InMemoryDataset"])
def test_one_thread_trains_as_a_loop_does(tmp_path, monkeypatch, name):
    monkeypatch.setenv("BIREME_NUM_THREADS", "1")
    paths, kind = write_samples(tmp_path, 2, 30), getattr(paddle.distributed, name)
    fed, trained = Trained(paths, by_feeding, kind), Trained(paths, by_dataset, kind)
    assert fed.values.keys() == trained.values.keys()
    for key, value in fed.values.items():
        np.testing.assert_array_equal(trained.values[key], value, err_msg=key)


def test_several_threads_learn_and_count_everything(tmp_path):
    paths = write_samples(tmp_path, 4, 50)

    def twice(executor, program, dataset, built):
        losses = []
        for _ in range(8):
            executor.train_from_dataset(program, dataset, thread=2)
        for feed in dataset._source().batches():
            losses.append(executor.run(program.clone(for_test=True), feed, [built[1]])[0])
        counted = [
            np.array(paddle.static.global_scope().find_var(c.name).get_tensor()).sum()
            for c in built[3][2:]
        ]
        return np.mean(losses), sum(counted)

    loss, counted = Trained(paths, twice, threads=2).result
    assert loss < 0.5
    # The evaluation counts, too.
    assert counted == 9 * 200


def test_infer_learns_nothing(tmp_path, capsys):
    paths = write_samples(tmp_path, 1, 20)

    def evaluate(executor, program, dataset, built):
        executor.infer_from_dataset(
            program, dataset, fetch_list=[built[1]], fetch_info=["loss"], print_period=2
        )

    start = Trained(paths, lambda *_: None)
    evaluated = Trained(paths, evaluate)
    for name, value in start.values.items():
        if name.startswith(("fc", "embedding")):
            np.testing.assert_array_equal(evaluated.values[name], value, err_msg=name)
    assert len(re.findall(r"^time: .*loss\[1\]", capsys.readouterr().out, re.MULTILINE)) == 2


def test_what_is_fetched_is_printed_as_in_paddle(tmp_path, capsys):
    paths = write_samples(tmp_path, 1, 12)

    def train(executor, program, dataset, built):
        [label, ids, _], loss, auc, _ = built
        executor.train_from_dataset(
            program,
            dataset,
            fetch_list=[loss, label, ids, auc],
            fetch_info=["Epoch 0 Var loss", "label", "ids", "auc"],
            print_period=2,
            debug=True,
        )

    Trained(paths, train)
    lines = capsys.readouterr().out.splitlines()
    number = r"-?\d[\d.e+-]*"
    assert re.fullmatch(
        r"time: \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\], batch: \[2\], "
        rf"Epoch 0 Var loss\[1\]:\[{number}\], label\[4\]:\[[01]( [01]){{3}}\], "
        rf"ids\[(\d+)\]:\[\d+( \d+)+\], auc\[1\]:\[{number}\]",
        lines[0],
    ), lines
    assert re.search(r"ins_num: 12, read time: [\d.]+ seconds", lines[1]), lines


def test_a_handler_gets_values(tmp_path):
    paths, seen = write_samples(tmp_path, 1, 12), []

    class Watch(paddle.static.executor.FetchHandler):
        def handler(self, res_dict):
            seen.append(res_dict)

    def train(executor, program, dataset, built):
        watch = Watch({"cost": built[1]}, period_secs=0)
        executor.train_from_dataset(program, dataset, fetch_handler=watch)

    Trained(paths, train)
    assert len(seen) == 3
    assert seen[0]["cost"].shape == (1,)


def test_values_of_samples_and_parameters_are_dumped(tmp_path):
    paths = write_samples(tmp_path, 1, 6)

    def train(executor, program, dataset, built):
        [label, ids, _], loss, _, _ = built
        program._fleet_opt = {
            "dump_fields": [label.name, ids.name, loss.name],
            "dump_param": ["fc_0.b_0"],
            "dump_fields_path": str(tmp_path / "dump"),
            "trainer_id": 2,
        }
        executor.train_from_dataset(program, dataset)

    trained = Trained(paths, train)
    lines = (tmp_path / "dump/part-002-00000").read_text().splitlines()
    samples = [
        f"\tlabel:1:{label}\tids:{len(ids)}:{','.join(map(str, ids))}"
        for label, ids, _ in read_plainly(paths)
    ]
    # The loss has no value for each sample.
    assert lines[:4] == samples[:4]
    assert lines[5:7] == samples[4:]
    bias = trained.values["fc_0.b_0"]
    assert lines[4].startswith("(0,0,fc_0.b_0)")
    assert lines[7] == f"(0,1,fc_0.b_0){bias[0]:.6g},{bias[1]:.6g}"


def test_names_and_contents_of_samples_are_dumped(tmp_path):
    lines = [f"1 name-{at} 1 say:{at} 1 {at % 2} 1 {at} 3 0 0 {at}" for at in range(6)]
    (tmp_path / "part").write_text("\n".join(lines) + "\n")

    def train(executor, program, dataset, built):
        memory = paddle.distributed.InMemoryDataset()
        memory.init(use_var=built[0], batch_size=4)
        memory.update_settings(parse_ins_id=True, parse_content=True)
        memory.set_filelist([str(tmp_path / "part")])
        memory.load_into_memory()
        program._fleet_opt = {
            "dump_fields": [built[0][0].name],
            "dump_fields_path": str(tmp_path / "dump"),
        }
        executor.train_from_dataset(program, memory)

    Trained([str(tmp_path / "part")], train)
    found = (tmp_path / "dump/part-000-00000").read_text().splitlines()
    assert found == [f"name-{at}\tsay:{at}\tlabel:1:{at % 2}" for at in range(6)]


def test_wrong_calls(tmp_path):
    paths = write_samples(tmp_path, 1, 4)

    def wrong(executor, program, dataset, built):
        with pytest.raises(RuntimeError, match="dataset is need and should be initialized"):
            executor.train_from_dataset(program)
        with pytest.raises(AssertionError, match="fetch_info"):
            executor.train_from_dataset(program, dataset, fetch_list=[built[1]])
        with pytest.raises(ValueError, match="no_such"):
            executor.train_from_dataset(program, dataset, fetch_list=["no_such"], fetch_info=["it"])
        dataset.init(use_var=built[0], batch_size=4, pipe_command="false")
        with pytest.raises(RuntimeError, match="false"):
            executor.train_from_dataset(program, dataset)

    Trained(paths, wrong)


def test_a_handler_that_raises_ends_the_training(tmp_path):
    paths = write_samples(tmp_path, 1, 12)

    class Broken(paddle.static.executor.FetchHandler):
        def handler(self, res_dict):
            raise KeyError("broken")

    def train(executor, program, dataset, built):
        with pytest.raises(RuntimeError, match="broken"):
            executor.train_from_dataset(
                program, dataset, fetch_handler=Broken({"cost": built[1]}, 0)
            )

    Trained(paths, train)


def test_ctrl_c_ends_a_training_that_waits_for_data(tmp_path):
    os.mkfifo(tmp_path / "never")
    script = textwrap.dedent("""
        import paddle
        paddle.enable_static()
        x = paddle.static.data("x", [None, 1])
        loss = paddle.mean(x)
        dataset = paddle.distributed.QueueDataset()
        dataset.init(use_var=[x], pipe_command="sh -c 'echo 1 1; echo ready >&2; sleep 600'")
        dataset.set_filelist(["data"])
        executor = paddle.static.Executor()
        executor.train_from_dataset(paddle.static.default_main_program(), dataset)
    """)
    (tmp_path / "data").write_text("")
    (tmp_path / "script.py").write_text(script)
    with subprocess.Popen(
        [sys.executable, "-m", "bireme", "script.py"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            for line in process.stderr:
                if "ready" in line:
                    break
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in said
    assert process.returncode != 0
