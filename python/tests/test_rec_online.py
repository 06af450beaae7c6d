"""Training on passes of data, and shuffles between workers."""

import re
import shutil
import signal
import time

import pytest
from dataset_files import read_plainly, write_samples
from running_jobs import Job, roles, run_job
from running_tools import TIME, check_lines, copied_checkout, logs, run

SHUFFLE = """
import numpy as np
import paddle
from paddle.distributed import fleet

paddle.enable_static()
fleet.init()
label = paddle.static.data("label", [None, 1], "int64")
ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
dense = paddle.static.data("dense", [None, 3], "float32")
loss = paddle.mean(paddle.static.nn.fc(dense, 1))
strategy = fleet.DistributedStrategy()
fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    dataset = paddle.distributed.InMemoryDataset()
    dataset.init(use_var=[label, ids, dense], batch_size=4)
    dataset.set_filelist([f"part-{fleet.worker_index()}"])
    dataset.load_into_memory()
    dataset.global_shuffle(fleet)
    print("all", dataset.get_memory_data_size(fleet))
    for feed in dataset._source().batches():
        for row in np.array(feed["dense"]):
            print("row", *(repr(float(value)) for value in row))
    executor.train_from_dataset(paddle.static.default_main_program(), dataset)
    fleet.stop_worker()
"""


def test_a_global_shuffle_moves_samples_between_workers(tmp_path):
    paths = write_samples(tmp_path, 2, 40)
    outputs = run_job(tmp_path, SHUFFLE, roles(1, 2))
    got = [
        [tuple(map(float, row)) for row in re.findall(r"row (\S+) (\S+) (\S+)", outputs[name])]
        for name in ("trainer 0", "trainer 1")
    ]
    wanted = [[tuple(map(float, s[2])) for s in read_plainly([path])] for path in paths]
    assert sorted(got[0] + got[1]) == sorted(wanted[0] + wanted[1])
    # Each has samples of both.
    for rows in got:
        assert 0 < len(set(rows) & set(wanted[0])) < len(wanted[0])
    assert "all 80" in outputs["trainer 0"]


MERGE = SHUFFLE.replace(
    "dataset.set_filelist",
    "dataset.update_settings(merge_size=2)\n    dataset.set_filelist",
)


def test_a_global_shuffle_brings_samples_of_a_name_together(tmp_path):
    # Each worker has one of the two samples of a name.
    for rank in range(2):
        lines = [f"1 n{at} 1 {rank} 1 {at} 3 {at if rank else 0} 0 {rank}" for at in range(40)]
        lines = [
            line.replace(f"1 {at} 3", "1 0 3") if rank else line for at, line in enumerate(lines)
        ]
        (tmp_path / f"part-{rank}").write_text("\n".join(lines) + "\n")
    outputs = run_job(tmp_path, MERGE, roles(1, 2))
    got = [
        [tuple(map(float, row)) for row in re.findall(r"row (\S+) (\S+) (\S+)", outputs[name])]
        for name in ("trainer 0", "trainer 1")
    ]
    assert min(map(len, got)) > 5
    assert sorted(got[0] + got[1]) == [(float(at), 0.0, 1.0) for at in range(40)]


WAITING = SHUFFLE.replace(
    "    dataset.global_shuffle(fleet)",
    """    import time
    if fleet.worker_index() == 1:
        time.sleep(600)
    print("ready", flush=True)
    try:
        dataset.global_shuffle(fleet)
    except KeyboardInterrupt:
        print("interrupted after", time.time() - float(open("sent").read()), flush=True)
        raise""",
)


def test_ctrl_c_ends_a_global_shuffle_at_once(tmp_path):
    write_samples(tmp_path, 2, 40)
    with Job(tmp_path) as job:
        for name, environment in roles(1, 2).items():
            job.start(name, WAITING, environment)
        job.wait_for("trainer 0", "ready")
        (tmp_path / "sent").write_text(str(time.time()))
        job.processes["trainer 0"].send_signal(signal.SIGINT)
        assert job.processes["trainer 0"].wait(60) != 0
        said = re.search(r"interrupted after (\S+)", job.output("trainer 0"))
        assert said, job.output("trainer 0")
        assert float(said[1]) < 1


@pytest.fixture
def days(tmp_path):
    """Two days of two passes for `rank/dnn`, in a copy of what the tools need."""
    copied_checkout(tmp_path)
    model = tmp_path / "models/rank/dnn"
    lines = (model / "data/sample_data/train/sample_train.txt").read_text().splitlines()
    for day in ("20240101", "20240102"):
        for at, part in enumerate(("0000", "1200")):
            folder = model / "data/days" / day / part
            folder.mkdir(parents=True)
            for file in range(2):
                chosen = lines[at * 40 + file * 20 : at * 40 + file * 20 + 20]
                (folder / f"part-{file}").write_text("\n".join(chosen) + "\n")
    config = (model / "config.yaml").read_text()
    online = {
        "train_data_dir": '"data/days"',
        "start_day": '"20240101"',
        "end_day": '"20240102"',
        "split_interval": 720,
        "split_per_pass": 1,
        "checkpoint_per_pass": 1,
        "save_delta_frequency": 1,
        "train_thread_num": 1,
        "prefetch": True,
    }
    said = "".join(f"  {key}: {value}\n" for key, value in online.items())
    config = re.sub(r"(?m)^  train_data_dir: .*\n", "", config)
    (model / "online.yaml").write_text(config.replace("runner:\n", "runner:\n" + said, 1))
    return tmp_path


def test_days_are_trained_pass_by_pass_and_resumed(days):
    command = (
        "fleetrun --worker_num=2 --server_num=1 tools/static_ps_online_trainer.py"
        " -m models/rank/dnn/online.yaml"
    )
    text = run(days, command) + logs(days)
    metric = r" global AUC=\d\.\d{6} Ins number=\d+"
    check_lines(
        text,
        TIME + "training a new day 20240101, end_day = 20240102",
        TIME + "Day:20240101, Pass: 1, Prepare Dataset Begin.",
        r"after global_shuffle data_size: 40",
        r"batch: \[2\], Day: 20240101 Pass: 1 Var cost",
        TIME + r"Day:20240101, Pass: 1, Train Global Metric: " + metric,
        TIME + r"finished train epoch 1 time cost:\S+ min job time cost:\[read_data:\S+ min\]"
        r"\[train: \S+ min\]\[metric: \S+ min\]\[release: \S+ min\]\[infer:\S+ min\]"
        r"\[infer_metric: \S+ min\]\[other:\S+ min\]",
        TIME + r"Day:20240101, Pass: 2, Infer Global Metric: " + metric,
        TIME + r"Day:20240101, Pass: 2, Train Global Metric: " + metric,
        TIME + "shrink table",
        TIME + r"Day:20240102, Pass: 2, Train Global Metric: " + metric,
        TIME + r"Run Success, Exit\.",
    )
    saved = days / "output_model_dnn"
    for folder in ("20240101/1", "20240101/delta_2", "20240102/base", "20240102/0", "20240103/0"):
        assert (saved / folder).is_dir(), folder
    done = [line.split("\t") for line in (saved / "donefile.txt").read_text().splitlines()]
    assert [(line[0], line[3]) for line in done] == [
        ("20240101", "1"),
        ("20240102", "-1"),
        ("20240102", "1"),
        ("20240103", "-1"),
    ]
    # As after a crash in the last pass.
    kept = "\n".join("\t".join(line) for line in done[:3]) + "\n"
    (saved / "donefile.txt").write_text(kept)
    (saved / "xbox_base_done.txt").write_text("20240102\t1\tx\t-1\t0\n")
    shutil.rmtree(days / "log", ignore_errors=True)
    again = run(days, command) + logs(days)
    assert "Pass: 1, Training" not in again
    check_lines(again, "last_day = 20240102, last_pass = 1", r"Day:20240102, Pass: 2, Train Global")


METRICS = """
import paddle
from plain_model import StaticModel as Plain


class StaticModel(Plain):
    def net(self, input, is_infer=False):
        fetched = super().net(input, is_infer)
        score = paddle.slice(self.predict, axes=[1], starts=[1], ends=[2])
        both = paddle.concat([1 - score, score], axis=1)
        _, _, counts = paddle.static.auc(input=both, label=input[0], slide_steps=0)
        sums = paddle.static.ctr_metric_bundle(score, paddle.cast(input[0], "float32"))
        self.metric_list = [*counts, *sums]
        self.metric_types = ["int64"] * 4 + ["float32"] * 6
        self.thread_stat_var_names = [var.name for var in self.metric_list]
        self.train_dump_fields = [input[0], score]
        self.train_dump_params = []
        self.infer_dump_fields = [input[0]]
        return fetched
"""


def test_a_model_names_its_metrics_and_what_is_dumped(days):
    model = days / "models/rank/dnn"
    (model / "static_model.py").rename(model / "plain_model.py")
    (model / "static_model.py").write_text(METRICS)
    dumps = {
        "need_train_dump": True,
        "train_dump_fields_dir": '"train_dump"',
        "need_infer_dump": True,
        "infer_dump_fields_dir": '"infer_dump"',
        "infer_data_dir": '"data/days"',
    }
    said = "".join(f"  {key}: {value}\n" for key, value in dumps.items())
    config = (model / "online.yaml").read_text().replace("runner:\n", "runner:\n" + said, 1)
    config = config.replace('end_day: "20240102"', 'end_day: "20240101"')
    config = config.replace("train_thread_num: 1", "train_thread_num: 2")
    (model / "online.yaml").write_text(config)
    command = (
        "fleetrun --worker_num=2 --server_num=1 tools/static_ps_online_trainer.py"
        " -m models/rank/dnn/online.yaml"
    )
    text = run(days, command) + logs(days)
    number = r"\d+\.\d{6}"
    metric = (
        rf" global AUC={number} BUCKET_ERROR={number} MAE=({number}) RMSE=({number})"
        rf" Actural_CTR=({number}) Predicted_CTR=({number}) COPC={number} MEAN Q_VALUE={number}"
        r" Ins number=40"
    )
    check_lines(
        text,
        TIME + "Day:20240101, Pass: 1, Train Global Metric: " + metric,
        TIME + r"Infer Dump Dataset Done, using time [\d.e-]+ second\.",
        TIME + "Day:20240101, Pass: 2, Infer Global Metric: " + metric,
        TIME + "Day:20240101, Pass: 2, Train Global Metric: " + metric,
    )
    mae, rmse, clicked, predicted = map(float, re.search(metric, text).groups())
    lines = (model / "data/sample_data/train/sample_train.txt").read_text().splitlines()[:40]
    assert clicked == pytest.approx(sum("click:1" in line for line in lines) / 40, abs=1e-6)
    assert 0 < mae <= rmse < 1
    assert 0 < predicted < 1
    for folder, fields in (
        ("train_dump", r"\t\tlabel:1:[01]\t\S+:1:0\.\d+"),
        ("infer_dump", r"\t\tlabel:1:[01]"),
    ):
        files = sorted((days / folder / "20240101/1").iterdir())
        found = [line for file in files for line in file.read_text().splitlines()]
        assert len(found) == 40
        assert all(re.fullmatch(fields, line) for line in found), found[:3]
