"""Small trainings that real Paddle 2.6.2 has run too: see `tools/paddle_values.py`.

Each returns plain numbers and names; the tests compare them with what real Paddle gave.
"""

from __future__ import annotations

from typing import Any

import numpy as np

OPTIMIZERS = {
    "sgd": "SGD(0.1, parameters=ps)",
    "sgd l2": "SGD(0.1, parameters=ps, weight_decay=0.1)",
    "sgd l1": "SGD(0.1, parameters=ps, weight_decay=paddle.regularizer.L1Decay(0.1))",
    "momentum": "Momentum(0.1, 0.9, parameters=ps)",
    "nesterov": "Momentum(0.1, 0.9, parameters=ps, use_nesterov=True, weight_decay=0.01)",
    "adam": "Adam(0.1, parameters=ps)",
    "adam betas": "Adam(0.1, 0.8, 0.9, 1e-3, parameters=ps, weight_decay=0.01)",
    "adamw": "AdamW(0.1, parameters=ps, weight_decay=0.1)",
    "adamw some": "AdamW(0.1, parameters=ps, apply_decay_param_fun=lambda name: '.w_' in name)",
    "adamax": "Adamax(0.1, parameters=ps)",
    "adagrad": "Adagrad(0.1, parameters=ps, initial_accumulator_value=0.1)",
    "adadelta": "Adadelta(0.1, parameters=ps)",
    "rmsprop": "RMSProp(0.1, parameters=ps)",
    "rmsprop centered": "RMSProp(0.1, parameters=ps, momentum=0.9, centered=True)",
    "lamb": "Lamb(0.1, parameters=ps)",
    "lamb some": "Lamb(0.1, parameters=ps, exclude_from_weight_decay_fn=lambda p: '.b_' in p.name)",
    "clip value": "SGD(0.1, parameters=ps, grad_clip=paddle.nn.ClipGradByValue(0.1))",
    "clip norm": "SGD(0.1, parameters=ps, grad_clip=paddle.nn.ClipGradByNorm(0.2))",
    "clip global": "Adam(0.1, parameters=ps, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.2))",
    "schedule": "SGD(paddle.optimizer.lr.ExponentialDecay(0.1, 0.5), parameters=ps)",
    "groups": "Adam(0.1, parameters=[{'params': ps[:2], 'weight_decay': 0.1},"
    " {'params': ps[2:], 'learning_rate': 0.1}])",
}

SCHEDULES = {
    "noam": "NoamDecay(64, 4, 1.0)",
    "piecewise": "PiecewiseDecay([2, 5], [0.1, 0.01, 0.001])",
    "natural": "NaturalExpDecay(0.5, 0.1)",
    "inverse": "InverseTimeDecay(0.5, 0.1)",
    "polynomial": "PolynomialDecay(0.5, 5, 0.01, 2.0)",
    "polynomial cycle": "PolynomialDecay(0.5, 4, cycle=True)",
    "warmup": "LinearWarmup(0.5, 4, 0.0, 0.5)",
    "warmup then": "LinearWarmup(lr.ExponentialDecay(0.5, 0.9), 4, 0.1, 0.5)",
    "exponential": "ExponentialDecay(0.5, 0.9)",
    "milestones": "MultiStepDecay(0.5, [2, 4, 7], 0.5)",
    "steps": "StepDecay(0.5, 3, 0.5)",
    "lambda": "LambdaDecay(0.5, lambda step: 0.95**step)",
    "multiplied": "MultiplicativeDecay(0.5, lambda step: 0.95)",
    "cosine": "CosineAnnealingDecay(0.5, 4, 0.1)",
    "one cycle": "OneCycleLR(1.0, 12)",
    "one cycle linear": "OneCycleLR(1.0, 12, anneal_strategy='linear', three_phase=True)",
    "cyclic": "CyclicLR(0.5, 1.0, 2, 3)",
    "cyclic halved": "CyclicLR(0.5, 1.0, 2, mode='triangular2')",
    "cyclic falling": "CyclicLR(0.5, 1.0, 2, mode='exp_range', exp_gamma=0.9)",
    "linear": "LinearLR(0.5, 5)",
    "restarts": "CosineAnnealingWarmRestarts(0.5, 2, 2, 0.1)",
}

#: Layers by name: how they are made, and the shape of their input.
LAYERS = {
    "linear": ("Linear(3, 2)", [4, 3]),
    "linear without bias": ("Linear(3, 2, bias_attr=False)", [4, 3]),
    "layer norm": ("LayerNorm([3])", [4, 3]),
    "batch norm 1d": ("BatchNorm1D(3)", [4, 3]),
    "batch norm sequences": ("BatchNorm1D(3)", [4, 3, 5]),
    "batch norm 2d": ("BatchNorm2D(3)", [2, 3, 4, 4]),
    "batch norm": ("BatchNorm(3, act='relu')", [4, 3]),
    "instance norm": ("InstanceNorm2D(3)", [2, 3, 4, 4]),
    "group norm": ("GroupNorm(2, 4)", [2, 4, 3, 3]),
    "conv 1d": ("Conv1D(2, 3, 3, padding=1)", [2, 2, 6]),
    "conv 1d reflected": ("Conv1D(2, 3, 3, padding=1, padding_mode='reflect')", [2, 2, 6]),
    "conv 1d last": ("Conv1D(2, 3, 3, data_format='NLC')", [2, 6, 2]),
    "conv 2d": ("Conv2D(2, 4, 3, stride=2, padding=1, groups=2)", [2, 2, 5, 5]),
    "prelu": ("PReLU(3, 0.1)", [4, 3]),
    "simple rnn": ("SimpleRNN(3, 2)", [2, 4, 3]),
    "gru": ("GRU(3, 2, num_layers=2)", [2, 4, 3]),
    "gru both ways": ("GRU(3, 2, direction='bidirect')", [2, 4, 3]),
    "lstm": ("LSTM(3, 2, num_layers=2, direction='bidirect')", [2, 4, 3]),
    "lstm time first": ("LSTM(3, 2, time_major=True)", [4, 2, 3]),
    "rnn of a cell": ("RNN(paddle.nn.GRUCell(3, 2))", [2, 4, 3]),
    "rnn backwards": ("RNN(paddle.nn.LSTMCell(3, 2), is_reverse=True)", [2, 4, 3]),
    "two cells": ("BiRNN(paddle.nn.GRUCell(3, 2), paddle.nn.GRUCell(3, 2))", [2, 4, 3]),
    "attention": ("MultiHeadAttention(4, 2)", [2, 3, 4]),
    "encoder layer": ("TransformerEncoderLayer(4, 2, 8, dropout=0.0)", [2, 3, 4]),
    "encoder layer before": (
        "TransformerEncoderLayer(4, 2, 8, 0.0, 'gelu', normalize_before=True)",
        [2, 3, 4],
    ),
    "encoder": (
        "TransformerEncoder(paddle.nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2)",
        [2, 3, 4],
    ),
    "sequential": ("Sequential(paddle.nn.Linear(3, 2), paddle.nn.ReLU())", [4, 3]),
    "named": ("Sequential(('first', paddle.nn.Linear(3, 2)), ('last', paddle.nn.Tanh()))", [4, 3]),
}

#: Settings of `Model.fit`; names are what they try.
FITS = {
    "plain": "epochs=3",
    "accumulated": "epochs=2, accumulate_grad_batches=2",
    "some steps": "epochs=5, num_iters=4",
    "dropped": "epochs=2, drop_last=True",
    "stopped early": "epochs=9, callbacks=calls.EarlyStopping('acc_top1', patience=2, verbose=0)",
    "by epoch": "epochs=3, callbacks=calls.LRScheduler(by_step=False, by_epoch=True)",
    "two sizes": "epochs=2, batch_size=(5, 3), eval_freq=2",
}

#: Expressions whose gradient by `x` is penalised, and the penalty differentiated by all inputs: of
#: ops that have a gradient of a gradient in Paddle, too.
PENALISED = (
    "x * y * x",
    "x / (y * y + 1)",
    "x - y * x",
    "x ** 3 + (y * x) ** 2",
    "paddle.matmul(x, m) ** 2",
    "paddle.matmul(paddle.matmul(x, m), m, transpose_y=True) * x",
    "paddle.tanh(x * y)",
    "F.sigmoid(x * y)",
    "F.relu(x) * x * y",
    "F.leaky_relu(x) * x",
    "F.softplus(x * y)",
    "F.silu(x * y)",
    "paddle.log(x * x + 1) * y",
    "paddle.sqrt(x * x + y * y)",
    "paddle.rsqrt(x * x + 1)",
    "paddle.sin(x) * paddle.cos(y)",
    "paddle.square(x) * y",
    "paddle.abs(x) * x",
    "x * v * x",
    "x.sum(axis=1) ** 2",
    "x.mean() ** 3",
    "x.reshape([3, 2]).transpose([1, 0]) ** 2 * y",
    "paddle.concat([x * x, x * y], axis=1)",
    "x[:, 1:] ** 2",
    "paddle.expand(x.mean(axis=1, keepdim=True) ** 2, [2, 3]) * y",
    "paddle.clip(x, -1.0, 1.0) * x",
    "F.mse_loss(x * y, y)",
    "F.embedding(n, table) @ paddle.transpose(x, [1, 0]) @ x",
)


def _fill(parameters: Any, seed: int = 3) -> None:
    """The same values on both sides, whatever the generators are."""
    random = np.random.RandomState(seed)
    for parameter in parameters:
        value = random.uniform(-0.5, 0.5, parameter.shape).astype("float32")
        if "_variance" in parameter.name or parameter.name.endswith(".w_2"):
            value = np.abs(value) + 0.5
        parameter.set_value(value)


def _numbers(values: Any) -> list[float]:
    return [float(f"{v:.7g}") for v in np.asarray(values, "float64").ravel()]


def run_optimizer(paddle: Any, text: str) -> dict[str, Any]:
    """Losses, parameters and the names of the state after a few steps."""
    with paddle.utils.unique_name.guard():
        return _train(paddle, text)


def _train(paddle: Any, text: str) -> dict[str, Any]:
    model = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.Linear(4, 2))
    ps = model.parameters()
    _fill(ps)
    optimizer = eval(f"paddle.optimizer.{text}", {"paddle": paddle, "ps": ps})
    random = np.random.RandomState(5)
    losses = []
    for _ in range(5):
        x = paddle.to_tensor(random.uniform(-1, 1, (6, 3)).astype("float32"))
        y = paddle.to_tensor(random.uniform(-1, 1, (6, 2)).astype("float32"))
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if "lr." in text:
            optimizer._learning_rate.step()
        losses.append(float(loss))
    return {
        "losses": _numbers(losses),
        "parameters": [_numbers(p.numpy()) for p in ps],
        "state": sorted(optimizer.state_dict()),
    }


def run_schedule(paddle: Any, text: str) -> dict[str, Any]:
    """The learning rates of a dozen steps, and the state after them."""
    lr = paddle.optimizer.lr
    schedule = eval(f"lr.{text}", {"lr": lr})
    rates = []
    for _ in range(12):
        rates.append(schedule())
        schedule.step()
    state = {k: v for k, v in schedule.state_dict().items() if k == "last_epoch"}
    jumped = eval(f"lr.{text}", {"lr": lr})
    jumped.step(7)
    return {"rates": _numbers(rates), "state": state, "jumped": _numbers([jumped()])}


def run_layer(paddle: Any, text: str, shape: list[int]) -> dict[str, Any]:
    """Names and shapes of parameters, outputs and gradients in training, and outputs after it."""
    with paddle.utils.unique_name.guard():
        layer = eval(f"paddle.nn.{text}", {"paddle": paddle})
    _fill(layer.parameters())
    x = paddle.to_tensor(np.random.RandomState(9).uniform(-1, 1, shape).astype("float32"))
    x.stop_gradient = False
    out = layer(x)
    out = out[0] if isinstance(out, tuple) else out
    weights = np.cos(np.arange(out.size)).reshape(out.shape).astype("float32")
    (out * paddle.to_tensor(weights)).sum().backward()
    grads = [p.grad for p in layer.parameters() if p.grad is not None]
    layer.eval()
    later = layer(x)
    later = later[0] if isinstance(later, tuple) else later
    return {
        "state": list(layer.state_dict()),
        "names": [p.name for p in layer.parameters()],
        "shapes": [list(p.shape) for p in layer.parameters()],
        "out": _numbers(out.numpy()),
        "x grad": _numbers(x.grad.numpy()),
        "grads": [_numbers(g.numpy()) for g in grads],
        "later": _numbers(later.numpy()),
        "repr": repr(layer),
    }


def run_fit(paddle: Any, text: str) -> dict[str, Any]:
    """What `Model.fit` shows to a callback, evaluations, predictions and learning rates."""
    with paddle.utils.unique_name.guard():
        network = paddle.nn.Sequential(
            paddle.nn.Linear(3, 4), paddle.nn.Tanh(), paddle.nn.Linear(4, 3)
        )
    _fill(network.parameters())
    random = np.random.RandomState(6)

    def data(samples: int) -> Any:
        x = random.uniform(-1, 1, (samples, 3)).astype("float32")
        y = x.argmax(axis=1).astype("int64").reshape(-1, 1)
        return paddle.io.TensorDataset([paddle.to_tensor(x), paddle.to_tensor(y)])

    seen: dict[str, Any] = {"losses": [], "top1": [], "rates": [], "eval": [], "calls": []}
    model = paddle.Model(network)

    class Recorder(paddle.callbacks.Callback):
        def on_train_batch_end(self, step: int, logs: Any = None) -> None:
            seen["losses"] += _numbers(logs["loss"])
            seen["top1"] += _numbers([logs["acc_top1"]])
            seen["rates"] += _numbers([model._optimizer.get_lr()])
            seen["calls"].append(f"batch {step} of {logs['batch_size']}")

        def on_eval_end(self, logs: Any = None) -> None:
            seen["eval"] += _numbers([*logs["loss"], logs["acc_top1"], logs["acc_top2"]])
            seen["calls"].append("eval")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen["calls"].append(f"epoch {epoch}")

    names = {"calls": paddle.callbacks}
    options = eval(f"dict({text})", names)
    given = options.pop("callbacks", None)
    rate = 0.1
    if "epoch" in text and "by_" in text:
        rate = paddle.optimizer.lr.StepDecay(0.1, 2)
    optimizer = paddle.optimizer.Momentum(rate, parameters=network.parameters())
    model.prepare(optimizer, paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy((1, 2)))
    train, held = data(10), data(5)
    options = {"batch_size": 4, **options}
    callbacks = [Recorder()] if given is None else [Recorder(), given]
    # In Paddle the batches of evaluations count among `num_iters`, too.
    watched = None if "num_iters" in options else held
    model.fit(train, watched, shuffle=False, verbose=0, callbacks=callbacks, **options)
    result = model.evaluate(held, batch_size=2, verbose=0)
    seen["evaluated"] = _numbers([*result["loss"], result["acc_top1"], result["acc_top2"]])
    (predicted,) = model.predict(held, batch_size=2, stack_outputs=True, verbose=0)
    seen["predicted"] = _numbers(predicted)
    return seen


def run_penalised(paddle: Any, expression: str) -> dict[str, Any]:
    """The gradient by `x` of a weighed sum, and the gradients of the sum of its squares."""
    from value_cases import INPUTS, used_inputs, weights_like

    arrays = {name: INPUTS[name] for name in used_inputs(expression) if name != "table"}
    if "table" in expression:
        arrays["table"] = np.linspace(-1, 1, 15).reshape(5, 3).astype("float32")
    tensors = {name: paddle.to_tensor(array) for name, array in arrays.items()}
    for name, tensor in tensors.items():
        tensor.stop_gradient = arrays[name].dtype != np.float32 or name == "label"
    out = eval(expression, {"paddle": paddle, "F": paddle.nn.functional, **tensors})
    weighed = (out * paddle.to_tensor(weights_like(out.numpy()))).sum()
    (slope,) = paddle.grad(weighed, tensors["x"], create_graph=True)
    (slope * slope).sum().backward()
    grads = {name: t.grad for name, t in tensors.items() if t.grad is not None}
    return {
        "slope": _numbers(slope.numpy()),
        "grads": {name: _numbers(grad.numpy()) for name, grad in grads.items()},
    }


def run_gradient_penalty(paddle: Any) -> dict[str, Any]:
    """A critic of a WGAN-GP: its loss has the norm of its gradient by its inputs."""
    with paddle.utils.unique_name.guard():
        critic = paddle.nn.Sequential(
            paddle.nn.Linear(3, 5), paddle.nn.LeakyReLU(0.2), paddle.nn.Linear(5, 4),
            paddle.nn.Tanh(), paddle.nn.Linear(4, 1),
        )  # fmt: skip
    _fill(critic.parameters())
    adam = paddle.optimizer.Adam(0.05, parameters=critic.parameters())
    random, losses = np.random.RandomState(4), []
    for _ in range(4):
        real = paddle.to_tensor(random.uniform(-1, 1, (6, 3)).astype("float32"))
        fake = paddle.to_tensor(random.uniform(0, 2, (6, 3)).astype("float32"))
        share = paddle.to_tensor(random.uniform(0, 1, (6, 1)).astype("float32"))
        mixed = real * share + fake * (1 - share)
        mixed.stop_gradient = False
        (slope,) = paddle.grad(critic(mixed).sum(), mixed, create_graph=True)
        norm = paddle.sqrt((slope * slope).sum(axis=1) + 1e-12)
        loss = critic(fake).mean() - critic(real).mean() + 10.0 * ((norm - 1.0) ** 2).mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        losses.append(float(loss))
    return {
        "losses": _numbers(losses),
        "parameters": [_numbers(p.numpy()) for p in critic.parameters()],
    }


def run_maml(paddle: Any) -> dict[str, Any]:
    """Two steps on a task, which are differentiated for the step of the model itself."""
    functional = paddle.nn.functional
    with paddle.utils.unique_name.guard():
        layers = [paddle.nn.Linear(2, 5), paddle.nn.Linear(5, 3)]
    parameters = [p for layer in layers for p in layer.parameters()]
    _fill(parameters)
    adam = paddle.optimizer.Adam(0.05, parameters=parameters)
    random, losses = np.random.RandomState(8), []

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        hidden = paddle.tanh(functional.linear(x, weights[0], weights[1]))
        # Not `mean`, whose gradient has none in Paddle.
        return ((functional.linear(hidden, weights[2], weights[3]) - y) ** 2).sum() * 0.1

    for _ in range(3):
        total = 0.0
        for _ in range(2):
            x = paddle.to_tensor(random.uniform(-1, 1, (8, 2)).astype("float32"))
            y = paddle.to_tensor(random.uniform(-1, 1, (8, 3)).astype("float32"))
            fast = parameters
            for _ in range(2):
                slopes = paddle.grad(loss_of(fast, x[:4], y[:4]), fast, create_graph=True)
                fast = [w - 0.4 * slope for w, slope in zip(fast, slopes)]
            total = total + loss_of(fast, x[4:], y[4:])
        total.backward()
        adam.step()
        adam.clear_grad()
        losses.append(float(total))
    return {"losses": _numbers(losses), "parameters": [_numbers(p.numpy()) for p in parameters]}


SECOND_ORDER = {"gradient penalty": run_gradient_penalty, "maml": run_maml}


def run_all(paddle: Any) -> dict[str, dict[str, Any]]:
    """Everything, by family and name; what fails is told by its error."""
    jobs = {
        "optimizers": {k: (run_optimizer, v) for k, v in OPTIMIZERS.items()},
        "schedules": {k: (run_schedule, v) for k, v in SCHEDULES.items()},
        "layers": {k: (run_layer, *v) for k, v in LAYERS.items()},
        "fits": {k: (run_fit, v) for k, v in FITS.items()},
        "penalised": {k: (run_penalised, k) for k in PENALISED},
        "second order": {k: (run,) for k, run in SECOND_ORDER.items()},
    }
    return {
        family: {name: job[0](paddle, *job[1:]) for name, job in named.items()}
        for family, named in jobs.items()
    }
