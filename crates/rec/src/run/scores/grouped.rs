//! Metrics of groups of samples, a user's say: how well each group is in order.

use bireme_engine::tensor::Tensor;

use crate::run::metrics::auc_of;

/// A metric of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The AUC of each group that has labels of both kinds, weighted by its samples.
    Gauc,
    /// The share of groups with a 1 that have one among the first so many.
    HitRate(usize),
    /// Discounted gain of the first so many over the best there could be, a mean over groups with a 1.
    Ndcg(usize),
}

impl Kind {
    pub(super) fn named(name: &str) -> Option<Kind> {
        if name == "gauc" {
            return Some(Kind::Gauc);
        }
        let (name, most) = name.split_once('@')?;
        let most = most.parse().ok().filter(|most| *most > 0)?;
        match name {
            "hr" => Some(Kind::HitRate(most)),
            "ndcg" => Some(Kind::Ndcg(most)),
            _ => None,
        }
    }
}

/// A sample: its group, what was predicted, and what was so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) group: u64,
    pub(super) score: f32,
    pub(super) label: f32,
}

/// The groups of a batch's samples: ids, or the bits of numbers.
pub(super) fn keys(tensor: &Tensor) -> Vec<u64> {
    match tensor.as_slice::<i64>() {
        Ok(ids) => ids.iter().map(|id| *id as u64).collect(),
        Err(_) => tensor.to_f64_vec().into_iter().map(f64::to_bits).collect(),
    }
}

/// All samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Grouped {
    samples: Vec<Judged>,
}

impl Grouped {
    pub(super) fn add(&mut self, judged: Judged) {
        self.samples.push(judged);
    }

    /// For other trainers.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.samples.len() * 16);
        for Judged { group, score, label } in &self.samples {
            bytes.extend(group.to_le_bytes());
            bytes.extend(score.to_le_bytes());
            bytes.extend(label.to_le_bytes());
        }
        bytes
    }

    /// The samples of all trainers.
    pub(super) fn of_parts(parts: &[Vec<u8>]) -> Grouped {
        let four = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let judged = |bytes: &[u8]| {
            let mut group = [0; 8];
            group.copy_from_slice(&bytes[..8]);
            let group = u64::from_le_bytes(group);
            Judged { group, score: four(&bytes[8..]), label: four(&bytes[12..]) }
        };
        Grouped {
            samples: parts.iter().flat_map(|part| part.chunks_exact(16)).map(judged).collect(),
        }
    }

    /// Not a number where no group counts.
    pub(super) fn value(&self, kind: Kind) -> f64 {
        let mut samples = self.samples.clone();
        // Those that are predicted alike come as the data has them, the same in every run.
        samples.sort_by(|a, b| a.group.cmp(&b.group).then(b.score.total_cmp(&a.score)));
        let (mut total, mut weights) = (0.0, 0.0);
        for group in samples.chunk_by(|a, b| a.group == b.group) {
            if let Some((value, weight)) = of_group(kind, group) {
                (total, weights) = (total + value * weight, weights + weight);
            }
        }
        total / weights
    }
}

/// The value of a group, best prediction first, and how much it counts; none where it does not.
fn of_group(kind: Kind, group: &[Judged]) -> Option<(f64, f64)> {
    let is_one = |judged: &Judged| judged.label >= 0.5;
    let ones = group.iter().filter(|judged| is_one(judged)).count();
    match kind {
        Kind::Gauc => {
            let labels: Vec<u8> = group.iter().map(|judged| u8::from(is_one(judged))).collect();
            let scores: Vec<f32> = group.iter().map(|judged| judged.score).collect();
            Some((auc_of(&labels, &scores)?, group.len() as f64))
        }
        _ if ones == 0 => None,
        Kind::HitRate(most) => {
            let hit = group.iter().take(most).any(is_one);
            Some((f64::from(u8::from(hit)), 1.0))
        }
        Kind::Ndcg(most) => {
            let gain = |place: usize| 1.0 / (place as f64 + 2.0).log2();
            let found = group.iter().take(most).enumerate().filter(|(_, judged)| is_one(judged));
            let found: f64 = found.map(|(place, _)| gain(place)).sum();
            let best: f64 = (0..ones.min(most)).map(gain).sum();
            Some((found / best, 1.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped() -> Grouped {
        let mut grouped = Grouped::default();
        for (group, score, label) in [
            (1, 0.9, 0.0),
            (1, 0.8, 1.0),
            (2, 0.3, 1.0),
            (1, 0.1, 0.0),
            (2, 0.2, 0.0),
            // Only zeros: it says nothing about the order.
            (3, 0.5, 0.0),
        ] {
            grouped.add(Judged { group, score, label });
        }
        grouped
    }

    #[test]
    fn groups_are_judged_by_their_order() {
        let grouped = grouped();
        // Group 1 has half of its pairs right, group 2 all; three samples and two.
        assert_eq!(grouped.value(Kind::Gauc), (0.5 * 3.0 + 1.0 * 2.0) / 5.0);
        assert_eq!(grouped.value(Kind::HitRate(1)), 0.5);
        assert_eq!(grouped.value(Kind::HitRate(2)), 1.0);
        let second = 1.0 / 3.0_f64.log2();
        assert!((grouped.value(Kind::Ndcg(2)) - (second + 1.0) / 2.0).abs() < 1e-12);
        assert_eq!(grouped.value(Kind::Ndcg(1)), 0.5);
        assert!(Grouped::default().value(Kind::Gauc).is_nan());
    }

    #[test]
    fn trainers_have_the_same_from_parts() {
        let whole = grouped();
        let halves = whole.samples.split_at(3);
        let part = |samples: &[Judged]| Grouped { samples: samples.to_vec() }.to_bytes();
        let both = Grouped::of_parts(&[part(halves.0), part(halves.1)]);
        assert_eq!(both.samples, whole.samples);
        assert_eq!(Kind::named("hr@10"), Some(Kind::HitRate(10)));
        assert_eq!(Kind::named("hr@0"), None);
    }
}
