"""Jobs with heter workers: one process for each role, with the environment that `fleetrun` sets."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import bireme as paddle
import numpy as np
import pytest
from bireme.distributed import fleet
from running_jobs import JOB_SECONDS, free_ports

SCRIPT = Path(__file__).parents[2] / "examples" / "python" / "heter_ctr.py"


def job(servers, trainers, stages, **common):
    """Names and environments of the processes of a job."""
    ports = iter(free_ports(servers + trainers + sum(stages)))

    def take(count):
        return [f"127.0.0.1:{next(ports)}" for _ in range(count)]

    server_list, trainer_list = take(servers), take(trainers)
    stage_lists = [trainer_list, *[take(count) for count in stages]]
    every = [place for stage in stage_lists[1:] for place in stage]
    common = {
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(server_list),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(trainer_list),
        "PADDLE_TRAINERS_NUM": str(trainers),
        "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST": ",".join(every),
        "PADDLE_STAGE_TRAINERS_NUM": str([trainers, *stages]),
        "OMP_NUM_THREADS": "1",
        **common,
    }

    def place(endpoint):
        return dict(zip(("POD_IP", "PADDLE_PORT"), endpoint.split(":"), strict=True))

    processes = {}
    for index, endpoint in enumerate(server_list):
        processes[f"server {index}"] = {
            **common,
            **place(endpoint),
            "TRAINING_ROLE": "PSERVER",
        }
    for stage, endpoints in enumerate(stage_lists, 1):
        for index, endpoint in enumerate(endpoints):
            after = stage_lists[stage] if stage < len(stage_lists) else []
            own = {
                **common,
                **place(endpoint),
                "STAGE_ID": str(stage),
                "STAGE_NUM": str(len(stage_lists)),
                "HETER_DEVICE_TYPE": "cpu",
                "PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST": ",".join(after),
                "PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST": ",".join(
                    stage_lists[stage - 2] if stage > 1 else []
                ),
            }
            if stage == 1:
                name, more = f"trainer {index}", {"PADDLE_TRAINER_ID": str(index)}
                own["TRAINING_ROLE"] = "TRAINER"
            else:
                name, more = f"heter {every.index(endpoint)}", {}
                own["TRAINING_ROLE"] = "HETER_TRAINER"
            processes[name] = {**own, **more}
    return processes


def start(folder, name, environment):
    with open(folder / f"{name}.log", "w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "bireme", str(SCRIPT)],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def end(folder, running, seconds=JOB_SECONDS):
    """The exit codes and outputs of processes that end by themselves."""
    until = time.monotonic() + seconds
    try:
        for process in running.values():
            process.wait(max(until - time.monotonic(), 1))
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    codes = {name: process.returncode for name, process in running.items()}
    return codes, {name: (folder / f"{name}.log").read_text() for name in running}


def run(folder, processes):
    running = {name: start(folder, name, own) for name, own in processes.items()}
    codes, outputs = end(folder, running)
    assert not any(codes.values()), f"{codes}\n" + "\n".join(outputs.values())
    return outputs


def losses(output):
    return np.array([float(loss) for loss in re.findall(r"loss ([\d.]+)", output)])


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return losses(
        run(tmp_path_factory.mktemp("local"), {"local": {"OMP_NUM_THREADS": "1"}})["local"]
    )


@pytest.mark.parametrize("parts", ["1", "4"])
def test_sync_training_has_the_losses_of_one_process(tmp_path, local, parts):
    assert local[-10:].mean() < 0.8 * local[:10].mean()
    settings = {"HETER_SYNC": "1", "MICRO_BATCHES": parts, "SAVE": str(tmp_path / "model")}
    outputs = run(tmp_path, job(2, 2, [2], **settings))
    both = np.mean([losses(outputs[f"trainer {index}"]) for index in range(2)], axis=0)
    np.testing.assert_allclose(both, local, rtol=1e-4)
    assert "Heter worker listening on" in outputs["heter 0"]
    # The model has the parameters of all stages.
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"table", "fc_0.w_0", "fc_1.b_0", "__model__"} <= names


def test_async_training_learns(tmp_path, local):
    outputs = run(tmp_path, job(2, 2, [2], STEPS="120"))
    for index in range(2):
        found = losses(outputs[f"trainer {index}"])
        assert len(found) == 120
        # Against a new model: the other trainer may have trained this one before it began.
        assert found[-20:].mean() < 0.8 * local[:10].mean()


def wait_for(path, text, seconds=JOB_SECONDS):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.05)
    raise TimeoutError(f"no `{text}` in {path.read_text()}")


@pytest.mark.parametrize("victim", ["heter 0", "trainer 1"])
def test_a_killed_process_ends_the_others_and_is_named(tmp_path, victim):
    settings = {
        "HETER_SYNC": "1",
        "STEPS": "1000000",
        "BIREME_HEARTBEAT": "0.2",
        "BIREME_HEARTBEAT_TIMEOUT": "4",
    }
    processes = job(1, 2, [1], **settings)
    running = {name: start(tmp_path, name, own) for name, own in processes.items()}
    try:
        wait_for(tmp_path / "trainer 0.log", "step 5:")
        killed = time.monotonic()
        running[victim].send_signal(signal.SIGKILL)
        codes, outputs = end(tmp_path, running, 90)
    finally:
        for process in running.values():
            process.kill()
    assert time.monotonic() - killed < 90
    others = {name: code for name, code in codes.items() if name != victim}
    assert all(code > 0 for code in others.values()), f"{codes}\n" + "\n".join(outputs.values())
    said = victim.replace("heter", "heter worker")
    assert any(said in outputs[name] for name in others if name.startswith("trainer")), outputs


def test_programs_without_a_guard_are_refused():
    paddle.enable_static()
    role = fleet.UserDefinedRoleMaker(
        current_id=0,
        role=fleet.Role.WORKER,
        worker_num=1,
        server_endpoints=["127.0.0.1:1"],
        heter_worker_endpoints=["127.0.0.1:2"],
    )
    assert (role._heter_worker_num(), role._get_num_stage(), role._get_stage_trainers()) == (
        1,
        2,
        (1, 1),
    )
    fleet.init(role)
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x = paddle.static.data("x", [-1, 4])
        loss = paddle.mean(paddle.static.nn.fc(x, 1))
        strategy = fleet.DistributedStrategy()
        strategy.pipeline = True
        optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy)
        with pytest.raises(ValueError, match="no op of the program is theirs"):
            optimizer.minimize(loss)
    fleet.init(is_collective=True)
