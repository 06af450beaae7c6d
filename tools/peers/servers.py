"""Training with parameter servers beside real Paddle: the same script, alternating in one run.

usage: servers.py [--rounds N] [--peers DIR] [--only async|geo|sync|single|hybrid|half_async]
                  [--samples N] [--json]

The peers' own paddle_ctr.py from DIR (or $BIREME_PEERS) trains the CTR-DNN with batches of 512 and
Adam, 1 server and 2 trainers, samples in memory: ours through `Executor.run` on numpy arrays, Paddle
through its InMemoryDataset, which is the fastest way it has. `single` is 1 server and 1 trainer
beside our own training in one process on one thread. Sync is beside Paddle's async, for Paddle's own
sync mode crashes in this release. The rate of an epoch is the samples of all trainers over the time
from the first start to the last end; the best epoch of each counts. `auc` is the training AUC of the
last epoch; `local` is Paddle's in one process. `cargo xtask peers servers` calls this under Paddle's
Python with $BIREME_PACKAGE (the folder of our built package) set.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

from compare import FAIR, HOME

BATCH = 512
EPOCHS = 3
# Paddle's launcher waits for ever; a job that takes longer than this hangs.
PATIENCE = 400


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument(
        "--peers",
        default=os.environ.get("BIREME_PEERS"),
        help="folder of paddle_ctr.py (default $BIREME_PEERS)",
    )
    parser.add_argument("--only", action="append", choices=CASES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.peers:
        parser.error("name the folder of the peers' scripts: --peers DIR or $BIREME_PEERS")
    for case in options.only or CASES:
        compare(options, case)


# --- The cases ------------------------------------------------------------------------------------

# Case -> [(who, contender)]; the first is ours.
CASES = {
    "async": [("bireme", ("ours", 2, "async")), ("paddle", ("paddle", 2, "async"))],
    "geo": [("bireme", ("ours", 2, "geo")), ("paddle", ("paddle", 2, "geo"))],
    "sync": [("bireme", ("ours", 2, "sync")), ("paddle async", ("paddle", 2, "async"))],
    "single": [("bireme 1+1 async", ("ours", 1, "async")), ("bireme local", ("local", 0, "bireme"))],
    "local": [("bireme local", ("local", 0, "bireme")), ("paddle local", ("local", 0, "paddle"))],
}


def compare(options, case):
    best, quality = {}, {}
    for round_ in range(options.rounds):
        for who, (kind, workers, mode) in CASES[case]:
            print(f"{case}: round {round_ + 1}: {who} ...", file=sys.stderr, flush=True)
            rate, auc = CONTENDERS[kind](options, workers, mode)
            if rate >= best.get(who, 0):
                best[who] = rate
            quality.setdefault(who, []).append(auc)
    own = best[CASES[case][0][0]]
    for who, rate in best.items():
        aucs = quality[who]
        found = {
            "case": f"{case}: {who}",
            "value": round(rate, 1),
            "unit": "samples/s",
            "ratio": round(own / rate, 3) if rate else None,
            "auc": [[round(auc, 4) for auc in epochs] for epochs in aucs],
        }
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            ratio = f"bireme is {own / rate:5.2f} x" if rate else "failed"
            last = max(epochs[-1] for epochs in aucs if epochs) if any(aucs) else float("nan")
            print(f"{case:7} {who:18} {rate:10,.0f} samples/s   {ratio}   AUC {last:.4f}", flush=True)


def ours(options, workers, mode, flags=None):
    """Our package, one process per role, told by environment variables."""
    ports = free_ports(1)
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    common = dict(
        environment("bireme"),
        PADDLE_PSERVERS_IP_PORT_LIST=servers,
        PADDLE_TRAINERS_NUM=str(workers),
        POD_IP="127.0.0.1",
    )
    flags = flags or ["--mode", "ps", "--sync", mode, "--feed", "numpy"]
    command = script(options, "bireme", *flags)
    roles = [dict(common, TRAINING_ROLE="PSERVER", PADDLE_PORT=str(port)) for port in ports]
    roles += [
        dict(common, TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID=str(worker))
        for worker in range(workers)
    ]
    return job([(command, role) for role in roles])


def paddle(options, workers, mode, flags=None):
    """Real Paddle under its own launcher, which never ends by itself."""
    flags = flags or ["--mode", "ps", "--sync", mode, "--feed", "inmem", "--reader", "cat"]
    command = [
        str(HOME / "paddle/bin/python"), "-m", "paddle.distributed.launch",
        "--server_num=1", f"--trainer_num={workers}", "--log_dir", "logs",
        *script(options, "paddle", *flags)[1:],
    ]
    for _ in range(3):
        rate, auc = job([(command, environment("paddle"))], workers=workers)
        if rate:
            return rate, auc
        print("paddle hung or failed; once more", file=sys.stderr, flush=True)
    return 0.0, []


def local(options, _, side):
    """One process, one thread."""
    return job([(script(options, side, "--feed", "numpy"), environment(side))])


CONTENDERS = {"ours": ours, "paddle": paddle, "local": local}


# --- Jobs -----------------------------------------------------------------------------------------


def script(options, side, *flags):
    python = [sys.executable, "-m", "bireme"] if side == "bireme" else [str(HOME / "paddle/bin/python")]
    sizes = ["--bs", BATCH, "--samples", options.samples, "--epochs", EPOCHS]
    path = pathlib.Path(options.peers).resolve() / "paddle_ctr.py"
    return [*python, str(path), *map(str, sizes), *flags]


def environment(side):
    environment = dict(os.environ, OMP_NUM_THREADS="1", **FAIR)
    if side == "bireme":
        # Real Paddle is installed beside us: the alias must win over it.
        environment.update(PYTHONPATH=os.environ["BIREME_PACKAGE"], BIREME_ALIAS="1")
    return environment


def job(processes, workers=0):
    """The best epoch of a job in samples/s and the AUC of each; with `workers`, the job is ended once
    so many trainers are done."""
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number, (command, environment) in enumerate(processes):
            log = open(f"{folder}/{number}.log", "w")
            running.append(
                subprocess.Popen(
                    command, env=dict(environment, EVTDIR=folder), cwd=folder, stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )
            )
        ended = wait(running, folder, workers)
        if not ended or any(process.returncode for process in running) and not workers:
            for log in sorted(pathlib.Path(folder).glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr)
        return epochs(pathlib.Path(folder))


def wait(running, folder, workers):
    """Waits for the end of all processes, or of `workers` trainers; nothing is left running."""
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            if all(process.poll() is not None for process in running):
                return True
            done = [f for f in pathlib.Path(folder).glob("worker-*.evt") if '"kind": "done"' in f.read_text()]
            if workers and len(done) >= workers:
                return True
            time.sleep(0.2)
        return False
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.5)
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def epochs(folder):
    events = [json.loads(line) for file in folder.glob("*.evt") for line in file.open()]
    by_epoch = {}
    for event in events:
        if event["kind"] == "epoch":
            by_epoch.setdefault(event["ep"], []).append(event)
    rates, aucs = [], []
    for _, parts in sorted(by_epoch.items()):
        seconds = max(part["t1"] for part in parts) - min(part["t0"] for part in parts)
        rates.append(sum(part["n"] for part in parts) / seconds)
        known = [part["auc"] for part in parts if part.get("auc")]
        aucs.append(sum(known) / len(known) if known else float("nan"))
    return max(rates, default=0.0), aucs


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


if __name__ == "__main__":
    main()
