"""Pooling: windows of every kind, in both layouts."""

from golden import Case, f32, f64


def pool(x, kind, size, attrs=None):
    return Case("pool2d", {"X": x}, {"pooling_type": kind, "ksize": size, **(attrs or {})})


def indexed(x, size, attrs=None):
    return Case("max_pool2d_with_index", {"X": x}, {"ksize": size, **(attrs or {})},
                outputs=["Out", "Mask"], targets=["Out"])


CASES = [
    pool(f32(2, 2, 4, 4), "max", [2, 2], {"strides": [2, 2]}),
    pool(f32(1, 2, 4, 5), "max", [2, 3], {"strides": [1, 2], "paddings": [1, 1]}),
    pool(f32(1, 2, 4, 5), "max", [3, 2], {"strides": [2, 2], "paddings": [1, 0, 0, 1]}),
    pool(f32(1, 2, 5, 5), "max", [2, 2], {"strides": [2, 2], "ceil_mode": True}),
    pool(f32(2, 2, 3, 4), "max", [1, 1], {"global_pooling": True}),
    # No adaptive maximum: Paddle's front never makes one of this op, and its kernel forgets the flag.
    pool(f32(1, 2, 5, 4), "max", [2, 2], {"padding_algorithm": "SAME", "strides": [2, 2]}),
    pool(f32(1, 2, 4, 4), "max", [2, 2], {"padding_algorithm": "VALID", "paddings": [1, 1]}),
    pool(f32(2, 3, 4, 2), "max", [2, 2], {"data_format": "NHWC", "paddings": [1, 0]}),
    pool(f64(1, 1, 4, 4), "max", [2, 2], {"strides": [2, 2]}),
    pool(f32(2, 2, 4, 4), "avg", [2, 2], {"strides": [2, 2]}),
    pool(f32(1, 2, 4, 5), "avg", [2, 3], {"strides": [1, 2], "paddings": [1, 1]}),
    pool(f32(1, 2, 4, 5), "avg", [2, 3], {"paddings": [1, 1], "exclusive": False}),
    pool(f32(1, 1, 4, 5), "avg", [3, 2], {"paddings": [1, 0, 0, 1], "exclusive": False}),
    pool(f32(1, 1, 4, 5), "avg", [3, 2], {"paddings": [1, 0, 0, 1]}),
    pool(f32(1, 2, 5, 5), "avg", [2, 2], {"strides": [2, 2], "ceil_mode": True}),
    pool(f32(1, 2, 5, 5), "avg", [2, 2], {"strides": [2, 2], "ceil_mode": True,
                                          "exclusive": False}),
    pool(f32(1, 1, 4, 4), "avg", [3, 3], {"strides": [2, 2], "ceil_mode": True,
                                          "paddings": [1, 1], "exclusive": False}),
    pool(f32(1, 1, 4, 5), "avg", [2, 3], {"padding_algorithm": "SAME", "exclusive": False}),
    pool(f32(2, 2, 3, 4), "avg", [1, 1], {"global_pooling": True, "paddings": [1, 1]}),
    pool(f32(1, 2, 5, 4), "avg", [2, 3], {"adaptive": True}),
    pool(f32(1, 1, 2, 2), "avg", [3, 3], {"adaptive": True}),
    pool(f32(2, 3, 4, 2), "avg", [2, 2], {"data_format": "NHWC", "strides": [2, 2]}),
    pool(f32(2, 3, 4, 2), "avg", [2, 2], {"data_format": "NHWC", "adaptive": True}),
    pool(f64(1, 1, 4, 4), "avg", [2, 2]),
    indexed(f32(2, 2, 4, 4), [2, 2], {"strides": [2, 2]}),
    indexed(f32(1, 2, 4, 5), [2, 3], {"strides": [1, 2], "paddings": [1, 1]}),
    indexed(f32(1, 2, 5, 4), [2, 3], {"adaptive": True}),
    indexed(f32(2, 1, 3, 4), [1, 1], {"global_pooling": True}),
    indexed(f64(1, 1, 4, 4), [2, 2]),
]
