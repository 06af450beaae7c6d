"""Linear maps, embeddings, dropout and other small layers."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._names import set_public_names
from ...tensor.arguments import Tensor, default_dtype, ops
from .. import functional as F
from .layers import Layer


def named(name: str | None) -> str:
    """What `repr` shows of a name, if there is one."""
    return f", name={name}" if name else ""


class Identity(Layer):
    """Returns its input; takes any arguments and uses none.

    >>> paddle.nn.Identity()(paddle.ones([2])).tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Layer):
    """`x @ weight + bias`, with a weight of shape [in_features, out_features].

    >>> layer = paddle.nn.Linear(2, 3)
    >>> x = paddle.ones([4, 2])
    >>> bool(paddle.allclose(layer(x), x @ layer.weight + layer.bias))
    True
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._dtype = default_dtype()
        self.in_features = in_features
        self.out_features = out_features
        self.name = name
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        out = ops.matmul_v2(input, self.weight)
        return out if self.bias is None else ops.elementwise_add(out, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, dtype={self._dtype}{named(self.name)}"


class Embedding(Layer):
    """A table of vectors, looked up by integers.

    `sparse` makes gradients of the rows that were used only. The row `padding_idx` starts as
    zeros and never learns.

    >>> table = paddle.nn.Embedding(10, 3)
    >>> bool((table(paddle.to_tensor([[1, 2]])) == table.weight[1:3]).all())
    True
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        for size, what in ((num_embeddings, "num_embeddings"), (embedding_dim, "embedding_dim")):
            if size <= 0:
                raise ValueError(f"`{what}` must be positive, but is {size}")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"`padding_idx` must be in [{-num_embeddings}, {num_embeddings}), "
                f"but is {padding_idx}"
            )
        self._dtype = default_dtype()
        self._num_embeddings = num_embeddings
        self._embedding_dim = embedding_dim
        self._sparse = sparse
        self._padding_idx = padding_idx
        self._name = name
        self._row = -1 if padding_idx is None else padding_idx % num_embeddings
        self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)
        if self._row >= 0 and _core.in_dynamic_mode():
            values = self.weight.numpy()
            values[self._row] = 0.0
            self.weight.set_value(values)

    def forward(self, x: Tensor) -> Tensor:
        return ops.lookup_table_v2(self.weight, x, padding_idx=self._row, is_sparse=self._sparse)

    def extra_repr(self) -> str:
        padding = "" if self._padding_idx is None else f", padding_idx={self._padding_idx}"
        sizes = f"{self._num_embeddings}, {self._embedding_dim}"
        return f"{sizes}{padding}, sparse={self._sparse}{named(self._name)}"


class Dropout(Layer):
    """Zeros with probability `p` in training; along `axis` only, if given.

    >>> layer = paddle.nn.Dropout(0.5)
    >>> layer.eval()
    >>> layer(paddle.ones([2])).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        p: float = 0.5,
        axis: Any = None,
        mode: str = "upscale_in_train",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p = p
        self.axis = axis
        self.mode = mode
        self.name = name

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.axis, self.training, self.mode)

    def extra_repr(self) -> str:
        return f"p={self.p}, axis={self.axis}, mode={self.mode}{named(self.name)}"


class Dropout2D(Layer):
    """Drops whole channels of pictures in training.

    >>> paddle.nn.Dropout2D()(paddle.ones([1, 2, 3, 3])).shape
    [1, 2, 3, 3]
    """

    def __init__(self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.p = p
        self.data_format = data_format

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.data_format)

    def extra_repr(self) -> str:
        return f"p={self.p}, data_format={self.data_format}"


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance, for `SELU`.

    >>> paddle.nn.AlphaDropout()(paddle.ones([2])).shape
    [2]
    """

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Layer):
    """One axis in place of those from `start_axis` to `stop_axis`.

    >>> paddle.nn.Flatten()(paddle.arange(4.0).reshape([1, 2, 2])).tolist()
    [[0.0, 1.0, 2.0, 3.0]]
    """

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis = start_axis
        self.stop_axis = stop_axis

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_axis, self.stop_axis)


class Unflatten(Layer):
    """Several axes in place of one.

    >>> paddle.nn.Unflatten(1, [2, 2])(paddle.arange(4.0).reshape([1, 4])).tolist()
    [[[0.0, 1.0], [2.0, 3.0]]]
    """

    def __init__(self, axis: int, shape: Any, name: str | None = None) -> None:
        super().__init__()
        self.axis = axis
        self.shape = shape

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.axis, self.shape)

    def extra_repr(self) -> str:
        return f"axis={self.axis}, shape={self.shape}"


class CosineSimilarity(Layer):
    """The cosine of the angle between vectors along an axis.

    >>> paddle.nn.CosineSimilarity()(paddle.ones([1, 2]), paddle.ones([1, 2])).tolist()
    [1.0]
    """

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._axis = axis
        self._eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self._axis, self._eps)

    def extra_repr(self) -> str:
        return f"axis={self._axis}, eps={self._eps}"


class PairwiseDistance(Layer):
    """The `p`-norm of the difference of two tensors along the last axis.

    >>> x, y = paddle.to_tensor([[0.0, 0.0]]), paddle.to_tensor([[3.0, 4.0]])
    >>> print(paddle.nn.PairwiseDistance()(x, y).numpy().round(4))
    [5.]
    """

    def __init__(
        self,
        p: float = 2.0,
        epsilon: float = 1e-6,
        keepdim: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p = p
        self.epsilon = epsilon
        self.keepdim = keepdim

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.pairwise_distance(x, y, self.p, self.epsilon, self.keepdim)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Bilinear(Layer):
    """`x1 @ weight[i] @ x2 + bias[i]` for each output i.

    >>> layer = paddle.nn.Bilinear(2, 3, 4, weight_attr=paddle.nn.initializer.Constant(0.5))
    >>> layer(paddle.ones([1, 2]), paddle.ones([1, 3])).tolist()
    [[3.0, 3.0, 3.0, 3.0]]
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.bilinear(x1, x2, self.weight, self.bias)


class _Pad(Layer):
    _dims = 0
    _format = ""

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._pad = [padding] * (2 * self._dims) if isinstance(padding, int) else padding
        self._mode = mode
        self._value = value
        self._data_format = data_format or self._format

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self._pad, self._mode, self._value, self._data_format)

    def extra_repr(self) -> str:
        settings = f"mode={self._mode}, value={self._value}, data_format={self._data_format}"
        return f"padding={self._pad}, {settings}"


class Pad1D(_Pad):
    """Elements around sequences: left and right.

    >>> paddle.nn.Pad1D([1, 0])(paddle.ones([1, 1, 2])).tolist()
    [[[0.0, 1.0, 1.0]]]
    """

    _dims, _format = 1, "NCL"


class Pad2D(_Pad):
    """Elements around pictures: left, right, top, bottom.

    >>> paddle.nn.Pad2D(1)(paddle.ones([1, 1, 1, 1])).tolist()
    [[[[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]
    """

    _dims, _format = 2, "NCHW"


class Pad3D(_Pad):
    """Elements around volumes: left, right, top, bottom, front, back.

    >>> paddle.nn.Pad3D([1, 0, 0, 0, 0, 0])(paddle.ones([1, 1, 1, 1, 2])).tolist()
    [[[[[0.0, 1.0, 1.0]]]]]
    """

    _dims, _format = 3, "NCDHW"


class ZeroPad2D(_Pad):
    """Zeros around pictures: left, right, top, bottom.

    >>> paddle.nn.ZeroPad2D([1, 0, 0, 1])(paddle.ones([1, 1, 1, 2])).tolist()
    [[[[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]]]
    """

    _dims, _format = 2, "NCHW"

    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(padding, "constant", 0.0, data_format)


set_public_names(__name__, but="named")
