"""Arguments of a wrong kind: the error names the argument, or the op and its shapes."""

import subprocess
import sys

import bireme as paddle
import bireme.nn.functional as F
import numpy as np
import pytest

X = paddle.ones([2, 3])
LABELS = paddle.to_tensor([0, 7])

CASES = [
    # Fractions are not cut off, texts are not read as numbers.
    (lambda: paddle.concat([X, X], axis=0.9), TypeError, "`axis` must be an integer .* 0.9"),
    (lambda: paddle.topk(X, k="2"), TypeError, "`k` must be an integer .* '2' of type `str`"),
    (lambda: paddle.sum(X, axis="a"), TypeError, "`axis` must be an integer or a list of them"),
    (lambda: paddle.sum(X, axis=[0, 1.5]), TypeError, "`axis` must be an integer .* 1.5"),
    (lambda: paddle.ones("ab"), TypeError, "`shape` must be an integer or a list of them"),
    (lambda: paddle.ones([2, 1.5]), TypeError, "`shape` must be an integer .* 1.5"),
    (lambda: paddle.seed("a"), TypeError, "`seed` must be an integer"),
    (lambda: paddle.full([1], "a"), TypeError, "`fill_value` must be a number, but is 'a'"),
    (lambda: paddle.pow(X, b"x"), TypeError, "`y` must be a number"),
    (lambda: paddle.create_parameter("ab", "float32"), TypeError, "`shape` must be an integer"),
    # Tensors are asked for by name.
    (
        lambda: paddle.sum(None, axis=0),
        TypeError,
        "`x` must be a tensor, but is of type `NoneType`",
    ),
    (lambda: paddle.log10([1.0]), TypeError, "`x` must be a tensor.*`list`: use `paddle.to_tensor"),
    (lambda: F.relu(None), ValueError, "op `relu`.* input slot `X` is empty"),
    (lambda: F.relu(np.ones(3)), TypeError, "op `relu`: input `X` must be a tensor, not ndarray"),
    (lambda: paddle.less_than(X, object()), TypeError, "cannot be made a tensor"),
    (
        lambda: paddle.to_tensor([[1, 2], [3]]),
        ValueError,
        "those at one depth have one length: pad",
    ),
    (lambda: paddle.to_tensor("abc"), TypeError, "<U3 cannot be tensors"),
    (lambda: paddle.to_tensor(np.array([None])), TypeError, "object cannot be tensors"),
    # Values that do not fit.
    (lambda: paddle.sum(X, axis=2), ValueError, "op `reduce_sum`.* cannot reduce axis 2"),
    (lambda: paddle.median(paddle.ones([]), axis=3), ValueError, "axis"),
    (lambda: paddle.concat([X, X], axis=-3), ValueError, "axis -3 lies outside"),
    (
        lambda: paddle.matmul(X, X),
        ValueError,
        r"op `matmul_v2` \(float32 \[2, 3\], float32 \[2, 3\]",
    ),
    (
        lambda: paddle.add(X[0, :2], LABELS),
        ValueError,
        r"op `elementwise_add`.*expected float32.*int64",
    ),
    (lambda: paddle.gather(X, LABELS), ValueError, r"op `gather`.* index 7 lies outside 0..2"),
    (lambda: F.embedding(LABELS, X), ValueError, "id 7 at position 1 of `Ids` lies outside"),
    (lambda: F.cross_entropy(X, LABELS), ValueError, "label 7 of sample 1 lies outside"),
    (lambda: paddle.repeat_interleave(X, 2**62), ValueError, "`repeats`"),
    (lambda: paddle.repeat_interleave(X, -1), ValueError, "`repeats`"),
    (lambda: X.backward(), ValueError, "a tensor with `stop_gradient` has no gradient"),
    (lambda: X[5], IndexError, "index 5 is out of range for axis 0 of size 2"),
    (lambda: X["a"], TypeError, "an index holds integers, slices"),
    (lambda: float(X), TypeError, r"only a tensor of one element .* shape \[2, 3\]"),
    # Keywords that are not there are not ignored.
    (lambda: paddle.sum(X, dim=1), TypeError, "unexpected keyword argument 'dim'"),
    (lambda: X.sum(dim=1), TypeError, "unexpected keyword argument 'dim'"),
    (lambda: paddle.nn.Linear(2, 3, bias=False), TypeError, "unexpected keyword argument 'bias'"),
    (lambda: paddle.optimizer.Adam(lr=0.1), TypeError, "unexpected keyword argument 'lr'"),
    # Optimizers and layers.
    (lambda: paddle.optimizer.SGD(0.1, "abc"), TypeError, "`parameters` must be a list"),
    (lambda: paddle.optimizer.SGD(0.1, [X, 3]), TypeError, "`parameters` must be a list"),
    (lambda: paddle.optimizer.SGD("a", [X]), TypeError, "the learning rate must be a number"),
    (lambda: paddle.optimizer.SGD(0.1).step(), AttributeError, "an optimizer needs `parameters="),
    (lambda: paddle.nn.Linear(3, 2)(paddle.ones([2, 5])), ValueError, "`X` .* has 5 columns"),
    (lambda: paddle.nn.Linear(3, 2)(X.astype("int64")), ValueError, "not int64"),
    (lambda: paddle.nn.Sequential(3), AssertionError, "`0` must be a layer, but is `int`"),
]


@pytest.mark.parametrize(("call", "kind", "message"), CASES)
def test_the_error_says_what_is_wrong(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3).astype(">f4"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0).reshape(4, 3)[::2],
        np.arange(6.0).reshape(2, 3)[::-1],
        np.arange(6.0).reshape(3, 2).T,
        np.arange(6).reshape(2, 3).astype("float16"),
        np.arange(6).reshape(2, 3) > 2,
        np.zeros([0, 3]),
        np.array(3.0),
    ],
)
def test_arrays_of_any_layout_keep_their_values(array):
    assert np.array_equal(paddle.to_tensor(array).numpy(), array)


def test_what_does_not_fit_into_memory_is_an_error_and_not_the_end():
    code = "import bireme as p\ntry: p.zeros([2**50])\nexcept MemoryError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "out of memory" in done.stdout and "4503599627370496 bytes" in done.stdout
    assert not done.stderr
