"""Every collective call of `paddle.distributed`, in each rank checked against numpy."""

import os

import numpy as np
import numpy.random
import paddle
import paddle.distributed as dist
from paddle.framework.pickles import UnsafePickleError

# A card that all ranks share, or one for each.
RANK = os.environ.get("PADDLE_TRAINER_ID", "0")
paddle.set_device(os.environ.get("JOB_DEVICE", "cpu").replace("RANK", RANK))
TYPES = ["float32", "float64", "int32", "int64", "uint8", "int8", "int16", "bool", "float16"]


def of(rank, dtype="float32", shape=(3, 2)):
    """What rank `rank` has: every rank can tell."""
    random = np.random.RandomState(rank)
    return (random.randint(0, 2, shape) if dtype == "bool" else random.randint(1, 5, shape)).astype(
        dtype
    )


def tensor(array):
    return paddle.to_tensor(np.ascontiguousarray(array))


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found), expected)


def reductions():
    functions = {
        dist.ReduceOp.SUM: lambda parts: np.sum(parts, 0),
        dist.ReduceOp.PROD: lambda parts: np.prod(parts, 0),
        dist.ReduceOp.MAX: lambda parts: np.max(parts, 0),
        dist.ReduceOp.MIN: lambda parts: np.min(parts, 0),
    }
    for dtype in TYPES:
        parts = [of(rank, dtype) for rank in everybody]
        for op, function in functions.items():
            expected = function(parts).astype(dtype)
            x = tensor(parts[me])
            dist.all_reduce(x, op)
            assert x.dtype == tensor(parts[me]).dtype
            assert x.place == tensor(parts[me]).place
            same(x, expected)
            for root in everybody:
                x = tensor(parts[me])
                dist.reduce(x, root, op)
                same(x, expected if me == root else parts[me])
            whole = [tensor(of(me * 10 + rank, dtype)) for rank in everybody]
            part = tensor(parts[me])
            dist.reduce_scatter(part, whole, op)
            same(part, function([of(rank * 10 + me, dtype) for rank in everybody]).astype(dtype))
    x = tensor(of(me))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    np.testing.assert_allclose(x.numpy(), np.mean([of(r) for r in everybody], 0), rtol=1e-6)
    part = paddle.zeros([1, 2])
    whole = tensor(np.arange(2.0 * size, dtype="float32").reshape(size, 2))
    dist.stream.reduce_scatter(part, whole)
    same(part, size * whole.numpy()[me : me + 1])


def gathers():
    for dtype in TYPES:
        found = []
        dist.all_gather(found, tensor(of(me, dtype)))
        for rank in everybody:
            same(found[rank], of(rank, dtype))
    whole = paddle.zeros([3 * size, 2])
    dist.stream.all_gather(whole, tensor(of(me)))
    same(whole, np.concatenate([of(rank) for rank in everybody]))
    for root in everybody:
        found = []
        dist.gather(tensor(of(me)), found if me == root else None, dst=root)
        assert len(found) == (size if me == root else 0)
        for rank, part in enumerate(found):
            same(part, of(rank))
        x = tensor(of(me))
        dist.broadcast(x, src=root)
        same(x, of(root))
        x = paddle.zeros([3, 2])
        dist.scatter(x, [tensor(of(r)) for r in everybody] if me == root else None, src=root)
        same(x, of(me))
        x = paddle.zeros([3, 2])
        everything = tensor(np.concatenate([of(r) for r in everybody]))
        dist.stream.scatter(x, everything if me == root else None, src=root)
        same(x, of(me))


def exchanges():
    # A part for each rank, of different sizes.
    parts = [tensor(of(me, shape=(me + rank + 1, 2))) for rank in everybody]
    found = [paddle.zeros([me + rank + 1, 2]) for rank in everybody]
    dist.alltoall(parts, found)
    for rank in everybody:
        same(found[rank], of(rank, shape=(me + rank + 1, 2)))
    out = paddle.zeros([2 * size])
    dist.alltoall_single(tensor(np.arange(2.0 * size, dtype="float32") + 100 * me), out)
    same(out, np.concatenate([np.arange(2 * me, 2 * me + 2) + 100 * r for r in everybody]))
    sizes = [rank + 1 for rank in everybody]
    out = paddle.zeros([size * (me + 1)], dtype="int64")
    given = tensor(np.full(sum(sizes), me))
    dist.alltoall_single(given, out, in_split_sizes=sizes, out_split_sizes=[me + 1] * size)
    same(out, np.repeat(np.arange(size), me + 1))


def messages():
    right, left = (me + 1) % size, (me - 1) % size
    if me == 0:
        dist.send(tensor(of(0)), right)
        x = paddle.zeros([3, 2])
        dist.recv(x, left)
        same(x, of(size - 1))
    else:
        x = paddle.zeros([3, 2])
        dist.recv(x, left)
        same(x, of(left))
        dist.send(tensor(of(me)), right)
    # Everybody sends much at once: nobody may wait for a receiver.
    large = np.full(1 << 20, me, "float32")
    x = paddle.zeros([1 << 20])
    tasks = [dist.isend(tensor(large), right), dist.irecv(x, left)]
    assert all(task.wait() for task in tasks)
    same(x, np.full(1 << 20, left, "float32"))
    x = paddle.zeros([2])
    operations = [
        dist.P2POp(dist.irecv, x, left),
        dist.P2POp(dist.isend, tensor(np.array([me, 7.0], "float32")), right),
    ]
    for task in dist.batch_isend_irecv(operations):
        task.wait()
    same(x, [left, 7.0])


def objects():
    found = []
    dist.all_gather_object(found, {"rank": me, "list": [0] * me})
    assert found == [{"rank": rank, "list": [0] * rank} for rank in everybody]
    found = [me, "x" * me]
    dist.broadcast_object_list(found, src=size - 1)
    assert found == [size - 1, "x" * (size - 1)]
    found = []
    parts = [("part", rank) for rank in everybody]
    dist.scatter_object_list(found, parts if me == 0 else None, src=0)
    assert found == [("part", me)]
    found = []
    dist.all_gather_object(found, np.full([2], me))
    assert [list(array) for array in found] == [[rank] * 2 for rank in everybody]
    # Whatever is more than data could run code, and anybody may be in a job without a secret.
    try:
        dist.all_gather_object([], print)
    except UnsafePickleError as error:
        assert "set `BIREME_JOB_SECRET`" in str(error)
    else:
        raise AssertionError("a function came from another process")


def tasks():
    xs = [tensor(of(me) + at) for at in range(20)]
    started = [dist.all_reduce(x, sync_op=False) for x in xs]
    # A call that waits comes after those that were started.
    y = tensor(of(me))
    dist.all_reduce(y)
    total = np.sum([of(rank) for rank in everybody], 0)
    same(y, total)
    for at, (x, task) in enumerate(zip(xs, started, strict=True)):
        assert task.wait() and task.is_completed()
        same(x, total + at * size)
    x = tensor(of(me))
    dist.all_reduce(x, sync_op=False)
    dist.wait(x)
    same(x, total)


def groups():
    pair = dist.new_group([0, size - 1])
    assert pair.is_member() == (me in (0, size - 1))
    x = tensor(of(me))
    if pair.is_member():
        assert dist.get_rank(pair) == (0 if me == 0 else 1)
        assert dist.get_world_size(pair) == 2
        dist.all_reduce(x, group=pair)
        same(x, of(0) + of(size - 1))
        # Ranks are those of the job.
        dist.broadcast(x, src=size - 1, group=pair)
    else:
        assert dist.all_reduce(x, group=pair) is None
        same(x, of(me))
        assert dist.get_world_size(pair) == -1
    dist.barrier(pair)
    alone = dist.new_group([0])
    if me == 0:
        dist.all_reduce(x, group=alone)
    assert dist.get_group(pair.id) is pair
    dist.destroy_process_group(pair)
    assert dist.get_group(0).nranks == size


group = dist.init_parallel_env()
me, size = dist.get_rank(), dist.get_world_size()
everybody = range(size)
assert (group.rank, group.nranks, dist.get_backend()) == (me, size, "GLOO")
assert dist.is_initialized() and dist.is_available()
for part in (reductions, gathers, exchanges, messages, objects, tasks, groups):
    part()
    dist.barrier()
    print(part.__name__, "is right", flush=True)
