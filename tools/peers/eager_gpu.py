"""Eager mode on one card, against PyTorch's, in one process: the perceptron of MNIST, and DLPack.

    python tools/peers/eager_gpu.py [--steps 300] [--rounds 7] [--optimizer adam|sgd]

Both sides train 784-128-64-10 on batches of 64 that lie on the card. Rounds alternate, so that a
clock that changes changes both; the median counts. Then memory is handed to the other side and back.
Prints `EVT {json}` lines, as the other peers do; the last has the ratio. Without PyTorch only our
side is timed, and DLPack is tried with ourselves.
"""

import argparse
import itertools
import json
import statistics
import time

import bireme as paddle
import numpy as np

SIZES = [784, 128, 64, 10]
BATCH = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="steps in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
    given = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    paddle.set_device("gpu:0")
    event("built", bireme=paddle.__version__, torch=torch and torch.__version__)
    sides = {"bireme": ours(given.optimizer)}
    if torch is not None:
        sides["torch"] = theirs(torch, given.optimizer)
    compare(sides, given.steps, given.rounds)
    share(torch)


def event(kind, **figures):
    print("EVT", json.dumps({"kind": kind, **figures}), flush=True)


def batch():
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, SIZES[0]), dtype="float32")
    return x, random.integers(0, SIZES[-1], BATCH)


# --- Training -------------------------------------------------------------------------------------


def ours(optimizer):
    """A step, and what waits for the card and gives the loss."""
    nn = paddle.nn
    layers = []
    for inputs, outputs in itertools.pairwise(SIZES):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    kind = {"adam": paddle.optimizer.Adam, "sgd": paddle.optimizer.SGD}[optimizer]
    updates = kind(learning_rate=1e-3, parameters=model.parameters())
    x, y = batch()
    x, y = paddle.to_tensor(x), paddle.to_tensor(y.reshape(-1, 1))

    def step():
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    return step, lambda loss: float(loss)


def theirs(torch, optimizer):
    """The same in PyTorch."""
    nn = torch.nn
    layers = []
    for inputs, outputs in itertools.pairwise(SIZES):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).cuda()
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer]
    updates = kind(model.parameters(), lr=1e-3)
    x, y = batch()
    x, y = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()

    def step():
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        updates.step()
        updates.zero_grad()
        return loss

    return step, lambda loss: loss.item()


def compare(sides, steps, rounds):
    times = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, (step, wait) in sides.items():
            start = time.perf_counter()
            for _ in range(steps):
                loss = step()
            value = wait(loss)
            # The first round warms up.
            if number:
                times[name].append(1e6 * (time.perf_counter() - start) / steps)
            if number == rounds:
                event("loss", side=name, value=value)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, median in medians.items():
        spread = [round(min(times[name]), 1), round(max(times[name]), 1)]
        event("figure", case=f"{name} us a step", value=round(median, 1), spread=spread)
    if "torch" in medians:
        ratio = medians["torch"] / medians["bireme"]
        event("ratio", case="PyTorch's time over ours", value=round(ratio, 2), wanted=1.5)


# --- DLPack ---------------------------------------------------------------------------------------


def share(torch):
    """Hands tensors over and back; raises where one is copied, or its values are wrong."""
    x = paddle.arange(1 << 20).astype("float32") * 2.0
    if torch is None:
        same = paddle.utils.dlpack.from_dlpack(x)
        assert float((same - x).abs().max()) == 0.0
        event("dlpack", torch=False)
        return
    # Without a wait between: the reader's stream waits for the writer's.
    there = torch.from_dlpack(x)
    assert there.is_cuda and there.device.index == 0
    total = (there + 1.0).double().sum().item()
    assert total == float((x + 1.0).astype("float64").sum()), "values differ"
    back = paddle.utils.dlpack.from_dlpack(there)
    assert torch.from_dlpack(back).data_ptr() == there.data_ptr(), "a copy was made"
    theirs_first = torch.arange(1 << 20, device="cuda", dtype=torch.float32) * 3.0
    here = paddle.utils.dlpack.from_dlpack(theirs_first)
    assert torch.from_dlpack(here).data_ptr() == theirs_first.data_ptr(), "a copy was made"
    assert float((here - paddle.arange(1 << 20).astype("float32") * 3.0).abs().max()) == 0.0
    capsule = torch.utils.dlpack.to_dlpack(theirs_first)
    assert float(paddle.utils.dlpack.from_dlpack(capsule)[5]) == 15.0
    # Memory lives while either side holds it, and is not handed on while the other one reads it.
    for number in range(200):
        lent = torch.from_dlpack(paddle.full([1 << 16], float(number)))
        sums = lent * 1.0
        del lent
        paddle.full([1 << 16], -1.0)
        assert sums[-1].item() == float(number), "memory was used for something else"
    del theirs_first, there
    assert float(here[7]) == 21.0
    event("dlpack", torch=True, copies=0)


if __name__ == "__main__":
    main()
