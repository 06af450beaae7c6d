"""What a `Model` is fed with: loaders of data sets, flat batches, and descriptions of inputs."""

from __future__ import annotations

import inspect
from typing import Any

from .._missing import missing_names

__all__ = ["checked_specs", "count_of_inputs", "flat", "loader_of"]


def flat(batch: Any) -> list[Any]:
    """The fields of a batch, however they are nested.

    >>> from bireme.hapi.inputs import flat
    >>> flat(([1, 2], {"b": 4, "a": 3}))
    [1, 2, 3, 4]
    """
    if isinstance(batch, dict):
        return [field for name in sorted(batch) for field in flat(batch[name])]
    if isinstance(batch, (list, tuple)):
        return [field for part in batch for field in flat(part)]
    return [batch]


def loader_of(data: Any, batch_size: int, shuffle: bool, drop_last: bool, num_workers: int) -> Any:
    """Something that yields batches: of a data set a loader, in a job of the share of this process.

    >>> from bireme.hapi.inputs import loader_of
    >>> len(loader_of(paddle.io.TensorDataset([paddle.ones([5, 2])]), 2, False, False, 0))
    3
    """
    from ..io import DataLoader, Dataset, DistributedBatchSampler, IterableDataset

    if not isinstance(data, Dataset):
        return data
    if isinstance(data, IterableDataset):
        return DataLoader(data, batch_size=batch_size, drop_last=drop_last, num_workers=num_workers)
    sampler = DistributedBatchSampler(
        data, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last
    )
    return DataLoader(data, batch_sampler=sampler, num_workers=num_workers)


def count_of_inputs(inputs: Any, network: Any) -> int | None:
    """How many fields of a batch are inputs: as many as are described, or as `forward` takes.

    `None` where `forward` takes any number.

    >>> from bireme.hapi.inputs import count_of_inputs
    >>> count_of_inputs(None, paddle.nn.Linear(1, 1))
    1
    """
    if inputs is not None:
        return len(inputs) if isinstance(inputs, (list, tuple, dict)) else 1
    parameters = inspect.signature(network.forward).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in kinds for one in parameters)


def checked_specs(specs: Any, network: Any) -> list[Any] | None:
    """Descriptions of inputs as a list, in the order of the arguments of `forward`."""
    from ..static import InputSpec

    if specs is None:
        return None
    if isinstance(specs, dict):
        names = [name for name in inspect.signature(network.forward).parameters if name in specs]
        listed = [specs[name] for name in names]
    else:
        listed = list(specs) if isinstance(specs, (list, tuple)) else [specs]
    for number, spec in enumerate(listed):
        if not isinstance(spec, InputSpec):
            raise TypeError(
                f"`inputs` and `labels` of a `Model` are `InputSpec`s, not `{type(spec).__name__}`"
            )
        if spec.name is None:
            raise ValueError(
                f"Requires Input[{number}].name != None, but receive `None` with {spec}."
            )
    return listed


__getattr__ = missing_names(__name__)
