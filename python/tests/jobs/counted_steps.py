"""A model whose gradients are known: what its parameters are in the end counts the steps and the ids.

Every step takes `RATE` off `w`, and `RATE` off the row of an id for each time that it is met.
"""

import json
import os

import numpy as np
import paddle
from paddle import static
from paddle.distributed import fleet

RATE, IDS = 0.5, 64
mode, threads = os.environ["JOB_MODE"], int(os.environ.get("JOB_THREADS", "1"))
paddle.enable_static()
fleet.init(is_collective=mode == "collective")
ids = static.data("ids", [None, 1], "int64")
zero = paddle.nn.initializer.Constant(0.0)
rows = paddle.fluid.layers.embedding(
    ids, [IDS, 2], is_sparse=True, param_attr=paddle.ParamAttr(name="rows", initializer=zero)
)
w = static.create_parameter([4], "float32", attr=paddle.ParamAttr(name="w", initializer=zero))
loss = paddle.sum(rows) + paddle.sum(w)
strategy = fleet.DistributedStrategy()
strategy.a_sync = mode == "async"
# Adam takes `RATE` off as well, however large a gradient is: it counts updates.
kinds = {"sgd": paddle.optimizer.SGD, "adam": paddle.optimizer.Adam}
optimizer = kinds[os.environ.get("JOB_OPTIMIZER", "sgd")](RATE)
fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    raise SystemExit

executor = static.Executor()
executor.run(static.default_startup_program())
if mode != "collective":
    fleet.init_worker()
rank = fleet.worker_index()
dataset = paddle.distributed.QueueDataset()
share = "JOB_SHARE" in os.environ
dataset.init(
    use_var=[ids], batch_size=2, thread_num=threads, **({"share_files": True} if share else {})
)
files = json.loads(os.environ["JOB_FILES"])
dataset.set_filelist(files if share else files[rank])
for epoch in range(int(os.environ.get("JOB_EPOCHS", "1"))):
    executor.train_from_dataset(static.default_main_program(), dataset)
fleet.util.barrier()
if mode == "collective":
    value = {n: np.array(static.global_scope().find_var(n).get_tensor()) for n in ("w", "rows")}
else:
    value = fleet.util._runtime("worker").dense()
print("values " + json.dumps({name: value[name].tolist() for name in ("w", "rows")}), flush=True)
fleet.util.barrier()
if mode != "collective":
    fleet.stop_worker()
