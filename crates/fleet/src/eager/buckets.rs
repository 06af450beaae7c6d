//! Which gradients travel together.
//!
//! Gradients become known from the last layer to the first, so that is the order of the buckets; a
//! bucket leaves as soon as its gradients are known. Small ones share a bucket, because a message
//! costs the same up to some size; a large one has a bucket of its own, where it is reduced in
//! place.

use bireme_ir::DType;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A bucket is full at this size. 25 MiB.
    pub bucket: usize,
    /// The same for the first bucket, which leaves early. 1 MiB.
    pub first: usize,
    /// A gradient of this size has a bucket of its own. 64 KiB.
    pub alone: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bucket: 25 << 20, first: 1 << 20, alone: 64 << 10 }
    }
}

/// What a bucket depends on, of one parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) dtype: DType,
    pub(super) bytes: usize,
    pub(super) is_sparse: bool,
}

/// Gradients that travel together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Numbers of parameters.
    pub(super) members: Vec<usize>,
    pub(super) is_sparse: bool,
}

/// The buckets for parameters in the order of their layers.
pub(super) fn buckets(sizes: &[Size], limits: Limits) -> Vec<Bucket> {
    let mut buckets = Vec::new();
    // Small gradients that wait for company, by type; types are few.
    let mut open: Vec<(DType, usize, Vec<usize>)> = Vec::new();
    for (number, size) in sizes.iter().enumerate().rev() {
        if size.is_sparse || size.bytes >= limits.alone {
            buckets.push(Bucket { members: vec![number], is_sparse: size.is_sparse });
            continue;
        }
        let at = open.iter().position(|(dtype, ..)| *dtype == size.dtype).unwrap_or_else(|| {
            open.push((size.dtype, 0, Vec::new()));
            open.len() - 1
        });
        let (_, bytes, members) = &mut open[at];
        *bytes += size.bytes;
        members.push(number);
        let limit = if buckets.is_empty() { limits.first } else { limits.bucket };
        if *bytes >= limit {
            *bytes = 0;
            buckets.push(Bucket { members: std::mem::take(members), is_sparse: false });
        }
    }
    let rest = open.into_iter().filter(|(_, _, members)| !members.is_empty());
    buckets.extend(rest.map(|(_, _, members)| Bucket { members, is_sparse: false }));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(kilobytes: usize) -> Size {
        Size { dtype: DType::F32, bytes: kilobytes << 10, is_sparse: false }
    }

    fn members(sizes: &[Size]) -> Vec<Vec<usize>> {
        let made = buckets(sizes, Limits::default());
        made.into_iter().map(|bucket| bucket.members).collect()
    }

    #[test]
    fn the_last_layer_comes_first_and_large_gradients_alone() {
        // The weights and biases of an MLP 784-200-200-10.
        let mlp = [dense(612), dense(1), dense(156), dense(1), dense(8), dense(1)];
        assert_eq!(members(&mlp), [vec![2], vec![0], vec![5, 4, 3, 1]]);
    }

    #[test]
    fn types_are_not_mixed() {
        let half = Size { dtype: DType::F16, bytes: 10, is_sparse: false };
        assert_eq!(members(&[dense(1), half, dense(1), half]), [vec![3, 1], vec![2, 0]]);
    }

    #[test]
    fn a_full_bucket_is_closed() {
        let many = vec![dense(60); 40];
        let made = members(&many);
        // 1 MiB is reached with the 18th.
        assert_eq!(made[0], (22..40).rev().collect::<Vec<_>>());
        assert_eq!(made[1], (0..22).rev().collect::<Vec<_>>());
    }

    #[test]
    fn rows_travel_alone() {
        let sparse = Size { is_sparse: true, ..dense(1) };
        let made = buckets(&[dense(1), sparse, dense(1)], Limits::default());
        let is_sparse: Vec<bool> = made.iter().map(|bucket| bucket.is_sparse).collect();
        assert_eq!(is_sparse, [true, false]);
        assert_eq!(made[0].members, [1]);
    }
}
