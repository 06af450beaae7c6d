"""`Model.fit` and `evaluate` in one process or several; prints what comes of it."""

import json

import numpy as np
import paddle

network = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Tanh(), paddle.nn.Linear(4, 3))
random = np.random.RandomState(1)
for parameter in network.parameters():
    parameter.set_value(random.uniform(-0.5, 0.5, parameter.shape).astype("float32"))
x = random.uniform(-1, 1, (16, 3)).astype("float32")
size = paddle.distributed.get_world_size()
y = x.argmax(axis=1).astype("int64").reshape(-1, 1)
data = paddle.io.TensorDataset([paddle.to_tensor(x), paddle.to_tensor(y)])
held = paddle.io.TensorDataset([paddle.to_tensor(x[:5]), paddle.to_tensor(y[:5])])

model = paddle.Model(network)
sgd = paddle.optimizer.SGD(0.5, parameters=network.parameters())
model.prepare(sgd, paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
# One batch an epoch, whatever the ranks: sums of gradients come in another order only.
model.fit(data, batch_size=16 // size, epochs=4, shuffle=False, verbose=2)
result = model.evaluate(held, batch_size=2, verbose=2)
weights = [float(f"{v:.5g}") for p in network.parameters() for v in p.numpy().ravel()]
print("RESULT", json.dumps({"weights": weights, "acc": result["acc"]}))
