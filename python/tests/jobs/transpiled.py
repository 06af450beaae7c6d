"""A job of the transpiler: `JOB_CONFIG` are its settings as JSON.

Without servers in the environment the script trains alone.
"""

import json
import os

import ctr_model
import numpy as np
import paddle
from ctr_model import IDS, WIDTH, option
from paddle import fluid

paddle.enable_static()
fluid.default_startup_program().random_seed = 11
fluid.default_main_program().random_seed = 11


def embed(ids):
    return fluid.layers.embedding(
        ids,
        [IDS, WIDTH],
        is_sparse=True,
        is_distributed=bool(option("DISTRIBUTED")),
        param_attr=fluid.ParamAttr(name="emb", initializer=fluid.initializer.Constant(0.05)),
    )


prediction, loss = ctr_model.network(embed)
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
role = os.environ.get("TRAINING_ROLE", "LOCAL")
rank, ranks = (int(os.environ.get(f"PADDLE_TRAINER{n}", d)) for n, d in (("_ID", 0), ("S_NUM", 1)))
program = fluid.default_main_program()
if role != "LOCAL":
    config = fluid.DistributeTranspilerConfig()
    for name, value in json.loads(option("CONFIG", "{}")).items():
        setattr(config, name, value)
    t = fluid.DistributeTranspiler(config)
    servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]
    t.transpile(rank, pservers=servers, trainers=ranks, sync_mode=config.sync_mode)
if role == "PSERVER":
    endpoint = f"{os.environ['POD_IP']}:{os.environ['PADDLE_PORT']}"
    main, startup = t.get_pserver_programs(endpoint)
    exe.run(startup)
    exe.run(main)
else:
    if role != "LOCAL":
        program = t.get_trainer_program()
    exe.run(fluid.default_startup_program())
    offset = int(option("OFFSET", "0"))
    ctr_model.train(exe, program, loss, rank, ranks, offset=np.int64(offset))
    exe.close()
