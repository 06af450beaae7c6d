"""Training under a real `mpirun`: only by `cargo xtask mpi`, which builds with the feature `mpi`."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from bireme import _core
from running_jobs import JOB_SECONDS, SCRIPTS, losses, roles, run_job

pytestmark = pytest.mark.skipif(
    os.environ.get("JOB_MPI") != "1" or shutil.which("mpirun") is None,
    reason="needs MPI: run `cargo xtask mpi`",
)
RANKS = 4
# mpi4py instead of what is built in.
BY_MPI4PY = """\
from bireme.distributed.fleet import mpi
import bireme.fluid.incubate.fleet.base.role_maker as maker
maker.start_mpi = mpi.Mpi4Py
"""


def mpirun(folder, script, **options):
    """Runs a script of `jobs` in four processes; returns exit code, and outputs by rank."""
    known = [str(folder), str(SCRIPTS), os.environ["PYTHONPATH"]]
    environment = {f"JOB_{name}": value for name, value in options.items()}
    environment |= {"PYTHONPATH": os.pathsep.join(known), "OMP_NUM_THREADS": "1"}
    command = f'exec "{sys.executable}" -m bireme "{script}" > "rank.$OMPI_COMM_WORLD_RANK" 2>&1'
    done = subprocess.run(
        [
            "mpirun",
            "--allow-run-as-root",
            "--oversubscribe",
            "-n",
            str(RANKS),
            "bash",
            "-c",
            command,
        ],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS,
        check=False,
    )
    outputs = [(folder / f"rank.{rank}").read_text() for rank in range(RANKS)]
    return done.returncode, outputs, done.stderr


@pytest.mark.parametrize("provider", ["built in", "mpi4py"])
def test_a_job_by_mpi_equals_one_whose_script_says_the_roles(tmp_path, provider):
    script = SCRIPTS / "incubate.py"
    if provider == "built in":
        assert _core.Mpi.is_built_in()
    elif importlib.util.find_spec("mpi4py") is None:
        pytest.skip("no mpi4py")
    else:
        script = tmp_path / "by_mpi4py.py"
        script.write_text(BY_MPI4PY + (SCRIPTS / "incubate.py").read_text())
    code, outputs, said = mpirun(tmp_path, script, ROLE="mpi")
    assert code == 0, said + "\n".join(outputs)
    alone = run_job(tmp_path / "said", "incubate.py", roles(2, 2), {"ROLE": "user"})
    for worker in range(2):
        by_mpi, expected = losses(outputs[2 * worker + 1]), losses(alone[f"trainer {worker}"])
        assert len(expected) > 3
        assert by_mpi.tolist() == expected.tolist()


def test_a_worker_that_fails_ends_the_job(tmp_path):
    code, outputs, _ = mpirun(tmp_path, SCRIPTS / "incubate.py", ROLE="mpi", FAIL="1")
    assert code != 0
    assert "this worker fails" in outputs[3]
