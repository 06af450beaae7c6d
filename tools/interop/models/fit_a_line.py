"""Linear regression with plain SGD: the smallest whole model."""

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

FEATURES = 13
FEEDS = {"x": ([None, FEATURES], "float32"), "y": ([None, 1], "float32")}
LABELS = ["y"]
METRIC = None


def batch(random, size):
    x = random.normal(size=(size, FEATURES))
    y = x.sum(axis=1, keepdims=True) * 2 + 22.5 + random.normal(size=(size, 1))
    return {"x": x, "y": y}


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.predict = nn.Linear(FEATURES, 1)

    def forward(self, x):
        return self.predict(x)


def arguments(feeds):
    return (feeds["x"],)


def loss(output, feeds):
    return paddle.mean(F.square_error_cost(output, feeds["y"]))


def optimizer(parameters):
    return paddle.optimizer.SGD(learning_rate=0.01, parameters=parameters), None
