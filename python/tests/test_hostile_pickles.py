"""Pickles that ask for more than they are worth: none takes much memory or time."""

import io
import pickle
import random
import resource
import struct
import subprocess
import sys

import bireme as paddle
import numpy as np
import pytest

HEAD = b"\x80\x04"
GIGABYTE = 1 << 30


def nested(depth, make, close=b""):
    """A value that names the one below it twice, `depth` times over."""
    levels = b"".join(make(at) for at in range(depth))
    return HEAD + b")q\0" + levels + close + b"."


# (q at) is the value below; each level is a tuple or a list of two of it.
TUPLES = nested(60, lambda at: b"h" + bytes([at]) + b"\x86q" + bytes([at + 1]))
LISTS = nested(60, lambda at: b"0](h%ch%ce" % (at, at) + b"q" + bytes([at + 1]))
AS_KEY = nested(
    60, lambda at: b"h" + bytes([at]) + b"\x86q" + bytes([at + 1]), b"q\xff0}h\xffK\x01s"
)
AS_TEXT = nested(
    40,
    lambda at: b"0](h%ch%ce" % (at, at) + b"q" + bytes([at + 1]),
    b"q\xff0cbuiltins\nstr\nh\xff\x85R",
)
LARGE = struct.pack("<Q", 6 * GIGABYTE)
PICKLES = {
    "a size for bytearray": HEAD + b"cbuiltins\nbytearray\n\x8a\x05" + LARGE[:5] + b"\x85R.",
    "a size for bytes": HEAD + b"cbuiltins\nbytes\n\x8a\x05" + LARGE[:5] + b"\x85R.",
    "an object of bytes": HEAD + b"cbuiltins\nbytes\n\x8a\x05" + LARGE[:5] + b"\x85\x81.",
    "a long bytearray": HEAD + b"\x96" + LARGE + b"abc.",
    "long bytes": HEAD + b"\x8e" + LARGE + b"abc.",
    "a long text": HEAD + b"\x8d" + LARGE + b"abc.",
    "a long frame": HEAD + b"\x95" + LARGE + b"N.",
    "a high place in the memo": HEAD + b"Nr" + struct.pack("<I", 0xF000_0000) + b"K\x01b.",
    "tuples of tuples": TUPLES,
    "lists of lists": LISTS,
    "a key of tuples": AS_KEY,
    "a text of lists": AS_TEXT,
    "one list, copied": HEAD
    + b"("
    + b"K\1" * 50_000
    + b"lq\0"
    + b"cbuiltins\nlist\nh\0\x85R0" * 20_000
    + b"N.",
    "one array, often": pickle.dumps(np.zeros(100_000, "f4"), 4)[:-1]
    + b"r\0\0\0\x10("
    + b"j\0\0\0\x10" * 20_000
    + b"l.",
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_tiny_pickle_costs_little(name, tmp_path):
    (tmp_path / "tiny.pdparams").write_bytes(PICKLES[name])
    script = """
import resource
import bireme as paddle
from bireme.distributed.communication import objects
have = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
try:
    paddle.load("tiny.pdparams")
    # As it comes from another process.
    with open("tiny.pdparams", "rb") as file:
        objects._plain(paddle.framework.io.pickles.restore(file), {})
except (ValueError, paddle.framework.io.pickles.UnsafePickleError) as error:
    print(error)
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - have
assert used < 200 << 10, f"{used} KiB"
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_an_array_in_many_places_is_converted_once():
    array = np.arange(4, dtype="float32")
    buffer = io.BytesIO(pickle.dumps([array] * 1000, 4))
    loaded = paddle.load(buffer, return_numpy=True)
    assert len(loaded) == 1000 and loaded[0] is loaded[999]
    np.testing.assert_array_equal(loaded[5], array)


def test_an_array_under_many_names_is_refused():
    array = np.zeros(1 << 20, "float32")
    state = {f"w{at}": array for at in range(100)}
    state["StructuredToParameterName@@"] = {name: name for name in state}
    with pytest.raises(pickle.UnpicklingError, match="the same array under too many names"):
        paddle.load(io.BytesIO(pickle.dumps(state, 4)))


def test_a_list_that_holds_itself_is_refused():
    mine = [1]
    mine.append(mine)
    with pytest.raises(ValueError, match="nested too deeply, or holds itself"):
        paddle.load(io.BytesIO(pickle.dumps(mine, 4)))


def test_what_python_pickles_is_read_as_before():
    value = {
        "numbers": [1, 2.5, True, None, 2j, 1 << 80],
        "texts": ("a", "ä", b"b", bytearray(b"c"), "x" * 70_000),
        (1, ("two", 3)): {1, 2, frozenset({3})},
        "nested": [[], {}, (), [[1], [2]]],
    }
    for protocol in range(5):
        assert paddle.load(_file(pickle.dumps(value, protocol), protocol)) == value


def _file(content, protocol):
    # `load` knows a file by its first byte, a buffer is a pickle in any case.
    return io.BytesIO(content)


def test_damaged_files_are_errors_and_cost_little():
    layer = paddle.nn.Linear(64, 64)
    buffer = io.BytesIO()
    paddle.save(layer.state_dict(), buffer)
    whole = buffer.getvalue()
    chance = random.Random(7)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            # Most of the file is numbers; what steers the reader is at its ends.
            near = chance.choice([chance.randrange(400), chance.randrange(len(content))])
            content[near if chance.random() < 0.5 else -near - 1] = chance.randrange(256)
        if chance.random() < 0.2:
            del content[chance.randrange(len(content)) :]
        try:
            paddle.load(io.BytesIO(bytes(content)))
        except (ValueError, pickle.UnpicklingError):
            pass
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300 << 10, f"{grown} KiB"
