"""What a dataset is told: batch size, variables, files, the command they are piped through."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from .... import _core

# A pipe command of this form has the named parser of the core read the files itself.
_NATIVE = "native:"
_NATIVE_FORMATS = ("multislot", "slot_value", "criteo")
_REMOTE = ("hdfs:", "afs:")


class DataSettings:
    """The settings of a dataset, checked when they are set.

    >>> settings = DataSettings()
    >>> settings.set_batch_size(32)
    >>> settings.set_batch_size(0)
    Traceback (most recent call last):
    ...
    ValueError: `batch_size` must be a number from 1 on, not 0
    """

    def __init__(self) -> None:
        self.batch_size = 1
        self.thread_num = 1
        self.use_var: list[Any] = []
        self.pipe_command = "cat"
        self.filelist: list[str] = []
        self.parse_ins_id = False
        self.parse_content = False
        self.input_type = 0
        self.skip_bad_lines = 0
        # Bireme's own: the token of each variable in `slot:value` lines.
        self.slot_names: list[str] | None = None

    def set_batch_size(self, batch_size: int) -> None:
        """How many samples a batch has."""
        self.batch_size = _whole("batch_size", batch_size, 1)

    def set_thread_num(self, thread_num: int) -> None:
        """How many files are read at the same time."""
        self.thread_num = _whole("thread_num", thread_num, 0)

    def set_use_var(self, variables: Sequence[Any]) -> None:
        """The variables that a line feeds, in its order."""
        for variable in variables:
            if variable.dtype not in (_core.dtype("float32"), _core.dtype("int64")):
                raise ValueError(
                    "Currently, paddle.distributed.fleet.dataset only supports dtype=float32 and "
                    f"dtype=int64; variable `{variable.name}` is {variable.dtype.name}"
                )
        self.use_var = list(variables)

    def set_pipe_command(self, command: str) -> None:
        """The command that makes lines of a file's content; `cat` for what is in the file."""
        if not isinstance(command, str):
            raise TypeError(f"`pipe_command` must be a string, not {type(command).__name__}")
        name = command.strip().removeprefix(_NATIVE)
        if command.strip().startswith(_NATIVE) and name not in _NATIVE_FORMATS:
            raise ValueError(
                f"`pipe_command` is {command!r}: the parsers of the core are "
                + ", ".join(_NATIVE + known for known in _NATIVE_FORMATS)
            )
        self.pipe_command = command

    def set_filelist(self, files: Iterable[str]) -> None:
        """The files to read; folders and patterns stand for the files in them."""
        if isinstance(files, (str, bytes)):
            raise TypeError("`filelist` must be a list of file names, not a string")
        files = [os.fspath(file) for file in files]
        for file in files:
            if file.startswith(_REMOTE):
                raise NotImplementedError(
                    f"file `{file}`: this version reads local files only; mount or fetch it first"
                )
        self.filelist = files

    def set_input_type(self, input_type: int) -> None:
        """0: a line is a sample; 1: it is a batch, each slot with the values of all its samples."""
        if input_type not in (0, 1):
            raise ValueError(
                f"`input_type` must be 0 (a line is a sample) or 1 (a batch), not {input_type!r}"
            )
        self.input_type = int(input_type)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Where remote files would be; see `set_filelist`."""
        for name, value in (("fs_name", fs_name), ("fs_ugi", fs_ugi)):
            if not isinstance(value, str):
                raise TypeError(f"`{name}` must be a string, not {type(value).__name__}")

    def set_download_cmd(self, command: str) -> None:
        """`cat`: what remote files would be fetched with is not in this version."""
        if command != "cat":
            raise NotImplementedError(
                f"`download_cmd` {command!r} is not in this version: files are read where they lie"
            )

    def for_core(self) -> dict[str, Any]:
        """The settings as the core takes them."""
        if not self.use_var:
            raise ValueError("the dataset has no variables: give `use_var` to `init`")
        command = self.pipe_command.strip()
        native = command.startswith(_NATIVE)
        if native and command != _NATIVE + "multislot" and not self.slot_names:
            # A variable whose name no line has would be padding throughout, and nobody would know.
            raise ValueError(
                f"`pipe_command` {command!r} needs `slot_names`: what each of the"
                f" {len(self.use_var)} variables is called in the lines"
            )
        if native and command != _NATIVE + "multislot" and (self.input_type or self._has_texts()):
            raise ValueError(
                "`input_type`, `parse_ins_id` and `parse_content` are for `MultiSlot` lines, not for"
                f" those of `pipe_command` {command!r}"
            )
        return {
            "files": self.filelist,
            "batch_size": self.batch_size,
            "threads": max(self.thread_num, 1),
            "pipe_command": None if native or command == "cat" else self.pipe_command,
            "format": command.removeprefix(_NATIVE) if native else "multislot",
            "slot_names": self.slot_names or [],
            "parse_ins_id": self.parse_ins_id,
            "parse_content": self.parse_content,
            "lines_are_batches": self.input_type == 1,
            "skip_bad_lines": self.skip_bad_lines,
        }

    def _has_texts(self) -> bool:
        return self.parse_ins_id or self.parse_content

    def description(self, feed: str) -> str:
        """The settings as Paddle's text of a data feed."""
        lines = [f'name: "{feed}"'] if feed else []
        if self.use_var:
            lines += [f"batch_size: {self.batch_size}", "multi_slot_desc {"]
            for variable in self.use_var:
                is_float = variable.dtype == _core.dtype("float32")
                kind = "float" if is_float else "uint64"
                lines += ["  slots {", f'    name: "{variable.name}"', f'    type: "{kind}"']
                dense = variable.lod_level == 0
                lines += [f"    is_dense: {str(dense).lower()}", "    is_used: true"]
                if dense:
                    lines += [f"    shape: {size}" for size in variable.shape]
                lines.append("  }")
            lines.append("}")
        return "\n".join([*lines, f'pipe_command: "{self.pipe_command}"']) + "\n"


def _whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` must be a number from {least} on, not {value!r}")
    return value
