"""`Model`: a network with its loss, optimizer and metrics, trained by `fit` instead of a loop."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import _core
from .._missing import missing_names
from .batch_runner import BatchRunner, listed
from .callbacks import CallbackList, EarlyStopping, config_callbacks
from .inputs import checked_specs, count_of_inputs, flat, loader_of
from .model_summary import summary

__all__ = ["Model"]


class Model:
    """A network that is trained by `fit`, evaluated by `evaluate` and used by `predict`.

    `inputs` and `labels` are `InputSpec`s with names; without them the first fields of a batch are
    the arguments of the network's `forward`, and the others go to the loss and to the metrics. For
    eager mode: a program is trained by an `Executor`.

    >>> import numpy as np
    >>> x = np.random.rand(64, 4).astype("float32")
    >>> data = paddle.io.TensorDataset([paddle.to_tensor(x), paddle.to_tensor(x.sum(1, keepdims=True))])
    >>> model = paddle.Model(paddle.nn.Linear(4, 1))
    >>> adam = paddle.optimizer.Adam(0.1, parameters=model.parameters())
    >>> model.prepare(adam, paddle.nn.MSELoss())
    >>> model.fit(data, batch_size=16, epochs=60, verbose=0)
    >>> model.evaluate(data, batch_size=16, verbose=0)["loss"][0] < 0.05
    True
    """

    def __init__(self, network: Any, inputs: Any = None, labels: Any = None) -> None:
        from ..nn import Layer

        if not isinstance(network, Layer):
            raise TypeError(f"`Model` takes a Layer, not `{type(network).__name__}`")
        if not _core.in_dynamic_mode():
            raise NotImplementedError(
                "`Model` is for eager mode in this version: call `paddle.disable_static()` first, "
                "or train the program with `paddle.static.Executor`"
            )
        self.mode = "train"
        self.network = network
        self.stop_training = False
        self._inputs = checked_specs(inputs, network)
        self._labels = checked_specs(labels, network)
        self._input_count = count_of_inputs(inputs, network)
        self._loss: Any = None
        self._optimizer: Any = None
        self._metrics: list[Any] = []
        self._runner = BatchRunner(self)
        # Batches until an optimizer's step, and steps that are left of `num_iters`.
        self._accumulate = 1
        self._steps_left: int | None = None

    def prepare(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None
    ) -> None:
        """Sets the optimizer, the loss (called with outputs and labels), and the metrics.

        `amp_configs` is a level of mixed precision (`O1`, `O2`) or a dict with `level`, settings of
        `GradScaler` and the lists of `auto_cast`.
        """
        from ..metric import Metric

        if loss is not None and not callable(loss):
            raise TypeError(
                "'loss' must be sub classes of `paddle.nn.Layer` or any callable function."
            )
        for metric in listed(metrics):
            if not isinstance(metric, Metric):
                raise TypeError(f"{type(metric).__name__} is not sub class of Metric")
        self._optimizer = optimizer
        self._loss = loss
        self._metrics = listed(metrics)
        self._runner.prepare(amp_configs)

    # Single batches.

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Trains on one batch; returns the losses, and with metrics (losses, metrics).

        Without `update` the gradients wait for a later batch.

        >>> model = paddle.Model(paddle.nn.Linear(2, 1))
        >>> sgd = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        >>> model.prepare(sgd, paddle.nn.MSELoss())
        >>> [loss.shape for loss in model.train_batch(paddle.ones([4, 2]), paddle.ones([4, 1]))]
        [()]
        """
        return self._runner.train(inputs, labels, update)

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Evaluates one batch; returns the losses, the metrics, or (losses, metrics)."""
        with _no_grad():
            return self._runner.evaluate(inputs, labels)

    def predict_batch(self, inputs: Any) -> list[Any]:
        """What the network makes of one batch, as arrays.

        >>> model = paddle.Model(paddle.nn.Linear(2, 3))
        >>> model.predict_batch(paddle.ones([4, 2]))[0].shape
        (4, 3)
        """
        with _no_grad():
            return self._runner.predict(inputs)

    # Whole data sets.

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: Any = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Trains for some epochs, and evaluates `eval_data` after every `eval_freq` of them.

        Data are a `Dataset`, which `batch_size` (one, or one for training and one for evaluation),
        `shuffle`, `drop_last` and `num_workers` cut into batches, or anything that yields batches,
        such as a `DataLoader`. Gradients of `accumulate_grad_batches` batches make one step of the
        optimizer. After `num_iters` batches the training ends. Ctrl-C ends it with a
        `KeyboardInterrupt`, and leaves the model as the last whole step made it.
        """
        if train_data is None:
            raise ValueError("train_data must be given!")
        self._check_ready("fit")
        if not isinstance(accumulate_grad_batches, int) or accumulate_grad_batches < 1:
            raise ValueError(
                "`accumulate_grad_batches` must be a whole number of at least 1, "
                f"not {accumulate_grad_batches!r}"
            )
        train_size, eval_size = _two_sizes(batch_size)
        loader = loader_of(train_data, train_size, shuffle, drop_last, num_workers)
        eval_loader = loader_of(eval_data, eval_size, False, False, num_workers)
        self._accumulate = accumulate_grad_batches
        steps = _steps_of(loader)
        self._steps_left = _checked_iterations(num_iters)
        if num_iters is not None and steps:
            epochs = num_iters // steps + 1
            steps = min(num_iters, steps)
        calls = config_callbacks(
            callbacks,
            model=self,
            epochs=epochs,
            steps=steps,
            log_freq=log_freq,
            save_freq=save_freq,
            save_dir=save_dir,
            verbose=verbose,
            metrics=self._metrics_name(),
        )
        if eval_loader is None and any(isinstance(call, EarlyStopping) for call in calls):
            warnings.warn("EarlyStopping needs validation data.", stacklevel=2)
        self.stop_training = False
        with _ending_cleanly(self, calls):
            self._fit(loader, eval_loader, epochs, eval_freq, calls)

    def _fit(
        self, loader: Any, eval_loader: Any, epochs: int, eval_freq: int, calls: CallbackList
    ) -> None:
        calls.on_begin("train")
        logs: dict[str, Any] = {}
        for epoch in range(epochs):
            calls.on_epoch_begin(epoch)
            logs, _ = self._run_epoch(loader, calls, "train")
            calls.on_epoch_end(epoch, logs)
            if eval_loader is not None and epoch % eval_freq == 0:
                # An evaluation is whole, whatever is left of the training.
                left, self._steps_left = self._steps_left, None
                self._evaluate(eval_loader, _steps_of(eval_loader), calls)
                self._steps_left = left
            if self.stop_training:
                break
        calls.on_end("train", logs)

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """The loss of the last batch and the metrics of all, by name.

        >>> model = paddle.Model(paddle.nn.Linear(2, 2))
        >>> model.prepare(metrics=paddle.metric.Accuracy())
        >>> data = [(paddle.ones([4, 2]), paddle.zeros([4, 1], "int64"))]
        >>> list(model.evaluate(data, verbose=0))
        ['acc']
        """
        self._check_ready("evaluate")
        loader = loader_of(eval_data, batch_size, False, False, num_workers)
        calls = config_callbacks(
            callbacks,
            model=self,
            log_freq=log_freq,
            verbose=verbose,
            metrics=self._metrics_name(),
        )
        steps = _steps_of(loader)
        self._steps_left = _checked_iterations(num_iters)
        if num_iters is not None and steps is not None:
            steps = min(num_iters, steps)
        with _ending_cleanly(self, calls):
            logs = self._evaluate(loader, steps, calls)
        return {name: logs[name] for name in self._metrics_name() if name in logs}

    def _evaluate(self, loader: Any, steps: int | None, calls: CallbackList) -> dict[str, Any]:
        calls.on_begin("eval", {"steps": steps, "metrics": self._metrics_name()})
        self._runner.begin_evaluation(loader)
        logs, _ = self._run_epoch(loader, calls, "eval")
        calls.on_end("eval", logs)
        return logs

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """For each output of the network its values of all batches, as a tuple or in one array.

        >>> model = paddle.Model(paddle.nn.Linear(2, 3))
        >>> data = paddle.io.TensorDataset([paddle.ones([8, 2])])
        >>> (out,) = model.predict(data, batch_size=4, stack_outputs=True, verbose=0)
        >>> out.shape
        (8, 3)
        """
        loader = loader_of(test_data, batch_size, False, False, num_workers)
        calls = config_callbacks(callbacks, model=self, verbose=verbose)
        self._steps_left = None
        with _ending_cleanly(self, calls):
            calls.on_begin("predict", {"steps": _steps_of(loader)})
            logs, batches = self._run_epoch(loader, calls, "predict")
            outputs: list[Any] = list(zip(*batches, strict=True))
            if stack_outputs:
                outputs = [np.vstack(values) for values in outputs]
            calls.on_end("predict", logs)
        return outputs

    def _run_epoch(
        self, loader: Any, calls: CallbackList, mode: str
    ) -> tuple[dict[str, Any], list[Any]]:
        """All batches of a loader; the last logs, and what was predicted."""
        logs: dict[str, Any] = {}
        outputs: list[Any] = []
        steps = _steps_of(loader)
        for step, batch in enumerate(loader):
            fields = flat(batch)
            if not fields:
                raise ValueError(f"batch {step} of the data is empty")
            calls.on_batch_begin(mode, step, logs)
            if mode == "predict":
                outputs.append(self.predict_batch(fields[: self._input_count]))
            else:
                # The last batch makes a step in any case: its gradients must not be lost.
                is_last = step + 1 == steps or self._steps_left == 1
                update = is_last or (step + 1) % self._accumulate == 0
                logs.update(self._run_step(fields, mode, update))
            logs["step"] = step
            logs["batch_size"] = self._runner.samples(fields[0], mode)
            calls.on_batch_end(mode, step, logs)
            if self._steps_left is not None:
                self._steps_left -= 1
                if self._steps_left <= 0:
                    self.stop_training = True
                    break
        self._reset_metrics()
        return logs, outputs

    def _run_step(self, fields: list[Any], mode: str, update: bool) -> dict[str, Any]:
        inputs, labels = self._split(fields)
        if mode == "train":
            made = self.train_batch(inputs, labels, update)
        else:
            made = self.eval_batch(inputs, labels)
        values: list[Any] = []
        if self._loss is not None:
            losses = made[0] if self._metrics else made
            values.append([float(loss) for loss in losses])
        for metric in self._metrics:
            values.extend(listed(metric.accumulate()))
        return dict(zip(self._metrics_name(), values, strict=True))

    def _split(self, fields: list[Any]) -> tuple[list[Any], list[Any]]:
        """A batch as inputs and labels."""
        count = self._input_count
        if self._inputs is None and self._labels is not None:
            count = len(fields) - len(self._labels)
        if count is None:
            raise ValueError(
                "`forward` takes any number of inputs: say which fields of a batch are labels, "
                "by `inputs` or `labels` of the `Model`"
            )
        return fields[:count], fields[count:]

    # Files.

    def save(self, path: str, training: bool = True) -> None:
        """Saves `path.pdparams` and `path.pdopt`, or without `training` a model for inference.

        That is what `jit.save` writes; it needs `inputs`, or a batch that has run before.

        >>> import os, tempfile
        >>> model = paddle.Model(paddle.nn.Linear(2, 3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(folder + "/linear")
        ...     os.listdir(folder)
        ['linear.pdparams']
        """
        from ..distributed import get_rank
        from ..framework import save

        if not os.path.basename(path):
            raise ValueError(
                f"`{path}` is a folder: the path must end with the prefix of the files"
            )
        if get_rank() != 0:
            return
        if not training:
            self._save_for_inference(path)
            return
        save(self.network.state_dict(), path + ".pdparams")
        parts = {".pdopt": self._optimizer, ".pdscaler": self._runner.scaler}
        for ending, part in parts.items():
            state = None if part is None else part.state_dict()
            if state:
                save(state, path + ending)

    def _save_for_inference(self, path: str) -> None:
        from .. import jit

        specs = self._inputs or self._runner.specs
        if specs is None:
            raise RuntimeError(
                "Saving inference model needs 'inputs' or running before saving. Please specify "
                "'inputs' in Model initialization or input training data and perform a training "
                "for shape derivation."
            )
        jit.save(self.network, path, input_spec=specs)

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Loads what `save` has saved; the state of the optimizer where there is one.

        Parameters are found by their names in the network. One that is missing in the file, or has
        another shape there, is an error, or with `skip_mismatch` keeps its value; the optimizer
        then starts anew, as with `reset_optimizer`.
        """
        from ..framework import load
        from .checkpoint import matched, restore_optimizer

        path = _without_ending(path)
        state = load(path + ".pdparams", keep_name_table=True)
        found, all_match = matched(self.network, state, skip_mismatch)
        for parameter, value in found:
            parameter.set_value(value)
        if self._runner.scaler is not None and os.path.exists(path + ".pdscaler"):
            self._runner.scaler.load_state_dict(load(path + ".pdscaler", return_numpy=True))
        if self._optimizer is None or reset_optimizer or not all_match:
            return
        if os.path.exists(path + ".pdopt"):
            restore_optimizer(self._optimizer, load(path + ".pdopt"), self.network, state)

    # What it consists of.

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The parameters of the network."""
        return self.network.parameters(*args, **kwargs)

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Prints the layers of the network, as `paddle.summary`."""
        size = self._inputs if input_size is None else input_size
        if size is None:
            raise ValueError("`summary` needs `input_size`, or a `Model` with `inputs`")
        return summary(self.network, size, dtypes=dtype)

    def _check_ready(self, method: str) -> None:
        if self._loss is None and not self._metrics:
            raise RuntimeError(f"model not ready, please call `model.prepare()` before `{method}`")

    def _reset_metrics(self) -> None:
        for metric in self._metrics:
            metric.reset()

    def _metrics_name(self) -> list[str]:
        names = [] if self._loss is None else ["loss"]
        for metric in self._metrics:
            names.extend(listed(metric.name()))
        return names


@contextmanager
def _ending_cleanly(model: Model, calls: CallbackList) -> Iterator[None]:
    """Leaves no half of a step behind when a run is interrupted, or fails."""
    try:
        yield
    except BaseException as error:
        model._reset_metrics()
        # Gradients that wait for a step which does not come.
        model.network.clear_gradients()
        if isinstance(error, KeyboardInterrupt):
            calls.on_interrupt()
        raise
    finally:
        model._steps_left = None


def _no_grad() -> Any:
    from ..framework import no_grad

    return no_grad()


def _two_sizes(batch_size: Any) -> tuple[int, int]:
    """The sizes of batches of training and of evaluation."""
    sizes = list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * 2
    if len(sizes) != 2 or not all(isinstance(size, int) for size in sizes):
        raise ValueError(
            "`batch_size` must be a number, or two: of training and of evaluation; "
            f"not {batch_size!r}"
        )
    return sizes[0], sizes[1]


def _checked_iterations(num_iters: int | None) -> int | None:
    if num_iters is not None and num_iters <= 0:
        raise ValueError("num_iters must be greater than 0!")
    return num_iters


def _steps_of(loader: Iterable[Any]) -> int | None:
    """How many batches there will be, where that is known."""
    try:
        return len(loader)  # type: ignore[arg-type]
    except (TypeError, AttributeError, NotImplementedError, RuntimeError):
        return None


def _without_ending(path: str) -> str:
    path, ending = os.path.splitext(path)
    if ending not in ("", ".pdparams", ".pdopt", ".pdmodel"):
        # A dot of the name itself.
        return path + ending
    return path


__getattr__ = missing_names(__name__)
