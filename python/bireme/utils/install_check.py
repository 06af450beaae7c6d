"""`run_check`: trains one step in both modes, to see that the installation works."""

from __future__ import annotations

from typing import Any

__all__ = ["run_check"]


def run_check() -> None:
    """Trains a small layer for a step, eager and static, and says that it worked.

    Where there is a GPU, a program is trained there, too.

    >>> import bireme as paddle
    >>> paddle.utils.run_check()  # doctest: +ELLIPSIS
    Running verify Bireme program ...
    Bireme works well on 1 CPU...
    Bireme is installed successfully! Let's start deep learning with Bireme now.
    """
    import bireme

    print("Running verify Bireme program ...")
    was_dynamic, cards = bireme.in_dynamic_mode(), bireme.device.cuda.device_count()
    try:
        _check_eager()
        _check_static(bireme.CPUPlace())
        if cards:
            _check_static(bireme.CUDAPlace(0))
    finally:
        bireme.disable_static() if was_dynamic else bireme.enable_static()
    print(f"Bireme works well on 1 CPU{' and 1 GPU' if cards else ''}.")
    print("Bireme is installed successfully! Let's start deep learning with Bireme now.")


def _check_eager() -> None:
    import bireme

    bireme.disable_static()
    layer = bireme.nn.Linear(2, 1)
    optimizer = bireme.optimizer.SGD(learning_rate=0.1, parameters=layer.parameters())
    before = layer.weight.numpy()
    bireme.mean(layer(bireme.ones([4, 2]))).backward()
    optimizer.step()
    _check_moved("eager", before, layer.weight.numpy())


def _check_static(place: Any) -> None:
    import numpy as np

    import bireme

    bireme.enable_static()
    main, startup, scope = bireme.static.Program(), bireme.static.Program(), bireme.static.Scope()
    with bireme.static.program_guard(main, startup), bireme.static.scope_guard(scope):
        x = bireme.static.data("x", [None, 2], "float32")
        loss = bireme.mean(bireme.static.nn.fc(x, 1))
        bireme.optimizer.SGD(learning_rate=0.1).minimize(loss)
        executor = bireme.static.Executor(place)
        executor.run(startup)
        weight = main.all_parameters()[0].name
        feed = {"x": np.ones([4, 2], "float32")}
        before = np.array(scope.var(weight).get_tensor())
        executor.run(main, feed=feed, fetch_list=[loss])
        _check_moved("static", before, np.array(scope.var(weight).get_tensor()))


def _check_moved(mode: str, before: Any, after: Any) -> None:
    # The gradient of the mean is one: a step of 0.1 moves every weight by as much.
    if abs(before - after - 0.1).max() > 1e-5:
        raise RuntimeError(f"a step of {mode} training moved weights from {before} to {after}")
