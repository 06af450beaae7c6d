//! Kernels for both float types, written once.

use bireme_ir::DType;

use crate::Error;

/// A kernel written over `T`, which is `f32` or `f64` as the input in a slot says:
/// `float_kernel!(op, "X", |run, T| { … })`.
macro_rules! float_kernel {
    ($op:expr, $slot:expr, |$run:ident, $T:ident| $body:block) => {{
        let typed = $op.input($slot)?;
        let kernel: $crate::op::Kernel = Box::new(move |$run: &$crate::op::Run<'_>| {
            let dtype = $run.value(typed).dtype();
            $crate::dispatch!(dtype, $T in [f32, f64] => {
                $body
                Ok(())
            }, else => Err($crate::op::not_float($slot, dtype)))
        });
        Ok(kernel)
    }};
}

pub(crate) use float_kernel;

/// The error of a float kernel that was given something else in slot `slot`.
pub(crate) fn not_float(slot: &str, dtype: DType) -> Error {
    Error::kernel(format!("`{slot}` must be float32 or float64, not {dtype}"))
}
