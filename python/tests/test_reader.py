"""Readers of Paddle 1.x: what they yield, and that a failing one neither hides nor hangs."""

import os
import random
import signal
import threading
import time
import traceback

import pytest
from bireme import reader
from bireme.batch import batch


def failing_after(count):
    def read():
        yield from range(count)
        raise KeyError("bad line 7")

    return read


def threads_named(prefix):
    return [t for t in threading.enumerate() if t.name.startswith(prefix)]


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_batch_keeps_or_drops_the_last_one():
    assert list(batch(lambda: range(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(batch(lambda: range(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("size", [0, -1])
def test_batch_refuses_an_empty_batch(size):
    with pytest.raises(ValueError, match=f"`batch_size` must be .* got {size}"):
        batch(lambda: range(5), size)


def test_shuffle_draws_as_paddle_does():
    # import random, paddle; random.seed(3); list(paddle.reader.shuffle(lambda: range(7), 4)())
    random.seed(3)
    assert list(reader.shuffle(lambda: range(7), 4)()) == [3, 0, 2, 1, 4, 6, 5]


def test_readers_are_read_anew_each_time():
    for made in (
        reader.chain(lambda: range(2), lambda: [5]),
        reader.map_readers(lambda a: a, lambda: [0, 1, 5]),
        reader.cache(lambda: [0, 1, 5]),
        reader.buffered(lambda: [0, 1, 5], 1),
        reader.firstn(lambda: [0, 1, 5, 9], 3),
        reader.xmap_readers(lambda x: x, lambda: [0, 1, 5], 3, 2, order=True),
        reader.multiprocess_reader([lambda: [0, 1, 5]]),
    ):
        assert list(made()) == [0, 1, 5]
        assert list(made()) == [0, 1, 5]


def test_compose_flattens_and_checks_lengths():
    both = reader.compose(lambda: [1, 2], lambda: [(3, 4), (5, 6)])
    assert list(both()) == [(1, 3, 4), (2, 5, 6)]
    with pytest.raises(reader.ComposeNotAligned, match="reader 1 of 2 .* has no sample 1"):
        list(reader.compose(lambda: [1, 2], lambda: [3])())
    short = reader.compose(lambda: [1, 2], lambda: [3], check_alignment=False)
    assert list(short()) == [(1, 3)]


@pytest.mark.parametrize(
    "decorate",
    [
        lambda r: reader.buffered(r, 2),
        lambda r: reader.xmap_readers(lambda x: x, r, 2, 4),
        lambda r: reader.xmap_readers(lambda x: x, r, 2, 4, order=True),
        lambda r: reader.shuffle(r, 2),
        lambda r: batch(r, 2),
        lambda r: reader.map_readers(lambda x: x, r),
    ],
)
def test_an_exception_in_a_reader_surfaces_with_its_traceback(decorate):
    with pytest.raises(KeyError, match="bad line 7") as caught:
        list(decorate(failing_after(3))())
    text = "".join(traceback.format_exception(caught.value))
    assert "in read" in text and 'raise KeyError("bad line 7")' in text
    assert wait_until(lambda: not threads_named("bireme-"))


@pytest.mark.parametrize("order", [False, True])
def test_an_exception_in_a_mapper_surfaces_with_its_traceback(order):
    def divide(x):
        return 1 // (x - 3)

    with pytest.raises(ZeroDivisionError) as caught:
        list(reader.xmap_readers(divide, lambda: range(100), 2, 4, order=order)())
    assert "in divide" in "".join(traceback.format_exception(caught.value))
    assert wait_until(lambda: not threads_named("bireme-"))


@pytest.mark.parametrize(
    "endless",
    [
        lambda r: reader.buffered(r, 2),
        lambda r: reader.xmap_readers(lambda x: x, r, 2, 4, order=True),
    ],
)
def test_leaving_early_ends_the_threads(endless):
    def count():
        number = 0
        while True:
            yield number
            number += 1

    samples = endless(count)()
    assert [next(samples) for _ in range(5)] == [0, 1, 2, 3, 4]
    samples.close()
    assert wait_until(lambda: not threads_named("bireme-"))


def test_ordered_mapping_keeps_the_order_when_mappers_differ_in_speed():
    def slow_when_even(x):
        time.sleep(0.002 if x % 2 == 0 else 0)
        return x

    made = reader.xmap_readers(slow_when_even, lambda: range(60), 4, 3, order=True)
    assert list(made()) == list(range(60))


@pytest.mark.parametrize("use_pipe", [True, False])
def test_multiprocess_reader(use_pipe):
    made = reader.multiprocess_reader([lambda: [1, 3], lambda: [2, 4]], use_pipe, queue_size=1)
    assert sorted(made()) == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="(?s)in read.*bad line 7"):
        list(reader.multiprocess_reader([failing_after(2), lambda: [9]], use_pipe)())


@pytest.mark.parametrize("use_pipe", [True, False])
def test_multiprocess_reader_notices_a_killed_process(use_pipe):
    def dies():
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RuntimeError, match=r"\(pid \d+\) was killed by signal SIGKILL \(9\)"):
        list(reader.multiprocess_reader([dies, lambda: iter([5])], use_pipe)())


def test_multiprocess_reader_takes_turns():
    made = reader.multiprocess_reader([lambda: [1, 3, 5], lambda: [2]])
    assert list(made()) == [1, 2, 3, 5]
