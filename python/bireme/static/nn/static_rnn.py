"""`StaticRNN`: a loop over the first dimension of its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import _core
from ...tensor.array import array_write, create_array
from ...tensor.manipulation import tensor_array_to_tensor
from ..program import Variable
from .blocks import append_loop, building, current_block, write

__all__ = ["StaticRNN"]

_ops = _core.ops


class StaticRNN:
    """A loop over the first dimension of its inputs, with memories that go from step to step.

    >>> import numpy
    >>> paddle.enable_static()
    >>> x = paddle.static.data("x", [4, None, 3])
    >>> rnn = paddle.static.nn.StaticRNN()
    >>> with rnn.step():
    ...     now = rnn.step_input(x)
    ...     total = rnn.memory(shape=[-1, 3], batch_ref=now)
    ...     both = total + now
    ...     rnn.update_memory(total, both)
    ...     rnn.step_output(both)
    >>> out = rnn()
    >>> ones = numpy.ones([4, 2, 3], "float32")
    >>> exe = paddle.static.Executor()
    >>> exe.run(feed={"x": ones}, fetch_list=[out])[0][:, 0, 0].tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    def __init__(self, name: str | None = None) -> None:
        self._around: Any = None
        self._block: Any = None
        self._counter: Any = None
        self._inputs: list[Any] = []
        self._memories: dict[str, Any] = {}
        self._updates: dict[str, Any] = {}
        self._arrays: list[Any] = []
        self._outputs: list[Any] | None = None

    @contextmanager
    def step(self) -> Iterator[None]:
        """The ops that are appended meanwhile are those of one step."""
        if self._block is not None:
            raise ValueError("a `StaticRNN` has one step")
        self._around = current_block()
        self._counter = _ops.fill_constant(shape=[1], dtype="int64", value=0.0)
        go = self._around.create_var(name=_core.unique_name("_flow"), shape=[1], dtype="bool")
        with building() as block:
            self._block = block
            yield
            self._finish(go)
        if not self._inputs:
            raise ValueError(
                "a `StaticRNN` needs at least one `step_input`: it says how many steps"
            )
        _ops.less_than(*self._before(), _into={"Out": go})
        append_loop(go, block)
        stack = [tensor_array_to_tensor(array, 0, use_stack=True)[0] for array in self._arrays]
        self._outputs = stack

    def _before(self) -> tuple[Any, Any]:
        """The counter before the first step, and the number of steps."""
        return self._counter, self._steps()

    def _steps(self) -> Any:
        length = self._inputs[0].shape[0]
        return _ops.fill_constant(shape=[1], dtype="int64", value=float(length))

    def _finish(self, go: Any) -> None:
        unwritten = [name for name in self._memories if name not in self._updates]
        if unwritten:
            raise ValueError(
                f"memory `{unwritten[0]}` is not written: call `update_memory` with it"
            )
        if not self._inputs:
            return
        pairs = [(self._memories[name], value) for name, value in self._updates.items()]
        copies = [_ops.assign(value) for _, value in pairs]
        for (memory, _), value in zip(pairs, copies):
            write(value, memory)
        _ops.increment(self._counter, step=1.0, _into={"Out": self._counter})
        _ops.less_than(self._counter, self._steps(), _into={"Out": go})

    def _check_step(self, what: str) -> None:
        inside = self._block is not None and current_block() == self._block
        if not inside:
            raise ValueError(f"`{what}` must be called inside of `with rnn.step()`")

    def step_input(self, x: Any) -> Any:
        """The part of `x` that belongs to this step."""
        self._check_step("step_input")
        if not isinstance(x, Variable) or not x.shape or x.shape[0] < 1:
            raise ValueError("`step_input` takes a variable whose first dimension is known")
        if self._inputs and self._inputs[0].shape[0] != x.shape[0]:
            sizes = f"{self._inputs[0].shape[0]} and {x.shape[0]}"
            raise ValueError(f"the inputs of a `StaticRNN` have as many steps each, not {sizes}")
        self._inputs.append(x)
        part = _ops.gather(x, self._counter, axis=0)
        return _ops.squeeze2(part, axes=[0], _outputs=["Out"])

    def memory(
        self,
        init: Any = None,
        shape: Any = None,
        batch_ref: Any = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Any:
        """A variable that keeps its value from step to step: `init` in the first one.

        Without `init` it is filled with `init_value`; its shape is `shape`, whose batch is that of
        `batch_ref`, a variable of the step.
        """
        self._check_step("memory")
        program = _core.default_main_program()
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("`memory` needs `init`, or `shape` and `batch_ref`")
            init = self._filled(list(shape), init_value, init_batch_dim_idx)
        program._rollback()
        try:
            memory = _ops.assign(init)
            memory.stop_gradient = False
        finally:
            program._enter_block(self._block.idx)
        self._memories[memory.name] = memory
        return memory

    def _filled(self, shape: list[int], value: float, batch_at: int) -> Any:
        program = _core.default_main_program()
        if not self._inputs:
            raise ValueError("call `step_input` before `memory(shape=..., batch_ref=...)`")
        program._rollback()
        try:
            if all(size >= 0 for size in shape):
                return _ops.fill_constant(shape=shape, dtype="float32", value=value)
            return _ops.fill_constant_batch_size_like(
                self._inputs[0],
                shape=shape,
                dtype="float32",
                value=value,
                input_dim_idx=1,
                output_dim_idx=batch_at,
            )
        finally:
            program._enter_block(self._block.idx)

    def update_memory(self, mem: Any, var: Any) -> None:
        """Has memory `mem` hold `var` in the next step."""
        self._check_step("update_memory")
        if mem.name not in self._memories:
            raise ValueError(f"`{mem.name}` is no memory of this `StaticRNN`")
        self._updates[mem.name] = var

    def step_output(self, o: Any) -> None:
        """Makes `o` a part of the results, one for each step."""
        self._check_step("step_output")
        program = _core.default_main_program()
        program._rollback()
        try:
            array = create_array(o.dtype)
        finally:
            program._enter_block(self._block.idx)
        self._arrays.append(array_write(o, self._counter, array))

    def output(self, *outputs: Any) -> None:
        """`step_output` of each."""
        for each in outputs:
            self.step_output(each)

    def __call__(self) -> Any:
        """The results of all steps, stacked along a new first dimension."""
        if self._outputs is None:
            raise ValueError("the results of a `StaticRNN` are there when its step has ended")
        if not self._outputs:
            raise ValueError("the `StaticRNN` has no `step_output`")
        return self._outputs[0] if len(self._outputs) == 1 else self._outputs
