"""Layers whose `if`, `for` and `while` look at tensors, written down as programs."""

import bireme as paddle
import numpy as np
import pytest
from bireme.static import InputSpec

X = ((np.arange(6).reshape(2, 3) * 37 % 17 - 8) / 10).astype("float32")


def saved(function, tmp_path, specs):
    prefix = str(tmp_path / "model")
    paddle.jit.save(function, prefix, input_spec=specs)
    return paddle.jit.load(prefix)


def branches(x):
    if paddle.mean(x) > 0:
        y = x * 2
    elif paddle.mean(x) > -0.3:
        y = x - 1
    else:
        y = paddle.exp(x)
    return y if y.sum() > 1 else y + 10


def early(x):
    if x.sum() > 0:
        return x * 2
    z = x - 1
    if z.sum() < -8:
        return z
    return z * 3


def loop(x):
    steps = paddle.zeros([1], "int64")
    while paddle.sum(x * x) < 50 and steps < 20:
        x = x * 1.5 + 0.1
        steps = steps + 1
    return x, steps


def counted(x, n):
    total = paddle.zeros([2, 3])
    for i in range(n):
        if i % 2 == 0:
            total = total + x * i
        else:
            total = total - x
    return total


def rows(x):
    best = paddle.zeros([3])
    for row in x:
        if paddle.sum(row) > paddle.sum(best):
            best = row
    return best


def python_values(x, deep=True):
    outs = []
    for k in range(3):
        if deep and k != 1:
            outs.append(x * k)
        if k == 2:
            break
    return paddle.concat(outs)


@pytest.mark.parametrize("function", [branches, early, loop, rows, python_values])
def test_a_saved_function_does_what_it_did(function, tmp_path):
    loaded = saved(function, tmp_path, [InputSpec([2, 3], "float32", "x")])
    for factor in (1, -1, 0.3, -0.3, -3):
        x = X * np.float32(factor)
        expected, found = function(paddle.to_tensor(x)), loaded(paddle.to_tensor(x))
        if not isinstance(expected, tuple):
            expected, found = [expected], [found]
        for one, other in zip(expected, found):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_rows_of_an_open_batch_are_looped_over(tmp_path):
    loaded = saved(rows, tmp_path, [InputSpec([None, 3], "float32", "x")])
    for count in (1, 2, 5):
        x = np.random.RandomState(count).randn(count, 3).astype("float32")
        expected = rows(paddle.to_tensor(x)).numpy()
        np.testing.assert_allclose(loaded(paddle.to_tensor(x)).numpy(), expected)


def test_the_number_of_runs_may_be_an_input(tmp_path):
    specs = [InputSpec([2, 3], "float32", "x"), InputSpec([1], "int64", "n")]
    loaded = saved(counted, tmp_path, specs)
    for n in (0, 1, 4, 5):
        expected = counted(paddle.to_tensor(X), n).numpy()
        number = paddle.to_tensor(np.array([n]))
        np.testing.assert_allclose(loaded(paddle.to_tensor(X), number).numpy(), expected, rtol=1e-5)


class Inner(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(3, 3)

    def forward(self, x):
        i = 0
        while paddle.sum(paddle.abs(x)) < 5:
            x = self.linear(x) + x + 1
            i += 1
        return x


class Outer(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return helper(self.inner(x)) if not (x.sum() > 0) else super().extra_repr() or x


def helper(x):
    if x.max() > 3:
        x = x / 2
    return x


def test_sublayers_and_functions_they_call_are_rewritten(tmp_path):
    layer = paddle.jit.to_static(Outer(), input_spec=[InputSpec([2, 3], "float32", "x")])
    prefix = str(tmp_path / "layer")
    paddle.jit.save(layer, prefix)
    loaded = paddle.jit.load(prefix)
    for factor in (1, -1, -0.1):
        x = paddle.to_tensor(X * np.float32(factor))
        np.testing.assert_allclose(loaded(x).numpy(), layer(x).numpy(), rtol=1e-5)


def breaks(x):
    for _ in range(3):
        if x.sum() > 1:
            break
        x = x * 2
    return x


def one_way(x):
    if x.sum() > 1:
        y = x
    return y + 1


def kinds(x):
    if x.sum() > 1:
        name = "one"
    else:
        name = "two"
    return x, name


def test_what_cannot_be_written_down_names_its_line(tmp_path):
    line = breaks.__code__.co_firstlineno + 2
    with pytest.raises(RuntimeError, match=rf"test_jit_control_flow.py, line {line}: .*`break`"):
        saved(breaks, tmp_path, [InputSpec([2])])
    line = one_way.__code__.co_firstlineno + 1
    with pytest.raises(UnboundLocalError, match=f"`y` has no value here: in line {line}"):
        saved(one_way, tmp_path, [InputSpec([2])])
    line = kinds.__code__.co_firstlineno + 1
    with pytest.raises(TypeError, match=f"`name` is set to different values .* line {line}"):
        saved(kinds, tmp_path, [InputSpec([2])])
    assert paddle.in_dynamic_mode()


def test_functions_that_are_marked_stay_as_they_are(tmp_path):
    @paddle.jit.not_to_static
    def plain(x):
        if x.sum() > 0:
            x = x * 2
        return x

    with pytest.raises(RuntimeError, match="has no value while a program is built"):
        saved(plain, tmp_path, [InputSpec([2])])
