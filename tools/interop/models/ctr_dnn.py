"""CTR-DNN: 26 slots share one sparse table, lazy Adam updates the rows of a batch only."""

import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

SLOTS, DENSE, ROWS, WIDTH = 26, 13, 1001, 9
LAYERS = [64, 32, 2]
SLOT_NAMES = [f"C{slot}" for slot in range(1, SLOTS + 1)]
FEEDS = {
    "label": ([None, 1], "int64"),
    **{name: ([None, 1], "int64") for name in SLOT_NAMES},
    "dense_input": ([None, DENSE], "float32"),
}
LABELS = ["label"]
METRIC = "auc"


def batch(random, size):
    ids = {name: random.zipf(1.3, size=(size, 1)) % ROWS for name in SLOT_NAMES}
    dense = random.random((size, DENSE))
    clicked = (dense.sum(axis=1, keepdims=True) + (ids["C1"] % 3) > DENSE / 2 + 1) * 1
    return {"label": clicked, **ids, "dense_input": dense}


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(
            ROWS,
            WIDTH,
            sparse=True,
            weight_attr=paddle.ParamAttr(
                name="SparseFeatFactors", initializer=nn.initializer.Uniform()
            ),
        )
        sizes = [SLOTS * WIDTH + DENSE] + LAYERS
        self.tower = []
        for i, (inner, outer) in enumerate(zip(sizes[:-1], sizes[1:])):
            linear = nn.Linear(
                in_features=inner,
                out_features=outer,
                weight_attr=paddle.ParamAttr(
                    initializer=nn.initializer.Normal(std=1.0 / math.sqrt(inner))
                ),
            )
            self.add_sublayer(f"linear_{i}", linear)
            self.tower.append(linear)
            if i + 1 < len(LAYERS):
                act = nn.ReLU()
                self.add_sublayer(f"act_{i}", act)
                self.tower.append(act)

    def forward(self, sparse_inputs, dense_inputs):
        found = [paddle.reshape(self.embedding(ids), shape=[-1, WIDTH]) for ids in sparse_inputs]
        hidden = paddle.concat(x=found + [dense_inputs], axis=1)
        for layer in self.tower:
            hidden = layer(hidden)
        return hidden


def arguments(feeds):
    return [feeds[name] for name in SLOT_NAMES], feeds["dense_input"]


def loss(output, feeds):
    return paddle.mean(x=F.cross_entropy(input=output, label=feeds["label"]))


def judged(output, feeds):
    return F.softmax(output), feeds["label"]


def optimizer(parameters):
    return paddle.optimizer.Adam(learning_rate=0.001, parameters=parameters, lazy_mode=True), None
