"""DIN: attention of a candidate over a padded history, its padding masked; Dice activations."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

ITEMS, CATEGORIES, WIDTH, LENGTH = 300, 20, 8, 10
FEEDS = {
    "hist_item_seq": ([None, LENGTH], "int64"),
    "hist_cat_seq": ([None, LENGTH], "int64"),
    "target_item": ([None], "int64"),
    "target_cat": ([None], "int64"),
    "label": ([None, 1], "float32"),
    "mask": ([None, LENGTH, 1], "float32"),
}
LABELS = ["label"]
METRIC = "auc"


def batch(random, size):
    lengths = random.integers(1, LENGTH + 1, size=(size, 1))
    seen = np.arange(LENGTH)[None, :] < lengths
    items = random.integers(1, ITEMS, size=(size, LENGTH)) * seen
    target = random.integers(1, ITEMS, size=size)
    label = (items % 3 == target[:, None] % 3).any(axis=1) * 1
    return {
        "hist_item_seq": items,
        "hist_cat_seq": items % CATEGORIES,
        "target_item": target,
        "target_cat": target % CATEGORIES,
        "label": label[:, None],
        "mask": np.where(seen, 0.0, -1e9)[:, :, None],
    }


class Dice(nn.Layer):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.BatchNorm1D(size, epsilon=1e-8)
        self.alpha = self.create_parameter([size], default_initializer=nn.initializer.Constant(0.1))

    def forward(self, x):
        gate = F.sigmoid(self.norm(x))
        return gate * x + (1.0 - gate) * self.alpha * x


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        xavier = paddle.ParamAttr(initializer=nn.initializer.XavierUniform())
        self.item = nn.Embedding(ITEMS, WIDTH, sparse=False, weight_attr=xavier)
        self.category = nn.Embedding(CATEGORIES, WIDTH, sparse=False, weight_attr=xavier)
        self.item_bias = nn.Embedding(
            ITEMS, 1, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.0))
        )
        size = 2 * WIDTH
        self.attention = nn.Sequential(
            nn.Linear(4 * size, 24), nn.Sigmoid(), nn.Linear(24, 12), nn.Sigmoid(), nn.Linear(12, 1)
        )
        self.history = nn.Linear(size, size, weight_attr=xavier)
        self.top = nn.LayerList([nn.Linear(2 * size, 24), Dice(24), nn.Linear(24, 1)])

    def forward(self, hist_item_seq, hist_cat_seq, target_item, target_cat, mask):
        history = paddle.concat([self.item(hist_item_seq), self.category(hist_cat_seq)], axis=2)
        target = paddle.concat([self.item(target_item), self.category(target_cat)], axis=1)
        repeated = paddle.tile(paddle.unsqueeze(target, axis=1), repeat_times=[1, LENGTH, 1])
        pairs = [history, repeated, paddle.subtract(history, repeated), history * repeated]
        scores = self.attention(paddle.concat(pairs, axis=2)) + mask
        scores = paddle.transpose(scores, perm=[0, 2, 1])
        scores = paddle.scale(scores, scale=(2 * WIDTH) ** -0.5)
        weights = F.softmax(scores, axis=-1)
        interest = paddle.reshape(paddle.matmul(weights, history), shape=[-1, 2 * WIDTH])
        hidden = paddle.concat([self.history(interest), target], axis=-1)
        for layer in self.top:
            hidden = layer(hidden)
        return hidden + self.item_bias(target_item)


def arguments(feeds):
    return tuple(feeds[name] for name in FEEDS if name not in LABELS)


def loss(output, feeds):
    return F.binary_cross_entropy_with_logits(output, feeds["label"], reduction="mean")


def judged(output, feeds):
    score = F.sigmoid(output)
    return paddle.concat([1.0 - score, score], axis=1), paddle.cast(feeds["label"], "int64")


def optimizer(parameters):
    rate = paddle.optimizer.lr.PolynomialDecay(learning_rate=0.05, decay_steps=40, end_lr=0.01)
    return (
        paddle.optimizer.RMSProp(
            learning_rate=rate,
            rho=0.9,
            epsilon=1e-4,
            parameters=parameters,
            weight_decay=paddle.regularizer.L2Decay(1e-4),
            grad_clip=nn.ClipGradByNorm(clip_norm=1.0),
        ),
        rate,
    )
