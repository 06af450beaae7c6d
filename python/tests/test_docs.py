"""The listings of README and of every page under docs/ run as they are written.

A listing that cannot run here has a comment in the line above it, which readers do not see:
`<!-- not run: REASON -->`. Listings in Rust are doctests of `bireme-engine`; whether the flags of
commands exist, also of those that are not run, is tested in `crates/cli/src/commands/pages.rs`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from running_jobs import free_ports
from running_ranks import run_well
from running_tools import copied_checkout, run
from test_guides_servers import run_job

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# What listings are in; `text` and nothing are what a command prints, or a file.
LANGUAGES = {"python", "sh", "bash", "rust", "text", ""}


class Listing:
    """A listing of a page, and where it is."""

    def __init__(self, page, found):
        text = page.read_text("utf-8")
        self.page = page.name
        self.line = text.count("\n", 0, found.start("language")) + 1
        self.reason, self.language, self.code = found.group("reason", "language", "code")

    def __repr__(self):
        return f"{self.page}-{self.line}"


ALL = [Listing(page, found) for page in PAGES for found in FENCE.finditer(page.read_text("utf-8"))]
PYTHON = [listing for listing in ALL if listing.language == "python" and not listing.reason]
SHELL = [listing for listing in ALL if listing.language in ("sh", "bash") and not listing.reason]

# Scripts that the ranks of a collective job run.
RANKS = [listing for listing in PYTHON if "is_collective=True" in listing.code]
# Scripts that several processes run, each in a role of its own.
JOBS = [
    listing
    for listing in PYTHON
    if re.search(r"PSERVER|fleet\.init\(", listing.code) and listing not in RANKS
]
# Scripts that start processes by themselves.
SPAWNS = [listing for listing in PYTHON if "dist.spawn(" in listing.code]
# Scripts that look at what the last of the jobs has saved.
LOOKS = [listing for listing in PYTHON if "checkpoint/server-" in listing.code]
ALONE = [listing for listing in PYTHON if listing not in RANKS + JOBS + SPAWNS + LOOKS]


def test_every_listing_is_of_a_known_kind():
    fences = sum(page.read_text("utf-8").count("\n```") for page in PAGES)
    assert fences == 2 * len(ALL), "a listing is not closed, or its mark is misspelt"
    for listing in ALL:
        assert listing.language in LANGUAGES, listing
        if listing.language in ("", "text"):
            command = re.search(r"^(fleetrun|bireme|cargo|python|pip) ", listing.code, re.MULTILINE)
            assert not command, f"{listing} has commands: call it `sh`, so that they are run"
    assert len(ALONE) >= 6 and len(SHELL) >= 8
    assert [len(part) for part in (JOBS, RANKS, SPAWNS, LOOKS)] == [3, 1, 1, 2]


@pytest.mark.parametrize("listing", ALONE, ids=repr)
def test_an_example_runs(listing, tmp_path):
    write_samples(tmp_path)
    code, said = run_script(listing, tmp_path, "1 17 4\n0 3\n", "-W", "error")
    assert code == 0, said
    if "run_from_stdin" in listing.code:
        assert said == "1 1 2 17 4\n1 0 1 3\n"
    if "train_from_dataset" in listing.code:
        assert re.search(r"batch: \[\d+\], loss\[1\]:\[0\.\d+\]", said), said


@pytest.mark.parametrize("listing", SPAWNS, ids=repr)
def test_a_job_that_starts_itself_runs(listing, tmp_path):
    code, said = run_script(listing, tmp_path)
    assert code == 0, said
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", said)]
    assert len(losses) == 2 and losses[1] < losses[0], losses


@pytest.mark.parametrize("listing", RANKS, ids=repr)
def test_a_collective_job_runs(listing, tmp_path):
    for output in run_well(tmp_path, listing.code, 2):
        assert [float(loss) < 0.1 for loss in re.findall(r"loss ([\d.]+)", output)] == [True]


@pytest.mark.parametrize("listing", JOBS, ids=repr)
def test_a_job_runs(listing, tmp_path):
    outputs = run_roles(listing, tmp_path)
    for rank in range(2):
        losses = re.findall(r"loss ([\d.]+)", outputs[f"trainer{rank}"])
        # Not the first one: who comes late to an async job begins with what others have learned.
        assert float(losses[-1]) < 0.1, losses


def test_checkpoints_can_be_looked_at(tmp_path):
    run_roles(JOBS[-1], tmp_path)
    said = [run_script(listing, tmp_path) for listing in LOOKS]
    assert [code for code, _ in said] == [0, 0], said
    # Keys with the eight weights of each, and three keys.
    assert re.search(r"^\{.*array\(", said[0][1]), said[0]
    assert re.fullmatch(r"\[ *\d+ +\d+ +\d+\]\n", said[1][1]), said[1]


@pytest.mark.parametrize("listing", SHELL, ids=repr)
def test_commands_run(listing, tmp_path):
    checkout = copied_checkout(tmp_path)
    prepare(checkout)
    script = "set -e\n" + "\n".join(line for line in lines_of(listing) if is_for_here(line))
    # Nobody promises that a port of a page is free.
    for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", script))):
        script = script.replace(port, str(free_ports(1)[0]))
    (checkout / "listing.sh").write_text(script)
    said = run(checkout, "sh listing.sh", STEPS="3", CUDA_VISIBLE_DEVICES="")
    if "bireme train -m" in script and "bireme infer" in script:
        assert re.search(r"auc: ?0\.[5-9]", said, re.IGNORECASE), said
        assert list(checkout.rglob("*.html")), said


def lines_of(listing):
    """The commands of a listing; one that goes on in the next line is one."""
    return listing.code.replace("\\\n", " ").splitlines()


def is_for_here(line):
    """Whether a command is for one machine (others: `cargo xtask netns`) and soon done."""
    takes_long = line.startswith("bireme bench") or line.endswith(" bireme train")
    return "10.0.0." not in line and not takes_long


def prepare(folder):
    """What the listings take for granted: a script, a configuration, data."""
    ranks = folder / "ranks.py"
    ranks.write_text(RANKS[0].code, "utf-8")
    stages = ROOT / "examples" / "python" / "heter_ctr.py"
    (folder / "heter_ctr.py").write_text(stages.read_text("utf-8"), "utf-8")
    servers = folder / "fleet.py"
    servers.write_text(JOBS[-1].code, "utf-8")
    choose = (
        "import os, runpy\n"
        "stages = 'PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST' in os.environ\n"
        "served = 'PADDLE_PSERVERS_IP_PORT_LIST' in os.environ\n"
        f"name = 'heter_ctr.py' if stages else 'fleet.py' if served else 'ranks.py'\n"
        f"runpy.run_path({str(folder)!r} + '/' + name, run_name='__main__')\n"
    )
    for name in ("job.py", "train.py"):
        (folder / name).write_text(choose)
    (guide,) = (listing.code for listing in SHELL if listing.page == "training.md")
    config = re.search(r"<<'YAML'\n(.*?)^YAML$", guide, re.MULTILINE | re.DOTALL).group(1)
    sample = ROOT / "models" / "rank" / "dnn" / "data" / "sample_data" / "train"
    config = re.sub(r"data/(train|test)\b", str(sample), config)
    (folder / "config.yaml").write_text(config.replace("size: 512", "size: 20"))
    (folder / "FILES").mkdir()
    for file in sample.iterdir():
        (folder / "FILES" / file.name).write_bytes(file.read_bytes())


def write_samples(folder):
    """Samples of a label and some words, as docs/data.md has them."""
    (folder / "train_data").mkdir()
    lines = [f"1 {row % 2} 2 {row} {row * 7 % 1000}\n" for row in range(1024)]
    (folder / "train_data" / "part-0").write_text("".join(lines * 300))


def run_script(listing, folder, given="", *flags):
    """Runs a listing as a script; returns its exit code and what it said."""
    script = folder / "listing.py"
    script.write_text(listing.code, "utf-8")
    command = [sys.executable, *flags, "-m", "bireme", str(script)]
    result = subprocess.run(
        command,
        cwd=folder,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout


def run_roles(listing, folder):
    """Runs a listing by two servers and two trainers; returns what each of them said."""
    script = folder / "job.py"
    script.write_text(listing.code, "utf-8")
    ports = [str(port) for port in free_ports(2)]
    job = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{port}" for port in ports),
        "PADDLE_TRAINERS_NUM": "2",
        "BIREME_JOB_SECRET": str(folder),
    }
    here = {**job, "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1"}
    processes = {f"server{port}": {**here, "PADDLE_PORT": port} for port in ports}
    for rank in ("0", "1"):
        trainer = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": rank}
        processes[f"trainer{rank}"] = {**job, **trainer}
    return run_job(script, folder, processes)
