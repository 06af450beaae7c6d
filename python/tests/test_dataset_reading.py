"""What datasets read, held against a plain reader."""

import contextlib
import gzip
import pathlib
import signal
import subprocess
import sys
import time

import bireme as paddle
import numpy as np
import pytest
from dataset_files import DENSE, read_plainly, write_samples


def variables():
    paddle.enable_static()
    label = paddle.static.data("label", [None, 1], "int64")
    ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    return [label, ids, dense]


def make(kind, paths, **settings):
    dataset = kind()
    dataset.init(**{"use_var": variables(), "batch_size": 4, "thread_num": 1, **settings})
    dataset.set_filelist([str(path) for path in paths])
    return dataset


def samples_of(dataset):
    """All samples that a dataset feeds, as the plain reader has them."""
    samples = []
    for feed in dataset._source().batches():
        label, ids, dense = (feed[name] for name in ("label", "ids", "dense"))
        offsets, flat = ids.lod()[0], np.array(ids).reshape(-1).tolist()
        for row, numbers in enumerate(np.array(dense)):
            own = flat[offsets[row] : offsets[row + 1]]
            samples.append((int(np.array(label)[row, 0]), own, numbers))
    return samples


def check_same(given, expected):
    assert [s[:2] for s in given] == [s[:2] for s in expected]
    for one, other in zip(given, expected, strict=True):
        np.testing.assert_array_equal(one[2], other[2])


def in_any_order(samples):
    return sorted((label, ids, dense.tolist()) for label, ids, dense in samples)


def test_a_queue_reads_what_is_written(tmp_path):
    paths = write_samples(tmp_path, 3, 10)
    check_same(samples_of(make(paddle.distributed.QueueDataset, paths)), read_plainly(paths))


def test_several_readers_lose_nothing(tmp_path):
    paths = write_samples(tmp_path, 3, 11)
    given = samples_of(make(paddle.distributed.QueueDataset, paths, thread_num=2))
    assert in_any_order(given) == in_any_order(read_plainly(paths))


def test_folders_patterns_and_compressed_files(tmp_path):
    paths = write_samples(tmp_path, 2, 5)
    with open(paths[0], "rb") as plain, gzip.open(tmp_path / "part-0.gz", "wb") as packed:
        packed.write(plain.read())
    for asked in ([tmp_path / "part-?"], [tmp_path / "part-0.gz", paths[1]]):
        check_same(samples_of(make(paddle.distributed.QueueDataset, asked)), read_plainly(paths))


def test_a_pipe_command_writes_the_lines(tmp_path):
    paths = write_samples(tmp_path, 2, 6)
    piped = make(paddle.distributed.QueueDataset, paths, pipe_command="grep '^1 1 '")
    expected = [sample for sample in read_plainly(paths) if sample[0] == 1]
    check_same(samples_of(piped), expected)


def test_slot_value_lines_are_read_without_a_command(tmp_path):
    path = tmp_path / "lines"
    path.write_text("click:1 d:0.5 d:1 d:2 w:7 w:8\nclick:0 w:9\n")
    dataset = make(
        paddle.distributed.QueueDataset,
        [path],
        pipe_command="native:slot_value",
        slot_names=["click", "w", "d"],
    )
    expected = [(1, [7, 8], np.array([0.5, 1, 2])), (0, [9], np.zeros(3))]
    check_same(samples_of(dataset), expected)


def test_memory_holds_all_and_shuffles_them(tmp_path):
    paths = write_samples(tmp_path, 2, 20)
    dataset = make(paddle.distributed.InMemoryDataset, paths, thread_num=2)
    dataset.load_into_memory()
    expected = read_plainly(paths)
    assert dataset.get_memory_data_size() == dataset.get_shuffle_data_size() == 40
    assert in_any_order(samples_of(dataset)) == in_any_order(expected)
    first = samples_of(dataset)
    dataset.local_shuffle()
    shuffled = samples_of(dataset)
    assert [s[1] for s in shuffled] != [s[1] for s in first]
    assert in_any_order(shuffled) == in_any_order(expected)
    again = make(paddle.distributed.InMemoryDataset, paths, thread_num=2)
    again.load_into_memory(is_shuffle=True)
    check_same(samples_of(again), shuffled)
    dataset.global_shuffle()
    assert in_any_order(samples_of(dataset)) == in_any_order(expected)
    dataset.release_memory()
    assert dataset.get_memory_data_size() == 0


def test_preloading(tmp_path):
    paths = write_samples(tmp_path, 2, 9)
    dataset = make(paddle.distributed.InMemoryDataset, paths)
    dataset.preload_into_memory(thread_num=2)
    dataset.wait_preload_done()
    assert in_any_order(samples_of(dataset)) == in_any_order(read_plainly(paths))


def test_slots_shuffle_moves_one_slot(tmp_path):
    paths = write_samples(tmp_path, 1, 30)
    dataset = make(paddle.distributed.InMemoryDataset, paths)
    dataset.load_into_memory()
    with pytest.raises(RuntimeError, match="fea_eval"):
        dataset.slots_shuffle(["ids"])
    dataset.update_settings(fea_eval=True, candidate_size=10)
    dataset.slots_shuffle(["ids"])
    given, expected = samples_of(dataset), read_plainly(paths)
    assert [s[0] for s in given] == [s[0] for s in expected]
    assert [s[1] for s in given] != [s[1] for s in expected]
    assert sorted(s[1] for s in given) == sorted(s[1] for s in expected)


def test_a_line_can_be_a_batch(tmp_path):
    # Three samples and one: labels, one id for each, three numbers for each.
    (tmp_path / "part").write_text("3 1 0 1 3 5 6 7 9 1 2 3 4 5 6 7 8 9\n1 0 1 8 3 0 0 0\n")
    for kind in (paddle.distributed.QueueDataset, paddle.distributed.InMemoryDataset):
        dataset = make(kind, [tmp_path / "part"], batch_size=1, input_type=1)
        if kind is paddle.distributed.InMemoryDataset:
            dataset.load_into_memory()
        first, second = dataset._source().batches()
        assert np.array(first["dense"]).tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
        assert np.array(first["ids"]).tolist() == [[5], [6], [7]]
        assert first["ids"].lod() == [[0, 1, 2, 3]]
        assert np.array(first["label"]).tolist() == [[1], [0], [1]]
        assert np.array(second["dense"]).shape == (1, 3)
    with pytest.raises(ValueError, match="`input_type` must be 0"):
        make(kind, [], input_type=2)


def test_samples_of_the_same_name_are_merged(tmp_path, caplog):
    (tmp_path / "part").write_text(
        "1 b 1 1 1 7 3 0 0 0\n1 a 1 0 1 0 3 1 0 2\n1 b 1 0 1 0 3 0 0 4\n1 c 1 1 1 1 3 0 0 0\n"
        "1 a 1 1 2 3 4 3 0 0 0\n1 d 1 0 1 1 3 0 0 0\n1 d 1 0 1 2 3 0 0 0\n"
    )
    dataset = make(paddle.distributed.InMemoryDataset, [tmp_path / "part"])
    dataset.update_settings(merge_size=2)
    dataset.load_into_memory()
    assert len(samples_of(dataset)) == 7
    dataset.global_shuffle()
    assert dataset.get_memory_data_size() == 2
    merged = sorted((label, ids, list(dense)) for label, ids, dense in samples_of(dataset))
    assert merged == [(1, [3, 4], [1, 0, 2]), (1, [7], [0, 0, 4])]
    assert "drop ins c size=1, because merge_size=2" in caplog.text
    assert "drop ins d size=2, because conflict_slot=ids" in caplog.text
    assert "total drop ins num: 3" in caplog.text


CTRL_C = """
import signal, sys, threading, time, os
import paddle
paddle.enable_static()
x = paddle.static.data("x", [None, 1])
dataset = paddle.distributed.InMemoryDataset()
dataset.init(use_var=[x], pipe_command="echo ready >&2; sleep 600")
dataset.set_filelist(["part"])
try:
    {load}
except KeyboardInterrupt:
    print("interrupted after", time.time() - float(open("sent").read()))
"""


@pytest.mark.parametrize(
    "load",
    ["dataset.load_into_memory()", "dataset.preload_into_memory(); dataset.wait_preload_done()"],
)
def test_ctrl_c_ends_a_load_at_once(tmp_path, load):
    (tmp_path / "part").write_text("")
    (tmp_path / "script.py").write_text(CTRL_C.format(load=load))
    with subprocess.Popen(
        [sys.executable, "-m", "bireme", "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert "ready" in process.stderr.readline()
            (tmp_path / "sent").write_text(str(time.time()))
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert float(said.split()[-1]) < 1


def test_a_bad_line_is_named(tmp_path):
    path = tmp_path / "bad"
    path.write_text("1 1 1 5 3 0 0 0\n1 1 0 3 0 0 0\n1 0 1 6 3 0 0 0\n")
    with pytest.raises(ValueError, match=r"bad:2: Got unexpected input(?s:.*)slot `ids`"):
        samples_of(make(paddle.distributed.QueueDataset, [path]))
    tolerant = make(paddle.distributed.QueueDataset, [path], skip_bad_lines=1)
    assert [s[1] for s in samples_of(tolerant)] == [[5], [6]]
    memory = make(paddle.distributed.InMemoryDataset, [path])
    with pytest.raises(ValueError, match=r"bad:2: "):
        memory.load_into_memory()


def test_a_command_that_fails_is_an_error(tmp_path):
    paths = write_samples(tmp_path, 1, 3)
    failing = f"{sys.executable} -c 'import sys; sys.stderr.write(\"no luck\"); sys.exit(3)'"
    with pytest.raises(RuntimeError, match="no luck"):
        samples_of(make(paddle.distributed.QueueDataset, paths, pipe_command=failing))


def test_what_cannot_be_is_refused(tmp_path):
    [path] = write_samples(tmp_path, 1, 2)
    with pytest.raises(OSError, match="none"):
        samples_of(make(paddle.distributed.QueueDataset, [tmp_path / "none"]))
    queue = paddle.distributed.QueueDataset()
    with pytest.raises(TypeError, match="unexpected keyword argument 'batchsize'"):
        queue.init(batchsize=2)
    with pytest.raises(TypeError, match="did you mean `batch_size`"):
        paddle.distributed.InMemoryDataset().init(batchsize=2)
    with pytest.raises(ValueError, match="only supports dtype=float32 and dtype=int64"):
        queue.init(use_var=[paddle.static.data("x", [None, 1], "float64")])
    with pytest.raises(NotImplementedError, match="local files"):
        queue.set_filelist(["hdfs:/data/part-0"])
    with pytest.raises(ValueError, match="native:slot_value"):
        queue.init(pipe_command="native:slots")
    with pytest.raises(ValueError, match="use_var"):
        make(paddle.distributed.QueueDataset, [path], use_var=[])._source()
    with pytest.raises(RuntimeError, match="load_into_memory"):
        make(paddle.distributed.InMemoryDataset, [path]).local_shuffle()


def test_datasets_of_1x(tmp_path):
    fluid = paddle.fluid
    paths = write_samples(tmp_path, 1, 7)
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var(variables())
    dataset.set_batch_size(3)
    dataset.set_thread(1)
    dataset.set_pipe_command("cat")
    dataset.set_filelist(paths)
    dataset.set_hdfs_config("", "")
    dataset.load_into_memory()
    check_same(samples_of(dataset), read_plainly(paths))
    assert 'name: "ids"' in dataset.desc()


def test_empty_files_and_skipped_lines_are_named_once(tmp_path, caplog):
    paths = write_samples(tmp_path, 1, 4)
    (tmp_path / "nothing").write_text("")
    (tmp_path / "bad").write_text("1 1 1 5 3 0 0 0\n1 1 0 3 0 0 0\n")
    paths += [tmp_path / "nothing", tmp_path / "bad"]
    queue = make(paddle.distributed.QueueDataset, paths, skip_bad_lines=3)
    program, exe = paddle.static.default_main_program(), paddle.static.Executor()
    for _ in range(2):
        exe.infer_from_dataset(program, queue)
    memory = make(paddle.distributed.InMemoryDataset, paths, skip_bad_lines=3)
    memory.load_into_memory()
    said = [record.getMessage() for record in caplog.records]
    assert said == 2 * [
        f"1 of the files are empty: `{tmp_path / 'nothing'}`",
        "1 bad lines were passed over (`skip_bad_lines` allows 3)",
    ]


def test_training_on_nothing_is_said(tmp_path, caplog):
    (tmp_path / "nothing").write_text("")
    queue = make(paddle.distributed.QueueDataset, [tmp_path / "nothing"])
    exe = paddle.static.Executor()
    exe.infer_from_dataset(paddle.static.default_main_program(), queue)
    assert f"no samples were read from `{tmp_path / 'nothing'}`" in caplog.text


def threads_named(prefix):
    """The threads of this process with such names, as Linux knows them."""
    found = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # One that has ended meanwhile.
            if (task / "comm").read_text().startswith(prefix):
                found.add(task)
    return found


@pytest.mark.skipif(not pathlib.Path("/proc/self/task").exists(), reason="asks Linux for threads")
def test_one_thread_reads_all_batches(tmp_path):
    paths = write_samples(tmp_path, 1, 9)
    batches = make(paddle.distributed.QueueDataset, paths)._source().batches()
    seen = [threads_named("dataset-batch") for _ in batches]
    assert len(seen) == 3 and len(seen[0]) == 1 and seen[0] == seen[1] == seen[2]
