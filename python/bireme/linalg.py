"""Linear algebra: `paddle.linalg`.

Decompositions (svd, qr, eig, inverse, ...) are not there: no kernel computes them yet.
"""

from .tensor.linalg import cov, matrix_power, multi_dot, norm

__all__ = ["cov", "matrix_power", "multi_dot", "norm"]
