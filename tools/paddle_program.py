"""Writes crates/ir/tests/assets/fit_a_line.pdmodel with real Paddle 2.6.2.

Run from the root of the repository, in an environment that has paddlepaddle==2.6.2:
    python tools/paddle_program.py
The program is a training program, not an inference one: it has data, parameters, dropout,
gradients and SGD, and the Python call stacks that Paddle stores. Frames of installed packages are
shortened to `site-packages/...`, so the file does not depend on the machine.
"""

import paddle

OUT = "crates/ir/tests/assets/fit_a_line.pdmodel"


def build():
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [None, 13], "float32")
        y = paddle.static.data("y", [None, 1], "float32")
        ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
        emb = paddle.static.nn.embedding(ids, [10, 4], is_sparse=True)
        emb = paddle.sum(emb, axis=1)
        hidden = paddle.static.nn.fc(x, 4, activation="relu")
        hidden = paddle.nn.functional.dropout(hidden, 0.3)
        pred = paddle.static.nn.fc(paddle.concat([hidden, emb], axis=1), 1)
        loss = paddle.mean(paddle.nn.functional.square_error_cost(pred, y))
        paddle.optimizer.SGD(0.01).minimize(loss)
    return main


def shorten(line):
    """A frame's line without the part of its path that depends on the machine."""
    for folder in ("site-packages/", "tools/"):
        at = line.find(folder)
        if line.startswith('  File "') and at >= 0:
            return '  File "' + line[at:]
    return line


def main():
    paddle.enable_static()
    program = build()
    for op in program.global_block().ops:
        stack = [shorten(line) for line in op.desc.attr("op_callstack")]
        # The script's own three frames and the innermost one are enough for a test.
        op.desc._set_attr("op_callstack", stack[:6] + stack[-2:])
    with open(OUT, "wb") as file:
        file.write(program.desc.serialize_to_string())


if __name__ == "__main__":
    main()
