"""`DataParallel`: a model that every process has, trained on the data of all."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _core
from ..nn.layer.common import Embedding
from ..nn.layer.layers import Layer
from .communication.group import Group, all_processes, group_of

_MEGABYTE = 1 << 20


class DataParallel(Layer):
    """A model whose gradients are averaged over the processes of a job.

    All processes start with the parameters and buffers of the first. In the backward pass gradients
    travel in buckets of up to `comm_buffer_size` MB (the first: `last_comm_buffer_size`), while the
    gradients of earlier layers are still computed; when it ends, every process has the averages,
    and the optimizer does the same everywhere. In a job of one process it is the model.

    Every parameter must have a part in the loss, unless `find_unused_parameters` says otherwise.

    >>> model = paddle.DataParallel(paddle.nn.Linear(2, 1))
    >>> model(paddle.ones([4, 2])).mean().backward()
    >>> [parameter.grad.tolist() for parameter in model.parameters()]
    [[[1.0], [1.0]], [1.0]]
    """

    def __init__(
        self,
        layers: Layer,
        strategy: Any = None,
        comm_buffer_size: float = 25,
        last_comm_buffer_size: float = 1,
        find_unused_parameters: bool = False,
        group: Group | None = None,
    ) -> None:
        if not isinstance(layers, Layer):
            raise TypeError(f"`layers` must be a Layer, not {type(layers).__name__}")
        if not _core.in_dynamic_mode():
            raise RuntimeError("It's not supported to construct DataParallel in static graph mode.")
        if strategy is not None:
            raise NotImplementedError("`strategy` is not in this version: leave it out")
        super().__init__(layers.full_name() + "_data_parallel")
        self._layers = layers
        self.find_unused_parameters = find_unused_parameters
        self.grad_need_sync = True
        self.group = all_processes() if group is None else group_of(group)
        self._reducer: Any = None
        if not self.group.is_member():
            raise RuntimeError(f"this process is no member of the group {self.group.name}")
        if self.group.nranks > 1:
            self._start(int(comm_buffer_size * _MEGABYTE), int(last_comm_buffer_size * _MEGABYTE))

    def _start(self, bucket_bytes: int, first_bytes: int) -> None:
        tensors = [*self._layers.parameters(), *self._layers.buffers()]
        shared = [tensor for tensor in tensors if not getattr(tensor, "no_sync", False)]
        self.group.process_group.synchronize(shared, 0)
        sparse = {
            id(layer.weight)
            for layer in self._layers.sublayers(include_self=True)
            if isinstance(layer, Embedding) and layer._sparse
        }
        parameters = [
            parameter
            for parameter in self._layers.parameters()
            if not parameter.stop_gradient and not getattr(parameter, "no_sync", False)
        ]
        if not parameters:
            raise ValueError(
                "This model does not have any parameters to train, and does not need to use"
                " DataParallel"
            )
        self._reducer = _core.GradReducer(
            self.group.process_group,
            parameters,
            [id(parameter) in sparse for parameter in parameters],
            bucket_bytes,
            first_bytes,
            self.find_unused_parameters,
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the model makes of its inputs."""
        outputs = self._layers(*inputs, **kwargs)
        if self._reducer is not None and _core.is_grad_enabled():
            self._reducer.arm(self.grad_need_sync)
        return outputs

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forward passes within it have gradients of this process alone, to be added up.

        >>> model = paddle.DataParallel(paddle.nn.Linear(2, 1))
        >>> with model.no_sync():
        ...     model(paddle.ones([4, 2])).mean().backward()
        >>> [parameter.grad.tolist() for parameter in model.parameters()]
        [[[1.0], [1.0]], [1.0]]
        """
        before, self.grad_need_sync = self.grad_need_sync, False
        try:
            yield
        finally:
            self.grad_need_sync = before

    def scale_loss(self, loss: Any) -> Any:
        """Returns the loss: gradients are averaged anyway."""
        _warn_deprecated("scale_loss")
        return loss

    def apply_collective_grads(self) -> None:
        """Does nothing: gradients are averaged by the backward pass."""
        _warn_deprecated("apply_collective_grads")

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the model, so that it can be loaded without `DataParallel` too.

        >>> list(paddle.DataParallel(paddle.nn.Linear(2, 1)).state_dict())
        ['weight', 'bias']
        """
        return self._layers.state_dict(*args, **kwargs)

    def set_state_dict(self, state_dict: Any, use_structured_name: bool = True) -> Any:
        """That of the model."""
        return self._layers.set_state_dict(state_dict, use_structured_name)

    set_dict = load_dict = set_state_dict


def _warn_deprecated(method: str) -> None:
    text = f"`DataParallel.{method}` does not need to be called anymore"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
