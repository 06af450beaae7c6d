//! Rust types that can be tensor elements.

use bireme_ir::DType;
use bytemuck::Pod;
use half::{bf16, f16};

/// A Rust type that stores elements of a [`DType`].
pub trait Element: Pod + Send + Sync + PartialOrd + Default + std::fmt::Debug + 'static {
    /// The element type a new tensor of this type gets.
    const DTYPE: DType;

    /// Whether elements of `dtype` are stored as this type; `u8` stores `bool` too.
    fn stores(dtype: DType) -> bool {
        dtype == Self::DTYPE
    }

    /// Conversion as Paddle's `cast` does it (through `f64`; 64-bit integers have their own path).
    fn from_f64(value: f64) -> Self;

    /// The value as a real number.
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($($t:ty => $dtype:ident),*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

number! { i8 => I8, i16 => I16, i32 => I32, i64 => I64, f32 => F32, f64 => F64 }

impl Element for u8 {
    const DTYPE: DType = DType::U8;
    fn stores(dtype: DType) -> bool {
        matches!(dtype, DType::U8 | DType::Bool)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> u8 {
        value as u8
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f16 {
    const DTYPE: DType = DType::F16;
    #[inline(always)]
    fn from_f64(value: f64) -> f16 {
        f16::from_f64(value)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f16::to_f64(self)
    }
}

impl Element for bf16 {
    const DTYPE: DType = DType::BF16;
    #[inline(always)]
    fn from_f64(value: f64) -> bf16 {
        bf16::from_f64(value)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        bf16::to_f64(self)
    }
}

/// Runs a block with `$T` bound to the Rust type that stores a tensor's elements.
///
/// `dispatch!(dtype, T in [f32, f64] => expression, else => expression)`
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $T:ident in [$($t:ty),+] => $body:expr, else => $other:expr) => {
        match $dtype {
            $(dtype if <$t as $crate::tensor::Element>::stores(dtype) => { type $T = $t; $body })+
            _ => $other,
        }
    };
}
