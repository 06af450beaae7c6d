"""A small network trained by equal workers; prints losses, and at the end what all must share."""

import hashlib
import os

import numpy as np
import paddle
import paddle.distributed as dist

STEPS = int(os.environ.get("JOB_STEPS", "20"))
SIZE = int(os.environ.get("JOB_SIZE", "64"))

dist.init_parallel_env()
rank = dist.get_rank()
paddle.seed(rank)
model = paddle.nn.Sequential(
    paddle.nn.Linear(16, SIZE), paddle.nn.ReLU(), paddle.nn.Linear(SIZE, 2)
)
model = paddle.DataParallel(model)
optimizer = paddle.optimizer.SGD(0.2, parameters=model.parameters())
random = np.random.RandomState(rank)
for step in range(STEPS):
    values = random.randn(32, 16).astype("float32")
    labels = (values.sum(axis=1) > 0).astype("int64").reshape(-1, 1)
    loss = paddle.nn.functional.cross_entropy(
        model(paddle.to_tensor(values)), paddle.to_tensor(labels)
    )
    loss = paddle.mean(loss)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    print(f"step {step} loss {float(loss):.5f}", flush=True)
    once = os.environ.get("JOB_FAIL_ONCE") and os.environ["BIREME_RESTART"] != "0"
    if os.environ.get("JOB_FAIL") == f"{rank}:{step}" and not once:
        raise ValueError("this worker was told to fail")
digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.numpy().tobytes())
print(f"parameters {digest.hexdigest()}", flush=True)
