"""Datasets in jobs of several processes: heter workers, ranks, loaders of generators."""

import re

import numpy as np
from running_jobs import run_job
from running_ranks import run_well
from running_tools import check_lines, copied_checkout, run
from test_heter import job

SAMPLES = """
import numpy as np
import paddle
from paddle import static
from paddle.distributed import fleet

paddle.enable_static()

def write(path, rows):
    random = np.random.RandomState(5)
    with open(path, "w") as file:
        for _ in range(rows):
            dense = random.rand(8).round(3)
            ids = random.randint(0, 50, 1)
            label = int(dense[0] > 0.5)
            file.write(f"1 {label} 1 {ids[0]} 8 {' '.join(map(str, dense))}\\n")

label = static.data("label", [-1, 1], "int64")
ids = static.data("ids", [-1, 1], "int64")
dense = static.data("dense", [-1, 8], "float32")

def dataset(path, batch_size=8):
    write(path, 64)
    made = paddle.distributed.QueueDataset()
    made.init(use_var=[label, ids, dense], batch_size=batch_size)
    made.set_filelist([path])
    return made
"""

HETER = (
    SAMPLES
    + """
fleet.init()
with static.device_guard("cpu"):
    rows = paddle.fluid.layers.embedding(ids, size=[50, 4], is_sparse=True)
with static.device_guard("gpu"):
    predict = static.nn.fc(paddle.concat([rows, dense], axis=1), 2, activation="softmax")
    loss = paddle.mean(paddle.fluid.layers.cross_entropy(predict, label))
strategy = fleet.DistributedStrategy()
strategy.a_sync = False
fleet.distributed_optimizer(paddle.optimizer.SGD(0.5), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    executor = static.Executor()
    executor.run(static.default_startup_program())
    fleet.init_worker()
    if fleet.is_heter_worker():
        executor.train_from_dataset(static.default_main_program())
    else:
        data = dataset(f"data-{fleet.worker_index()}")
        first = next(iter(data._source().batches()))
        for _ in range(3):
            executor.train_from_dataset(static.default_main_program(), data)
            print("loss", executor.run(feed=first, fetch_list=[loss])[0].item(), flush=True)
    fleet.stop_worker()
"""
)

RANKS = (
    SAMPLES
    + """
fleet.init(is_collective=True)
rows = paddle.fluid.layers.embedding(ids, size=[50, 4], is_sparse=True)
scores = static.nn.fc(paddle.concat([rows, dense], axis=1), 2)
loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, label))
optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.5), fleet.DistributedStrategy())
optimizer.minimize(loss)
executor = static.Executor()
executor.run(static.default_startup_program())
executor.train_from_dataset(
    static.default_main_program(),
    dataset(f"data-{fleet.worker_index()}"),
    thread=2,
    fetch_list=[loss],
    fetch_info=["loss"],
    print_period=8,
)
for name in ("fc_0.w_0", "embedding_0.w_0"):
    value = np.array(static.global_scope().find_var(name).get_tensor())
    print(name, repr(float(value.astype("float64").sum())), flush=True)
"""
)


def losses(text):
    return [float(value) for value in re.findall(r"^loss (\S+)", text, re.MULTILINE)]


def test_stages_train_on_a_dataset(tmp_path):
    outputs = run_job(tmp_path, HETER, job(1, 1, [1]))
    found = losses(outputs["trainer 0"])
    assert len(found) == 3
    assert found[-1] < found[0]


def test_ranks_train_on_datasets_and_stay_equal(tmp_path):
    first, second = run_well(tmp_path, RANKS, 2)
    assert re.search(r"batch: \[8\], loss\[1\]:\[\d", first)
    values = [re.findall(r"(\S+_0\.w_0 \S+)", text) for text in (first, second)]
    assert len(values[0]) == 2
    assert values[0] == values[1]


READER = """
import numpy as np
from criteo_line import parse


class Reader:
    def init(self, config):
        self.batch = config["runner.train_batch_size"]
        self.by_batch = config.get("runner.batch_generator", False)

    def dataloader(self, file_list):
        def samples():
            for path in file_list:
                for line in open(path):
                    ids, dense = parse(line)
                    yield [*(np.array(s, "int64") for s in ids), np.array(dense, "float32")]

        def batches():
            held = []
            for sample in samples():
                held.append(sample)
                if len(held) == self.batch:
                    yield [np.stack(field) for field in zip(*held)]
                    held = []

        return batches if self.by_batch else samples
"""


def test_loaders_of_generators_feed_a_program(tmp_path):
    checkout = copied_checkout(tmp_path)
    (checkout / "models/rank/dnn/loader_reader.py").write_text(READER)
    lines = []
    for by_batch in ("False", "True"):
        config = (checkout / "models/rank/dnn/config.yaml").read_text()
        config = config.replace("runner:\n", f"runner:\n  batch_generator: {by_batch}\n", 1)
        (checkout / "models/rank/dnn/loader.yaml").write_text(config)
        said = run(
            checkout,
            "python tools/static_ps_trainer.py -m models/rank/dnn/loader.yaml -o runner.epochs=2"
            " runner.reader_type=DataLoader runner.train_reader_path=loader_reader",
        )
        check_lines(
            said,
            r"Epoch: 0, Running DataLoader Begin\.",
            r"Epoch: 0, Batch: 2, cost: \[[\d.]+\], auc: \[\S+\],  avg_batch_cost: [\d.]+ sec, "
            r"avg_samples: 2\.00000, ips: [\d.]+ example/sec ",
            r"Epoch: 1, Batch: 40, cost",
        )
        lines.append(re.findall(r"Batch: \d+, cost: \S+", said))
    assert lines[0] == lines[1]
    assert np.isfinite([float(line.split("[")[1].rstrip("],")) for line in lines[0]]).all()
