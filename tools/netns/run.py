"""Runs jobs on three machines made of network namespaces: `cargo xtask netns [CASE...]`.

`BIREME_FLEETRUN` is the launcher, `BIREME_PYTHONPATH` the folder of the Python package. One line
for each case; what the machines said is printed when a case fails.
"""

import argparse
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

import hosts

JOBS = Path(__file__).parent / "jobs"
# Of a job with its imports, on a busy machine.
JOB_SECONDS = 120
# After which a process or a machine that says nothing counts as lost.
SILENCE = 5
CASES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


class Table:
    """Three machines and the jobs on them."""

    def __init__(self, network):
        self.network = network
        self.hosts = network.hosts
        self.started = []

    def start(self, host, flags, job, **variables):
        """Starts `fleetrun` on a machine."""
        environment = {
            "PYTHONPATH": os.environ["BIREME_PYTHONPATH"],
            "OMP_NUM_THREADS": "1",
            "BIREME_HEARTBEAT_TIMEOUT": str(SILENCE),
            "BIREME_START_TIMEOUT": "60",
            **{name: str(value) for name, value in variables.items()},
        }
        # Two launchers of one machine must not share their logs.
        folder = host.folder / f"run{len(host.running)}"
        folder.mkdir(parents=True)
        command = [os.environ["BIREME_FLEETRUN"], *flags, str(JOBS / job)]
        running = host.start(command, environment, folder)
        self.started.append(running)
        return running

    def start_all(self, flags, job, **variables):
        return [self.start(host, flags, job, **variables) for host in self.hosts]

    def report(self):
        for running in self.started:
            said = running.text()[-6000:]
            print(f"----- {running.host.name} ({running.process.poll()})\n{said}")
            for name, log in running.logs().items():
                print(f"----- {running.host.name} {name}\n{log[-1500:]}")


def servers_flags(table):
    """Two servers, on the first machines, and three workers."""
    addresses = [host.address for host in table.hosts]
    servers = ",".join(f"{address}:6170" for address in addresses[:2])
    workers = ",".join(f"{address}:6171" for address in addresses)
    return [f"--servers={servers}", f"--workers={workers}"]


def collective_flags(table):
    ips = ",".join(host.address for host in table.hosts)
    return [f"--ips={ips}", "--nproc_per_node=1"]


def check_ends(runs, codes, seconds=JOB_SECONDS):
    """Waits for all; each must end with its code (none: any but 0)."""
    end = time.monotonic() + seconds
    for running, code in zip(runs, codes):
        ended = running.wait(end - time.monotonic())
        right = ended != 0 if code is None else ended == code
        assert right, (
            f"{running.host.name} ended with {ended}, not {'a failure' if code is None else code}"
        )


def check_trained(runs):
    """Every worker's loss fell."""
    for running in runs:
        for name, log in running.logs().items():
            if name.startswith("workerlog"):
                losses = [float(value) for value in re.findall(r"loss ([\d.]+)", log)]
                assert len(losses) > 4, f"{running.host.name} {name} has {len(losses)} steps"
                assert losses[-1] < losses[0], f"{running.host.name} {name}: {losses}"


def check_equal(runs):
    """All ranks hold the same parameters."""
    found = set()
    for running in runs:
        found |= set(re.findall(r"parameters (\w+)", "".join(running.logs().values())))
    assert len(found) == 1, f"parameters differ: {found}"


def check_says(running, text):
    assert text in running.text(), f"{running.host.name} did not say `{text}`"


def ends_after(runs, since, seconds):
    """Waits for all; how long after `since` each ended."""
    times = {}
    end = since + seconds
    while len(times) < len(runs):
        for running in runs:
            if running not in times and running.process.poll() is not None:
                times[running] = time.monotonic() - since
        late = [running.host.name for running in runs if running not in times]
        assert not late or time.monotonic() < end, f"{late} still run after {seconds} s"
        time.sleep(0.02)
    return "ended after " + ", ".join(f"{times[r]:.1f} s ({r.host.name})" for r in runs)


@case
def servers(table):
    """A job with parameter servers trains to its end."""
    runs = table.start_all(servers_flags(table), "servers.py")
    check_ends(runs, [0, 0, 0])
    check_trained(runs)


@case
def collective(table):
    """A collective job trains to its end; all ranks end with the same bits."""
    runs = table.start_all(collective_flags(table), "collective.py")
    check_ends(runs, [0, 0, 0])
    check_trained(runs)
    check_equal(runs)


@case
def servers_in_reverse(table):
    """The first machine, where the others meet, comes last and late."""
    flags = servers_flags(table)
    runs = [table.start(table.hosts[2], flags, "servers.py")]
    runs.append(table.start(table.hosts[1], flags, "servers.py"))
    # The order is what is tested: both must be waiting by now.
    time.sleep(4)
    runs.append(table.start(table.hosts[0], flags, "servers.py"))
    check_ends(runs, [0, 0, 0])
    check_trained(runs)
    check_says(runs[0], f"waiting for node {table.hosts[0].address}")


@case
def collective_in_reverse(table):
    """The last machine comes late; the first says whom it waits for."""
    flags = collective_flags(table)
    runs = [table.start(host, flags, "collective.py") for host in table.hosts[:2]]
    time.sleep(4)
    runs.append(table.start(table.hosts[2], flags, "collective.py"))
    check_ends(runs, [0, 0, 0])
    check_equal(runs)
    check_says(runs[0], f"waiting for 1 of 3 nodes: {table.hosts[2].address}")


@case
def servers_at_a_master(table):
    """Machines that only know where to meet: one server and one worker each."""
    flags = [f"--master={table.hosts[0].address}:7000", "--nnodes=3", "--run_mode=ps"]
    runs = [table.start(host, flags, "servers.py") for host in reversed(table.hosts)]
    check_ends(runs, [0, 0, 0])
    check_trained(runs)


@case
def collective_at_a_master(table):
    """The same for a collective job, with ranks given by hand."""
    flags = [f"--master={table.hosts[0].address}:7000", "--nnodes=3", "--nproc_per_node=2"]
    ranks = {1: 0, 2: 2, 3: 1}
    runs = [
        table.start(host, [*flags, f"--rank={ranks[host.number]}"], "collective.py")
        for host in table.hosts
    ]
    check_ends(runs, [0, 0, 0])
    check_equal(runs)


@case
def fewer_machines(table):
    """Two of `2:3` machines come; the job starts without the third."""
    master = f"--master={table.hosts[0].address}:7000"
    flags = [master, "--nnodes=2:3", "--nproc_per_node=1", "--elastic_timeout=3"]
    runs = [table.start(host, flags, "collective.py") for host in table.hosts[:2]]
    check_ends(runs, [0, 0])
    check_equal(runs)


def cut_while_training(table, flags, job, victim):
    runs = table.start_all(flags, job, JOB_STEPS=1000000)
    for running in runs:
        running.wait_for_log("workerlog.0", "step 3 ", JOB_SECONDS)
    since = time.monotonic()
    table.hosts[victim].cut()
    times = ends_after(runs, since, 4 * SILENCE)
    check_ends(runs, [None] * 3, 1)
    first, cut = table.hosts[0].address, table.hosts[victim].address
    for at, running in enumerate(runs):
        # The machine where all meet names the one it lost; others lost that one.
        lost = cut if at != victim or victim == 0 else first
        if at == 0 and victim == 0:
            lost = table.hosts[1].address
            said = running.text()
            assert any(f"node {host.address} is lost" in said for host in table.hosts[1:])
            continue
        check_says(running, f"node {lost} is lost")
    return times


@case
def servers_cut_off(table):
    """The cable of a machine with a worker is pulled while a job with servers trains."""
    return cut_while_training(table, servers_flags(table), "servers.py", 2)


@case
def server_cut_off(table):
    """The cable of a machine with a server and a worker is pulled."""
    return cut_while_training(table, servers_flags(table), "servers.py", 1)


@case
def meeting_place_cut_off(table):
    """The cable of the machine where the others meet is pulled."""
    return cut_while_training(table, servers_flags(table), "servers.py", 0)


@case
def collective_cut_off(table):
    """The cable of a machine is pulled while a collective job trains."""
    return cut_while_training(table, collective_flags(table), "collective.py", 2)


@case
def power_failure(table):
    """A machine is switched off while it trains."""
    runs = table.start_all(collective_flags(table), "collective.py", JOB_STEPS=1000000)
    for running in runs:
        running.wait_for_log("workerlog.0", "step 3 ", JOB_SECONDS)
    since = time.monotonic()
    runs[1].power_off()
    left = [runs[0], runs[2]]
    times = ends_after(left, since, 4 * SILENCE)
    check_ends(left, [None, None], 1)
    for running in left:
        check_says(running, f"node {table.hosts[1].address} is lost")
    return times


def slow(table, flags, job):
    how = table.hosts[2].slow_down()
    trip = table.hosts[0].round_trip(table.hosts[2])
    start = time.monotonic()
    runs = table.start_all(flags, job, JOB_STEPS=10, JOB_SIZE=4096)
    check_ends(runs, [0, 0, 0])
    return f"{how}, {trip * 1e3:.0f} ms there and back; {time.monotonic() - start:.1f} s"


@case
def servers_over_a_slow_link(table):
    """A machine behind a slow cable delays a job with servers, but does not fail it."""
    return slow(table, servers_flags(table), "servers.py")


@case
def collective_over_a_slow_link(table):
    """The same for a collective job, whose gradients are large for the cable."""
    return slow(table, collective_flags(table), "collective.py")


@case
def a_machine_that_never_starts(table):
    """Everybody says who is missing and ends."""
    flags = servers_flags(table)
    since = time.monotonic()
    runs = [
        table.start(host, flags, "servers.py", BIREME_START_TIMEOUT=6) for host in table.hosts[:2]
    ]
    times = ends_after(runs, since, 20)
    for running in runs:
        check_says(running, f"1 of 3 nodes did not come: {table.hosts[2].address}")
    check_ends(runs, [None, None], 1)
    return times


@case
def a_meeting_place_that_never_starts(table):
    """The same where it is the machine at which the others meet."""
    since = time.monotonic()
    runs = [
        table.start(host, servers_flags(table), "servers.py", BIREME_START_TIMEOUT=6)
        for host in table.hosts[1:]
    ]
    times = ends_after(runs, since, 20)
    for running in runs:
        check_says(running, f"node {table.hosts[0].address} did not open the rendezvous")
    return times


@case
def a_wrong_secret(table):
    """A machine with another secret is refused at once, and told why."""
    flags = collective_flags(table)
    right = [
        table.start(h, flags, "collective.py", BIREME_JOB_SECRET="a", BIREME_START_TIMEOUT=8)
        for h in table.hosts[:2]
    ]
    wrong = table.start(table.hosts[2], flags, "collective.py", BIREME_JOB_SECRET="b")
    check_ends([wrong], [None], 20)
    check_says(wrong, "the secrets differ")
    check_ends(right, [None, None], 30)
    for running in right:
        check_says(running, f"1 of 3 nodes did not come: {table.hosts[2].address}")
        check_says(running, f"a connection from {table.hosts[2].address}")


@case
def different_commands(table):
    """Machines that were started with different lists are told what differs."""
    flags = servers_flags(table)
    other = [flag.replace("6171", "6172") for flag in flags]
    runs = [table.start(host, flags, "servers.py") for host in table.hosts[:2]]
    # Who comes after the meeting is over finds nobody there.
    end = time.monotonic() + JOB_SECONDS
    while f"waiting for 1 of 3 nodes: {table.hosts[2].address}" not in runs[0].text():
        assert time.monotonic() < end, "the first two machines did not meet"
        time.sleep(0.05)
    runs.append(table.start(table.hosts[2], other, "servers.py"))
    check_ends(runs, [None, None, None], 30)
    for running in runs:
        check_says(running, f"node {table.hosts[2].address} was started with `--workers=")
        check_says(running, f"but node {table.hosts[0].address} with `--workers=")


@case
def a_stranger(table):
    """A machine that is not in the list says so, with its own addresses."""
    flags = ["--ips=10.78.0.1,10.78.0.2", "--nproc_per_node=1"]
    running = table.start(table.hosts[2], flags, "collective.py")
    check_ends([running], [None], 20)
    check_says(running, "10.78.0.3")
    check_says(running, "10.78.0.1, 10.78.0.2")


@case
def two_machines_of_one(table):
    """Two launchers of one machine with two addresses are told apart by `POD_IP`."""
    host = table.hosts[0]
    host.add_address("10.78.0.11")
    flags = ["--ips=10.78.0.1,10.78.0.11", "--nproc_per_node=1"]
    alone = table.start(host, flags, "collective.py")
    check_ends([alone], [None], 20)
    check_says(alone, "POD_IP")
    runs = [
        table.start(host, flags, "collective.py", POD_IP=address)
        for address in ("10.78.0.1", "10.78.0.11")
    ]
    check_ends(runs, [0, 0])
    check_equal(runs)


def fail_in(table, flags, job):
    runs = table.start_all(flags, job, JOB_STEPS=1000000, JOB_FAIL="1:5")
    runs[1].wait_for_log("workerlog.0", "ValueError", JOB_SECONDS)
    times = ends_after(runs, time.monotonic(), 15)
    check_ends(runs, [1, 1, 1], 1)
    for running in runs:
        check_says(running, "worker 1")
        check_says(running, "ValueError: this worker was told to fail")
    return times


@case
def machines_of_servers_alone(table):
    """Machines without workers wait until the others' workers are done, then end with 0."""
    first, second, third = (host.address for host in table.hosts)
    flags = [f"--servers={first}:6170,{second}:6170", f"--workers={third}:6171,{third}:6172"]
    runs = table.start_all(flags, "servers.py")
    check_ends(runs, [0, 0, 0])
    check_trained(runs)


@case
def all_begin_again(table):
    """A worker fails once; all machines start again together and train to the end."""
    flags = [*servers_flags(table), "--max_restart=1"]
    runs = table.start_all(flags, "servers.py", JOB_FAIL="1:5", JOB_FAIL_ONCE=1)
    check_ends(runs, [0, 0, 0])
    for running in runs:
        check_says(running, "all processes of all nodes are started again")
    check_trained(runs)


@case
def all_go_on_from_a_checkpoint(table):
    """The same after a checkpoint: the servers of all machines load it, not only where it was saved."""
    flags = [*servers_flags(table), "--max_restart=1"]
    # All machines see one disk.
    saved = str(table.hosts[0].folder / "saved")
    runs = table.start_all(flags, "servers.py", JOB_FAIL="1:5", JOB_FAIL_ONCE=1, JOB_SAVE=saved)
    check_ends(runs, [0, 0, 0])
    for running in runs:
        assert f"goes on from {saved}" in running.logs()["workerlog.0"], running.host.name
    for running in runs[:2]:
        loads = f"started again (restart 1): loads `{saved}`"
        assert loads in running.logs()["serverlog.0"], running.host.name


@case
def one_is_stopped(table):
    """Whoever stops `fleetrun` on one machine ends the job on all."""
    runs = table.start_all(servers_flags(table), "servers.py", JOB_STEPS=1000000)
    for running in runs:
        running.wait_for_log("workerlog.0", "step 3 ", JOB_SECONDS)
    since = time.monotonic()
    runs[1].stop()
    times = ends_after(runs, since, 30)
    for running in (runs[0], runs[2]):
        check_says(running, f"node {table.hosts[1].address} was told to stop by signal 15")
    check_ends(runs, [143, 143, 143], 1)
    return times


@case
def a_worker_fails(table):
    """A worker's failure is told on all machines, with the end of its log."""
    return fail_in(table, servers_flags(table), "servers.py")


@case
def a_rank_fails(table):
    """The same in a collective job."""
    return fail_in(table, collective_flags(table), "collective.py")


def run(name, show):
    with tempfile.TemporaryDirectory(prefix="bireme-netns-") as folder:
        start = time.monotonic()
        with hosts.Network(folder) as network:
            table = Table(network)
            try:
                note = CASES[name](table)
            except (AssertionError, OSError, RuntimeError, ValueError):
                table.report()
                traceback.print_exc(file=sys.stdout)
                print(f"{name}: FAILED after {time.monotonic() - start:.1f} s", flush=True)
                return False
            if show:
                table.report()
        note = f": {note}" if note else ""
        print(f"{name}: ok in {time.monotonic() - start:.1f} s{note}", flush=True)
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--show", action="store_true", help="print what the machines said anyway")
    parser.add_argument("--missing", action="store_true", help="say what this machine lacks")
    arguments = parser.parse_args()
    if arguments.missing:
        print(hosts.missing() or "")
        return
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        sys.exit(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    problem = hosts.missing()
    if problem:
        print(f"skipped: {problem}")
        return
    results = [run(name, arguments.show) for name in arguments.cases or CASES]
    failed = results.count(False)
    print(f"{len(results) - failed} of {len(results)} cases passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
