"""Wrong calls that type checkers must find; never run, but read by mypy with the package.

Each has a comment that expects the error: where a name had become `Any`, the comment would be
unused, which mypy refuses.
"""

import bireme
import bireme.nn.functional as F
from bireme import fluid, nn, optimizer, static


def wrong() -> None:
    bireme.add(bireme.ones([1]))  # type: ignore[call-arg]
    bireme.concat([], sideways=1)  # type: ignore[call-arg]
    F.relu()  # type: ignore[call-arg]
    nn.Linear("2", 3)  # type: ignore[arg-type]
    nn.Layer(1, 2, 3)  # type: ignore[call-arg,arg-type]
    optimizer.Adam(speed=1)  # type: ignore[call-arg]
    static.Executor().run(fetch=1)  # type: ignore[call-arg]
    fluid.layers.fc()  # type: ignore[call-arg]
