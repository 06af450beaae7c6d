"""Functions with control flow, for both packages: `tools/paddle_control_flow.py` has real Paddle compute them.

Loops start from results of their own (`x * 1.0`), for Paddle's write into what they start from.
"""

import numpy as np

X = ((np.arange(6).reshape(2, 3) * 37 % 17 - 8) / 10).astype("float32")
W = ((np.arange(9).reshape(3, 3) * 29 % 13 - 6) / 10).astype("float32")
FACTORS = (1.0, -1.0, 0.3)


def chosen(paddle, x, w):
    return paddle.static.nn.cond(paddle.sum(x) > 0, lambda: paddle.matmul(x, w), lambda: x * 3)


def chosen_twice(paddle, x, w):
    s = paddle.sum(x)

    def inner():
        a, b = paddle.static.nn.cond(
            s > 0.5,
            lambda: (x + 1, paddle.matmul(x, w)),
            lambda: (x - 1, paddle.tanh(paddle.matmul(x, w))),
        )
        return a * b

    return paddle.static.nn.cond(s > 0, inner, lambda: x * 3)


def repeated(paddle, x, w):
    i, n = paddle.full([1], 0, "int64"), paddle.full([1], 3, "int64")
    _, y = paddle.static.nn.while_loop(
        lambda i, y: i < n, lambda i, y: [i + 1, paddle.tanh(paddle.matmul(y, w)) + x], [i, x * 1.0]
    )
    return y


def repeated_twice(paddle, x, w):
    def step(j, z):
        smaller = paddle.nn.functional.sigmoid
        z = paddle.static.nn.cond(
            paddle.sum(z) > 0, lambda: smaller(paddle.matmul(z, w)), lambda: z * 0.5 - 0.1
        )
        return [j + 1, z]

    def body(i, y):
        _, z = paddle.static.nn.while_loop(
            lambda j, z: j < 2, step, [paddle.full([1], 0, "int64"), y * 1.0]
        )
        return [i + 1, y + z]

    return paddle.static.nn.while_loop(
        lambda i, y: i < 3, body, [paddle.full([1], 0, "int64"), x * 1.0]
    )[1]


def switched(paddle, x, w):
    number = paddle.cast(paddle.sum(paddle.abs(x)) * 2, "int32") % 3
    return paddle.static.nn.switch_case(
        number, {0: lambda: x * 2, 1: lambda: paddle.exp(x), 2: lambda: paddle.matmul(x, w)}
    )


def first_true(paddle, x, w):
    s = paddle.sum(x)
    return paddle.static.nn.case(
        [(s > 1, lambda: x * 2), (s > 0, lambda: paddle.exp(x))], lambda: paddle.matmul(x, w)
    )


def array_loop(paddle, x, w):
    i = paddle.full([1], 0, "int64")
    array = paddle.tensor.array_write(x, i)

    def body(i, array):
        y = paddle.tanh(paddle.matmul(paddle.tensor.array_read(array, i), w))
        i = i + 1
        return [i, paddle.tensor.array_write(y, i, array)]

    _, array = paddle.static.nn.while_loop(lambda i, array: i < 3, body, [i, array])
    whole, _ = paddle.tensor.manipulation.tensor_array_to_tensor(array, axis=0)
    length = paddle.tensor.array_length(array)
    length = paddle.cast(length, "float32") if not isinstance(length, int) else length
    return paddle.sum(whole, axis=0) + length


FUNCTIONS = [
    chosen,
    chosen_twice,
    repeated,
    repeated_twice,
    switched,
    first_true,
    array_loop,
]
