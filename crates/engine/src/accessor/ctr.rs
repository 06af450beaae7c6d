//! Paddle's accessors: a record is `[slot, unseen_days, delta_score, show, click, embed_w,
//! embed_state…, embedx_w…, embedx_state…, has_embedx]`; `embedx` is the long part.
//!
//! The double accessor keeps shows and clicks as two numbers each, whose sum is the count.
//!
//! A lent record is `[mark, pushed shows, pushed clicks, record…]`. Where the long part was not made
//! yet, it holds the first values of that part, which nobody reads before; the pushed shows and
//! clicks are those of the step that is under way, and zeros otherwise.

use std::ops::Range;

use super::{CtrClass, CtrConfig, Entry, Mark};

/// Where a record has its slot.
pub const SLOT: usize = 0;
/// Where a record counts the days since its last push.
pub const UNSEEN_DAYS: usize = 1;
/// Where a record has the score of its pushes since it was last saved.
pub const DELTA_SCORE: usize = 2;

/// One of Paddle's accessors, with the places of its columns.
#[derive(Clone, Debug)]
pub struct Ctr {
    /// Its settings.
    pub config: CtrConfig,
    /// The shows from which on a key is admitted.
    pub least_shows: Option<u64>,
    /// Columns of a pull.
    pub width: usize,
    /// Shows.
    pub show: Range<usize>,
    /// Clicks.
    pub click: Range<usize>,
    /// The first weight.
    pub embed: usize,
    /// What the rule of the first weight keeps.
    pub embed_state: Range<usize>,
    /// The long part.
    pub embedx: Range<usize>,
    /// What the rule of the long part keeps.
    pub embedx_state: Range<usize>,
}

impl Ctr {
    /// Numbers of a lent record before the record.
    pub const LENT_HEAD: usize = 3;
    /// Where a lent record has the shows and clicks of the step that is under way.
    pub const PUSHED: Range<usize> = 1..3;

    /// The accessor of a table whose pulls have `width` columns.
    ///
    /// # Errors
    /// When that is less than the accessor gives.
    pub fn new(config: CtrConfig, entry: &Entry, width: usize) -> Result<Ctr, String> {
        let head = config.class.head();
        let Some(dim) = width.checked_sub(head) else {
            return Err(format!("{:?} needs at least {head} columns, not {width}", config.class));
        };
        let numbers = if config.class == CtrClass::CtrDoubleAccessor { 2 } else { 1 };
        let show = 3..3 + numbers;
        let click = show.end..show.end + numbers;
        let embed = click.end;
        let embed_state = embed + 1..embed + 1 + config.embed.state_width(1);
        let embedx = embed_state.end..embed_state.end + dim;
        let embedx_state = embedx.end..embedx.end + config.embedx.state_width(dim);
        let least_shows = match entry {
            Entry::CountFilter(least) => Some(*least),
            _ => None,
        };
        Ok(Ctr {
            config,
            least_shows,
            width,
            show,
            click,
            embed,
            embed_state,
            embedx,
            embedx_state,
        })
    }

    /// Numbers of a record.
    pub fn record_width(&self) -> usize {
        self.embedx_state.end + 1
    }

    /// Numbers of a lent record.
    pub fn lent_width(&self) -> usize {
        Ctr::LENT_HEAD + self.record_width()
    }

    /// Where a record says whether its long part was made.
    #[inline]
    pub fn has_embedx(&self) -> usize {
        self.embedx_state.end
    }

    /// The score of so many shows and clicks.
    #[inline]
    pub fn score(&self, show: f64, click: f64) -> f64 {
        (show - click) * f64::from(self.config.nonclk_coeff)
            + click * f64::from(self.config.click_coeff)
    }

    /// How often the key was shown and clicked.
    pub fn shows_and_clicks(&self, record: &[f32]) -> [f64; 2] {
        [&self.show, &self.click].map(|at| count(&record[at.clone()]))
    }

    /// The score of a record.
    #[inline]
    pub fn score_of(&self, record: &[f32]) -> f64 {
        let [show, click] = self.shows_and_clicks(record);
        self.score(show, click)
    }

    /// Whether the key was shown often enough to be read and trained.
    #[inline]
    pub fn admitted(&self, record: &[f32]) -> bool {
        self.least_shows.is_none_or(|least| count(&record[self.show.clone()]) >= least as f64)
    }

    /// Writes what a pull of this record gives.
    #[inline]
    pub fn pull(&self, record: &[f32], out: &mut [f32]) {
        if !self.admitted(record) {
            out.fill(0.0);
            return;
        }
        let (head, long) = out.split_at_mut(self.config.class.head());
        if let [show, click, _] = head {
            [*show, *click] = self.shows_and_clicks(record).map(|count| count as f32);
        }
        head[head.len() - 1] = record[self.embed];
        // A long part that was not made yet is zeros in the record.
        long.copy_from_slice(&record[self.embedx.clone()]);
    }

    /// Takes a gradient of the pulled columns; those of shows and clicks are not weights, so their
    /// gradients mean nothing. `first_values` fills in a long part that is made now.
    #[inline]
    pub fn push(
        &self,
        record: &mut [f32],
        grads: &[f32],
        [shows, clicks]: [f32; 2],
        first_values: impl FnOnce(&mut [f32]),
    ) {
        add_count(&mut record[self.show.clone()], shows);
        add_count(&mut record[self.click.clone()], clicks);
        record[DELTA_SCORE] += self.score(f64::from(shows), f64::from(clicks)) as f32;
        record[UNSEEN_DAYS] = 0.0;
        if !self.admitted(record) {
            return;
        }
        let scale = if self.config.show_scale { shows } else { 1.0 };
        let (head, long) = grads.split_at(self.config.class.head());
        let rule = &self.config.embed;
        let (weight, rest) = record[self.embed..self.embed_state.end].split_at_mut(1);
        rule.update(weight, rest, &head[head.len() - 1..], scale);
        if record[self.has_embedx()] != 0.0 {
            let both = &mut record[self.embedx.start..self.embedx_state.end];
            let (weights, state) = both.split_at_mut(self.embedx.len());
            self.config.embedx.update(weights, state, long, scale);
        } else if self.score_of(record) >= f64::from(self.config.embedx_threshold) {
            first_values(&mut record[self.embedx.clone()]);
            self.config.embedx.start(&mut record[self.embedx_state.clone()]);
            record[self.has_embedx()] = 1.0;
        }
    }

    /// Writes what a pull of a lent record gives.
    pub fn pull_lent(&self, lent: &[f32], out: &mut [f32]) {
        let record = &lent[Ctr::LENT_HEAD..];
        if Mark::of(lent[0]) != Mark::Made {
            out.fill(0.0);
            return;
        }
        self.pull(record, out);
        if record[self.has_embedx()] == 0.0 {
            out[self.config.class.head()..].fill(0.0);
        }
    }

    /// As [`Ctr::push`], to a lent record, whose long part has its first values.
    pub fn push_lent(&self, lent: &mut [f32], grads: &[f32], counts: [f32; 2]) {
        if Mark::of(lent[0]) == Mark::Refused {
            return;
        }
        lent[0] = Mark::Made.number();
        self.push(&mut lent[Ctr::LENT_HEAD..], grads, counts, |_| {});
    }
}

/// A count of one number or of two that are its sum.
#[inline]
pub fn count(numbers: &[f32]) -> f64 {
    numbers.iter().map(|number| f64::from(*number)).sum()
}

/// The other way round: the second number has what the first cannot hold.
#[inline]
pub fn set_count(numbers: &mut [f32], mut count: f64) {
    for number in numbers {
        *number = count as f32;
        count -= f64::from(*number);
    }
}

#[inline]
fn add_count(numbers: &mut [f32], more: f32) {
    set_count(numbers, count(numbers) + f64::from(more));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accessor::{SparseRule, SparseRuleKind};

    #[test]
    fn a_lent_record_changes_as_the_record_does() {
        let kind = SparseRuleKind::AdaGrad { initial_g2sum: 3.0 };
        let rule =
            SparseRule { kind, learning_rate: 0.5, initial_range: 0.01, bounds: [-10.0, 10.0] };
        for class in [
            CtrClass::CtrCommonAccessor,
            CtrClass::CtrDoubleAccessor,
            CtrClass::SparseAccessor,
            CtrClass::CtrDymfAccessor,
        ] {
            let config =
                CtrConfig { embedx_threshold: 2.0, ..CtrConfig::unconfigured(class, rule) };
            let ctr = Ctr::new(config, &Entry::CountFilter(3), class.head() + 2).unwrap();
            let mut record = vec![0.0; ctr.record_width()];
            let mut lent = vec![0.0; ctr.lent_width()];
            lent[Ctr::LENT_HEAD..][ctr.embedx.clone()].copy_from_slice(&[0.25, 0.5]);
            let grads: Vec<f32> = (0..ctr.width).map(|at| at as f32 - 1.5).collect();
            for counts in [[2.0, 0.0], [2.0, 0.0], [3.0, 2.0], [1.0, 0.0]] {
                ctr.push(&mut record, &grads, counts, |to| to.copy_from_slice(&[0.25, 0.5]));
                ctr.push_lent(&mut lent, &grads, counts);
                let (mut given, mut expected) = (vec![9.0; ctr.width], vec![8.0; ctr.width]);
                ctr.pull_lent(&lent, &mut given);
                ctr.pull(&record, &mut expected);
                assert_eq!(given, expected);
            }
            assert_eq!(record, lent[Ctr::LENT_HEAD..]);
            assert_eq!((record[ctr.has_embedx()], lent[0]), (1.0, 1.0));
            lent.fill(0.0);
            lent[0] = Mark::Refused.number();
            ctr.push_lent(&mut lent, &grads, [100.0, 100.0]);
            assert_eq!(lent[1..], vec![0.0; ctr.lent_width() - 1]);
        }
    }
}
