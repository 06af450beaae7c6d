"""The distributed listings of Paddle's guides, one process for each role on the loopback."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running_jobs import JOB_SECONDS, free_ports

SCRIPTS = Path(__file__).parent / "guides_ps"


def run_job(script, folder, processes):
    """Runs a process for each named environment; returns their outputs, which all ended with 0."""
    running = {}
    try:
        for name, environment in processes.items():
            # To a file: a pipe that nobody reads would stop a process that prints much.
            with open(folder / f"{name}.log", "w") as log:
                running[name] = subprocess.Popen(
                    [sys.executable, "-m", "bireme", str(SCRIPTS / script)],
                    cwd=folder,
                    env={**os.environ, **environment},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        for process in running.values():
            process.wait(JOB_SECONDS)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    outputs = {name: (folder / f"{name}.log").read_text() for name in processes}
    ended = {name: process.returncode for name, process in running.items()}
    assert not any(ended.values()), f"{ended}\n" + "\n".join(outputs.values())
    return outputs


def losses(output):
    return np.array([float(loss) for loss in re.findall(r"loss ([\d.]+)", output)])


def sync_job(servers, trainers, slice_var_up):
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(servers)]
    common = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
        "PADDLE_TRAINERS_NUM": str(trainers),
        "SLICE_VAR_UP": "1" if slice_var_up else "0",
    }
    jobs = {
        f"server {endpoint}": {
            **common,
            "TRAINING_ROLE": "PSERVER",
            "PADDLE_CURRENT_ENDPOINT": endpoint,
        }
        for endpoint in endpoints
    }
    for trainer in range(trainers):
        jobs[f"trainer {trainer}"] = {
            **common,
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINER_ID": str(trainer),
        }
    return jobs


@pytest.fixture
def local(tmp_path):
    return losses(
        run_job("sync_training.py", tmp_path, {"local": {"TRAINING_ROLE": "LOCAL"}})["local"]
    )


def test_the_local_run_of_the_guide_learns(local):
    assert len(local) == 40
    assert local[-5:].mean() < local[:5].mean() / 2


@pytest.mark.parametrize(("servers", "trainers", "slices"), [(1, 1, False), (2, 2, True)])
def test_synchronous_training_has_the_losses_of_the_local_run(
    tmp_path, local, servers, trainers, slices
):
    outputs = run_job("sync_training.py", tmp_path, sync_job(servers, trainers, slices))
    for name, output in outputs.items():
        if name.startswith("server"):
            assert f"Server listening on {name.removeprefix('server ')}" in output
        else:
            np.testing.assert_allclose(losses(output), local, rtol=1e-4)


def test_the_flow_of_the_fleet_guide_learns(tmp_path):
    endpoints = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
    common = {"SERVER_ENDPOINTS": endpoints, "WORKER_NUM": "3"}
    jobs = {
        f"{role} {index}": {**common, "TRAINING_ROLE": role, "CURRENT_ID": str(index)}
        for role, count in (("SERVER", 2), ("WORKER", 3))
        for index in range(count)
    }
    outputs = run_job("fleet_api.py", tmp_path, jobs)
    for index in range(3):
        output = outputs[f"WORKER {index}"]
        assert "TrainerRuntimeConfig Overview" in output
        costs = [float(cost) for cost in re.findall(r"Pass \d+, cost = ([\d.]+), auc", output)]
        assert len(costs) == 100
        assert np.mean(costs[-10:]) < np.mean(costs[:10]) * 0.9


def test_the_demo_of_fit_a_line_ends_with_a_loss_under_10(tmp_path):
    (port,) = free_ports(1)
    common = {
        "PADDLE_PSERVER_PORT": str(port),
        "PADDLE_PSERVER_IPS": "127.0.0.1",
        "PADDLE_TRAINERS": "2",
    }
    jobs = {
        "server": {
            **common,
            "PADDLE_CURRENT_IP": "127.0.0.1",
            "PADDLE_TRAINER_ID": "1",
            "PADDLE_TRAINING_ROLE": "PSERVER",
        }
    }
    for trainer in range(2):
        # The guide's own misspelling: a trainer needs no address.
        jobs[f"trainer {trainer}"] = {
            **common,
            "PADDLE_CURRENT_IPP": "127.0.0.1",
            "PADDLE_TRAINER_ID": str(trainer),
            "PADDLE_TRAINING_ROLE": "TRAINER",
        }
    outputs = run_job("fit_a_line.py", tmp_path, jobs)
    assert f"Server listening on 127.0.0.1:{port}" in outputs["server"]
    for trainer in range(2):
        seen = losses(outputs[f"trainer {trainer}"])
        assert seen[-1] < 10.0 < seen[0]
