"""The job of `bireme bench launch`: every role runs this script, as the environment says."""

import numpy as np
import paddle
from paddle.distributed import fleet

paddle.enable_static()
slots = [paddle.static.data(f"slot_{number}", [None, 1], "int64") for number in range(4)]
label = paddle.static.data("label", [None, 1], "float32")
attr = paddle.ParamAttr(name="embedding")
embedding = paddle.nn.Embedding(10001, 9, sparse=True, weight_attr=attr)
hidden = paddle.concat([embedding(slot).reshape([-1, 9]) for slot in slots], axis=1)
hidden = paddle.static.nn.fc(hidden, 32, activation="relu")
click = paddle.static.nn.fc(hidden, 1, activation="sigmoid")
loss = paddle.nn.functional.binary_cross_entropy(click, label)

fleet.init(is_collective=False)
optimizer = paddle.optimizer.SGD(0.01)
optimizer = fleet.distributed_optimizer(optimizer, fleet.DistributedStrategy())
optimizer.minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    generator = np.random.default_rng(fleet.worker_index())
    for _ in range(3):
        feed = {f"slot_{n}": generator.integers(0, 10001, (64, 1)) for n in range(4)}
        feed["label"] = generator.integers(0, 2, (64, 1)).astype("float32")
        exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=[loss])
    fleet.stop_worker()
