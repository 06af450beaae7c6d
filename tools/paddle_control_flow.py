"""Has real Paddle 2.6.2 compute and save the functions of `python/tests/flow_cases.py`.

Run it with the Python of `~/.cache/bireme/paddle-2.6.2`; it writes `python/tests/data/control_flow`: a model for
inference of each function, and `values.json` with its results and gradients. Gradients are those of eager mode under
Python's `while`: in programs Paddle's are others for loops in loops and for arrays.
"""

import json
import pathlib
import sys

import numpy as np
import paddle
from paddle.base.proto.framework_pb2 import ProgramDesc

TESTS = pathlib.Path(__file__).parent.parent / "python" / "tests"
sys.path.insert(0, str(TESTS))

from flow_cases import FACTORS, FUNCTIONS, W, X


def main() -> None:
    paddle.enable_static()
    folder = TESTS / "data" / "control_flow"
    folder.mkdir(exist_ok=True)
    values = {}
    for function in FUNCTIONS:
        values.update(compute(function, folder))
    text = json.dumps(values, indent=None, sort_keys=True).replace('"], ', '"],\n')
    (folder / "values.json").write_text(text + "\n")


def compute(function, folder):
    program, startup = paddle.static.Program(), paddle.static.Program()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with (
        paddle.static.program_guard(program, startup),
        paddle.utils.unique_name.guard(),
        paddle.static.scope_guard(paddle.static.Scope()),
    ):
        x = paddle.static.data("x", [2, 3], "float32")
        x.stop_gradient = False
        init = paddle.nn.initializer.Assign(W)
        w = paddle.static.create_parameter([3, 3], "float32", name="w", default_initializer=init)
        y = function(paddle, x, w)
        forward = program.clone(for_test=True)
        executor.run(startup)
        values = {}
        for factor in FACTORS:
            feed = {"x": X * np.float32(factor)}
            (found,) = executor.run(feed=feed, fetch_list=[y])
            results = [found, *gradients(function, feed["x"])]
            values[f"{function.__name__} {factor}"] = [np.asarray(v).tolist() for v in results]
        there = forward.global_block().var(y.name)
        prefix = str(folder / function.__name__)
        paddle.static.save_inference_model(prefix, [x], [there], executor, program=forward)
        without_places(pathlib.Path(f"{prefix}.pdmodel"))
    return values


def gradients(function, x):
    """The gradients of the mean square by input and weight."""
    in_programs = paddle.static.nn.while_loop
    paddle.disable_static()
    # Paddle's writes into the tensors that it starts from, which gradients need.
    paddle.static.nn.while_loop = plain_loop
    try:
        x, w = (paddle.to_tensor(value, stop_gradient=False) for value in (x, W))
        y = function(paddle, x, w)
        paddle.mean(y * y).backward()
        return [x.grad.numpy(), W * 0 if w.grad is None else w.grad.numpy()]
    finally:
        paddle.static.nn.while_loop = in_programs
        paddle.enable_static()


def plain_loop(cond, body, loop_vars):
    while cond(*loop_vars):
        loop_vars = body(*loop_vars)
    return loop_vars


def without_places(path):
    """Removes the lines of this machine's files from a program."""
    program = ProgramDesc.FromString(path.read_bytes())
    for op in (op for block in program.blocks for op in block.ops):
        kept = [attr for attr in op.attrs if attr.name != "op_callstack"]
        del op.attrs[:]
        op.attrs.extend(kept)
    path.write_bytes(program.SerializeToString())


if __name__ == "__main__":
    main()
