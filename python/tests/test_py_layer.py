"""`PyLayer`: functions whose gradient is written in Python."""

import bireme as paddle
import numpy as np
import pytest
from bireme.autograd import PyLayer


def leaf(*values):
    return paddle.to_tensor(list(values), stop_gradient=False)


class Scaled(PyLayer):
    """Several outputs, an argument that is no tensor, and one without a gradient."""

    @staticmethod
    def forward(ctx, x, factor, y, *, bias=0.0):
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor + bias, y * 2, "text"

    @staticmethod
    def backward(ctx, da, db):
        x, y = ctx.saved_tensor()
        return da * y * ctx.factor, da * x * ctx.factor + db * 2


def test_gradients_go_through_backward():
    x, y = leaf(2.0, 3.0), leaf(4.0, 5.0)
    a, b, text = Scaled.apply(x * 1, 0.5, y=y, bias=1.0)
    assert text == "text"
    assert a.tolist() == [5.0, 8.5]
    assert not a.stop_gradient
    (a * 3 + b).sum().backward()
    assert x.grad.tolist() == [6.0, 7.5]
    assert y.grad.tolist() == [5.0, 6.5]


def test_outputs_that_nothing_depends_on_have_zeros():
    x, y = leaf(2.0), leaf(4.0)
    Scaled.apply(x, 1.0, y)[1].backward()
    assert x.grad.tolist() == [0.0]
    assert y.grad.tolist() == [2.0]

    class Bare(PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, da, db):
            assert db is None
            return da

    Bare.apply(x)[0].backward()
    assert x.grad.tolist() == [1.0]


def test_none_is_no_gradient():
    class OneOfTwo(PyLayer):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, dout):
            return dout, None

    x, y = leaf(1.0), leaf(1.0)
    OneOfTwo.apply(x, y).backward()
    assert x.grad.tolist() == [1.0]
    assert y.grad is None
    # Nobody asks for the gradient of what stops gradients.
    assert OneOfTwo.apply(x.detach(), y.detach()).stop_gradient


def test_an_input_may_be_the_output():
    class Same(PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_not_inplace(x)
            return x

        @staticmethod
        def backward(ctx, dx):
            return dx * 7

    x = leaf(1.0)
    out = Same.apply(x)
    assert out is not x
    out.backward()
    assert x.grad.tolist() == [7.0]


def test_outputs_may_have_no_gradient():
    class WithMask(PyLayer):
        @staticmethod
        def forward(ctx, x):
            mask = (x > 0).astype("float32")
            ctx.mark_non_differentiable(mask)
            ctx.save_for_backward(mask)
            return x * mask, mask

        @staticmethod
        def backward(ctx, dout, dmask):
            (mask,) = ctx.saved_tensor()
            return dout * mask

    x = leaf(-1.0, 2.0)
    out, mask = WithMask.apply(x)
    assert mask.stop_gradient
    out.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]


def test_lists_of_tensors_have_lists_of_gradients():
    class Sum(PyLayer):
        @staticmethod
        def forward(ctx, tensors):
            return paddle.add_n(tensors)

        @staticmethod
        def backward(ctx, dout):
            return [dout, dout * 2]

    a, b = leaf(1.0), leaf(2.0)
    Sum.apply([a, b]).backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([1.0], [2.0])


def test_gradients_of_gradients_go_through_it():
    class Cubed(PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, dout):
            (x,) = ctx.saved_tensor()
            return 3 * x**2 * dout

    x = leaf(2.0)
    (slope,) = paddle.grad(Cubed.apply(x), x, create_graph=True)
    slope.backward()
    assert x.grad.tolist() == [12.0]
    # Without `create_graph` nothing of `backward` is kept.
    (slope,) = paddle.grad(Cubed.apply(x), x)
    assert slope.stop_gradient


def test_mistakes_reach_who_called():
    class Wrong(PyLayer):
        gives = None

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @classmethod
        def backward(cls, ctx, dout):
            return Wrong.gives(dout)

    def gradient(gives):
        Wrong.gives = staticmethod(gives)
        Wrong.apply(leaf(1.0, 2.0)).sum().backward()

    with pytest.raises(ValueError, match="should be 1, but received 2"):
        gradient(lambda d: (d, d))
    with pytest.raises(TypeError, match="must return tensors or None, not `int`"):
        gradient(lambda d: 3)
    with pytest.raises(ValueError, match=r"gave a float32 of shape \[1\] as gradient 0"):
        gradient(lambda d: d[:1])
    with pytest.raises(ZeroDivisionError):
        gradient(lambda d: 1 / 0)

    class Half(PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="implement the backward function"):
        Half.apply(leaf(1.0)).backward()
    with pytest.raises(NotImplementedError, match="implement the forward function"):
        PyLayer.apply(leaf(1.0))

    class Nothing(PyLayer):
        @staticmethod
        def forward(ctx, x):
            return 3

    with pytest.raises(TypeError, match="returned no tensor"):
        Nothing.apply(leaf(1.0))
    y = Scaled.apply(leaf(1.0), 1.0, leaf(1.0))[0]
    y.backward()
    with pytest.raises(RuntimeError, match="has been used up"):
        y.backward()
    paddle.enable_static()
    with pytest.raises(NotImplementedError, match="for eager mode"):
        Scaled.apply(paddle.static.data("x", [2]), 1.0, paddle.static.data("y", [2]))


def test_layers_train_with_it():
    class Linear(PyLayer):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return paddle.matmul(x, w)

        @staticmethod
        def backward(ctx, dout):
            x, w = ctx.saved_tensor()
            return paddle.matmul(dout, w, transpose_y=True), paddle.matmul(
                x, dout, transpose_x=True
            )

    w = paddle.create_parameter([3, 1], "float32")
    sgd = paddle.optimizer.SGD(0.3, parameters=[w])
    x = paddle.to_tensor(np.random.RandomState(0).rand(32, 3).astype("float32"))
    wanted = paddle.to_tensor([[1.0], [2.0], [3.0]])
    for _ in range(800):
        loss = (Linear.apply(x, w) - paddle.matmul(x, wanted)).square().mean()
        loss.backward()
        sgd.step()
        sgd.clear_grad()
    np.testing.assert_allclose(w.numpy(), wanted.numpy(), atol=0.05)


def test_backward_of_several():
    x = leaf(1.0, 2.0)
    paddle.autograd.backward([x * 2, x * x], [paddle.to_tensor([1.0, 0.0]), None])
    assert x.grad.tolist() == [4.0, 4.0]
    with pytest.raises(TypeError, match="for eager tensors, not `int`"):
        paddle.autograd.backward([3])
