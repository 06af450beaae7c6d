//! Where a variable is cut: Paddle's `slice_variable`, in whole rows.

/// A run of consecutive elements of a variable; whole rows of one with two dimensions or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its number among the slices of the variable.
    pub index: usize,
    /// The first element.
    pub offset: i64,
    /// The number of elements.
    pub size: i64,
}

impl Slice {
    /// The shape of this slice of a variable of `shape`.
    pub fn shape(&self, shape: &[i64]) -> Vec<i64> {
        match shape {
            [] => Vec::new(),
            [_, row @ ..] => {
                let mut dims = vec![self.size / width(shape)];
                dims.extend_from_slice(row);
                dims
            }
        }
    }

    /// Paddle's text for a slice of `name`.
    pub fn text(&self, name: &str) -> String {
        format!("{name}:{}:{}", self.index, self.size)
    }
}

/// Cuts a variable of `shape` into at most `slice_count` slices of at least `min_block_size`
/// elements, as evenly as whole rows allow. They cover it exactly, in order.
pub fn slice_variable(shape: &[i64], slice_count: usize, min_block_size: i64) -> Vec<Slice> {
    let elements = elements(shape);
    let most = (elements / min_block_size.max(1)).max(1);
    let count = most.min(i64::try_from(slice_count).unwrap_or(i64::MAX)).max(1);
    let mut block = div_ceil(elements, count).max(1);
    if shape.len() >= 2 {
        let width = width(shape);
        block = div_ceil(block, width).saturating_mul(width);
    }
    let count = div_ceil(elements, block).max(1);
    let slice = |index: i64| {
        let offset = index * block;
        Slice { index: index as usize, offset, size: block.min(elements - offset) }
    };
    (0..count).map(slice).collect()
}

/// Elements of a tensor; as many as can be counted when a program claims more.
pub(crate) fn elements(shape: &[i64]) -> i64 {
    shape.iter().fold(1i64, |all, dim| all.saturating_mul((*dim).max(0)))
}

/// Elements in a row.
pub(crate) fn width(shape: &[i64]) -> i64 {
    elements(shape.get(1..).unwrap_or_default()).max(1)
}

/// Rounds up; both are positive, or `a` is 0.
fn div_ceil(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(shape: &[i64], slices: usize, min: i64) -> Vec<i64> {
        slice_variable(shape, slices, min).iter().map(|slice| slice.size).collect()
    }

    #[test]
    fn paddles_vectors() {
        assert_eq!(sizes(&[1000, 1000], 2, 8192), [500_000, 500_000]);
        assert_eq!(sizes(&[1000], 2, 8192), [1000]);
        assert_eq!(sizes(&[1000, 1000], 2, 1_048_576), [1_000_000]);
        let slices = slice_variable(&[1000, 1000], 2, 8192);
        assert_eq!(slices[1].shape(&[1000, 1000]), [500, 1000]);
        assert_eq!(slices[1].text("fc_w"), "fc_w:1:500000");
    }

    #[test]
    fn rows_stay_whole() {
        // 3 slices of 6,667 elements would cut rows: 7 rows each, so the third has 6.
        assert_eq!(sizes(&[20, 1000], 3, 5000), [7000, 7000, 6000]);
        // Rounding up may leave less for fewer slices than asked for.
        assert_eq!(sizes(&[5, 8192], 4, 8192), [16384, 16384, 8192]);
        assert_eq!(sizes(&[0, 9], 4, 8192), [0]);
    }

    proptest! {
        #[test]
        fn slices_cover_exactly(
            shape in prop::collection::vec(1i64..60, 1..4), slices in 1usize..30, min in 1i64..9000,
        ) {
            let cut = slice_variable(&shape, slices, min);
            prop_assert!(cut.len() <= slices);
            let mut next = 0;
            for (index, slice) in cut.iter().enumerate() {
                prop_assert_eq!((slice.index, slice.offset), (index, next));
                prop_assert!(slice.size > 0 && slice.size % width(&shape) == 0);
                prop_assert_eq!(slice.shape(&shape).iter().product::<i64>(), slice.size);
                next += slice.size;
            }
            prop_assert_eq!(next, shape.iter().product::<i64>());
        }
    }
}
