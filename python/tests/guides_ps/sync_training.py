"""Paddle's guide to synchronous training: one script for all roles, split by the transpiler.

`TRAINING_ROLE` is TRAINER, PSERVER or LOCAL, which trains alone on the same data.
"""

# ruff: noqa - the guide's own lines stay as they are
# fmt: off

import os

import numpy as np
import paddle.fluid as fluid

role = os.environ["TRAINING_ROLE"]
trainer_id = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
trainers = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
pservers = os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST", "")

# Every trainer, and the local run, has the same batches: the mean gradient is each one's own.
random = np.random.RandomState(5)
images = random.rand(8, 32, 20).astype("float32")
labels = images.sum(axis=2, keepdims=True)

x = fluid.layers.data(name="x", shape=[20], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
hidden = fluid.layers.fc(
    input=x,
    size=16,
    act="tanh",
    param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.01)),
)
prediction = fluid.layers.fc(
    input=hidden,
    size=1,
    param_attr=fluid.ParamAttr(initializer=fluid.initializer.Constant(0.01)),
)
loss = fluid.layers.mean(fluid.layers.square_error_cost(input=prediction, label=y))
fluid.optimizer.Momentum(learning_rate=0.01, momentum=0.9).minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
main_program = fluid.default_main_program()

if role != "LOCAL":
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = os.environ.get("SLICE_VAR_UP") == "1"
    t = fluid.DistributeTranspiler(config=config)
    t.transpile(
        trainer_id,
        program=main_program,
        pservers=pservers,
        trainers=trainers,
        sync_mode=True,
    )

if role == "PSERVER":
    current_endpoint = os.environ["PADDLE_CURRENT_ENDPOINT"]
    pserver_prog = t.get_pserver_program(current_endpoint)
    pserver_startup = t.get_startup_program(current_endpoint, pserver_prog)
    exe.run(pserver_startup)
    exe.run(pserver_prog)
else:
    program = main_program if role == "LOCAL" else t.get_trainer_program()
    exe.run(fluid.default_startup_program())
    for epoch in range(5):
        for image, label in zip(images, labels):
            (value,) = exe.run(program, feed={"x": image, "y": label}, fetch_list=[loss])
            print(f"loss {value[0]:.6f}", flush=True)
    exe.close()
