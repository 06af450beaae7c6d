"""The MNIST perceptron as a static program with numpy feeds, against PyTorch eager on the same card.

    python tools/peers/mnist_gpu.py [--steps 300] [--rounds 7]

Both sides train 784-128-128-10 with Adam on batches of 64 that come from numpy arrays in every step,
and fetch the loss. Rounds alternate; the median counts. Prints `EVT {json}` lines, as the other peers
do; the last has the ratio. Without PyTorch only our side is timed.
"""

import argparse
import json
import statistics
import time

import bireme as paddle
import numpy as np

SIZES = [784, 128, 128, 10]
BATCH = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="steps in a round")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, SIZES[0]), dtype="float32")
    y = random.integers(0, SIZES[-1], (BATCH, 1)).astype("int64")
    sides = {"bireme": ours(x, y)}
    try:
        import torch

        sides["torch"] = theirs(torch, x, y)
    except ImportError:
        pass
    times = {name: [] for name in sides}
    for _ in range(given.rounds):
        for name, step in sides.items():
            started = time.perf_counter()
            for _ in range(given.steps):
                loss = step()
            times[name].append((time.perf_counter() - started) / given.steps * 1e6)
            assert np.isfinite(loss)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, us in medians.items():
        event("step", side=name, us=round(us, 1))
    if "torch" in medians:
        event("ratio", case="mnist_numpy", value=round(medians["torch"] / medians["bireme"], 2))


def event(kind, **figures):
    print("EVT", json.dumps({"kind": kind, **figures}), flush=True)


def ours(x, y):
    """A step of the static program, which gives the loss."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        image = paddle.static.data("x", [None, SIZES[0]], "float32")
        label = paddle.static.data("y", [None, 1], "int64")
        hidden = image
        for size in SIZES[1:-1]:
            hidden = paddle.static.nn.fc(hidden, size, activation="relu")
        logits = paddle.static.nn.fc(hidden, SIZES[-1])
        loss = paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(logits, label))
        paddle.optimizer.Adam(learning_rate=1e-3).minimize(loss)
    executor = paddle.static.Executor(paddle.CUDAPlace(0))
    executor.run(startup)

    def step():
        return executor.run(main, feed={"x": x, "y": y}, fetch_list=[loss])[0].item()

    for _ in range(5):
        step()
    return step


def theirs(torch, x, y):
    """The same in PyTorch."""
    layers = []
    for inputs, outputs in zip(SIZES, SIZES[1:], strict=False):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1]).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    labels = y[:, 0]

    def step():
        optimizer.zero_grad()
        image, label = torch.from_numpy(x).cuda(), torch.from_numpy(labels).cuda()
        loss = torch.nn.functional.cross_entropy(net(image), label)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(5):
        step()
    return step


if __name__ == "__main__":
    main()
