"""`DataFeeder`: lists of samples become the arrays that a program's data variables want."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import _core


class DataFeeder:
    """Turns a batch of samples into a feed for `Executor.run`.

    `feed_list` names the data variables in the order of a sample's fields. `place` may be anything:
    the executor brings feeds to its device.

    >>> import bireme
    >>> from bireme.fluid.data_feeder import DataFeeder
    >>> bireme.enable_static()
    >>> x = bireme.static.data("feeder_x", [None, 2], "float32")
    >>> DataFeeder([x], bireme.CPUPlace()).feed([([1, 2],), ([3, 4],)])["feeder_x"].shape
    (2, 2)
    >>> bireme.disable_static()
    """

    def __init__(self, feed_list: Sequence[Any], place: Any, program: Any = None) -> None:
        self.place = place
        self._columns = [_Column(_variable(entry, program)) for entry in feed_list]
        self.feed_names = [column.name for column in self._columns]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """The feed of a batch: an array for each variable, a LoDTensor where its data is ragged."""
        samples = list(iterable)
        for position, sample in enumerate(samples):
            if len(sample) != len(self._columns):
                raise ValueError(
                    f"sample {position} has {len(sample)} fields but `feed_list` has "
                    f"{len(self._columns)} variables: {', '.join(self.feed_names)}"
                )
        fields = zip(*samples) if samples else [() for _ in self._columns]
        return {column.name: column.convert(field) for column, field in zip(self._columns, fields)}


class _Column:
    """One data variable and how its values are made of the fields of samples."""

    def __init__(self, variable: Any) -> None:
        self.name = variable.name
        self._shape = [int(size) for size in variable.shape]
        self._dtype = np.dtype("uint16" if variable.dtype == "bfloat16" else variable.dtype.name)
        self._lod_level = variable.lod_level

    def convert(self, values: Sequence[Any]) -> Any:
        if self._lod_level == 0:
            return self._shaped(self._array(values))
        lod: list[list[int]] = []
        for _ in range(self._lod_level):
            lod.append([0, *np.cumsum([len(value) for value in values]).tolist()])
            values = [part for value in values for part in value]
        tensor = _core.LoDTensor()
        tensor.set(self._shaped(self._array(values)), self._cpu())
        tensor.set_lod(lod)
        return tensor

    def _array(self, values: Sequence[Any]) -> np.ndarray:
        try:
            found = np.asarray(values)
            array = found.astype(self._dtype, copy=False)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"the data for `{self.name}` can't become an array of {self._dtype}: {error}"
            ) from error
        whole_number_wanted = self._dtype.kind in "iu" and found.dtype.kind == "f"
        if whole_number_wanted and not np.array_equal(array, found):
            raise ValueError(
                f"the data for `{self.name}` has fractions, but the variable is {self._dtype}"
            )
        return array

    def _shaped(self, array: np.ndarray) -> np.ndarray:
        wanted = self._shape
        if array.ndim != len(wanted) and sum(size < 0 for size in wanted) <= 1:
            if array.size == 0:
                return array.reshape([max(size, 0) for size in wanted])
            try:
                array = array.reshape(wanted)
            except ValueError:
                raise self._mismatch(array) from None
        # A batch dimension is the executor's to check: a last batch may be smaller.
        for known, found in list(zip(wanted, array.shape))[1:]:
            if known >= 0 and known != found:
                raise self._mismatch(array)
        return array

    def _mismatch(self, array: np.ndarray) -> ValueError:
        return ValueError(
            f"the data for `{self.name}` has shape {list(array.shape)}, "
            f"but the variable has {self._shape}"
        )

    def _cpu(self) -> Any:
        return _core.CPUPlace()


def _variable(entry: Any, program: Any) -> Any:
    if isinstance(entry, str):
        program = program or _core.default_main_program()
        return program.global_block().var(entry)
    if not isinstance(entry, _core.Variable):
        raise TypeError(
            f"`feed_list` must hold variables or their names, got {type(entry).__name__}"
        )
    return entry
