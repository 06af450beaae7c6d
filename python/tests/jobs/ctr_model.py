"""The model and data of the jobs: clicks on three slots of ids and two numbers.

Every process builds it alike, so what a job learns can be compared with a run of one process.
"""

import os

import numpy as np

# Not at its first use: its extension modules lose a Ctrl-C that comes while they are imported.
import numpy.random
import paddle

SLOTS = 3
WIDTH = 4
IDS = 50
BATCH = 32


def batches(count, rank=0, ranks=1, seed=3, offset=0):
    """Batches of `BATCH` samples, of which this rank has every `ranks`-th."""
    random = np.random.RandomState(seed)
    weights = np.random.RandomState(seed + 1).randn(IDS)
    for _ in range(count):
        ids = random.randint(0, IDS, [BATCH, SLOTS])
        dense = random.rand(BATCH, 2).astype("float32")
        score = 0.2 * weights[ids].sum(axis=1) + 4 * (dense.sum(axis=1) - 1)
        label = (score > 0).astype("int64").reshape(-1, 1)
        feed = {f"slot{at}": ids[:, at : at + 1].astype("int64") + offset for at in range(SLOTS)}
        feed |= {"dense": dense, "label": label}
        yield {name: value[rank::ranks] for name, value in feed.items()}


def network(embed):
    """The network of a model whose rows of a slot are `embed(ids)`; returns prediction and loss."""
    slots = [paddle.static.data(f"slot{at}", [None, 1], "int64") for at in range(SLOTS)]
    dense = paddle.static.data("dense", [None, 2])
    label = paddle.static.data("label", [None, 1], "int64")
    rows = [paddle.reshape(embed(slot), [-1, WIDTH]) for slot in slots]
    hidden = paddle.concat([*rows, dense], axis=1)
    for size, active in ((16, "relu"), (8, "relu")):
        hidden = paddle.static.nn.fc(hidden, size, activation=active)
    prediction = paddle.nn.functional.softmax(paddle.static.nn.fc(hidden, 2))
    cost = paddle.nn.functional.cross_entropy(prediction, label, use_softmax=False)
    return prediction, paddle.mean(cost)


def feed_names():
    return [*(f"slot{at}" for at in range(SLOTS)), "dense"]


def option(name, default=""):
    """What the test wants of this job."""
    return os.environ.get(f"JOB_{name}", default)


def train(exe, program, loss, rank, ranks, steps=None, **data):
    """Trains, and shows the loss of every step."""
    steps = int(option("STEPS", "10")) if steps is None else steps
    for feed in batches(steps, rank, ranks, **data):
        (value,) = exe.run(program, feed=feed, fetch_list=[loss])
        print(f"loss {float(np.ravel(value)[0]):.7f}", flush=True)
