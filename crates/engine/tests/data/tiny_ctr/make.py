"""Makes the other files of this folder with real Paddle 2.6.2 (CPU): a small click-through-rate
model in both layouts, and what Paddle predicts with it.

    python crates/engine/tests/data/tiny_ctr/make.py
"""

import json
import os
from pathlib import Path

os.environ["FLAGS_call_stack_level"] = "0"

import numpy as np
import paddle
from paddle.base.proto import framework_pb2 as proto
from paddle.framework.io_utils import is_persistable

HERE = Path(__file__).resolve().parent
ROWS, DIM, SLOTS, DENSE = 11, 3, 2, 2


def build():
    ids = [paddle.static.data(f"slot_{n}", [None, 1], "int64") for n in range(SLOTS)]
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    table = paddle.ParamAttr(name="table", initializer=paddle.nn.initializer.Uniform(-1, 1))
    found = [
        paddle.static.nn.embedding(slot, [ROWS, DIM], padding_idx=0, param_attr=table)
        for slot in ids
    ]
    parts = [paddle.reshape(rows, [-1, DIM]) for rows in found] + [dense]
    hidden = paddle.static.nn.fc(paddle.concat(parts, axis=1), 4, activation="relu")
    return [*ids, dense], paddle.nn.functional.softmax(paddle.static.nn.fc(hidden, 2))


def without_call_stacks(program):
    """Paths of the machine that made it have no place in a file that is kept."""
    desc = proto.ProgramDesc.FromString(program)
    for op in desc.blocks[0].ops:
        kept = [attr for attr in op.attrs if attr.name != "op_callstack"]
        del op.attrs[:]
        op.attrs.extend(kept)
    return desc.SerializeToString()


def main():
    paddle.enable_static()
    paddle.seed(1)
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup):
        feeds, prediction = build()
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)

    paddle.static.save_inference_model(
        str(HERE / "model"), feeds, [prediction], executor, program=program
    )
    pruned = paddle.static.normalize_program(program, feeds, [prediction])
    folder = HERE / "fluid"
    paddle.static.save_vars(executor, str(folder), pruned, predicate=is_persistable)
    (folder / "__model__").write_bytes(pruned.desc.serialize_to_string())
    for path in [HERE / "model.pdmodel", folder / "__model__"]:
        path.write_bytes(without_call_stacks(path.read_bytes()))

    random = np.random.default_rng(1)
    rows = {f"slot_{n}": random.integers(0, ROWS, (5, 1)) for n in range(SLOTS)}
    rows["dense"] = random.normal(size=(5, DENSE)).astype(np.float32)
    (values,) = executor.run(program, feed=rows, fetch_list=[prediction])
    data = {name: column.tolist() for name, column in rows.items()}
    text = json.dumps({"feeds": data, "prediction": values.tolist()})
    (HERE / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
