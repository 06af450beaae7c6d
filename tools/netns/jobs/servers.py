"""A small CTR model on parameter servers; prints the loss of every step."""

import os

import numpy as np
import paddle
from paddle.distributed import fleet

IDS, SLOTS, WIDTH, BATCH = 1000, 3, 8, 32
STEPS = int(os.environ.get("JOB_STEPS", "20"))

paddle.enable_static()
fleet.init(is_collective=False)
slots = [paddle.static.data(f"slot{at}", [None, 1], "int64") for at in range(SLOTS)]
label = paddle.static.data("label", [None, 1], "int64")
attr = paddle.ParamAttr(name="emb", initializer=paddle.nn.initializer.Constant(0.05))
embed = paddle.nn.Embedding(IDS, WIDTH, sparse=True, weight_attr=attr)
hidden = paddle.concat([paddle.reshape(embed(slot), [-1, WIDTH]) for slot in slots], axis=1)
hidden = paddle.static.nn.fc(hidden, 16, activation="relu")
prediction = paddle.nn.functional.softmax(paddle.static.nn.fc(hidden, 2))
cost = paddle.nn.functional.cross_entropy(prediction, label, use_softmax=False)
loss = paddle.mean(cost)
strategy = fleet.DistributedStrategy()
strategy.a_sync = os.environ.get("JOB_MODE", "sync") == "async"
fleet.distributed_optimizer(paddle.optimizer.SGD(0.5), strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    raise SystemExit

exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
fleet.init_worker()
rank = fleet.worker_index()
random, weights = np.random.RandomState(rank), np.random.RandomState(99).randn(IDS)
print(f"goes on from {fleet.last_checkpoint()}", flush=True)
for step in range(STEPS):
    ids = random.randint(0, IDS // 50, [BATCH, SLOTS])
    labels = (weights[ids].sum(axis=1) > 0).astype("int64").reshape(-1, 1)
    feed = {f"slot{at}": ids[:, at : at + 1] for at in range(SLOTS)} | {"label": labels}
    (value,) = exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=[loss])
    print(f"step {step} loss {float(np.ravel(value)[0]):.5f}", flush=True)
    if step == 3 and os.environ.get("JOB_SAVE"):
        fleet.barrier_worker()
        fleet.save_persistables(exe, os.environ["JOB_SAVE"])
        fleet.barrier_worker()
    once = os.environ.get("JOB_FAIL_ONCE") and os.environ["BIREME_RESTART"] != "0"
    if os.environ.get("JOB_FAIL") == f"{rank}:{step}" and not once:
        raise ValueError("this worker was told to fail")
fleet.barrier_worker()
print(f"worker {rank} is done", flush=True)
fleet.stop_worker()
