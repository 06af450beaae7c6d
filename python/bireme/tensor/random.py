"""Random tensors; `paddle.seed` makes them repeatable."""

from __future__ import annotations

from typing import Any

from .._names import set_public_names
from .arguments import (
    TENSORS,
    Tensor,
    default_dtype,
    integer,
    ops,
    random_like,
    real,
    require_tensor,
    shape_slots,
)


def uniform(
    shape: Any,
    dtype: Any = None,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Any:
    """Random numbers evenly spread over [min, max).

    >>> x = paddle.uniform([1000])
    >>> bool((x >= -1.0).all() and (x < 1.0).all())
    True
    """
    attribute, tensor, tensors = shape_slots(shape)
    dtype = default_dtype() if dtype is None else dtype
    return ops.uniform_random(
        tensor,
        tensors,
        shape=attribute,
        dtype=dtype,
        min=real(min, "min"),
        max=real(max, "max"),
        seed=seed,
    )


def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Random numbers evenly spread over [0, 1).

    >>> x = paddle.rand([1000])
    >>> bool((x >= 0.0).all() and (x < 1.0).all())
    True
    """
    return uniform(shape, dtype, 0.0, 1.0)


def standard_normal(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Normally distributed random numbers of mean 0 and deviation 1.

    >>> round(paddle.standard_normal([10000]).std().item(), 1)
    1.0
    """
    return _gaussian(shape, 0.0, 1.0, dtype)


def randn(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Normally distributed random numbers of mean 0 and deviation 1.

    >>> round(paddle.randn([10000]).std().item(), 1)
    1.0
    """
    return _gaussian(shape, 0.0, 1.0, dtype)


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Any:
    """Normally distributed random numbers; mean and deviation may be tensors.

    >>> round(paddle.normal(5.0, shape=[10000]).mean().item(), 1)
    5.0
    """
    like = next((v for v in (mean, std) if isinstance(v, TENSORS)), None)
    if like is None:
        return _gaussian([1] if shape is None else shape, real(mean, "mean"), real(std, "std"))
    noise = random_like(ops.gaussian_random, like)
    return noise * std + mean


def gaussian(
    shape: Any,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Normally distributed random numbers.

    >>> round(paddle.tensor.gaussian([10000], mean=5.0).mean().item(), 1)
    5.0
    """
    return _gaussian(shape, mean, std, dtype, seed)


def randint(
    low: Any = 0, high: Any = None, shape: Any = (1,), dtype: Any = None, name: str | None = None
) -> Any:
    """Random integers from [low, high), or from [0, low).

    >>> sorted(set(paddle.randint(0, 5, [1000]).tolist()))
    [0, 1, 2, 3, 4]
    """
    if high is None:
        low, high = 0, low
    attribute, tensor, tensors = shape_slots(shape)
    return ops.randint(
        tensor,
        tensors,
        low=integer(low, "low"),
        high=integer(high, "high"),
        shape=attribute,
        dtype="int64" if dtype is None else dtype,
    )


def randint_like(
    x: Tensor, low: Any = 0, high: Any = None, dtype: Any = None, name: str | None = None
) -> Any:
    """Random integers in the shape of another tensor.

    >>> sorted(set(paddle.randint_like(paddle.ones([1000]), 0, 5).tolist()))
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    require_tensor(x, "x")
    out = randint(low, high, list(x.shape))
    return ops.cast(out, in_dtype="int64", out_dtype=x.dtype if dtype is None else dtype)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Any:
    """The numbers from 0 to `n - 1` in random order.

    >>> sorted(paddle.randperm(3).tolist())
    [0, 1, 2]
    """
    return ops.randperm(n=integer(n, "n"), dtype=dtype)


def bernoulli(x: Tensor, name: str | None = None) -> Any:
    """1 with the probability that each element is, else 0.

    >>> paddle.bernoulli(paddle.ones([2])).tolist()
    [1.0, 1.0]
    """
    return ops.bernoulli(x)


def multinomial(
    x: Tensor, num_samples: int = 1, replacement: bool = False, name: str | None = None
) -> Any:
    """Places drawn with probabilities in proportion to the last axis.

    >>> paddle.multinomial(paddle.to_tensor([0.0, 1.0]), 1).tolist()
    [1]
    """
    return ops.multinomial(
        x, num_samples=integer(num_samples, "num_samples"), replacement=replacement
    )


def _gaussian(shape: Any, mean: float, std: float, dtype: Any = None, seed: int = 0) -> Tensor:
    attribute, tensor, tensors = shape_slots(shape)
    dtype = default_dtype() if dtype is None else dtype
    return ops.gaussian_random(
        tensor,
        tensors,
        shape=attribute,
        mean=real(mean, "mean"),
        std=real(std, "std"),
        seed=seed,
        dtype=dtype,
    )


set_public_names(__name__)
