"""A job of `paddle.distributed.fleet`: every role runs this script, as the environment says.

Without servers in the environment it trains alone.
"""

import json

import ctr_model
import numpy as np
import paddle
from ctr_model import IDS, WIDTH, option
from paddle.distributed import fleet

paddle.enable_static()
paddle.seed(11)
paddle.static.default_startup_program().random_seed = 11
paddle.static.default_main_program().random_seed = 11

ENTRIES = {
    "": lambda: None,
    "count": lambda: paddle.distributed.CountFilterEntry(2),
    "probability": lambda: paddle.distributed.ProbabilityEntry(0.5),
    "show_click": lambda: paddle.distributed.ShowClickEntry("show", "click"),
}
attr = paddle.ParamAttr(name="emb", initializer=paddle.nn.initializer.Constant(0.05))
kind = option("EMBEDDING", "layer")
if kind == "layer":
    embed = paddle.nn.Embedding(IDS, WIDTH, sparse=True, weight_attr=attr)
elif kind == "sparse_embedding":
    entry = ENTRIES[option("ENTRY")]()
    if option("ENTRY") == "show_click":
        paddle.static.data("show", [None, 1], "int64")
        paddle.static.data("click", [None, 1], "int64")

    def embed(ids):
        return paddle.static.nn.sparse_embedding(ids, [IDS, WIDTH], entry=entry, param_attr=attr)


prediction, loss = ctr_model.network(embed)

fleet.init(is_collective=False)
strategy = fleet.DistributedStrategy()
mode = option("MODE", "sync")
strategy.a_sync = mode != "sync"
if mode == "geo":
    strategy.a_sync_configs = {"k_steps": 2}
elif mode in ("half_async", "hybrid"):
    strategy.a_sync_configs = {mode: True}
rate = 0.05
if option("SCHEDULE"):
    rate = paddle.optimizer.lr.ExponentialDecay(0.1, gamma=0.8)
optimizers = {
    "sgd": lambda: paddle.optimizer.SGD(rate),
    "adam": lambda: paddle.optimizer.Adam(rate, lazy_mode=True),
    "adagrad": lambda: paddle.optimizer.Adagrad(rate),
}
optimizer = optimizers[option("OPTIMIZER", "sgd")]()
optimizer = fleet.distributed_optimizer(optimizer, strategy)
optimizer.minimize(loss)


def steps(exe, count, seed):
    rank, ranks = fleet.worker_index(), fleet.worker_num()
    program = paddle.static.default_main_program()
    for at, feed in enumerate(ctr_model.batches(count, rank, ranks, seed=seed)):
        if option("POISON") == str(at):
            feed["dense"][0, 0] = np.nan
        if option("ENTRY") == "show_click":
            feed["show"] = np.ones_like(feed["label"])
            feed["click"] = feed["label"]
        (value,) = exe.run(program, feed=feed, fetch_list=[loss])
        print(f"loss {float(np.ravel(value)[0]):.7f}", flush=True)
        if option("SCHEDULE"):
            rate.step()


if fleet.is_server():
    fleet.init_server(option("LOAD") or None)
    fleet.run_server()
else:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    for seed in option("SEEDS", "3").split(","):
        steps(exe, int(option("STEPS", "10")), int(seed))
    fleet.barrier_worker()
    if option("SAVE"):
        fleet.save_persistables(exe, option("SAVE"))
        fleet.barrier_worker()
    if option("MODEL"):
        fleet.save_inference_model(exe, option("MODEL"), ctr_model.feed_names(), [prediction])
        fleet.barrier_worker()
        # What the job itself predicts from now on.
        (feed,) = ctr_model.batches(1, seed=99)
        (said,) = exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=[prediction])
        print("prediction " + json.dumps(said.tolist()))
    if option("TABLES"):
        print("tables " + json.dumps(fleet.table_stat()))
        fleet.barrier_worker()
    fleet.stop_worker()
