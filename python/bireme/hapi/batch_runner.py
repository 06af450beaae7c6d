"""What a `Model` does with one batch: forward, loss, backward, step and metrics, in eager mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._missing import missing_names

__all__ = ["BatchRunner", "listed"]

_LEVELS = ("O0", "O1", "O2")
_LISTS = ("custom_white_list", "custom_black_list", "custom_black_varnames")
_SCALING = (
    "init_loss_scaling",
    "incr_ratio",
    "decr_ratio",
    "incr_every_n_steps",
    "decr_every_n_nan_or_inf",
    "use_dynamic_loss_scaling",
)


def listed(values: Any) -> list[Any]:
    """One value, or several, or none, as a list.

    >>> from bireme.hapi.batch_runner import listed
    >>> listed(None), listed(1), listed((1, 2))
    ([], [1], [1, 2])
    """
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


class BatchRunner:
    """Runs batches of a `Model`, in a job of several processes together with the others."""

    def __init__(self, model: Any) -> None:
        from ..distributed import ParallelEnv

        self.model = model
        #: The factor of the loss in mixed precision.
        self.scaler: Any = None
        #: What inputs look like, as the last batch had them.
        self.specs: list[Any] | None = None
        self._level = "O0"
        self._lists: dict[str, Any] = {}
        self._ranks = ParallelEnv().nranks
        self._parallel: Any = None
        # Samples of an evaluation in a job: all, those so far, and of the last batch.
        self._total: int | None = None
        self._seen = 0
        self._last = 0

    def prepare(self, amp_configs: Any) -> None:
        """Sets the level of mixed precision."""
        from .. import amp

        self._level, self._lists, scaling = _precision(amp_configs)
        self.scaler = None
        if self._level == "O0":
            return
        self.scaler = amp.GradScaler(**scaling)
        if self._level == "O2" and self.model._optimizer is not None:
            amp.decorate(self.model.network, self.model._optimizer, level="O2")

    def train(self, inputs: Any, labels: Any, update: bool) -> Any:
        """One step of training, or its gradients alone."""
        from .. import amp
        from ..tensor import add_n

        model = self.model
        if model._optimizer is None or model._loss is None:
            raise RuntimeError(
                "model not ready, please call `model.prepare()` with an optimizer and a loss first"
            )
        model.network.train()
        model.mode = "train"
        fields, labels = self._tensors(inputs), _as_tensors(labels)
        with amp.auto_cast(enable=self._level != "O0", level=self._level, **self._lists):
            outputs = listed(self._network()(*fields))
        losses = listed(model._loss(*outputs, *labels))
        loss = add_n(losses) if len(losses) > 1 else losses[0]
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        loss.backward()
        if update:
            if self.scaler is not None:
                self.scaler.minimize(model._optimizer, loss)
            else:
                model._optimizer.minimize(loss)
            model.network.clear_gradients()
        return self._result(losses, outputs, labels)

    def evaluate(self, inputs: Any, labels: Any) -> Any:
        """Losses and metrics of one batch."""
        model = self.model
        model.network.eval()
        model.mode = "eval"
        fields, labels = self._tensors(inputs), _as_tensors(labels)
        outputs = listed(model.network(*fields))
        losses = [] if model._loss is None else listed(model._loss(*outputs, *labels))
        if self._ranks > 1:
            outputs, labels = self._gathered(outputs, labels)
        return self._result(losses, outputs, labels)

    def predict(self, inputs: Any) -> list[Any]:
        """Outputs of one batch."""
        self.model.network.eval()
        self.model.mode = "test"
        outputs = listed(self.model.network(*self._tensors(inputs)))
        return [np.asarray(output) for output in outputs]

    def begin_evaluation(self, loader: Any) -> None:
        """Samples are counted from here, for those that fill up the shares of processes."""
        try:
            self._total = len(loader.dataset)
        except (AttributeError, TypeError, NotImplementedError):
            self._total = None
        self._seen = 0

    def samples(self, field: Any, mode: str) -> int:
        """How many samples the batch had in all processes."""
        if mode == "eval" and self._ranks > 1 and self._total is not None:
            return self._last
        shape = field.shape
        return (int(shape[0]) if len(shape) else 1) * self._ranks

    def _network(self) -> Any:
        """The network, in a job one whose gradients are averaged."""
        from ..distributed import DataParallel

        if self._ranks == 1:
            return self.model.network
        if self._parallel is None:
            self._parallel = DataParallel(self.model.network)
        return self._parallel

    def _gathered(self, outputs: list[Any], labels: list[Any]) -> tuple[list[Any], list[Any]]:
        """What all processes have, without the samples that only fill up their shares."""
        outputs = [_of_all_processes(one) for one in outputs]
        labels = [_of_all_processes(one) for one in labels]
        if self._total is not None:
            self._last = min(int(outputs[0].shape[0]), self._total - self._seen)
            self._seen += self._last
            outputs = [one[: self._last] for one in outputs]
            labels = [one[: self._last] for one in labels]
        return outputs, labels

    def _result(self, losses: list[Any], outputs: list[Any], labels: list[Any]) -> Any:
        metrics = []
        for metric in self.model._metrics:
            computed = metric.compute(*outputs, *labels)
            metrics.append(metric.update(*[_array(one) for one in listed(computed)]))
        values = [np.asarray(loss) for loss in losses]
        if not self.model._metrics:
            return values
        return (values, metrics) if losses else metrics

    def _tensors(self, inputs: Any) -> list[Any]:
        from ..static import InputSpec

        tensors = _as_tensors(inputs)
        # The size of a batch stays open: a saved model is for batches of any size.
        self.specs = [
            InputSpec([None, *one.shape[1:]], one.dtype, f"input_{number}")
            for number, one in enumerate(tensors)
        ]
        return tensors


def _precision(configs: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The level, the lists of ops and the settings of the scaler that `amp_configs` says."""
    if not configs:
        return "O0", {}, {}
    if isinstance(configs, str):
        configs = {"level": configs}
    level = configs.get("level", "O1")
    if level not in _LEVELS:
        raise ValueError(f"the level of `amp_configs` should be 'O0', 'O1' or 'O2', not {level!r}")
    if "use_fp16_guard" in configs:
        raise ValueError("'use_fp16_guard' is supported in static graph mode only.")
    unknown = sorted(set(configs) - {"level", *_LISTS, *_SCALING})
    if unknown:
        raise ValueError(f"`amp_configs` has no {unknown}; it takes {sorted((*_LISTS, *_SCALING))}")
    if configs.get("custom_black_varnames"):
        raise ValueError("`custom_black_varnames` names variables of programs: eager mode has none")
    lists = {name: configs[name] for name in _LISTS[:2] if name in configs}
    return level, lists, {name: configs[name] for name in _SCALING if name in configs}


def _as_tensors(values: Any) -> list[Any]:
    return [
        one if isinstance(one, _core.Tensor) else _core.to_tensor(np.asarray(one))
        for one in listed(values)
    ]


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, _core.Tensor) else value


def _of_all_processes(tensor: Any) -> Any:
    from ..distributed import all_gather
    from ..tensor import concat

    parts: list[Any] = []
    all_gather(parts, tensor)
    return concat(parts)


__getattr__ = missing_names(__name__)
