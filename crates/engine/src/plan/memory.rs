//! Buffers by lifetime: temporaries that are never alive together share memory.

use crate::tensor::ALIGN;

/// A temporary's need for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Its size.
    pub(crate) bytes: usize,
    /// The first op (by position) that touches it.
    pub(crate) first: usize,
    /// The last op that touches it.
    pub(crate) last: usize,
}

/// Where each need lies in one arena, and the arena's size.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    pub(crate) offsets: Vec<usize>,
    pub(crate) bytes: usize,
}

/// Packs needs greedily, the largest first, each at the lowest offset that is free for as long as
/// it lives. Within a few per cent of optimal for step graphs, and quadratic in the number of
/// temporaries, which are hundreds.
pub(crate) fn pack(needs: &[Need]) -> Packing {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(needs[*i].bytes), needs[*i].first));
    let mut offsets = vec![0; needs.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut bytes = 0;
    for i in order {
        let need = needs[i];
        let size = need.bytes.next_multiple_of(ALIGN);
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|j| needs[**j].first <= need.last && need.first <= needs[**j].last)
            .map(|j| (offsets[*j], offsets[*j] + needs[*j].bytes.next_multiple_of(ALIGN)))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (start, end) in taken {
            if offset + size <= start {
                break;
            }
            offset = offset.max(end);
        }
        offsets[i] = offset;
        bytes = bytes.max(offset + size);
        placed.push(i);
    }
    Packing { offsets, bytes }
}

/// Places needs one behind the other: none shares memory, so none waits until another is no longer needed.
pub(crate) fn lay_out(needs: &[Need]) -> Packing {
    let mut bytes = 0;
    let offsets = needs.iter().map(|need| {
        let offset = bytes;
        bytes += need.bytes.next_multiple_of(ALIGN);
        offset
    });
    Packing { offsets: offsets.collect(), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chain_needs_two_buffers() {
        let chain: Vec<Need> =
            (0..10).map(|i| Need { bytes: 100, first: i, last: i + 1 }).collect();
        assert_eq!(pack(&chain).bytes, 2 * 128);
    }

    proptest! {
        #[test]
        fn what_lives_together_lies_apart(spans in prop::collection::vec((1usize..500, 0usize..20, 0usize..10), 1..30)) {
            let needs: Vec<Need> = spans.iter()
                .map(|(bytes, first, len)| Need { bytes: *bytes, first: *first, last: first + len }).collect();
            let packing = pack(&needs);
            for (i, a) in needs.iter().enumerate() {
                prop_assert!(packing.offsets[i] + a.bytes <= packing.bytes);
                for (j, b) in needs.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart = packing.offsets[i] + a.bytes <= packing.offsets[j]
                        || packing.offsets[j] + b.bytes <= packing.offsets[i];
                    prop_assert!(!together || apart);
                }
            }
        }
    }
}
