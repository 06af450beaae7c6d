"""`DataLoader` when something goes wrong: the cause is shown, nothing hangs, nothing is left over."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from bireme.io import DataLoader, Dataset, IterableDataset
from loader_samples import Failing, Numbers, Stream, labels, raise_key_error


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def alive(pid):
    try:
        os.kill(pid, 0)
        state = pathlib.Path(f"/proc/{pid}/stat")
        # A zombie has ended; its new parent may take its time to notice.
        return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_exception_in_a_data_set_is_raised_with_its_traceback(workers, persistent):
    loader = DataLoader(
        Failing(raise_key_error), batch_size=5, num_workers=workers, persistent_workers=persistent
    )
    batches = iter(loader)
    assert next(batches)[1].shape == [5, 1]
    with pytest.raises(KeyError) as caught:
        next(batches)
    if workers:
        text = str(caught.value)
        assert "`DataLoader` worker 1" in text or workers == 1
        assert "in raise_key_error\n" in text and "in __getitem__\n" in text
    else:
        assert caught.traceback[-1].name == "raise_key_error"
    # The loader is as good as new after a failure.
    assert next(iter(loader))[1].shape == [5, 1]


def test_an_exception_that_takes_other_arguments_becomes_a_runtime_error():
    def fail():
        b"\xff".decode("utf-8")

    with pytest.raises(RuntimeError, match="(?s)raised UnicodeDecodeError.*in fail"):
        labels(DataLoader(Failing(fail), num_workers=1))


def test_an_exception_of_a_local_class_arrives_too():
    class Local(Exception):
        pass

    def fail():
        raise Local("deep inside")

    with pytest.raises(RuntimeError, match="(?s)Local: deep inside"):
        labels(DataLoader(Failing(fail), num_workers=1))


def test_an_exception_in_a_stream_collate_or_init_arrives():
    class Broken(IterableDataset):
        def __iter__(self):
            yield 1
            raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        list(DataLoader(Broken(), num_workers=2))
    with pytest.raises(ZeroDivisionError, match="in <lambda>"):
        list(DataLoader(Numbers(), collate_fn=lambda _: 1 // 0, num_workers=1))

    def init(worker_id):
        raise ValueError(f"no file for worker {worker_id}")

    with pytest.raises(ValueError, match="no file for worker 0"):
        list(DataLoader(Numbers(), num_workers=2, worker_init_fn=init))


def test_samples_of_different_shapes_are_named():
    class Ragged(Dataset):
        def __getitem__(self, idx):
            return np.zeros(idx + 1)

        def __len__(self):
            return 3

    with pytest.raises(ValueError, match=r"\[1\] in sample 0, \[2\] in sample 1: pad them"):
        list(DataLoader(Ragged(), batch_size=3))


def test_a_batch_that_can_not_be_pickled_says_so():
    with pytest.raises(Exception, match="(?s)`DataLoader` worker 0 raised.*pickle"):
        list(DataLoader(Numbers(), collate_fn=lambda _: [lambda: 0], num_workers=1))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_is_noticed_at_once(workers):
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"worker \d \(pid \d+\) was killed by signal SIGKILL"):
        labels(DataLoader(Failing(kill_self), batch_size=2, num_workers=workers))
    assert time.monotonic() - start < 20


def test_the_death_of_a_worker_whose_turn_it_is_not_is_noticed():
    class OneSleeps(Dataset):
        def __getitem__(self, idx):
            if idx == 1:
                kill_self()
            time.sleep(30)

        def __len__(self):
            return 2

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="worker 1 .* SIGKILL"):
        list(DataLoader(OneSleeps(), num_workers=2))
    assert time.monotonic() - start < 20


def test_a_worker_that_exits_is_reported():
    with pytest.raises(RuntimeError, match=r"worker 0 \(pid \d+\) exited with code 3"):
        labels(DataLoader(Failing(lambda: os._exit(3)), num_workers=1))


def test_the_timeout_is_honoured():
    loader = DataLoader(Failing(lambda: time.sleep(60)), num_workers=1, timeout=0.3)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"worker 0 \(pid \d+\) within the timeout of 0.3 s"):
        labels(loader)
    assert time.monotonic() - start < 20


def note(samples):
    return os.getpid()


def test_leaving_an_epoch_ends_the_workers():
    batches = iter(DataLoader(Numbers(), collate_fn=note, num_workers=2))
    pids = [next(batches), next(batches)]
    assert len(set(pids)) == 2 and all(map(alive, pids))
    del batches
    assert wait_until(lambda: not any(map(alive, pids)))


def test_loaders_side_by_side_end_without_each_other():
    first = DataLoader(Numbers(), collate_fn=note, num_workers=1, persistent_workers=True)
    second = DataLoader(Numbers(), collate_fn=note, num_workers=1, persistent_workers=True)
    pids = [next(iter(first)), next(iter(second))]
    start = time.monotonic()
    del first
    assert wait_until(lambda: not alive(pids[0])) and alive(pids[1])
    del second
    assert wait_until(lambda: not alive(pids[1]))
    assert time.monotonic() - start < 20


SCRIPT = """
import os, sys, time
sys.path[:0] = {path!r}
from bireme.io import DataLoader
from loader_samples import Numbers

def note(samples):
    return os.getpid()

loader = DataLoader(Numbers(100000), collate_fn=note, num_workers=2)
for step, pid in enumerate(loader):
    if step < 2:
        print(pid, flush=True)
    time.sleep(0.01)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_parent(sent):
    code = textwrap.dedent(SCRIPT).format(path=sys.path)
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    if sent == signal.SIGINT:
        # As a terminal does: to the whole process group.
        os.killpg(parent.pid, sent)
    else:
        parent.send_signal(sent)
    _, errors = parent.communicate(timeout=10)
    assert wait_until(lambda: not any(map(alive, pids)))
    if sent == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1 and "Process " not in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_workers": -1}, "`num_workers` must not be negative"),
        ({"prefetch_factor": 0}, "`prefetch_factor` must be positive"),
        ({"timeout": -1}, "`timeout` must not be negative"),
        ({"batch_size": 0}, "`batch_size` must be a positive whole number"),
        ({"batch_sampler": [[0]], "shuffle": True}, "up to the `batch_sampler`"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Numbers(), **arguments)


def test_streams_have_no_length_and_no_shuffle():
    with pytest.raises(ValueError, match="has no length"):
        len(DataLoader(Stream()))
    with pytest.raises(ValueError, match="has its own order"):
        DataLoader(Stream(), shuffle=True)
    with pytest.raises(NotImplementedError, match="feeds one place, got 2"):
        DataLoader(Numbers(), places=["cpu", "cpu"])
