"""Jobs that go wrong: every process ends in bounded time and says what, where and what to do."""

import signal
import socket

import pytest
from running_jobs import SCRIPTS, Job, roles, run_job

# Survivors wait this long for a process that is gone, and for one that never came.
QUICK = {"BIREME_HEARTBEAT_TIMEOUT": "4", "FLAGS_rpc_deadline": "15000"}
SECONDS = 90


def script(*changes):
    """The script of a job of `fleet`, with pieces of it replaced."""
    text = (SCRIPTS / "fleet2.py").read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


LAST_OF_A_STEP = '        if option("SCHEDULE"):\n            rate.step()\n'


def ended(folder, environments, text="fleet2.py", meanwhile=None, **options):
    """Exit codes and outputs of a job that goes wrong."""
    options = {f"JOB_{name}": str(value) for name, value in options.items()}
    with Job(folder) as job:
        for name, environment in environments.items():
            job.start(name, text, {**QUICK, **options, **environment})
        if meanwhile is not None:
            meanwhile(job)
        codes = job.ends(SECONDS)
        return codes, {name: job.output(name) for name in environments}


def only(environments, name, **changes):
    return {name: {**environments[name], **changes}}


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        environments = roles(1, 1, [port])
        environments["trainer 0"]["FLAGS_rpc_deadline"] = "2000"
        codes, outputs = ended(tmp_path, environments)
    assert codes == {"server 0": 1, "trainer 0": 1}
    assert f"cannot listen on `127.0.0.1:{port}`: Address already in use" in outputs["server 0"]
    assert f"server 0 (127.0.0.1:{port}) is lost: no connection" in outputs["trainer 0"]


def test_servers_that_never_start(tmp_path):
    environments = only(roles(1, 1), "trainer 0", FLAGS_rpc_deadline="1000")
    codes, outputs = ended(tmp_path, environments)
    assert codes == {"trainer 0": 1}
    assert "no connection within 1.0 s (`FLAGS_rpc_deadline`)" in outputs["trainer 0"]


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        (
            "server 0",
            {"PADDLE_PORT": "1"},
            "this server's endpoint `127.0.0.1:1` is not in the list",
        ),
        ("server 0", {"FLAGS_rpc_retry_times": "x"}, "`FLAGS_rpc_retry_times` is `x`"),
        (
            "trainer 0",
            {"PADDLE_TRAINER_ID": "2"},
            "PADDLE_TRAINER_ID is 2, but there are 2 trainers",
        ),
        (
            "trainer 0",
            {"PADDLE_TRAINERS_NUM": "two"},
            "`PADDLE_TRAINERS_NUM` is `two`, which is not",
        ),
        ("trainer 0", {"FLAGS_rpc_deadline": "soon"}, "`FLAGS_rpc_deadline` is `soon`"),
    ],
)
def test_an_environment_that_makes_no_sense(tmp_path, name, changes, text):
    codes, outputs = ended(tmp_path, only(roles(1, 2), name, **changes))
    assert codes == {name: 1}
    assert text in outputs[name].splitlines()[-1]


def test_processes_that_disagree_on_the_number_of_trainers(tmp_path):
    environments = roles(1, 2)
    environments["trainer 1"]["PADDLE_TRAINERS_NUM"] = "3"
    codes, outputs = ended(tmp_path, environments)
    assert all(codes.values())
    assert "start all processes with the same number of trainers" in outputs["trainer 1"]
    # The other does not wait for it until the deadline.
    assert "says it is trainer 1 of 3" in outputs["trainer 0"]


def test_two_trainers_with_the_same_number(tmp_path):
    environments = roles(1, 2)
    environments["trainer 1"]["PADDLE_TRAINER_ID"] = "0"
    codes, outputs = ended(tmp_path, environments)
    assert all(codes.values())
    assert "trainer 0" in outputs["server 0"].splitlines()[-1]


def test_a_trainer_that_raises_is_named_by_the_others(tmp_path):
    text = script(
        (
            LAST_OF_A_STEP,
            '        if fleet.worker_index() == 1:\n            raise ValueError("my")\n',
        )
    )
    codes, outputs = ended(tmp_path, roles(1, 2), text, STEPS=100_000)
    assert codes == {"server 0": 1, "trainer 0": 1, "trainer 1": 1}
    assert outputs["trainer 1"].endswith("ValueError: my\n")
    for name in ("server 0", "trainer 0"):
        assert "trainer 1 (this host) is lost" in outputs[name].splitlines()[-1]


@pytest.mark.parametrize(("name", "text"), [("trainer 1", "trainer 1"), ("server 0", "server 0")])
def test_ctrl_c_ends_a_role_and_the_others_say_which(tmp_path, name, text):
    def interrupt(job):
        for trainer in ("trainer 0", "trainer 1"):
            job.wait_for(trainer, "loss ")
        job.processes[name].send_signal(signal.SIGINT)

    codes, outputs = ended(tmp_path, roles(1, 2), meanwhile=interrupt, STEPS=1_000_000)
    assert codes[name] in (-signal.SIGINT, 130)
    assert outputs[name].endswith("KeyboardInterrupt\n")
    for other in set(codes) - {name}:
        assert codes[other] == 1
        assert text in outputs[other].splitlines()[-1]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_worker_that_forgets_to_stop_has_finished_all_the_same(tmp_path, mode):
    # Sooner than anybody would call it lost.
    environments = {
        name: {**environment, "BIREME_HEARTBEAT_TIMEOUT": "600"}
        for name, environment in roles(1, 2).items()
    }
    text = script(("    fleet.stop_worker()\n", ""))
    run_job(tmp_path, text, environments, {"MODE": mode})


PATIENT = {"BIREME_HEARTBEAT_TIMEOUT": "600"}


def transpiled(end):
    """The transpiler's job, whose executor is gone before the script ends."""
    text = (SCRIPTS / "transpiled.py").read_text()
    assert "    exe.close()\n" in text
    return text.replace("    exe.close()\n", f"    del exe\n    {end}\n")


def test_a_trainer_whose_executor_is_gone_has_finished_all_the_same(tmp_path):
    environments = {name: {**own, **PATIENT} for name, own in roles(1, 2).items()}
    run_job(tmp_path, transpiled("pass"), environments)


def test_a_trainer_that_fails_after_its_executor_is_gone_is_lost(tmp_path):
    environments = {name: {**own, **PATIENT} for name, own in roles(1, 2).items()}
    text = transpiled("assert rank == 0, 'my'")
    codes, outputs = ended(tmp_path, environments, text)
    assert codes["trainer 1"] == 1 and codes["server 0"] == 1
    assert "AssertionError: my" in outputs["trainer 1"]
    assert "trainer 1 (this host) is lost" in outputs["server 0"].splitlines()[-1]


@pytest.mark.parametrize("waits", ["for servers", "at a barrier", "in a step"])
def test_ctrl_c_ends_a_wait_for_others(tmp_path, waits):
    environments = roles(1, 2)
    del environments["trainer 1"]
    if waits == "for servers":
        del environments["server 0"]
    text = script(
        ("    exe.run(paddle", '    print("now", flush=True)\n    exe.run(paddle'),
        ("    fleet.init_worker()\n", '    fleet.init_worker()\n    print("on", flush=True)\n'),
    )

    def interrupt(job):
        # It may not wait yet: then Ctrl-C comes before the wait, and ends it as well.
        job.wait_for("trainer 0", "now" if waits == "for servers" else "on\n")
        job.processes["trainer 0"].send_signal(signal.SIGINT)
        job.processes["trainer 0"].wait(SECONDS)
        for process in job.processes.values():
            process.kill()

    steps = 0 if waits == "at a barrier" else 5
    changes = {"FLAGS_rpc_deadline": str(2 * SECONDS * 1000)}
    environments = {name: {**own, **changes} for name, own in environments.items()}
    _, outputs = ended(tmp_path, environments, text, interrupt, STEPS=steps)
    assert outputs["trainer 0"].endswith("KeyboardInterrupt\n")


def test_training_before_init_worker_connects_by_itself(tmp_path):
    text = script(("    fleet.init_worker()\n", ""), ("    fleet.barrier_worker()\n", ""))
    run_job(tmp_path, text, roles(1, 2))


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "there is no `manifest.json` in it"), ("{]", "manifest.json`: it is damaged")],
)
def test_a_folder_that_is_no_checkpoint(tmp_path, content, text):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    if content is not None:
        (folder / "manifest.json").write_text(content)
    codes, outputs = ended(tmp_path, only(roles(1, 1), "server 0"), LOAD=folder)
    assert codes == {"server 0": 1}
    assert text in outputs["server 0"].splitlines()[-1]


def test_what_cannot_be_asked_of_a_job_is_said(tmp_path):
    """A worker tries what fails; nothing of it disturbs the other one."""
    calls = """
    tries = [
        (lambda: fleet.run_server(), "`run_server` is for a server, but this process is worker"),
        (lambda: fleet.save_one_table(7, "out"), "there is no table 7: the job has 1"),
        (lambda: fleet.save_one_table("emb", "out"), "`table_id` must be a number from 0 on"),
        (lambda: fleet.save_persistables(exe, "out", mode=9), "there is no save mode 9"),
        (lambda: fleet.util.all_gather(object()), "cannot be sent to other workers"),
        (lambda: fleet.util.barrier("all"), 'use "worker"'),
        (lambda: fleet.save_inference_model(exe, "m", ["no"], [prediction]), "`no` is to be fed"),
    ]
    for call, text in tries if fleet.is_first_worker() else []:
        try:
            call()
        except Exception as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)
    try:
        fleet.load_model("nowhere")
    except RuntimeError as error:
        print("load:", error)
    fleet.stop_worker()
"""
    text = script(("    fleet.stop_worker()\n", calls.lstrip("\n")))
    outputs = run_job(tmp_path, text, roles(1, 2), {"EMBEDDING": "sparse_embedding", "STEPS": 2})
    assert "worker 0 could not let the servers load `nowhere`" in outputs["trainer 1"]
    assert "there is no such folder" in outputs["trainer 0"]
