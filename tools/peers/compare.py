#!/usr/bin/env python3
"""Bireme beside real Paddle and PyTorch on the same work, alternating in one run.

usage: compare.py [--rounds N] [--peers DIR] [--only ctr|ctr2|bf16|mnist] [--json]

DIR (or $BIREME_PEERS) holds the peers' scripts: paddle_ctr.py, paddle_mnist.py, torch_bench.py,
which print their epochs as `EVT {json}` lines. Their virtual environments and data are expected
under $PEERS_HOME (default ~/.cache/bireme-peers); a peer that is not there is named and left out.
$BIREME_BIN is our executable; `cargo xtask peers` sets it.
All contenders train the same model with the same batch size on data of the same kind: 26 slots
drawn from Criteo's cardinalities, about 100,000 samples in memory; batches of 512, of 2,048 where
bfloat16 is tried. Only speed and memory are compared here. Machines are noisy: each round runs every
contender once, and the best counts.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HOME = pathlib.Path(os.environ.get("PEERS_HOME", "~/.cache/bireme-peers")).expanduser()


def widest_kernels():
    """For MKL_DEBUG_CPU_TYPE: the AVX-512 kernels of Paddle's bundled MKL where the processor has these
    instructions, and those for AVX2 elsewhere."""
    info = pathlib.Path("/proc/cpuinfo")
    return "7" if info.exists() and "avx512f" in info.read_text() else "5"


# Paddle's bundled MKL falls back to slow kernels on AMD unless told otherwise.
FAIR = {"MKL_DEBUG_CPU_TYPE": os.environ.get("MKL_DEBUG_CPU_TYPE") or widest_kernels()}


def measured(command, environment):
    """Standard output of a command, and its peak memory in MiB. It runs in a folder of its own, for
    peers leave files behind."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=complaints, text=True)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            complaints.seek(0)
            tail = "".join(complaints.readlines()[-15:])
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{tail}")
        return output, usage.ru_maxrss / 1024


def ours(case, seconds=4):
    """Samples/s of one case of our benchmark, and its peak memory in MiB."""
    def run():
        command = [os.environ["BIREME_BIN"], "bench", "engine", "--json", "--case", case, "--seconds", str(seconds)]
        output, memory = measured(command, dict(os.environ))
        return next(json.loads(line)["value"] for line in output.splitlines() if json.loads(line)["case"] == case), memory
    return run


def peer(folder, python, threads, *arguments):
    """Best epoch of a peer's script in samples/s, and its peak memory in MiB."""
    def run():
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), **FAIR)
        environment.pop("EVTDIR", None)
        script, *rest = arguments
        output, memory = measured([str(python), str(folder / script), *map(str, rest)], environment)
        events = [json.loads(line[4:]) for line in output.splitlines() if line.startswith("EVT ")]
        return max(event["sps"] for event in events if event["kind"] == "epoch"), memory
    return run


def contenders(folder):
    """Work -> [(who, how to run it)]; ours first."""
    paddle, torch = (HOME / name / "bin/python" for name in ("paddle", "torch"))
    ctr = ("paddle_ctr.py", "--bs", 512, "--samples", 100000, "--epochs", 2)
    large = ("paddle_ctr.py", "--bs", 2048, "--samples", 100000, "--epochs", 2)
    torch_ctr = ("torch_bench.py", "--model", "ctr", "--bs", 512, "--samples", 50000, "--epochs", 2)
    work = {
        "ctr": [
            ("bireme, 1 thread", ours("ctr_dnn_b512_t1")),
            ("paddle, 1 thread", peer(folder, paddle, 1, *ctr, "--feed", "numpy", "--emb", "fused")),
            ("torch eager, 1 thread", peer(folder, torch, 1, *torch_ctr, "--compile", 0)),
            ("torch compiled, 1 thread", peer(folder, torch, 1, *torch_ctr, "--compile", 1)),
        ],
        "ctr2": [
            ("bireme, 2 threads", ours("ctr_dnn_b512_t2")),
            ("paddle, 2 threads", peer(folder, paddle, 1, *ctr, "--feed", "inmem", "--reader", "cat", "--threads", 2)),
        ],
        "bf16": [
            ("bireme bf16, 2 threads", ours("ctr_dnn_b2048_t2_bf16")),
            ("bireme, 2 threads", ours("ctr_dnn_b2048_t2")),
            ("paddle, 2 threads", peer(folder, paddle, 1, *large, "--feed", "inmem", "--reader", "cat", "--threads", 2)),
        ],
        "mnist": [
            ("bireme", ours("mnist_mlp_b64_t1")),
            ("paddle static", peer(folder, paddle, 1, "paddle_mnist.py", "--steps", 1500, "--reps", 2)),
            ("torch", peer(folder, torch, 1, "torch_bench.py", "--model", "mnist", "--steps", 1500, "--reps", 2)),
        ],
    }
    missing = {name for name, python in (("paddle", paddle), ("torch", torch)) if not python.exists()}
    for name in sorted(missing):
        print(f"skipped: {name} is not installed under {HOME}", file=sys.stderr)
    return {key: [c for c in row if c[0].split()[0].rstrip(",") not in missing] for key, row in work.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peers", default=os.environ.get("BIREME_PEERS"), help="folder of the peers' scripts (default $BIREME_PEERS)")
    parser.add_argument("--only", choices=["ctr", "ctr2", "bf16", "mnist"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.peers:
        parser.error("name the folder of the peers' scripts: --peers DIR or $BIREME_PEERS")
    for work, row in contenders(pathlib.Path(options.peers)).items():
        if options.only in (None, work):
            report(work, row, options)


def report(work, row, options):
    best, memory = {}, {}
    for round_ in range(options.rounds):
        for who, run in row:
            print(f"{work}: round {round_ + 1}: {who} ...", file=sys.stderr, flush=True)
            rate, peak = run()
            best[who] = max(rate, best.get(who, 0))
            memory[who] = peak
    own = best[row[0][0]]
    for who, _ in row:
        if options.json:
            line = {"case": f"{work}: {who}", "value": round(best[who], 1), "unit": "samples/s", "ratio": round(own / best[who], 3)}
            if memory[who]:
                line["peak_mib"] = round(memory[who])
            print(json.dumps(line), flush=True)
        else:
            peak = f"{memory[who]:7.0f} MiB" if memory[who] else ""
            print(f"{work:6} {who:26} {best[who]:12,.0f} samples/s   bireme is {own / best[who]:5.2f} x   {peak}", flush=True)


if __name__ == "__main__":
    main()
