"""Compares two builds of the `bireme` command by their own benchmarks, in turn.

    python3 tools/peers/builds.py OLD NEW engine ps --rounds 3 --flags "--seconds 4"

Every round runs all cases of one build and then of the other; of each case the best round of each
build counts, so that other work on the machine meets both alike. `new/old` above 1 is better for
samples and rows a second, below 1 for times and sizes.
"""

import argparse
import json
import subprocess

HIGHER_IS_BETTER = ("samples/s", "rows/s")


def measure(program: str, what: str, flags: list[str]) -> dict[str, tuple[float, str]]:
    """The cases of one benchmark: value and unit."""
    command = [program, "bench", what, "--json", *flags]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    cases = map(json.loads, lines.splitlines())
    return {case["case"]: (case["value"], case["unit"]) for case in cases}


def better(value: float, other: float, unit: str) -> float:
    return max(value, other) if unit in HIGHER_IS_BETTER else min(value, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="the `bireme` command of the older build")
    parser.add_argument("new", help="that of the newer one")
    parser.add_argument("what", nargs="+", help="benchmarks: engine, ps, eager, data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flags", default="", help="more flags of `bireme bench`")
    options = parser.parse_args()
    flags = options.flags.split()
    for what in options.what:
        best: list[dict[str, tuple[float, str]]] = [{}, {}]
        for _ in range(options.rounds):
            for build, program in enumerate((options.old, options.new)):
                for case, (value, unit) in measure(program, what, flags).items():
                    known, _ = best[build].get(case, (value, unit))
                    best[build][case] = (better(value, known, unit), unit)
        print(f"{what:<34} {'old':>14} {'new':>14}  unit       new/old")
        for case, (new, unit) in best[1].items():
            old = best[0].get(case, (None, unit))[0]
            shown = f"{old:>14.4g} {new:>14.4g}" if old else f"{'-':>14} {new:>14.4g}"
            ratio = f"{new / old:.3f}" if old else "-"
            print(f"{case:<34} {shown}  {unit:<10} {ratio}", flush=True)


if __name__ == "__main__":
    main()
