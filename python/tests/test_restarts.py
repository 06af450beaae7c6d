"""`fleetrun --max_restart`: what was killed is started again, and the job goes on from its last
checkpoint."""

from pathlib import Path

import numpy as np
import pytest
from running_fleetrun import Fleetrun
from running_jobs import losses

SCRIPT = Path(__file__).parent / "jobs" / "restarts.py"
COUNTS = ("--server_num=2", "--worker_num=2", "--max_restart=2")


def restarted(folder, mode, role=None, rank=0):
    """A job that ends well though one of its processes is killed after step 15."""
    folder.mkdir(exist_ok=True)
    with Fleetrun(folder, *COUNTS, SCRIPT, JOB_MODE=mode) as job:
        for worker in range(2):
            job.wait_for(f"workerlog.{worker}", "pauses")
        if role:
            job.kill(role, rank)
            while "started again; restarts left: 1" not in job.said():
                assert job.launcher.poll() is None, job.logs()
        (folder / "go").touch()
        assert job.end() == 0, job.logs()
        job.assert_nobody_is_left()
    return job


def model(job):
    """Every file of the model that a job has trained."""
    return {path.name: path.read_bytes() for path in (job.folder / "model").iterdir()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    job = restarted(tmp_path_factory.mktemp("undisturbed"), "sync")
    assert losses(job.log("workerlog.0"))[-5:].mean() < losses(job.log("workerlog.0"))[:5].mean()
    return job


@pytest.mark.parametrize(("role", "rank"), [("TRAINER", 1), ("PSERVER", 0)])
def test_a_sync_job_ends_as_if_nothing_had_happened(tmp_path, undisturbed, role, rank):
    job = restarted(tmp_path, "sync", role, rank)
    said = job.said()
    assert "was ended by signal 9 (SIGKILL)" in said and "all processes are started again" in said
    for worker in range(2):
        before, after = job.log(f"workerlog.{worker}").split("begins with step 10\n")
        assert before.count("\nstep ") == 15 and "begins with step 0\n" in before
        assert after.startswith("step 11 loss"), after
        assert "step10" in job.log("serverlog.0")
    expected = model(undisturbed)
    assert {"emb", "__model__"} <= expected.keys()
    assert model(job) == expected, "not the same bits"


def test_a_trainer_of_an_async_job_is_started_alone(tmp_path):
    job = restarted(tmp_path, "async", "TRAINER", 1)
    assert "worker 1 is started again" in job.said(), job.logs()
    # The others go on as if nothing had happened.
    assert job.log("workerlog.0").count("begins with") == 1
    assert job.log("serverlog.0").count("Server listening") == 1
    assert job.log("workerlog.1").count("begins with") == 2
    assert np.isfinite(losses(job.log("workerlog.1"))).all()


def test_an_async_job_goes_on_after_the_loss_of_a_server(tmp_path, undisturbed):
    job = restarted(tmp_path, "async", "PSERVER", 1)
    assert "all processes are started again" in job.said(), job.logs()
    found = losses(job.log("workerlog.0"))
    assert "begins with step 10\n" in job.log("workerlog.0")
    # Against a new model: the other trainer may have trained this one before it began.
    new = losses(undisturbed.log("workerlog.0"))[:5]
    assert found[-5:].mean() < new.mean()


def test_restarts_that_are_used_up_are_said(tmp_path):
    (tmp_path / "train.py").write_text("raise KeyError('no such shelf')\n")
    with Fleetrun(tmp_path, "--nproc_per_node=1", "--max_restart=1", "train.py") as job:
        assert job.end() == 1, job.logs()
    assert "not started again: all 1 restarts are used up" in job.said()
    assert "----- worker 0 is started again (1) -----\n" in job.log("workerlog.0")
