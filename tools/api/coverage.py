"""Which names of Paddle's API exist in Bireme, measured on what the public PaddleRec models call.

usage: coverage.py [--check] [--page FILE]

Prints how many names exist by the number of models that use them, checks that the keyword
arguments seen there are accepted, and writes the generated part of docs/api.md (between two marker
lines). With `--check` nothing is written, and a stale page, a missing name without a reason or less
than the target is a failure. `cargo xtask api-coverage` builds the package and calls this.

`paddlerec_names.csv`: name, calls, models, and keywords of each name in the models and tools of
PaddleRec (master 656326ad). `reasons.csv`: why a name, or all below it, is missing.
"""

import argparse
import csv
import sys
from pathlib import Path

import page
from names import lacking_ops, only_raises, resolve, signature

HERE = Path(__file__).resolve().parent
# Of the names that two or more models use.
TARGET = 0.9
# Lower bounds of the groups of the table.
GROUPS = [40, 20, 10, 5, 3, 2, 1]
# Written in PaddleRec, refused by real Paddle 2.6.2 too.
EXCUSED = {"paddle.sum": {"dim", "keep_dim"}}


class Entry:
    """One row of the names, and what was found out about it."""

    def __init__(self, row):
        self.name, _, self.use = row["name"].partition(" ")
        self.calls, self.models = int(row["calls"]), int(row["models"])
        found = resolve(self.name)
        # A name that only raises, or whose op is not there, is of no use to a model.
        self.lacks = lacking_ops(found[0]) if found else []
        self.exists = found is not None and not self.lacks and not only_raises(found[0])
        self.refused = []
        if self.exists:
            wanted = set(row["keywords"].split()) - EXCUSED.get(self.name, set())
            self.refused = sorted(refused(found[0], wanted))


def refused(thing, keywords):
    """The keywords that the signature does not take; a built-in without one is not judged."""
    parameters = signature(thing)
    if parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return set()
    return keywords - {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, fail on what is stale")
    parser.add_argument("--page", type=Path, default=HERE.parents[1] / "docs/api.md")
    options = parser.parse_args()
    with open(HERE / "paddlerec_names.csv", newline="") as file:
        entries = [Entry(row) for row in csv.DictReader(file)]
    with open(HERE / "reasons.csv", newline="") as file:
        reasons = {row["name"]: row for row in csv.DictReader(file)}
    share = report(entries)
    failures = [f"`{e.name}` does not take {', '.join(e.refused)}" for e in entries if e.refused]
    if share < TARGET:
        failures.append(f"{share:.1%} of the names of two or more models exist, not {TARGET:.0%}")
    failures += page.update(options.page, entries, reasons, table(entries), options.check)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


def report(entries):
    """Prints the table and what is missing; returns the share of those of several models."""
    print(f"{'models':>8} {'names':>6} {'exist':>6}")
    for label, names, exist in table(entries):
        print(f"{label:>8} {names:6} {exist:6}  {exist / names:6.1%}")
    for entry in entries:
        if not entry.exists:
            ops = f", calls op {', '.join(entry.lacks)}, which is not there" if entry.lacks else ""
            print(f"missing: {entry.name} ({entry.models} models, {entry.calls} calls){ops}")
    several = [entry for entry in entries if entry.models > 1]
    return sum(entry.exists for entry in several) / len(several)


def table(entries):
    """(label, names, existing names) by the number of models, then for all of several models."""
    rows, above = [], max(entry.models for entry in entries)
    for bound in GROUPS:
        group = [entry for entry in entries if bound <= entry.models <= above]
        label = str(bound) if bound == above else f"{above}–{bound}"
        rows.append((label, len(group), sum(entry.exists for entry in group)))
        above = bound - 1
    several = [entry for entry in entries if entry.models > 1]
    rows.append(("2 and up", len(several), sum(entry.exists for entry in several)))
    rows.append(("all", len(entries), sum(entry.exists for entry in entries)))
    return rows


if __name__ == "__main__":
    sys.exit(main())
