"""Exchanges models with real Paddle 2.6.2, both ways, and compares predictions.

Usage: python run.py [fit_a_line | mnist_mlp | ctr_dnn]...     (default: all)

`cargo xtask interop` builds our side and calls this. `BIREME_BIN` is the `bireme` command,
`BIREME_EXAMPLES` the folder of the built examples. Exits with 1 when a prediction differs by more
than the tolerance, or a model does not load.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ.setdefault("FLAGS_enable_pir_api", "0")

import numpy as np
import paddle

import exchanged
import idx

# Of 1, and relative above: what the order of sums may change in single precision.
TOLERANCE = 1e-5
ROWS = 64


def main(names):
    unknown = set(names) - set(exchanged.BUILDERS)
    if unknown:
        sys.exit(f"no such model: {', '.join(unknown)}: there are {', '.join(exchanged.BUILDERS)}")
    paddle.enable_static()
    # It warns at each load of the older layout.
    logging.disable(logging.WARNING)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        for name in names or exchanged.BUILDERS:
            work = Path(folder) / name
            from_bireme(name, work / "bireme", table)
            from_paddle(name, work / "paddle", table)
    print(f"{table.cases} exchanges, {table.failed} failed (tolerance {TOLERANCE:g})")
    return 1 if table.failed else 0


# --- Models trained here, loaded in Paddle --------------------------------------------------------


def from_bireme(name, work, table):
    saved = {}

    def train():
        work.mkdir(parents=True)
        saved["2.x"] = train_here(name, work)

    if not table.attempt(name, "bireme -> Paddle", "train", "", train):
        return
    for layout, flags in [("1.x files", []), ("1.x one file", ["--params", "__params__"])]:
        saved[layout] = work / layout.replace(" ", "_")
        command = [example("resave"), saved["2.x"], saved[layout], *flags]
        table.attempt(name, "bireme -> Paddle", "save as", layout, lambda: call(command))
    for layout, path in saved.items():
        table.attempt(name, "bireme -> Paddle", "predict", layout, lambda: compare(path, layout))


def train_here(name, work):
    """Trains a little with our own command or example, and returns the prefix of the model."""
    if name == "ctr_dnn":
        flags = ["--samples", "8192", "--rows", "2001", "--quiet", "--output", work]
        call([bireme(), "train", *flags])
    elif name == "mnist_mlp":
        data = idx.write_synthetic(work / "data", train=640, test=64)
        call([example("mnist_mlp"), "--data", data, "--save", work])
    else:
        call([example("fit_a_line"), "--save", work])
    return work / "model"


# --- Models of Paddle, loaded here ----------------------------------------------------------------


def from_paddle(name, work, table):
    for form, build in exchanged.BUILDERS[name].items():
        folder = work / form
        saved = {}

        def train():
            folder.mkdir(parents=True)
            saved.update(exchanged.train_and_save(build, folder))

        if not table.attempt(name, "Paddle -> bireme", form, "train", train):
            continue
        for layout, path in saved.items():
            table.attempt(name, "Paddle -> bireme", form, layout, lambda: compare(path, layout))


# --- Comparing ------------------------------------------------------------------------------------


def compare(path, layout):
    """The largest difference between the predictions of both sides for the model at `path`."""
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        executor = paddle.static.Executor(paddle.CPUPlace())
        names = {"1.x files": {"model_filename": "__model__"}}.get(layout, {})
        if layout == "1.x one file":
            names = {"model_filename": "__model__", "params_filename": "__params__"}
        program, feeds, fetches = paddle.static.load_inference_model(str(path), executor, **names)
        rows = exchanged.random_rows(program, feeds, ROWS)
        theirs = executor.run(program, feed=rows, fetch_list=fetches)
    inspect(path, program)
    ours = predict(path, rows, feeds)
    if len(ours) != len(theirs):
        raise Mismatch(f"{len(theirs)} outputs in Paddle, {len(ours)} here")
    return max(difference(a, b) for a, b in zip(ours, theirs))


def predict(path, rows, feeds):
    """What `bireme predict` says, one array for each output."""
    lines = (
        json.dumps({feed: rows[feed][row].tolist() for feed in feeds}) + "\n" for row in range(ROWS)
    )
    printed = call([bireme(), "predict", path], "".join(lines))
    predictions = [json.loads(line) for line in printed.splitlines()]
    if len(predictions) != ROWS:
        raise Mismatch(f"{ROWS} rows in, {len(predictions)} predictions out")
    return [np.array([row[name] for row in predictions]) for name in predictions[0]]


def inspect(path, program):
    """`bireme inspect` names every parameter that Paddle sees."""
    path = path if (path / "__model__").exists() else Path(f"{path}.pdmodel")
    printed = call([bireme(), "inspect", path])
    for var in filter(exchanged.is_persistable, program.list_vars()):
        if var.name not in printed:
            raise Mismatch(f"`inspect` does not mention `{var.name}`")


def difference(ours, theirs):
    theirs = np.asarray(theirs, np.float64).reshape(ROWS, -1)
    ours = np.asarray(ours, np.float64).reshape(ROWS, -1)
    if ours.shape != theirs.shape:
        raise Mismatch(f"shape {theirs.shape} in Paddle, {ours.shape} here")
    return float(np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(theirs))))


class Mismatch(Exception):
    """Both sides ran, and disagree."""


# --- Our programs ---------------------------------------------------------------------------------


def bireme():
    return os.environ["BIREME_BIN"]


def example(name):
    return Path(os.environ["BIREME_EXAMPLES"]) / name


def call(command, given=""):
    words = [str(word) for word in command]
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Mismatch(f"`{Path(words[0]).name} {' '.join(words[1:])}`: {done.stderr.strip()}")
    return done.stdout


# --- The table ------------------------------------------------------------------------------------


class Table:
    """Prints one line for each step, and counts."""

    def __init__(self):
        self.cases = 0
        self.failed = 0
        self.line("model", "direction", "what", "layout", "difference", "result")

    def attempt(self, model, direction, what, layout, step):
        """Runs a step; one that returns a difference is a case. Says whether it went well."""
        try:
            found = step()
        except Exception as error:
            if not isinstance(error, Mismatch):
                traceback.print_exc()
            self.cases += 1
            self.failed += 1
            self.line(model, direction, what, layout, "", f"FAILED: {error}")
            return False
        if not isinstance(found, float):
            return True
        # A difference that is not a number is not within the tolerance.
        good = found <= TOLERANCE
        self.cases += 1
        self.failed += not good
        self.line(model, direction, what, layout, f"{found:.1e}", "ok" if good else "FAILED")
        return good

    def line(self, model, direction, what, layout, number, result):
        start = f"{model:<11} {direction:<17} {what:<12} {layout:<13}"
        print(f"{start} {number:>10}  {result}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
