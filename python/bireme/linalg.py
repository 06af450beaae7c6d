"""Linear algebra: the functions of `paddle.linalg` that Bireme has.

Decompositions (svd, qr, eig, inverse, ...) are not there: no kernel computes them yet.

>>> import bireme as paddle
>>> paddle.linalg.norm(paddle.to_tensor([3.0, 4.0])).item()
5.0
"""

from ._missing import missing_names
from .tensor.linalg import cov, matrix_power, multi_dot, norm

__all__ = ["cov", "matrix_power", "multi_dot", "norm"]

__getattr__ = missing_names(__name__)
