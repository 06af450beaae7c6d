"""Paddle's guide to the Fleet API with its parameter servers: every role runs this script.

`TRAINING_ROLE` is WORKER or SERVER, `CURRENT_ID` its number. The lines between the marks are the
guide's own.
"""

# ruff: noqa - the guide's own lines stay as they are
# fmt: off

import os

import numpy as np
import paddle
import paddle.fluid as fluid

# ---
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker

# --- the guide
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig


def fake_reader():
    """Samples whose label follows from two of their ten features."""

    def reader():
        random = np.random.RandomState(int(os.environ["CURRENT_ID"]))
        for _ in range(240):
            x = random.rand(10).astype("float32")
            yield x, np.array([int(x[0] + x[1] > 1)], "int64")

    return reader


def model():
    global x, y, auc, auc_batch
    x = fluid.layers.data(name="x", shape=[10], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="int64")
    hidden = fluid.layers.fc(input=x, size=128, act="relu")
    predict = fluid.layers.fc(input=hidden, size=2, act="softmax")
    auc, auc_batch, _ = fluid.layers.auc(input=predict, label=y)
    return fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=y))


# --- the guide, but for what differs between processes
role = UserDefinedRoleMaker(
    current_id=int(os.environ["CURRENT_ID"]),
    role=Role[os.environ["TRAINING_ROLE"]],
    worker_num=int(os.environ["WORKER_NUM"]),
    server_endpoints=os.environ["SERVER_ENDPOINTS"].split(","),
)
fleet.init(role_maker=role)

config = DistributeTranspilerConfig()
config.sync_mode = True

# build network
# ...
avg_cost = model()

optimizer = fluid.optimizer.Adam(learning_rate=0.001)
# 加入 fleet distributed_optimizer 加入分布式策略配置及多机优化
optimizer = fleet.distributed_optimizer(optimizer, config)
optimizer.minimize(avg_cost)
# ---

place = fluid.CPUPlace()
exe = fluid.Executor(place)

# --- the guide
# 启动server
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()

# 启动worker
if fleet.is_worker():
    # 初始化worker配置
    fleet.init_worker()

    feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
    train_reader = paddle.batch(fake_reader(), batch_size=24)

    exe.run(fleet.startup_program)

    PASS_NUM = 10
    for pass_id in range(PASS_NUM):
        for batch_id, data in enumerate(train_reader()):
            avg_loss_value, auc_value, auc_batch_value = \
                exe.run(fleet.main_program, feed=feeder.feed(data), fetch_list=[avg_cost, auc, auc_batch])
            print("Pass %d, cost = %f, auc = %f, batch_auc = %f" % (pass_id, avg_loss_value, auc_value, auc_batch_value))
    # 通知server，当前节点训练结束
    fleet.stop_worker()
# ---
