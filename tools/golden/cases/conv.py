"""Convolutions: every padding, stride, dilation, grouping and layout."""

from golden import Case, f32, f64

OUT = ["Output"]


def conv(input, filter, attrs=None, op="conv2d"):
    return Case(op, {"Input": input, "Filter": filter}, attrs, outputs=OUT)


CASES = [
    conv(f32(2, 2, 4, 4), f32(3, 2, 3, 3)),
    conv(f32(2, 2, 4, 3), f32(3, 2, 3, 2), {"paddings": [1, 0]}),
    conv(f32(1, 2, 4, 5), f32(2, 2, 2, 3), {"paddings": [1, 0, 2, 1], "strides": [2, 3]}),
    conv(f32(1, 1, 5, 6), f32(2, 1, 2, 3), {"dilations": [2, 2], "paddings": [1, 1]}),
    conv(f32(2, 4, 3, 3), f32(4, 2, 2, 2), {"groups": 2}),
    conv(f32(1, 2, 5, 4), f32(2, 2, 3, 2), {"padding_algorithm": "SAME", "strides": [2, 1]}),
    # SAME sets dilations to 1.
    conv(f32(1, 2, 4, 4), f32(2, 2, 3, 3), {"padding_algorithm": "SAME", "dilations": [2, 2]}),
    conv(f32(1, 2, 4, 4), f32(2, 2, 3, 3), {"padding_algorithm": "VALID", "paddings": [1, 1]}),
    conv(f32(2, 3, 2, 3), f32(4, 3, 1, 1)),
    conv(f32(2, 4, 2, 3), f32(2, 2, 1, 1), {"groups": 2}),
    conv(f32(1, 2, 3, 3), f32(2, 2, 1, 1), {"strides": [2, 2]}),
    conv(f32(1, 2, 2, 3), f32(2, 2, 1, 1), {"paddings": [1, 0]}),
    conv(f64(2, 2, 3, 3), f64(2, 2, 2, 2), {"paddings": [1, 1]}),
    conv(f32(2, 4, 4, 2), f32(3, 2, 3, 3), {"data_format": "NHWC", "paddings": [1, 1]}),
    conv(f32(2, 2, 3, 4), f32(4, 2, 1, 1), {"data_format": "NHWC", "groups": 2}),
    conv(f32(1, 3, 4, 4), f32(2, 2, 2, 2), {"data_format": "NHWC", "groups": 2, "strides": [1, 2]}),
    conv(f32(3, 2, 1, 5), f32(4, 2, 1, 3), {"paddings": [0, 1]}),
    # One channel in each group.
    conv(f32(2, 3, 4, 3), f32(6, 1, 2, 2), {"groups": 3, "paddings": [1, 0]}),
    # A text, and windows over words.
    conv(f32(2, 1, 5, 3), f32(6, 1, 2, 3), {"paddings": [1, 0]}),
    conv(f32(2, 1, 5, 2), f32(1, 1, 3, 2), {"strides": [2, 1]}),
    conv(f32(2, 2, 4, 5), f32(2, 1, 3, 3), {"groups": 2, "paddings": [1, 1]}, "depthwise_conv2d"),
    conv(f32(1, 2, 5, 6), f32(4, 1, 3, 2), {"groups": 2, "strides": [2, 3]}, "depthwise_conv2d"),
    conv(f32(1, 2, 5, 5), f32(2, 1, 2, 2), {"groups": 2, "dilations": [2, 2], "paddings": [1, 1]},
         "depthwise_conv2d"),
    conv(f32(1, 4, 3, 2), f32(2, 1, 2, 3), {"groups": 2, "padding_algorithm": "SAME",
                                            "data_format": "NHWC"}, "depthwise_conv2d"),
]
