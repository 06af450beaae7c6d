"""Click prediction with heter workers: every process of the job runs this script.

    fleetrun --server_num=2 --worker_num=2 --heter_worker_num=2 heter_ctr.py

Trainers read the data and look rows up; what is under `device_guard("gpu")` runs on the heter
workers. Without a launcher the script trains alone. `HETER_SYNC=1` trains in sync mode,
`MICRO_BATCHES` is the number of parts of a batch, `STEPS` that of steps, `SAVE` a folder for the
model.
"""

import os

import numpy as np
import paddle
from paddle import static
from paddle.distributed import fleet

SLOTS, ROWS, BATCH = 4, 500, 32
STEPS = int(os.environ.get("STEPS", "60"))


def batches(trainer, trainers):
    """The rows of this trainer in batches that are the same for any number of trainers."""
    random = np.random.RandomState(7)
    for _ in range(STEPS):
        ids = (random.rand(BATCH, SLOTS) ** 2 * ROWS).astype("int64")
        dense = random.rand(BATCH, 8).astype("float32")
        score = ids.mean(1, keepdims=True) / ROWS + 0.2 * random.rand(BATCH, 1)
        label = (score > 0.4).astype("int64")
        share = slice(trainer * BATCH // trainers, (trainer + 1) * BATCH // trainers)
        feed = {f"C{slot}": ids[share, slot : slot + 1] for slot in range(SLOTS)}
        yield {**feed, "dense": dense[share], "label": label[share]}


def network():
    """The loss, the AUC and the prediction."""
    label = static.data("label", [-1, 1], "int64")
    dense = static.data("dense", [-1, 8], "float32")
    slots = [static.data(f"C{slot}", [-1, 1], "int64") for slot in range(SLOTS)]
    with static.device_guard("cpu"):
        rows = [
            paddle.fluid.layers.embedding(
                ids, size=[ROWS, 8], is_sparse=True, param_attr=paddle.ParamAttr(name="table")
            )
            for ids in slots
        ]
    with static.device_guard("gpu"):
        joined = paddle.concat([*rows, dense], axis=1)
        hidden = static.nn.fc(joined, 64, activation="tanh")
        predict = static.nn.fc(hidden, 2, activation="softmax")
        auc = static.auc(predict, label)[0]
        cost = paddle.fluid.layers.cross_entropy(predict, label)
        return paddle.mean(cost), auc, predict


def train():
    """Builds the program, and does what this process's role is."""
    paddle.enable_static()
    paddle.static.default_main_program().random_seed = 3
    paddle.static.default_startup_program().random_seed = 3
    fleet.init()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = os.environ.get("HETER_SYNC") != "1"
    strategy.pipeline_configs = {"accumulate_steps": int(os.environ.get("MICRO_BATCHES", "2"))}
    loss, auc, predict = network()
    optimizer = paddle.optimizer.SGD(learning_rate=0.5)
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = static.Executor()
    exe.run(static.default_startup_program())
    fleet.init_worker()
    if fleet.is_heter_worker():
        fleet.run_heter_worker()
    else:
        for step, feed in enumerate(batches(fleet.worker_index(), fleet.worker_num())):
            cost, area, shown = exe.run(feed=feed, fetch_list=[loss, auc, predict])
            assert shown.shape == (len(feed["label"]), 2)
            print(f"step {step}: loss {cost.item():.6f}, auc {area.item():.4f}", flush=True)
        if os.environ.get("SAVE"):
            feeds = [f"C{slot}" for slot in range(SLOTS)] + ["dense"]
            fleet.save_inference_model(exe, os.environ["SAVE"], feeds, [predict])
    fleet.stop_worker()


if __name__ == "__main__":
    train()
