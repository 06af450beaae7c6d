"""The digits' perceptron in static mode, as one of several ranks or alone; `JOB_HOW` says how.

Every step has a joint batch, of which a rank feeds its rows. At the end the parameters are written.
"""

import os

import numpy as np
import paddle
from paddle import fluid
from paddle.distributed import fleet

paddle.enable_static()
HOW, OUT = os.environ["JOB_HOW"], os.environ["JOB_OUT"]
ENDPOINTS = os.environ.get("PADDLE_TRAINER_ENDPOINTS", "")
RANK, RANKS = (int(os.environ.get(f"PADDLE_TRAINER{n}", d)) for n, d in (("_ID", 0), ("S_NUM", 1)))
BATCH, STEPS = 48, 12
sparse = "sparse" in HOW
merged = 2 if "merge" in HOW else 1
main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
# Ranks that start apart must be brought together by the job.
main.random_seed = startup.random_seed = 7 + RANK


def network():
    x = paddle.static.data("x", [None, 784], "float32")
    y = paddle.static.data("y", [None, 1], "int64")
    hidden = x
    if sparse:
        ids = paddle.static.data("ids", [None, 1], "int64")
        embedded = fluid.layers.embedding(ids, [50, 16], is_sparse=True)
        embedded = paddle.reshape(embedded, [-1, 16])
        hidden = paddle.concat([x, embedded], axis=1)
    for size in (128, 128):
        hidden = paddle.static.nn.fc(hidden, size, activation="tanh")
    logits = paddle.static.nn.fc(hidden, 10)
    return paddle.mean(fluid.layers.softmax_with_cross_entropy(logits, y))


def batches():
    random = np.random.default_rng(3)
    patterns = random.random([10, 784], dtype="float32")
    for _ in range(STEPS):
        y = random.integers(0, 10, [BATCH, 1])
        x = patterns[y[:, 0]] * random.random([BATCH, 784], dtype="float32")
        yield {"x": x, "y": y, **({"ids": random.integers(0, 50, [BATCH, 1])} if sparse else {})}


def share(batch, part, parts):
    rows = BATCH // parts
    return {name: value[part * rows : (part + 1) * rows] for name, value in batch.items()}


loss = network()
adam = paddle.optimizer.Adam(0.005, epsilon=1e-2)
if "clip" in HOW:
    adam = paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))
if "local" in HOW:
    adam = paddle.optimizer.SGD(0.1)
program = main
if HOW.startswith("fleet"):
    strategy = fleet.DistributedStrategy()
    if merged > 1:
        strategy.gradient_merge = True
        strategy.gradient_merge_configs = {"k_steps": merged, "avg": True}
    if "local" in HOW:
        strategy.localsgd = True
        strategy.localsgd_configs = {"k_steps": 1}
    if "apart" in HOW:
        strategy.fuse_all_reduce_ops = False
    fleet.init(is_collective=True, strategy=strategy)
    fleet.distributed_optimizer(adam).minimize(loss)
    assert main._fleet_opt["trainer_id"] == RANK
elif HOW.startswith("incubate"):
    from paddle.fluid.incubate.fleet.collective import fleet as old_fleet

    old_fleet.init()
    old_fleet.distributed_optimizer(adam).minimize(loss)
    program = old_fleet.main_program
else:
    adam.minimize(loss)
    if RANKS > 1:
        config = fluid.DistributeTranspilerConfig()
        config.mode = "collective" if "collective" in HOW else "nccl2"
        if "local" in HOW:
            config.collective_mode = "local_sgd"
        here = os.environ["PADDLE_CURRENT_ENDPOINT"]
        transpiler = fluid.DistributeTranspiler(config)
        transpiler.transpile(RANK, trainers=ENDPOINTS, current_endpoint=here)
on_card = os.environ.get("JOB_DEVICE", "cpu") != "cpu"
exe = paddle.static.Executor(paddle.CUDAPlace(0) if on_card else paddle.CPUPlace())
exe.run(startup)
if "parallel" in HOW:
    run = fluid.ParallelExecutor(False, loss.name, main, num_trainers=RANKS, trainer_id=RANK).run
    step = lambda feed: run([loss.name], feed)
else:
    step = lambda feed: exe.run(program, feed, [loss])
losses = []
for batch in batches():
    for part in range(merged):
        rows = share(batch, part * RANKS + RANK, merged * RANKS)
        losses.append(float(step(rows)[0]))
assert losses[-1] < losses[0], losses
scope = paddle.static.global_scope()
values = {p.name: np.array(scope.find_var(p.name).get_tensor()) for p in main.all_parameters()}
np.savez(f"{OUT}{RANK}.npz", **values)
