//! Class labels, and what losses over classes share.

use crate::ops::prelude::*;

/// Class labels, whichever integer type stores them.
#[derive(Clone, Copy)]
pub(super) enum Labels<'a> {
    Long(&'a [i64]),
    Int(&'a [i32]),
}

impl<'a> Labels<'a> {
    /// The labels of `samples` samples.
    pub(super) fn of(tensor: &'a Tensor, samples: usize) -> Result<Labels<'a>> {
        if tensor.numel() != samples {
            return Err(Error::kernel(format!(
                "`Label` has {} entries, but there are {samples} samples",
                tensor.numel()
            )));
        }
        match tensor.dtype() {
            DType::I64 => Ok(Labels::Long(tensor.as_slice()?)),
            DType::I32 => Ok(Labels::Int(tensor.as_slice()?)),
            other => Err(Error::kernel(format!("class labels are int64 or int32, not {other}"))),
        }
    }

    /// The class of sample `sample`; none when it is `ignore`.
    pub(super) fn class(self, sample: usize, classes: usize, ignore: i64) -> Result<Option<usize>> {
        let label = match self {
            Labels::Long(labels) => labels[sample],
            Labels::Int(labels) => i64::from(labels[sample]),
        };
        if label == ignore {
            return Ok(None);
        }
        match usize::try_from(label) {
            Ok(class) if class < classes => Ok(Some(class)),
            _ => Err(Error::kernel(format!(
                "label {label} of sample {sample} lies outside the {classes} classes"
            ))),
        }
    }
}

/// `-ln(x)` with Paddle's stand-in for infinity, so that one impossible sample does not turn a
/// whole batch's mean into infinity; NaN stays NaN, so that a training that went wrong shows it.
pub(super) fn minus_ln<T: Real>(x: T) -> T {
    let limit = T::from_f64(1e20);
    let value = -x.ln();
    if value > limit {
        limit
    } else if value < -limit {
        -limit
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::minus_ln;

    #[test]
    fn infinity_has_a_stand_in_and_nan_stays() {
        assert_eq!([0.0f64, 1.0, f64::INFINITY].map(minus_ln), [1e20, 0.0, -1e20]);
        assert!(minus_ln(f64::NAN).is_nan());
    }
}
