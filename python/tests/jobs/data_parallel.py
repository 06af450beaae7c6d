"""An MLP on random pictures, in one process or data parallel; saves parameters for the test."""

import os
from contextlib import nullcontext

import numpy as np
import numpy.random
import paddle
import paddle.distributed as dist
from paddle.distributed import fleet

STEPS = 6
BATCH = 24


class Net(paddle.nn.Layer):
    """Two layers, and a table of rows that not every batch uses."""

    def __init__(self, sparse):
        super().__init__()
        self.table = paddle.nn.Embedding(50, 8, sparse=sparse)
        self.first = paddle.nn.Linear(28 * 28 + 8, 128)
        self.second = paddle.nn.Linear(128, 10)
        self.spare = paddle.nn.Linear(128, 10)

    def forward(self, x, ids, head):
        hidden = paddle.concat([x, self.table(ids).sum(1)], 1)
        hidden = paddle.nn.functional.relu(self.first(hidden))
        return (self.spare if head else self.second)(hidden)


def batch(step):
    random = np.random.RandomState(step)
    x = random.rand(BATCH, 28 * 28).astype("float32")
    ids = random.randint(0, 50, (BATCH, 3))
    return x, ids, random.randint(0, 10, (BATCH, 1))


def loss_of(model, part, head):
    x, ids, label = (paddle.to_tensor(array) for array in part)
    return paddle.nn.functional.cross_entropy(model(x, ids, head), label)


how = os.environ["JOB_HOW"]
paddle.set_device(os.environ.get("JOB_DEVICE", "cpu"))
size = dist.get_world_size()
rank = dist.get_rank()
# Other values in every rank: the first one's must win.
paddle.seed(7 + rank)
net = Net(sparse="sparse" in how)
if "unused" not in how:
    net.spare = None
clip = paddle.nn.ClipGradByGlobalNorm(0.05) if "clip" in how else None
# Not Adam: it makes steps of full size of gradients that are nothing but rounding.
optimizer = paddle.optimizer.Momentum(0.05, 0.9, net.parameters(), grad_clip=clip)
model = net
if "fleet" in how:
    strategy = fleet.DistributedStrategy()
    if "merge" in how:
        strategy.gradient_merge = True
        strategy.gradient_merge_configs = {"k_steps": 2, "avg": True}
    fleet.init(is_collective=True, strategy=strategy)
    model = fleet.distributed_model(net)
    optimizer = fleet.distributed_optimizer(optimizer)
elif size > 1:
    dist.init_parallel_env()
    model = paddle.DataParallel(net, find_unused_parameters="unused" in how)
for step in range(STEPS):
    mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    part = [array[mine] for array in batch(step)]
    # The second head is used in some steps, and in some ranks only.
    head = "unused" in how and step % 3 == 0
    if "uneven" in how:
        head = rank == 0

    if "no_sync" in how:
        half = len(part[0]) // 2
        first, second = [array[:half] for array in part], [array[half:] for array in part]
        with model.no_sync() if size > 1 else nullcontext():
            (loss_of(model, first, head) / 2).backward()
        loss = loss_of(model, second, head)
        (loss / 2).backward()
    else:
        loss = loss_of(model, part, head)
        loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    print(f"loss {loss.item():.7f}", flush=True)
np.savez(
    os.environ["JOB_OUT"] + f"{rank}.npz",
    **{name: value.numpy() for name, value in model.state_dict().items()},
)
