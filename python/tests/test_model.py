"""`Model`: what it prints, saves and does when something goes wrong; its figures are in `test_trainings.py`."""

import os
import re

import bireme as paddle
import numpy as np
import pytest
from bireme import nn

INTRODUCTION = (
    "The loss value printed in the log is the current step, and the metric is the average value "
    "of previous steps.\n"
)

#: What Paddle 2.6.2 prints, without times and folders.
LINES = (
    INTRODUCTION
    + """\
Epoch 1/2
step 2/4 - loss: 1.0559 - TIME
step 4/4 - loss: 1.0331 - TIME
save checkpoint at FOLDER/0
Eval begin...
step 2/4 - loss: 0.1111 - TIME
step 4/4 - loss: 0.0792 - TIME
Eval samples: 10
Epoch 2/2
step 2/4 - loss: 0.0364 - TIME
step 4/4 - loss: 0.1287 - TIME
save checkpoint at FOLDER/1
Eval begin...
step 2/4 - loss: 0.1512 - TIME
step 4/4 - loss: 0.0099 - TIME
Eval samples: 10
save checkpoint at FOLDER/final
Eval begin...
step 1/3 - loss: 0.3970 - TIME
step 2/3 - loss: 0.0676 - TIME
step 3/3 - loss: 0.0049 - TIME
Eval samples: 10
Predict begin...
step 2/3 - TIME
step 3/3 - TIME
Predict samples: 10
"""
)


def data():
    x = np.arange(30, dtype="float32").reshape(10, 3) / 30
    return paddle.io.TensorDataset([paddle.to_tensor(x), paddle.to_tensor(x.sum(1, keepdims=True))])


def linear(rate=0.1, **prepared):
    network = nn.Linear(3, 1)
    for parameter in network.parameters():
        parameter.set_value(np.full(parameter.shape, 0.1, "float32"))
    model = paddle.Model(network)
    sgd = paddle.optimizer.Momentum(rate, 0.0, parameters=network.parameters())
    model.prepare(sgd, nn.MSELoss(), **prepared)
    return model


def timeless(text, folder="no folder"):
    return re.sub(r"\d+(s|ms|us)/step", "TIME", text.replace(str(folder), "FOLDER"))


def test_lines_are_paddle_s(capsys, tmp_path):
    model = linear()
    model.fit(data(), data(), 3, 2, shuffle=False, verbose=2, log_freq=2, save_dir=str(tmp_path))
    model.evaluate(data(), batch_size=4, verbose=2, log_freq=1)
    model.predict(data(), batch_size=4, verbose=2)
    assert timeless(capsys.readouterr().out, tmp_path) == LINES


def test_the_bar_is_a_line_each_where_there_is_no_terminal(capsys):
    linear().fit(data(), batch_size=3, shuffle=False, verbose=1, log_freq=2)
    assert timeless(capsys.readouterr().out) == (
        INTRODUCTION + "Epoch 1/1\n"
        "step 2/4 [==============>...............] - loss: 1.0559 - ETA: 0s - TIME\n"
        "step 4/4 [==============================] - loss: 1.0331 - TIME\n"
    )


def test_the_bar_is_written_over_on_a_terminal(monkeypatch, capsys):
    from bireme.hapi.progressbar import ProgressBar

    class Terminal:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

        def isatty(self):
            return True

    terminal = Terminal()
    bar = ProgressBar(num=2, file=terminal)
    bar.update(1, [("loss", [0.25]), ("acc", np.float32(0.0001))])
    assert "\n" not in terminal.text
    bar.update(2, [])
    first, second = terminal.text.split("\r")[1:]
    assert " - loss: 0.2500 - acc: 1.0000e-04 - ETA: " in first
    # Nothing of the longer line stays behind.
    assert len(second.rstrip("\n")) >= len(first)
    assert second.endswith("\n")


def test_times_of_reading_are_told_apart(capsys):
    linear().fit(data(), batch_size=5, verbose=3, log_freq=1)
    line = capsys.readouterr().out.splitlines()[2]
    assert "avg_reader_cost: 0." in line
    assert "avg_batch_cost: 0." in line
    assert "samples/sec" in line


def test_loaders_and_generators_of_batches_train_too(capsys):
    model = linear()
    loader = paddle.io.DataLoader(data(), batch_size=5)
    model.fit(loader, epochs=2, verbose=0)

    class Batches:
        def __iter__(self):
            for _ in range(3):
                yield (np.ones([2, 3], "float32"),), [np.ones([2, 1], "float32")]

    # Without a length the bar has no end, and the last batch is not known beforehand.
    model.fit(Batches(), verbose=2, log_freq=1)
    assert "step   3 - loss:" in capsys.readouterr().out


def test_networks_of_several_inputs_and_outputs():
    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, a, b):
            out = self.layer(a + b)
            return out, out * 2

    def loss(one, two, label):
        return [(one - label).square().mean(), (two - label).abs().mean()]

    model = paddle.Model(Two())
    adam = paddle.optimizer.Adam(0.1, parameters=model.parameters())
    model.prepare(adam, loss)
    ones = paddle.ones([4, 3])
    batches = [(ones, ones, paddle.ones([4, 1]))] * 2
    model.fit(batches, verbose=0)
    assert len(model.evaluate(batches, verbose=0)["loss"]) == 2
    first, second = model.predict(batches, verbose=0)
    assert len(first) == len(second) == 2
    np.testing.assert_allclose(np.array(first) * 2, np.array(second), rtol=1e-6)


def test_labels_are_told_apart_where_forward_takes_anything():
    class Any(nn.Layer):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, *inputs):
            return self.layer(inputs[0])

    batches = [(paddle.ones([4, 3]), paddle.ones([4, 1]))]
    for given, works in (
        ({}, False),
        ({"labels": paddle.static.InputSpec([None, 1], name="y")}, True),
    ):
        model = paddle.Model(Any(), **given)
        sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        model.prepare(sgd, nn.MSELoss())
        if works:
            model.fit(batches, verbose=0)
        else:
            with pytest.raises(ValueError, match="`forward` takes any number of inputs"):
                model.fit(batches, verbose=0)


def test_saved_models_go_on(tmp_path):
    path = str(tmp_path / "folder" / "model")
    model = linear()
    model.prepare(paddle.optimizer.Adam(0.1, parameters=model.parameters()), nn.MSELoss())
    model.fit(data(), batch_size=5, epochs=2, verbose=0, shuffle=False)
    model.save(path)
    assert sorted(os.listdir(tmp_path / "folder")) == ["model.pdopt", "model.pdparams"]
    # The parameters of another model in this process have other names.
    other = linear()
    other.prepare(paddle.optimizer.Adam(0.1, parameters=other.parameters()), nn.MSELoss())
    other.load(path)
    for one in model, other:
        one.fit(data(), batch_size=5, epochs=2, verbose=0, shuffle=False)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_what_does_not_fit_is_named(tmp_path):
    path = str(tmp_path / "model")
    linear().save(path)
    other = paddle.Model(nn.Linear(2, 1))
    with pytest.raises(ValueError, match=r"weight receives a shape \[3, 1\], but the expected"):
        other.load(path)
    with pytest.warns(UserWarning, match="Skip loading for weight"):
        other.load(path + ".pdparams", skip_mismatch=True)
    assert other.network.bias.item() == pytest.approx(0.1)
    with pytest.raises(OSError):
        other.load(str(tmp_path / "nothing"))


def test_models_are_saved_for_inference(tmp_path):
    model = linear()
    with pytest.raises(RuntimeError, match="Saving inference model needs 'inputs'"):
        model.save(str(tmp_path / "early"), training=False)
    model.fit(data(), batch_size=5, verbose=0)
    model.save(str(tmp_path / "trained"), training=False)
    loaded = paddle.jit.load(str(tmp_path / "trained"))
    x = paddle.ones([7, 3])
    np.testing.assert_allclose(loaded(x).numpy(), model.predict_batch(x)[0], rtol=1e-6)
    assert not (tmp_path / "early.pdmodel").exists()


def test_ctrl_c_leaves_whole_steps_behind(capsys):
    model = linear(metrics=None)

    class Stop(paddle.callbacks.Callback):
        ended = False

        def on_train_batch_end(self, step, logs=None):
            if step == 1:
                raise KeyboardInterrupt

        def on_train_end(self, logs=None):
            self.ended = True

    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        model.fit(
            data(), batch_size=2, verbose=1, log_freq=1, callbacks=stop, accumulate_grad_batches=4
        )
    assert not stop.ended
    assert capsys.readouterr().out.endswith("\n")
    # No gradient of the batches that made no step.
    assert all(p.grad is None or not p.grad.numpy().any() for p in model.parameters())
    model.fit(data(), batch_size=5, verbose=0)


def test_mixed_precision(tmp_path):
    model = linear(amp_configs={"level": "O1", "init_loss_scaling": 64.0})
    model.fit(data(), batch_size=5, epochs=3, verbose=0, shuffle=False)
    plain = linear()
    plain.fit(data(), batch_size=5, epochs=3, verbose=0, shuffle=False)
    for a, b in zip(model.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=5e-3)
    model.save(str(tmp_path / "model"))
    assert (tmp_path / "model.pdscaler").exists()
    with pytest.raises(ValueError, match="'O0', 'O1' or 'O2', not 'O7'"):
        linear(amp_configs="O7")
    with pytest.raises(ValueError, match=r"no \['init_scale'\]"):
        linear(amp_configs={"init_scale": 2.0})


def test_the_best_model_is_kept(tmp_path, capsys):
    stopping = paddle.callbacks.EarlyStopping("loss", patience=1, min_delta=100.0)
    linear(rate=1e-4).fit(
        data(), data(), 5, 9, verbose=0, save_dir=str(tmp_path), callbacks=[stopping]
    )
    out = capsys.readouterr().out
    assert "Epoch 2: Early stopping." in out
    assert f"Best checkpoint has been saved at {tmp_path}/best_model" in out
    assert (tmp_path / "best_model.pdparams").exists()


def test_the_rate_falls_on_a_plateau(capsys):
    model = linear(rate=0.5)
    plateau = paddle.callbacks.ReduceLROnPlateau(patience=1, factor=0.5, min_delta=100.0)
    model.fit(data(), data(), 5, 3, verbose=0, callbacks=plateau)
    assert "reducing learning rate to 0.25" in capsys.readouterr().out
    # Paddle says so too, and goes on with the old rate.
    before = [p.numpy() for p in model.parameters()]
    steps = []
    for rate in (model._optimizer.get_lr(), 0.5):
        for parameter, value in zip(model.parameters(), before, strict=True):
            parameter.set_value(value)
        model._optimizer.set_lr(rate)
        model.train_batch(*data().tensors)
        steps.append(model.network.weight.numpy() - before[0])
    assert np.abs(steps[1]).max() > 1.5 * np.abs(steps[0]).max()
    with pytest.raises(ValueError, match="does not support a factor"):
        paddle.callbacks.ReduceLROnPlateau(factor=1.0)
    with pytest.warns(UserWarning, match="should be loss or metric name"):
        model.fit(data(), data(), 5, verbose=0, callbacks=paddle.callbacks.EarlyStopping("auc"))


def test_mistakes_are_told_at_once():
    with pytest.raises(TypeError, match="`Model` takes a Layer, not `int`"):
        paddle.Model(3)
    model = paddle.Model(nn.Linear(3, 1))
    with pytest.raises(RuntimeError, match="call `model.prepare"):
        model.fit(data(), verbose=0)
    model.prepare(loss=nn.MSELoss())
    with pytest.raises(RuntimeError, match="with an optimizer and a loss"):
        model.fit(data(), verbose=0)
    with pytest.raises(TypeError, match="is not sub class of Metric"):
        model.prepare(metrics=[3])
    model = linear()
    with pytest.raises(ValueError, match="train_data must be given"):
        model.fit()
    with pytest.raises(ValueError, match="`batch_size` must be a number"):
        model.fit(data(), batch_size=[1, 2, 3])
    with pytest.raises(ValueError, match="num_iters must be greater than 0"):
        model.fit(data(), num_iters=0, verbose=0)
    with pytest.warns(UserWarning, match="EarlyStopping needs validation data"):
        model.fit(data(), verbose=0, callbacks=paddle.callbacks.EarlyStopping())
    with pytest.raises(NotImplementedError, match="`VisualDL` is not in Bireme"):
        paddle.callbacks.VisualDL("logs")
    paddle.enable_static()
    with pytest.raises(NotImplementedError, match="`Model` is for eager mode"):
        paddle.Model(nn.Linear(3, 1))


def test_summary_takes_the_inputs_of_the_model(capsys):
    model = paddle.Model(nn.Linear(3, 1), paddle.static.InputSpec([None, 3], "float32", "x"))
    assert model.summary()["total_params"] == 4
    assert paddle.Model(nn.Linear(3, 1)).summary((2, 3))["total_params"] == 4
    capsys.readouterr()
    with pytest.raises(ValueError, match="needs `input_size`"):
        paddle.Model(nn.Linear(3, 1)).summary()
