"""The transpiler and its settings, where Paddle 1.x keeps them."""

from ..._missing import missing_names
from ...distributed.transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
    ServerRuntimeConfig,
)

__all__ = ["DistributeTranspiler", "DistributeTranspilerConfig", "ServerRuntimeConfig"]

__getattr__ = missing_names(__name__)
