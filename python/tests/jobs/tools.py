"""What workers ask of each other and of the servers' tables, beside training."""

import json
import os

import ctr_model
import numpy as np
import paddle
from ctr_model import IDS, WIDTH, option
from paddle.distributed import fleet

paddle.enable_static()
fleet.init()
attr = paddle.ParamAttr(name="emb", initializer=paddle.nn.initializer.Constant(0.05))


def embed(ids):
    return paddle.static.nn.sparse_embedding(ids, [IDS, WIDTH], param_attr=attr)


prediction, loss = ctr_model.network(embed)
strategy = fleet.DistributedStrategy()
strategy.a_sync = True
strategy.sparse_table_configs = {
    "emb": {
        "table_parameters.emb.accessor.accessor_class": "SparseAccessor",
        "table_parameters.emb.accessor.ctr_accessor_param.delete_after_unseen_days": 0.0,
        "table_parameters.emb.accessor.ctr_accessor_param.delete_threshold": 1000.0,
    }
}
fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    raise SystemExit

exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
fleet.init_worker()
rank, ranks = fleet.worker_index(), fleet.worker_num()
assert fleet.util.all_reduce(np.array([rank, 1]), "sum").tolist() == [sum(range(ranks)), ranks]
assert fleet.util.all_reduce([float(rank)], "max").tolist() == [ranks - 1]
assert fleet.util.all_gather(f"worker {rank}") == [f"worker {at}" for at in range(ranks)]
fleet.util.barrier()
fleet.util.print_on_rank("only here", 1)
assert fleet.util.get_file_shard(["a", "b", "c"]) == [["a", "b"], ["c"]][rank]
assert fleet.metrics.acc(np.array([3.0]), np.array([4.0])) == 0.75
assert fleet.metrics.sum(np.array([1.0, rank])).tolist() == [2.0, 1.0]
assert fleet.metrics.mae(np.array([2.0 * rank]), np.array([2.0])) == 0.5
positive, negative = np.zeros([1, 10]), np.zeros([1, 10])
positive[0, 7 + rank], negative[0, 2] = 1, 1
assert fleet.metrics.auc(positive, negative) == 1.0

ctr_model.train(exe, paddle.static.default_main_program(), loss, rank, ranks)
fleet.barrier_worker()


def rows():
    (table,) = fleet.table_stat()
    fleet.barrier_worker()
    return table["rows"]


before = rows()
assert 0 < before <= IDS, before
fleet.save_one_table(0, os.path.join(option("FOLDER"), "one"))
fleet.barrier_worker()
fleet.shrink()
fleet.barrier_worker()
assert rows() == 0
fleet.load_one_table(0, os.path.join(option("FOLDER"), "one"))
assert rows() == before
fleet.save_dense_params(exe, os.path.join(option("FOLDER"), "dense"))
fleet.barrier_worker()
fleet.save_persistables(exe, os.path.join(option("FOLDER"), "text"), format="paddle_text")
fleet.barrier_worker()
print("done " + json.dumps(sorted(os.listdir(os.path.join(option("FOLDER"), "dense")))))
fleet.stop_worker()
