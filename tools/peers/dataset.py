"""Training from text files beside real Paddle: the same script, alternating in one run.

usage: dataset.py [--rounds N] [--peers DIR] [--only local|ps|memory] [--samples N] [--json]

The peers' own paddle_ctr.py from DIR (or $BIREME_PEERS) trains the CTR-DNN with batches of 512 and
Adam from files: `local` in one process with 2 threads, `ps` asynchronously with 1 server and 2
trainers. Ours is beside Paddle's QueueDataset twice: with its C++ parser (`cat`, MultiSlot lines, the
same files as ours) and with PaddleRec's way, a Python `pipe_command` (slot:value lines). The rate of
an epoch is the samples of all trainers over the time from the first start to the last end; the best
epoch of each counts. `memory` is what a sample takes in an InMemoryDataset: the memory that the
process has more after loading, over the samples. `cargo xtask peers dataset` calls this under
Paddle's Python with $BIREME_PACKAGE (the folder of our built package) set.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import servers
from compare import HOME

THREADS = 2
# Samples that are loaded to see what one takes.
LOADED = 200_000


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
    parser.add_argument("--only", action="append", choices=[*CASES, "memory"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.peers:
        parser.error("name the folder of the peers' scripts: --peers DIR or $BIREME_PEERS")
    for case in options.only or [*CASES, "memory"]:
        if case == "memory":
            compare_memory(options)
        else:
            compare(options, case)


# --- Rates ----------------------------------------------------------------------------------------


def local(options, side, reader):
    flags = ["--feed", "queue", "--reader", reader, "--threads", str(THREADS)]
    return servers.job([(servers.script(options, side, *flags), servers.environment(side))])


def ps(options, side, reader):
    flags = ["--mode", "ps", "--sync", "async", "--feed", "queue", "--reader", reader]
    return servers.CONTENDERS["ours" if side == "bireme" else "paddle"](
        options, 2, "async", flags=flags
    )


# Case -> how a contender runs; the contenders are the same.
CASES = {"local": local, "ps": ps}
CONTENDERS = [
    ("bireme", "bireme", "cat"),
    ("paddle, C++ parser", "paddle", "cat"),
    ("paddle, Python pipe", "paddle", "python"),
]


def compare(options, case):
    best, aucs = {}, {}
    for round_ in range(options.rounds):
        for who, side, reader in CONTENDERS:
            print(f"{case}: round {round_ + 1}: {who} ...", file=sys.stderr, flush=True)
            rate, auc = CASES[case](options, side, reader)
            best[who] = max(rate, best.get(who, 0))
            aucs.setdefault(who, []).append([round(epoch, 4) for epoch in auc])
    own = best[CONTENDERS[0][0]]
    for who, rate in best.items():
        tell(options, case, who, rate, "samples/s", own / rate if rate else None, auc=aucs[who])


# --- Memory ---------------------------------------------------------------------------------------

LOAD = f"""
import glob, sys
import paddle
paddle.enable_static()
int_ = lambda name: paddle.static.data(name, [None, 1], 'int64')
inputs = [int_('label')] + [int_(str(slot)) for slot in range(1, 27)]
inputs.append(paddle.static.data('dense_input', [None, 13], 'float32'))
def resident():
    lines = open('/proc/self/status').read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmRSS'))
def load(files):
    dataset = paddle.distributed.InMemoryDataset()
    dataset.init(use_var=inputs, pipe_command='cat', batch_size=512, thread_num=1)
    dataset.set_filelist(files)
    dataset.load_into_memory()
    return dataset
files = sorted(glob.glob(sys.argv[1]))[:{LOADED // 50_000}]
before = resident()
dataset = load(files)
print('BYTES', (resident() - before) / dataset.get_memory_data_size())
"""


def compare_memory(options):
    files = str(HOME / "criteo_like/multislot_train/part-*")
    found = {}
    for side in ("bireme", "paddle"):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "load.py"
            script.write_text(LOAD)
            python = [sys.executable, "-m", "bireme"] if side == "bireme" else [sys.executable]
            done = subprocess.run(
                [*python, str(script), files],
                check=False,
                env=servers.environment(side),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=servers.PATIENCE,
            )
        told = [line for line in done.stdout.splitlines() if line.startswith("BYTES")]
        if not told:
            sys.exit(f"{side} did not load:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        found[side] = float(told[0].split()[1])
    for who, size in found.items():
        tell(options, "memory", who, size, "bytes/sample", size / found["paddle"])


def tell(options, case, who, value, unit, ratio, **more):
    if options.json:
        row = {"case": f"{case}: {who}", "value": round(value, 1), "unit": unit}
        print(json.dumps(row | {"ratio": ratio and round(ratio, 3)} | more), flush=True)
        return
    if unit == "bytes/sample":
        against = f"{ratio:5.2f} of Paddle's"
    else:
        against = f"bireme is {ratio:5.2f} x" if ratio else "failed"
    last = [epochs[-1] for epochs in more.get("auc", []) if epochs]
    auc = f"   AUC {max(last):.4f}" if last else ""
    print(f"{case:7} {who:20} {value:10,.0f} {unit}   {against}{auc}", flush=True)


if __name__ == "__main__":
    main()
