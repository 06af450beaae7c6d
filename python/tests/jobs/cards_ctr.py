"""A small click model for jobs on GPUs: with servers where the launcher started some, else among ranks.

Every process prints the GPU that it was given; `MODE` is how trainers keep time with servers.
"""

import os

import bireme as paddle
import numpy as np
from bireme import static
from bireme.distributed import fleet

SLOTS, ROWS, BATCH, STEPS = 3, 200, 16, 4
MODES = {"sync": (False, {}), "async": (True, {}), "geo": (True, {"k_steps": 2})}


def batches(trainer, trainers):
    """The rows of this trainer in batches that are the same for any number of trainers."""
    random = np.random.RandomState(7)
    for _ in range(STEPS):
        ids = (random.rand(BATCH, SLOTS) ** 2 * ROWS).astype("int64")
        dense = random.rand(BATCH, 8).astype("float32")
        label = (dense[:, :1] + 0.3 * ids[:, :1] / ROWS > 0.6).astype("int64")
        share = slice(trainer * BATCH // trainers, (trainer + 1) * BATCH // trainers)
        feed = {f"C{slot}": ids[share, slot : slot + 1] for slot in range(SLOTS)}
        yield {**feed, "dense": dense[share], "label": label[share]}


def network(sparse):
    """The mean loss."""
    label = static.data("label", [-1, 1], "int64")
    dense = static.data("dense", [-1, 8], "float32")
    slots = [static.data(f"C{slot}", [-1, 1], "int64") for slot in range(SLOTS)]
    table = paddle.ParamAttr(name="table")
    rows = [
        paddle.fluid.layers.embedding(ids, size=[ROWS, 4], is_sparse=sparse, param_attr=table)
        for ids in slots
    ]
    joined = paddle.concat([*rows, dense], axis=1)
    hidden = static.nn.fc(joined, 16, activation="tanh")
    predict = static.nn.fc(hidden, 2, activation="softmax")
    return paddle.mean(paddle.fluid.layers.cross_entropy(predict, label))


def main():
    has_servers = bool(os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST"))
    paddle.enable_static()
    static.default_main_program().random_seed = 3
    static.default_startup_program().random_seed = 3
    place = paddle.CUDAPlace(int(os.environ.get("FLAGS_selected_gpus", "0")))
    strategy = fleet.DistributedStrategy()
    if has_servers:
        strategy.a_sync, strategy.a_sync_configs = MODES[os.environ.get("MODE", "sync")]
    fleet.init(is_collective=not has_servers, strategy=strategy)
    loss = network(has_servers)
    optimizer = paddle.optimizer.SGD(learning_rate=0.5)
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if has_servers and fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = static.Executor(place)
    exe.run(static.default_startup_program())
    if has_servers:
        fleet.init_worker()
    for step, feed in enumerate(batches(fleet.worker_index(), fleet.worker_num())):
        (cost,) = exe.run(feed=feed, fetch_list=[loss])
        print(f"step {step}: loss {cost.item():.6f}", flush=True)
    taken = paddle.device.cuda.memory_allocated(place) if paddle.is_compiled_with_cuda() else 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    print(f"{place} of {visible}, {'on it' if taken else 'on the CPU'}", flush=True)
    if has_servers:
        fleet.stop_worker()


if __name__ == "__main__":
    main()
