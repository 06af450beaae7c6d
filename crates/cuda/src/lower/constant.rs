//! Constants as the bits of elements, for kernels that only move them.

use bireme_engine::dispatch;
use bireme_engine::tensor::Element;
use bireme_ir::DType;

use super::{Outcome, host};

/// The bits of `value` as an element of type `dtype`; of the 16-bit floats 0 and 1 alone.
pub(super) fn bits(dtype: DType, value: f64) -> Outcome<u64> {
    if value == 0.0 && value.is_sign_positive() {
        return Ok(0);
    }
    match dtype {
        DType::F16 if value == 1.0 => return Ok(0x3c00),
        DType::BF16 if value == 1.0 => return Ok(0x3f80),
        _ => {}
    }
    let mut bits = [0; 8];
    dispatch!(dtype, T in [f32, f64, i32, i64, u8, i8, i16] => {
        bits[..dtype.size()].copy_from_slice(bytemuck::bytes_of(&T::from_f64(value)));
        Ok(u64::from_le_bytes(bits))
    }, else => host())
}
