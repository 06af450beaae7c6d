"""Ctrl-C ends every wait for another process, also where a worker thread is the one that waits."""

import signal

import pytest
from running_jobs import JOB_SECONDS, SCRIPTS, Job, free_ports, roles
from running_ranks import environments as rank_environments

# As long as nothing but Ctrl-C can end a wait.
PATIENT = {
    "FLAGS_rpc_deadline": "900000",
    "BIREME_HEARTBEAT_TIMEOUT": "900",
    "BIREME_NUM_THREADS": "2",
}


def interrupted(folder, environments, script, waiter, before=None, **options):
    """Starts a job, interrupts `waiter` when it waits, and returns what it printed."""
    options = {f"JOB_{name}": str(value) for name, value in options.items()}
    with Job(folder) as job:
        for name, environment in environments.items():
            job.start(name, script, {**environment, **PATIENT, **options})
        if before is not None:
            before(job)
        job.wait_for(waiter, "it waits")
        job.processes[waiter].send_signal(signal.SIGINT)
        code = job.processes[waiter].wait(JOB_SECONDS)
        said = job.output(waiter)
        assert code in (-signal.SIGINT, 130), said
        assert said.endswith("KeyboardInterrupt\n")
        return said


def noticing(script, place, after=True):
    """A script of `jobs` that says when it waits, from a line on."""
    text = (SCRIPTS / script).read_text()
    assert place in text
    begin = "    import noticing; noticing.begin()\n"
    return text.replace(place, place + begin if after else begin + place, 1)


def lonely(servers=1):
    """A job whose trainer 1 never comes."""
    environments = roles(servers, 2)
    del environments["trainer 1"]
    return environments


@pytest.mark.parametrize("servers", [1, 2])
def test_at_the_barrier_of_a_sync_step(tmp_path, servers):
    script = noticing("fleet2.py", "    fleet.init_worker()\n")
    interrupted(tmp_path, lonely(servers), script, "trainer 0")


def test_at_the_barrier_of_a_worker_of_the_first_fleet(tmp_path):
    script = noticing("incubate.py", "    fleet.init_worker()\n")
    interrupted(tmp_path, lonely(), script, "trainer 0")


def test_at_the_barrier_of_a_transpiled_trainer(tmp_path):
    script = noticing("transpiled.py", "        program = t.get_trainer_program()\n").replace(
        "    import noticing", "        import noticing"
    )
    interrupted(tmp_path, lonely(), script, "trainer 0")


def test_among_the_workers(tmp_path):
    script = noticing("fleet2.py", "    fleet.barrier_worker()\n", after=False)
    interrupted(tmp_path, lonely(), script, "trainer 0", STEPS=0)


def test_for_servers_that_are_not_there(tmp_path):
    script = noticing("transpiled.py", "        program = t.get_trainer_program()\n").replace(
        "    import noticing", "        import noticing"
    )
    environments = lonely()
    del environments["server 0"]
    said = interrupted(tmp_path, environments, script, "trainer 0", CONFIG='{"wait_port": false}')
    assert "exe.run(fluid.default_startup_program())" in said


def test_a_server_without_trainers(tmp_path):
    environments = roles(1, 1)
    del environments["trainer 0"]
    script = noticing("fleet2.py", '    fleet.init_server(option("LOAD") or None)\n')
    interrupted(tmp_path, environments, script, "server 0")


@pytest.mark.parametrize("mode", ["sync", "async", "half_async", "geo", "hybrid"])
def test_for_a_server_that_is_stopped(tmp_path, mode):
    script = noticing("fleet2.py", "    fleet.init_worker()\n")

    def stop(job):
        job.wait_for("trainer 0", "loss ")
        job.processes["server 0"].send_signal(signal.SIGSTOP)

    interrupted(tmp_path, roles(1, 1), script, "trainer 0", stop, MODE=mode, STEPS=1_000_000)


@pytest.mark.parametrize("call", ["fleet.save_persistables(exe, 'saved')", "fleet.stop_worker()"])
def test_a_save_or_an_end_with_a_stopped_server(tmp_path, call):
    script = (
        (SCRIPTS / "fleet2.py")
        .read_text()
        .replace(
            '    fleet.barrier_worker()\n    if option("SAVE")',
            "    import noticing, os\n    print('trained', flush=True)\n"
            "    while not os.path.exists('stopped'):\n        pass\n"
            f'    noticing.begin()\n    {call}\n    if option("SAVE")',
        )
    )
    assert call in script

    def stop(job):
        job.wait_for("trainer 0", "trained")
        job.processes["server 0"].send_signal(signal.SIGSTOP)
        (tmp_path / "stopped").touch()

    interrupted(tmp_path, roles(1, 1), script, "trainer 0", stop)


RANK = """
import noticing
import paddle
import paddle.distributed as dist
noticing.begin()
dist.init_parallel_env()
value = paddle.ones([4])
if dist.get_rank() == 1:
    import signal
    signal.pause()
{call}
"""


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_reduce(value)",
        "dist.all_reduce(value, sync_op=False).wait()",
        "dist.barrier()",
        "dist.all_gather_object([], {})",
        "dist.recv(value, src=1)",
    ],
)
def test_in_a_collective_call(tmp_path, call):
    environments = rank_environments(free_ports(2))
    interrupted(tmp_path, environments, RANK.format(call=call), "rank 0")


def test_for_a_rank_that_never_comes(tmp_path):
    environments = rank_environments(free_ports(2))
    del environments["rank 1"]
    interrupted(tmp_path, environments, RANK.format(call=""), "rank 0")


BATCHES = """
import noticing
import paddle
paddle.enable_static()
x = paddle.static.data("x", [None, 1])
dataset = paddle.distributed.QueueDataset()
dataset.init(use_var=[x], pipe_command="sleep 900", thread_num=2)
dataset.set_filelist([__file__])
noticing.begin()
for batch in dataset._source().batches():
    pass
"""


def test_for_a_pipe_command_that_says_nothing(tmp_path):
    interrupted(tmp_path, {"reader": {}}, BATCHES, "reader")


def test_training_goes_on_after_an_interrupt_that_the_script_handles(tmp_path):
    text = (
        (SCRIPTS / "fleet2.py")
        .read_text()
        .replace(
            "    for seed in option",
            "    import noticing; noticing.begin()\n"
            "    try:\n        fleet.barrier_worker()\n"
            "    except KeyboardInterrupt:\n        print('handled', flush=True)\n"
            "    for seed in option",
        )
    )
    text = text.replace(
        '    fleet.barrier_worker()\n    if option("SAVE")', '    if option("SAVE")'
    )
    environments = roles(1, 2)
    options = {**PATIENT, "JOB_MODE": "async", "JOB_STEPS": "5"}
    with Job(tmp_path) as job:
        for name in ("server 0", "trainer 0"):
            job.start(name, text, {**environments[name], **options})
        job.wait_for("trainer 0", "it waits")
        job.processes["trainer 0"].send_signal(signal.SIGINT)
        assert job.processes["trainer 0"].wait(JOB_SECONDS) == 0, job.output("trainer 0")
        assert "handled" in job.output("trainer 0")
        assert job.output("trainer 0").count("loss ") == 5
