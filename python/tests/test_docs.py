"""The Python examples of the documentation run as they are written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from running_jobs import free_ports
from running_ranks import run_well
from test_seeds_servers import run_job

ROOT = Path(__file__).parents[2]


def code_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


GUIDE = code_of("docs/distributed.md")
# Scripts that the ranks of a collective job run.
RANKS = [code for code in GUIDE if "is_collective=True" in code]
# Scripts that several processes run, each in a role of its own.
JOBS = [code for code in GUIDE if ("PSERVER" in code or "init(" in code) and code not in RANKS]
# A script that starts processes by itself.
SPAWNS = [code for code in GUIDE if "dist.spawn(" in code]
EXAMPLES = [
    (page, number, code)
    for page in ("README.md", "docs/api.md", "docs/distributed.md")
    for number, code in enumerate(code_of(page))
    if code not in JOBS + SPAWNS + RANKS
]


@pytest.mark.parametrize(
    "code", [code for _, _, code in EXAMPLES], ids=[f"{page}-{n}" for page, n, _ in EXAMPLES]
)
def test_an_example_runs(code, tmp_path):
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("code", SPAWNS)
def test_a_job_of_the_guide_that_starts_itself_runs(code, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(code, "utf-8")
    command = [sys.executable, "-m", "bireme", str(script)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", result.stdout)]
    assert len(losses) == 2 and losses[1] < losses[0], losses


@pytest.mark.parametrize("code", RANKS)
def test_a_collective_job_of_the_guide_runs(code, tmp_path):
    for output in run_well(tmp_path, code, 2):
        assert [float(loss) < 0.1 for loss in re.findall(r"loss ([\d.]+)", output)] == [True]


@pytest.mark.parametrize("code", JOBS, ids=["transpiler", "incubate", "fleet"])
def test_a_job_of_the_guide_runs(code, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(code, "utf-8")
    ports = [str(port) for port in free_ports(2)]
    job = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{port}" for port in ports),
        "PADDLE_TRAINERS_NUM": "2",
        "BIREME_JOB_SECRET": str(tmp_path),
    }
    here = {**job, "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1"}
    processes = {f"server{port}": {**here, "PADDLE_PORT": port} for port in ports}
    for rank in ("0", "1"):
        trainer = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": rank}
        processes[f"trainer{rank}"] = {**job, **trainer}
    outputs = run_job(script, tmp_path, processes)
    for rank in range(2):
        losses = re.findall(r"loss ([\d.]+)", outputs[f"trainer{rank}"])
        # Not the first one: who comes late to an async job begins with what others have learned.
        assert float(losses[-1]) < 0.1, losses
