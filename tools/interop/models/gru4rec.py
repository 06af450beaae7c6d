"""GRU4Rec: the next item of a session of varying length, two GRU layers, AdamW with warm-up."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

ITEMS, WIDTH, HIDDEN, LENGTH = 200, 16, 24, 8
FEEDS = {
    "session": ([None, LENGTH], "int64"),
    "length": ([None], "int64"),
    "label": ([None, 1], "int64"),
}
LABELS = ["label"]
METRIC = None


def batch(random, size):
    start = random.integers(1, ITEMS, size=(size, 1))
    steps = random.integers(1, 4, size=(size, 1)) * np.arange(LENGTH + 1)[None, :]
    walk = (start + steps) % (ITEMS - 1) + 1
    length = random.integers(2, LENGTH + 1, size=size)
    seen = np.arange(LENGTH)[None, :] < length[:, None]
    label = np.take_along_axis(walk, length[:, None], axis=1)
    return {"session": walk[:, :LENGTH] * seen, "length": length, "label": label}


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(
            ITEMS,
            WIDTH,
            padding_idx=0,
            weight_attr=paddle.ParamAttr(initializer=nn.initializer.XavierNormal()),
        )
        self.gru = nn.GRU(input_size=WIDTH, hidden_size=HIDDEN, num_layers=2)
        self.norm = nn.LayerNorm(HIDDEN)
        self.out = nn.Linear(HIDDEN, ITEMS)

    def forward(self, session, length):
        outputs, states = self.gru(self.items(session), sequence_length=length)
        last = paddle.squeeze(paddle.slice(states, axes=[0], starts=[1], ends=[2]), axis=0)
        return self.out(self.norm(last) + paddle.mean(outputs, axis=1))


def arguments(feeds):
    return feeds["session"], feeds["length"]


def loss(output, feeds):
    return paddle.mean(F.softmax_with_cross_entropy(logits=output, label=feeds["label"]))


def optimizer(parameters):
    rate = paddle.optimizer.lr.LinearWarmup(
        learning_rate=0.01, warmup_steps=10, start_lr=0.001, end_lr=0.01
    )
    clip = nn.ClipGradByGlobalNorm(clip_norm=1.0)
    return (
        paddle.optimizer.AdamW(
            learning_rate=rate, parameters=parameters, weight_decay=0.01, grad_clip=clip
        ),
        rate,
    )
