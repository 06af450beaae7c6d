"""Collective training beside real Paddle: the digits' perceptron in 2 processes, alternating in one run.

usage: collective.py [--rounds N] [--peers DIR] [--steps N] [--json]

The peers' own paddle_mnist.py from DIR (or $BIREME_PEERS) trains 784-128-128-10 with Adam and batches
of 64 for each process, one thread each: ours in static mode with `fleet.init(is_collective=True)`,
Paddle's with `DataParallel` over Gloo, the only collective training on CPUs that its release runs,
and ours alone in one process. The rate of an epoch is the samples of all processes over the time from
the first start to the last end; the best epoch of each counts. `cargo xtask peers collective` calls
this under Paddle's Python with $BIREME_PACKAGE (the folder of our built package) set.
"""

import argparse
import json
import os
import pathlib
import sys

from compare import HOME
from servers import environment, free_ports, job

PROCESSES = 2


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--only", action="append", choices=CONTENDERS)
    parser.add_argument(
        "--peers",
        default=os.environ.get("BIREME_PEERS"),
        help="folder of paddle_mnist.py (default $BIREME_PEERS)",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.peers:
        parser.error("name the folder of the peers' scripts: --peers DIR or $BIREME_PEERS")
    wanted = options.only or list(CONTENDERS)
    best = dict.fromkeys(wanted, 0.0)
    for round_ in range(options.rounds):
        for who in wanted:
            print(f"round {round_ + 1}: {who} ...", file=sys.stderr, flush=True)
            rate, _ = CONTENDERS[who](options)
            best[who] = max(best[who], rate)
    report(options, best)


def report(options, best):
    own = best.get("bireme 2 ranks", 0.0)
    for who, rate in best.items():
        ratio = round(own / rate, 3) if rate else None
        if options.json:
            found = {"case": f"mnist collective: {who}", "value": round(rate, 1)}
            print(json.dumps({**found, "unit": "samples/s", "ratio": ratio}), flush=True)
        else:
            said = f"bireme's 2 ranks are {ratio:5.2f} x" if ratio else "failed"
            print(f"{who:16} {rate:10,.0f} samples/s   {said}", flush=True)


def script(options, side, *flags):
    python = [sys.executable, "-m", "bireme"] if side == "bireme" else [str(HOME / "paddle/bin/python")]
    path = pathlib.Path(options.peers).resolve() / "paddle_mnist.py"
    return [*python, str(path), "--steps", str(options.steps), *flags]


def ranks(options):
    """Our package, one process a rank, told by environment variables."""
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(PROCESSES)]
    common = dict(
        environment("bireme"),
        PADDLE_TRAINERS_NUM=str(PROCESSES),
        PADDLE_TRAINER_ENDPOINTS=",".join(endpoints),
    )
    command = script(options, "bireme", "--mode", "collective")
    own = lambda rank: {"PADDLE_TRAINER_ID": str(rank), "PADDLE_CURRENT_ENDPOINT": endpoints[rank]}
    return job([(command, {**common, **own(rank)}) for rank in range(PROCESSES)])


def alone(options):
    """Our package in one process, one thread."""
    return job([(script(options, "bireme"), environment("bireme"))])


def paddle(options):
    """Real Paddle under its own launcher."""
    command = script(options, "paddle", "--mode", "collective", "--dygraph", "1")
    launch = ["-m", "paddle.distributed.launch", "--nproc_per_node", str(PROCESSES)]
    launch += ["--log_dir", "logs", "--backend", "gloo"]
    return job([([command[0], *launch, *command[1:]], environment("paddle"))], workers=PROCESSES)


CONTENDERS = {"bireme 2 ranks": ranks, "bireme alone": alone, "paddle 2 ranks": paddle}


if __name__ == "__main__":
    main()
