"""Trains `models/` with real Paddle 2.6.2 and with Bireme, and compares step by step.

usage: python.py [MODEL]... [--mode static|eager] [--only losses|states|models]

`cargo xtask interop` builds the package and calls this under Paddle's Python; `BIREME_PACKAGE` is
the folder that holds our built package. For each model and mode: the losses of 50 steps from the
same weights and data, the metric and the predictions at the end (losses); ten steps on one side,
saved, and ten more on the other (states); an inference model of one side run by the other (models).
Exits with 1 when something differs by more than the tolerance, or does not run.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import models

HERE = Path(__file__).resolve().parent
STEPS, SPLIT = 50, 10
# Relative to the other side's value: what the order of sums may become over 50 steps.
TOLERANCE = 1e-4
# A prediction counts as one at the least: of many, some are near zero by chance, and have no relative
# error to speak of. Losses and metrics are compared as they are.
PREDICTION = 1.0
SIDES = ("Paddle", "bireme")


#: What does not work, and why; still tried, so that the day it does is seen.
KNOWN = {
    ("gru4rec", "static", "state bireme -> Paddle"): (
        "Paddle keeps a second, flat copy of a recurrent layer's weights, which we do not write"
    ),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(models.NAMES))
    parser.add_argument("--mode", choices=["static", "eager"])
    parser.add_argument("--only", choices=["losses", "states", "models"])
    options = parser.parse_args()
    if sys.version_info < (3, 10):
        sys.exit("our package needs Python 3.10 or newer: set `BIREME_PYTHON` to one")
    unknown = set(options.models) - set(models.NAMES)
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}: there are {', '.join(models.NAMES)}")
    table = Table()
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        for name in options.models or models.NAMES:
            compare(name, Path(folder), options, table)
    counts = f"{table.cases} comparisons, {table.failed} failed, {table.known} known not to work"
    print(f"{counts} (tolerance {TOLERANCE:g})")
    return 1 if table.failed else 0


def compare(name, folder, options, table):
    case = Case(name, folder)
    if not table.attempt(name, "", "prepare", case.prepare):
        return
    for mode in [options.mode] if options.mode else ["static", "eager"]:
        if not table.attempt(name, mode, "Paddle", case.reference, mode):
            continue
        if options.only in (None, "losses"):
            table.attempt(name, mode, f"losses of {STEPS} steps", case.losses, mode)
        for give, take in (SIDES, SIDES[::-1]):
            way = f"{give} -> {take}"
            if options.only in (None, "states"):
                table.attempt(name, mode, f"state {way}", case.state, mode, give, take)
            if options.only in (None, "models"):
                table.attempt(name, mode, f"model {way}", case.model, mode, give, take)


class Case:
    """One model: its files, and the runs that were made already."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder / name
        self.done = {}

    def prepare(self):
        self.folder.mkdir()
        self.call("Paddle", "--prepare", "--steps", STEPS)

    def reference(self, mode):
        self.run("Paddle", mode, "whole", "--steps", STEPS)

    def losses(self, mode):
        """The worst difference over all steps, of the metric, and of the final predictions."""
        theirs = self.run("Paddle", mode, "whole", "--steps", STEPS)
        ours = self.run("bireme", mode, "whole", "--steps", STEPS)
        found = {"loss": difference(ours["losses"], theirs["losses"])}
        if theirs["metric"] is not None:
            found["metric"] = difference([ours["metric"]], [theirs["metric"]])
        found["prediction"] = outputs_difference(ours["predicted"], theirs["predicted"])
        return found

    def state(self, mode, give, take):
        """Ten steps, saved; the other side's next ten are those of a run without interruption."""
        state = self.start(give, mode)
        flags = ["--resume", state, "--first", SPLIT, "--steps", SPLIT]
        continued = self.run(take, mode, f"after_{give}", *flags)
        whole = self.run("Paddle", mode, "whole", "--steps", STEPS)
        return {"loss": difference(continued["losses"], whole["losses"][SPLIT : 2 * SPLIT])}

    def model(self, mode, give, take):
        """The inference model of one side predicts the same on the other, in both modes."""
        self.start(give, mode)
        trained = self.run(give, mode, "start")
        found = []
        for runs_in in ("static", "eager"):
            flags = ["--predict", self.folder / f"{give}_{mode}_model", "--steps", "1"]
            predicted = self.run(take, runs_in, f"predict_{give}_{mode}", *flags)
            found.append(outputs_difference(predicted["predicted"], trained["predicted"]))
        return {"prediction": worst(found)}

    def start(self, side, mode):
        state = self.folder / f"{side}_{mode}_state"
        export = self.folder / f"{side}_{mode}_model"
        self.run(side, mode, "start", "--steps", SPLIT, "--save", state, "--export", export)
        return state

    def run(self, side, mode, what, *flags):
        """What a run of `train.py` wrote; a run of the same name is not made twice."""
        key = f"{side}_{mode}_{what}"
        if key not in self.done:
            out = self.folder / f"{key}.json"
            self.call(side, "--mode", mode, "--out", out, *flags)
            result = json.loads(out.read_text())
            # An alias that did not take hold would compare Paddle with itself.
            if result["package"] != side.lower():
                raise Failed(f"{side} was asked for, but `{result['package']}` ran", [])
            self.done[key] = result
        return self.done[key]

    def call(self, side, *flags):
        files = ["--weights", self.folder / "weights.npz", "--data", self.folder / "data.npz"]
        words = [HERE / "train.py", "--model", self.name, *files, *flags]
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        if side == "bireme":
            words = ["-m", "bireme", *words]
            # Real Paddle is installed beside us: the alias must win over it.
            environment.update(PYTHONPATH=os.environ["BIREME_PACKAGE"], BIREME_ALIAS="1")
        command = [sys.executable, *map(str, words)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            complaint = [line for line in done.stderr.splitlines() if line.strip()][-12:]
            raise Failed(f"{side} ended with {done.returncode}", complaint)


class Failed(Exception):
    """A run did not end well; the second argument is what it complained about."""


def difference(ours, theirs, least=0.0):
    """The worst relative difference; not a number when either is none or lengths differ."""
    if len(ours) != len(theirs):
        return float("nan")
    found = []
    for a, b in zip(ours, theirs):
        scale = max(abs(b), least, sys.float_info.min)
        found.append(0.0 if a == b else abs(a - b) / scale)
    return worst(found)


def worst(values):
    """The largest; `max` alone would drop what is not a number."""
    return max(values, key=lambda value: (math.isnan(value), value))


def outputs_difference(ours, theirs):
    if len(ours) != len(theirs):
        return float("nan")
    return worst([difference(a, b, PREDICTION) for a, b in zip(ours, theirs)])


class Table:
    """Prints one line for each comparison, and counts."""

    def __init__(self):
        self.cases = 0
        self.failed = 0
        self.known = 0
        print(f"{'model':<11} {'mode':<7} {'what':<25} {'worst':>8}  result", flush=True)

    def attempt(self, model, mode, what, step, *arguments):
        """Runs a step; one that returns differences is a comparison. Says whether it went well."""
        start = f"{model:<11} {mode:<7} {what:<25}"
        try:
            found = step(*arguments)
        except (Failed, subprocess.TimeoutExpired) as error:
            self.cases += 1
            if (model, mode, what) in KNOWN:
                self.known += 1
                print(f"{start} {'':>8}  known: {KNOWN[model, mode, what]}", flush=True)
                return False
            self.failed += 1
            print(f"{start} {'':>8}  FAILED: {error.args[0]}", flush=True)
            for line in error.args[1] if isinstance(error, Failed) else []:
                print(f"    {line}", flush=True)
            return False
        if found is None:
            return True
        good = all(value <= TOLERANCE for value in found.values())
        self.cases += 1
        self.failed += not good
        parts = ", ".join(f"{name} {value:.1e}" for name, value in found.items())
        verdict = "ok" if good else f"FAILED ({parts})"
        print(f"{start} {worst(found.values()):8.1e}  {verdict}", flush=True)
        return good


if __name__ == "__main__":
    sys.exit(main())
