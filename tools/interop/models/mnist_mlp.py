"""A perceptron over images: momentum, weight decay, a stepwise learning rate, accuracy."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

PIXELS, CLASSES = 784, 10
FEEDS = {"image": ([None, PIXELS], "float32"), "label": ([None, 1], "int64")}
LABELS = ["label"]
METRIC = "accuracy"


def batch(random, size):
    label = random.integers(0, CLASSES, size=(size, 1))
    bright = np.arange(PIXELS)[None, :] % CLASSES == label
    return {"image": random.random((size, PIXELS)) * (0.7 + 0.3 * bright), "label": label}


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(PIXELS, 128, weight_attr=nn.initializer.XavierNormal()),
            nn.ReLU(),
            nn.Linear(128, 128, weight_attr=nn.initializer.KaimingUniform()),
            nn.Tanh(),
            nn.Linear(128, CLASSES),
        )

    def forward(self, image):
        return self.layers(image)


def arguments(feeds):
    return (feeds["image"],)


def loss(output, feeds):
    return F.cross_entropy(input=output, label=feeds["label"])


def judged(output, feeds):
    return F.softmax(output, axis=-1), feeds["label"]


def optimizer(parameters):
    rate = paddle.optimizer.lr.PiecewiseDecay(boundaries=[15, 35], values=[0.05, 0.02, 0.005])
    return (
        paddle.optimizer.Momentum(
            learning_rate=rate, momentum=0.9, parameters=parameters, weight_decay=1e-3
        ),
        rate,
    )
