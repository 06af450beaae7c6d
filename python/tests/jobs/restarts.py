"""A job that saves at known steps, and goes on from the last of them when it is started again.

Half way between two checkpoints it waits for the file `go`, unless it was started again.
"""

import os
import time

import ctr_model
import paddle
from ctr_model import IDS, WIDTH, option
from paddle.distributed import fleet

STEPS, SAVE_EVERY, PAUSE = 30, 10, 15

paddle.enable_static()
paddle.static.default_startup_program().random_seed = 11
paddle.static.default_main_program().random_seed = 11
attr = paddle.ParamAttr(name="emb", initializer=paddle.nn.initializer.Constant(0.05))
embed = paddle.nn.Embedding(IDS, WIDTH, sparse=True, weight_attr=attr)
prediction, loss = ctr_model.network(embed)
fleet.init(is_collective=False)
strategy = fleet.DistributedStrategy()
strategy.a_sync = option("MODE") != "sync"
adam = paddle.optimizer.Adam(0.01, lazy_mode=True)
fleet.distributed_optimizer(adam, strategy).minimize(loss)
restarts = int(os.environ["BIREME_RESTART"])


def pause():
    print("pauses", flush=True)
    while not restarts and not os.path.exists("go"):
        time.sleep(0.01)


def save(name):
    """Everybody's steps are in it: in sync mode servers are between two steps then."""
    fleet.barrier_worker()
    fleet.save_persistables(exe, name)
    fleet.barrier_worker()


if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    raise SystemExit
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
fleet.init_worker()
rank, ranks = fleet.worker_index(), fleet.worker_num()
last = fleet.last_checkpoint()
done = int(os.path.basename(last).removeprefix("step")) if last else 0
print(f"begins with step {done}", flush=True)
for step, feed in enumerate(ctr_model.batches(STEPS, rank, ranks), 1):
    if step <= done:
        continue
    (value,) = exe.run(feed=feed, fetch_list=[loss])
    print(f"step {step} loss {value.item():.7f}", flush=True)
    if step == PAUSE:
        pause()
    # Who is started again alone finds nobody to meet.
    if step % SAVE_EVERY == 0 and option("MODE") == "sync" or step == STEPS:
        save(f"step{step}")
    elif step % SAVE_EVERY == 0 and rank == 0:
        fleet.save_persistables(exe, f"step{step}")
fleet.save_inference_model(exe, "model", ctr_model.feed_names(), [prediction])
fleet.barrier_worker()
fleet.stop_worker()
