//! Convolution: layouts, groups, strides, gaps, paddings, and no images at all.

use bireme_ir::DType;

use crate::nets::net;

/// Images `[count, channels, height, width]`, filters and their side, groups, stride, padding and dilation.
struct Conv {
    images: [usize; 4],
    filters: usize,
    side: usize,
    groups: i32,
    stride: i32,
    padding: i32,
    dilation: i32,
    algorithm: &'static str,
}

const PLAIN: Conv = Conv {
    images: [2, 3, 7, 6],
    filters: 4,
    side: 3,
    groups: 1,
    stride: 1,
    padding: 1,
    dilation: 1,
    algorithm: "EXPLICIT",
};

const CASES: [Conv; 11] = [
    PLAIN,
    Conv { images: [3, 4, 8, 8], filters: 6, groups: 2, stride: 2, ..PLAIN },
    Conv { images: [1, 2, 9, 9], side: 2, padding: 0, dilation: 2, ..PLAIN },
    Conv { images: [2, 3, 5, 5], filters: 5, side: 1, padding: 0, ..PLAIN },
    Conv { stride: 2, algorithm: "SAME", ..PLAIN },
    Conv { stride: 2, algorithm: "VALID", ..PLAIN },
    Conv { filters: 3, groups: 3, ..PLAIN },
    Conv { filters: 6, groups: 3, stride: 2, ..PLAIN },
    Conv { images: [0, 3, 7, 7], ..PLAIN },
    Conv { images: [2, 1, 5, 5], filters: 8, side: 5, padding: 0, ..PLAIN },
    Conv { images: [3, 2, 6, 6], filters: 1, ..PLAIN },
];

fn check(conv: &Conv, layout: &str, dtype: DType) {
    let [count, channels, height, width] = conv.images;
    let is_last = layout == "NHWC";
    let images = if is_last { [count, height, width, channels] } else { conv.images };
    let filter = [conv.filters, channels / conv.groups as usize, conv.side, conv.side];
    let net = net("conv2d").of(dtype).attr("data_format", layout).attr("groups", conv.groups);
    let net = net.attr("strides", vec![conv.stride; 2]).attr("paddings", vec![conv.padding; 2]);
    let net = net.attr("dilations", vec![conv.dilation; 2]);
    let net = net.attr("padding_algorithm", conv.algorithm).out(["Output"]);
    let limit = if matches!(dtype, DType::F32 | DType::F64) { 1.0 } else { 0.3 };
    net.real("Input", &images, -limit, limit).real("Filter", &filter, -limit, limit).check();
}

#[test]
fn convolutions_with_channels_first() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        CASES.iter().for_each(|conv| check(conv, "NCHW", dtype));
    }
}

#[test]
fn convolutions_with_channels_last() {
    for dtype in [DType::F32, DType::F64] {
        CASES.iter().for_each(|conv| check(conv, "NHWC", dtype));
    }
}
