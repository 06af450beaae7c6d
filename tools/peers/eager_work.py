"""Small eager work, timed under whatever `paddle` is; prints `EVT {json}` lines as the peers do.

usage: eager_work.py add | loader
"""

import json
import sys
import time

import numpy as np
import paddle

REPEATS = 7


def main():
    report = {"kind": "built", "package": paddle.__name__, "version": paddle.__version__}
    print("EVT", json.dumps(report), flush=True)
    {"add": add, "loader": loader}[sys.argv[1]]()


def event(case, value):
    print("EVT", json.dumps({"kind": "figure", "case": case, "value": value}), flush=True)


# --- Dispatch -------------------------------------------------------------------------------------


def add():
    """Nanoseconds for `x + y` of two elements, without and with a gradient wanted."""
    for case, stop in [("plain", True), ("recorded", False)]:
        x = paddle.to_tensor(np.array([1.0, 2.0], "float32"), stop_gradient=stop)
        y = paddle.to_tensor(np.array([3.0, 4.0], "float32"))
        event(case, 1e9 * (best(add_repeatedly, x, y) - best(do_nothing_repeatedly)))


def add_repeatedly(count, x, y):
    for _ in range(count):
        x + y


def do_nothing_repeatedly(count):
    for _ in range(count):
        pass


def best(work, *arguments):
    """Seconds for one of many, the best of several attempts after a warm-up."""
    count = 100_000
    work(count // 10, *arguments)
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work(count, *arguments)
        found.append((time.perf_counter() - start) / count)
    return min(found)


# --- DataLoader -----------------------------------------------------------------------------------


class Samples(paddle.io.Dataset):
    """Rows of a CTR sample: 26 ids, 13 numbers, a label."""

    def __init__(self, count):
        super().__init__()
        random = np.random.default_rng(0)
        self.ids = random.integers(0, 1000, size=(count, 26))
        self.dense = random.random((count, 13), dtype="float32")

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self.ids[index], self.dense[index], np.int64(index % 2)


def loader():
    """Samples a second out of a DataLoader, without and with worker processes."""
    samples = Samples(20_000)
    for workers in (0, 2):
        batches = paddle.io.DataLoader(
            samples, batch_size=128, shuffle=True, drop_last=True, num_workers=workers
        )
        found = []
        for _ in range(3):
            start, count = time.perf_counter(), 0
            for ids, _, _ in batches:
                count += ids.shape[0]
            found.append(count / (time.perf_counter() - start))
        event(f"workers {workers}", max(found))


if __name__ == "__main__":
    main()
