"""Paddle's guide to distributed training with Fluid: `fit a line`, made ready for a cluster.

Takes its role from the variables of the guide's Demo section. Ends with 0 once the loss is under 10.
"""

# ruff: noqa - the guide's own lines stay as they are
# fmt: off

import os

import paddle.v2 as paddle
import paddle.fluid as fluid

x = fluid.layers.data(name="x", shape=[13], dtype="float32")
y_predict = fluid.layers.fc(input=x, size=1, act=None)
y = fluid.layers.data(name="y", shape=[1], dtype="float32")

cost = fluid.layers.square_error_cost(input=y_predict, label=y)
avg_cost = fluid.layers.mean(x=cost)

sgd_optimizer = fluid.optimizer.SGD(learning_rate=0.001)
optimize_ops, params_grads = sgd_optimizer.minimize(avg_cost)

BATCH_SIZE = 20

train_reader = paddle.batch(
    paddle.reader.shuffle(paddle.dataset.uci_housing.train(), buf_size=500), batch_size=BATCH_SIZE
)

place = fluid.CPUPlace()
feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
exe = fluid.Executor(place)

port = os.getenv("PADDLE_PSERVER_PORT", "6174")
pserver = ",".join(f"{ip}:{port}" for ip in os.getenv("PADDLE_PSERVER_IPS", "").split(","))
trainers = int(os.getenv("PADDLE_TRAINERS", "1"))
server_endpoint = os.getenv("PADDLE_CURRENT_IP", "") + ":" + port
trainer_id = int(os.getenv("PADDLE_TRAINER_ID", "0"))
training_role = os.getenv("PADDLE_TRAINING_ROLE", "TRAINER")

# --- the guide
t = fluid.DistributeTranspiler()
t.transpile(
    optimize_ops,
    params_grads,
    trainer_id,
    pservers=pserver,
    trainers=trainers)
if training_role == "PSERVER":
    pserver_prog = t.get_pserver_program(server_endpoint)
    pserver_startup = t.get_startup_program(server_endpoint, pserver_prog)
    # ---
    exe.run(pserver_startup)
    exe.run(pserver_prog)
    exit(0)

# A trainer that is done leaves without `exe.close()`; the other one goes on alone.
exe.run(fluid.default_startup_program())
for pass_id in range(100):
    for data in train_reader():
        (avg_loss_value,) = exe.run(
            t.get_trainer_program(), feed=feeder.feed(data), fetch_list=[avg_cost]
        )
        print(f"loss {avg_loss_value[0]:.6f}", flush=True)
        if avg_loss_value[0] < 10.0:
            exit(0)  # if avg cost less than 10.0, we think our code is good.
exit(1)
