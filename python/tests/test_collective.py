"""Collective calls among real processes on the loopback."""

import pytest
from running_ranks import run_ranks, run_well

HEAD = """
import numpy as np
import numpy.random
import paddle
import paddle.distributed as dist
"""


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_call_does_what_numpy_says(tmp_path, ranks):
    for output in run_well(tmp_path, "collective_calls.py", ranks):
        assert output.count("is right") == 7, output


def test_a_rank_that_raises_is_named_by_the_others(tmp_path):
    script = f"""{HEAD}
dist.init_parallel_env()
if dist.get_rank() == 1:
    raise ValueError("this rank has enough")
dist.all_reduce(paddle.ones([4]))
"""
    ended, outputs = run_ranks(tmp_path, script, 3, seconds=60)
    assert all(ended.values())
    assert "this rank has enough" in outputs["rank 1"]
    for rank in (0, 2):
        text = outputs[f"rank {rank}"]
        assert "trainer 1 (127.0.0.1:" in text and "gave up: ValueError: this rank has" in text


def test_a_rank_that_is_killed_is_named_by_the_others(tmp_path):
    script = f"""{HEAD}
import os, signal
dist.init_parallel_env()
for step in range(10):
    if dist.get_rank() == 0 and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(paddle.ones([1000]))
"""
    ended, outputs = run_ranks(tmp_path, script, 2, seconds=60)
    assert ended["rank 0"] == -9 and ended["rank 1"] == 1
    assert "UnavailableError: trainer 0 (127.0.0.1:" in outputs["rank 1"], outputs["rank 1"]


def test_a_rank_that_never_comes_is_named_in_bounded_time(tmp_path):
    script = f"""{HEAD}
if dist.get_rank() == 1:
    raise SystemExit(0)
dist.init_parallel_env()
"""
    ended, outputs = run_ranks(tmp_path, script, 2, {"FLAGS_rpc_deadline": 3000}, seconds=60)
    assert ended == {"rank 0": 1, "rank 1": 0}
    assert "trainer 1 (127.0.0.1:" in outputs["rank 0"], outputs["rank 0"]


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_reduce(paddle.ones([4 + dist.get_rank()]))",
        "dist.all_reduce(paddle.ones([4], dtype='float64' if dist.get_rank() else 'float32'))",
        "dist.all_reduce(paddle.ones([4]), op=dist.get_rank())",
        "dist.broadcast(paddle.ones([4]), src=dist.get_rank())",
        "dist.barrier() if dist.get_rank() else dist.all_reduce(paddle.ones([4]))",
    ],
    ids=["size", "type", "op", "root", "call"],
)
def test_calls_that_differ_are_errors_everywhere(tmp_path, call):
    # A root does not wait for others: the next call at the latest finds out.
    script = f"{HEAD}\ndist.init_parallel_env()\n{call}\ndist.barrier()\n"
    ended, outputs = run_ranks(tmp_path, script, 2, seconds=60)
    assert all(ended.values()), outputs
    assert any("disagree" in output for output in outputs.values()), outputs


def test_lists_of_other_shapes_are_refused(tmp_path):
    script = f"""{HEAD}
dist.init_parallel_env()
parts = [paddle.zeros([3]), paddle.zeros([3])]
try:
    dist.all_gather(parts, paddle.ones([4]))
except ValueError as error:
    assert "rank 0 sent 16 bytes, but the tensor for it has 12 bytes" in str(error), error
    print("refused")
dist.barrier()
"""
    assert all("refused" in output for output in run_well(tmp_path, script, 2))


def test_misuse_says_what_to_do(tmp_path):
    script = f"""{HEAD}
import pytest
dist.init_parallel_env()
with pytest.raises(TypeError, match="`tensor` must be a Tensor, not ndarray"):
    dist.all_reduce(np.ones(3))
with pytest.raises(ValueError, match="Unknown reduce_op type for all_reduce: 'sum'"):
    dist.all_reduce(paddle.ones([1]), op="sum")
with pytest.raises(ValueError, match="input rank 2 can not be found inside the group"):
    dist.broadcast(paddle.ones([1]), src=2)
with pytest.raises(ValueError, match="`tensor_list` has 1 tensors, but the group has 2 ranks"):
    dist.all_gather([paddle.ones([1])], paddle.ones([1]))
with pytest.raises(RuntimeError, match="use_calc_stream can only be true in sync op"):
    dist.stream.all_reduce(paddle.ones([1]), sync_op=False, use_calc_stream=True)
with pytest.raises(ValueError, match="3 rows of `in_tensor` cannot be cut into 2 equal parts"):
    dist.alltoall_single(paddle.ones([3]), paddle.ones([2]))
with pytest.raises(ValueError, match="`in_split_sizes` must add up to the 3 rows"):
    dist.alltoall_single(paddle.ones([3]), paddle.ones([2]), [1, 1], [1, 1])
with pytest.raises(ValueError, match="no average of int64 values"):
    dist.all_reduce(paddle.ones([1], dtype="int64"), op=dist.ReduceOp.AVG)
with pytest.raises(ValueError, match="rank 2 is none of the job: it has the ranks 0 to 1"):
    dist.new_group([0, 2])
with pytest.raises(ValueError, match="a rank is named twice"):
    dist.new_group([0, 0])
with pytest.raises(ValueError, match="`backend` 'nccl' is not in this version"):
    dist.new_group([0], backend="nccl")
with pytest.raises(TypeError, match="`group` must be what `new_group` returned"):
    dist.all_reduce(paddle.ones([1]), group=3)
with pytest.raises(RuntimeError, match="Expected ``op`` to be of type"):
    dist.P2POp(dist.send, paddle.ones([1]), 0)
# The group has not been harmed.
x = paddle.ones([1])
dist.all_reduce(x)
assert x.item() == 2.0
"""
    run_well(tmp_path, script, 2)
