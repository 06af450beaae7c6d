"""The Python front beside real Paddle: the same scripts, alternating in one run.

usage: python.py [--rounds N] [--peers DIR] [--only static|eager|add|loader] [--json]

`static` and `eager` run the peers' own paddle_mnist.py from DIR (or $BIREME_PEERS) under both
packages: an MLP 784-128-128-10 with batches of 64, through `Executor.run` with numpy arrays, and
eagerly. `add` is the time of `x + y` for two elements, beside the kernel alone as `bireme bench
eager` measures it. `loader` is what a DataLoader delivers. `cargo xtask peers` calls this under
Paddle's Python with $BIREME_BIN and $BIREME_PACKAGE (the folder of our built package) set. Machines
are noisy: each round runs both once, and the best counts.
"""

import argparse
import json
import os
import pathlib
import sys

from compare import FAIR, measured

HERE = pathlib.Path(__file__).resolve().parent
SIDES = ("bireme", "paddle")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--peers",
        default=os.environ.get("BIREME_PEERS"),
        help="folder of paddle_mnist.py (default $BIREME_PEERS)",
    )
    parser.add_argument("--only", choices=["static", "eager", "add", "loader"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.peers and options.only not in ("add", "loader"):
        parser.error("name the folder of the peers' scripts: --peers DIR or $BIREME_PEERS")
    for case in (training("static"), training("static", None), training("eager"), add, loader):
        if options.only in (None, case.__name__):
            case(options)


# --- The cases ------------------------------------------------------------------------------------


def training(mode, threads="1"):
    """The MLP on one thread, or (None) on as many as each package takes when told nothing."""
    what = mode if threads else f"{mode} as installed"

    def case(options):
        script = pathlib.Path(options.peers).resolve() / "paddle_mnist.py"
        flags = ["--steps", 1500, "--reps", 2, "--dygraph", int(mode == "eager")]
        work = lambda side: epochs(run(side, script, *flags, threads=threads))
        found = alternate(options, what, work, max)
        show(options, f"mnist {what}", "samples/s", found, lambda ours, theirs: ours / theirs)

    case.__name__ = mode
    return case


def add(options):
    work = HERE / "eager_work.py"
    found = alternate(options, "add", lambda side: figures(run(side, work, "add")), min)
    show(options, "x + y", "ns", found, lambda ours, theirs: theirs / ours)
    kernel = min(kernel_ns() for _ in range(options.rounds))
    line(options, "x + y: kernel alone", kernel, "ns", None)
    for case, value in found["bireme"].items():
        line(options, f"x + y: {case}: bireme over the kernel", value - kernel, "ns", None)


def loader(options):
    work = HERE / "eager_work.py"
    found = alternate(options, "loader", lambda side: figures(run(side, work, "loader")), max)
    show(options, "DataLoader", "samples/s", found, lambda ours, theirs: ours / theirs)


def kernel_ns():
    command = [os.environ["BIREME_BIN"], "bench", "eager", "--json", "--seconds", "2"]
    output, _ = measured(command, dict(os.environ))
    lines = map(json.loads, output.splitlines())
    return next(found["value"] for found in lines if found["case"] == "add_2_kernel")


# --- Running --------------------------------------------------------------------------------------


def alternate(options, what, work, better):
    """Side -> figure -> its best over the rounds."""
    best = {side: {} for side in SIDES}
    for round_ in range(options.rounds):
        for side in SIDES:
            print(f"{what}: round {round_ + 1}: {side} ...", file=sys.stderr, flush=True)
            for case, value in work(side).items():
                best[side][case] = better(value, best[side].get(case, value))
    return best


def run(side, script, *flags, threads="1"):
    """The events that a script printed under one of the packages."""
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **FAIR)
    environment.pop("OMP_NUM_THREADS", None)
    if threads:
        environment["OMP_NUM_THREADS"] = threads
    environment.pop("EVTDIR", None)
    command = [sys.executable, str(script), *map(str, flags)]
    if side == "bireme":
        command[1:1] = ["-m", "bireme"]
        # Real Paddle is installed beside us: the alias must win over it.
        environment.update(PYTHONPATH=os.environ["BIREME_PACKAGE"], BIREME_ALIAS="1")
    output, _ = measured(command, environment)
    events = [json.loads(text[4:]) for text in output.splitlines() if text.startswith("EVT ")]
    version = next(event["version"] for event in events if event["kind"] == "built")
    # An alias that did not take hold would measure Paddle against itself.
    if (side == "paddle") != (version == "2.6.2"):
        sys.exit(f"{side} was asked for, but a package of version {version} ran")
    return events


def epochs(events):
    return {"": max(event["sps"] for event in events if event["kind"] == "epoch")}


def figures(events):
    return {event["case"]: event["value"] for event in events if event["kind"] == "figure"}


# --- The table ------------------------------------------------------------------------------------


def show(options, what, unit, found, compare):
    for case, ours in found["bireme"].items():
        for side in SIDES:
            value = found[side][case]
            label = ": ".join(filter(None, [what, case, side]))
            line(options, label, value, unit, compare(ours, value))


def line(options, case, value, unit, ratio):
    if options.json:
        rounded = None if ratio is None else round(ratio, 3)
        print(
            json.dumps({"case": case, "value": round(value, 1), "unit": unit, "ratio": rounded}),
            flush=True,
        )
    else:
        times = "" if ratio is None else f"   bireme is {ratio:5.2f} x"
        print(f"{case:44} {value:12,.1f} {unit:9}{times}", flush=True)


if __name__ == "__main__":
    main()
