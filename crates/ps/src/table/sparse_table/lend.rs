//! Records that a trainer holds during a pass: lent to it, and taken back as it leaves them.

use bireme_engine::accessor::Mark;

use super::{Anyone, SparseTable};
use crate::Result;
use crate::table::shard::{Maker, Missing};

impl SparseTable {
    pub(super) fn lend_records(&self, keys: &[u64], out: &mut [f32]) -> Result<()> {
        let width = self.accessor.lent_width();
        self.check_len(keys, out.len(), width, "numbers")?;
        let mut blank = vec![0.0; self.record_width()];
        self.visit::<false>(keys, &Missing::Skip, |position, key, record| {
            let lent = &mut out[position * width..][..width];
            match record {
                Some(record) => self.accessor.lend(key, Mark::Made, record, lent),
                None => {
                    blank.fill(0.0);
                    self.accessor.blank(key, &mut blank);
                    self.accessor.lend(key, self.mark_of_missing(key), &blank, lent);
                }
            }
        })
    }

    /// What becomes of a key that has no row.
    fn mark_of_missing(&self, key: u64) -> Mark {
        let config = self.config();
        if !self.admits(key) {
            Mark::Refused
        } else if config.create_on_pull && config.entry.made_by_pull() {
            Mark::Made
        } else {
            Mark::NotMade
        }
    }

    pub(super) fn take_records(&self, keys: &[u64], records: &[f32]) -> Result<()> {
        let width = self.accessor.lent_width();
        self.check_len(keys, records.len(), width, "numbers")?;
        let made =
            |place: &usize| self.accessor.mark_of(&records[place * width..][..width]) == Mark::Made;
        let places: Vec<usize> = (0..keys.len()).filter(made).collect();
        let kept: Vec<u64> = places.iter().map(|place| keys[*place]).collect();
        self.visit::<true>(&kept, &Missing::Make(&Anyone(self)), |position, _, record| {
            if let Some(record) = record {
                self.accessor.take_back(&records[places[position] * width..][..width], record);
            }
        })
    }
}
