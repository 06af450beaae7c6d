//! Rows in the order of Paddle's text files.

use bireme_engine::accessor::{CtrClass, DELTA_SCORE, SLOT, UNSEEN_DAYS, count, set_count};

use super::ctr::Ctr;

/// A column of Paddle's text, and where it lies in a record.
enum Field {
    /// One number of the record.
    One(usize),
    /// A count, which a record may keep in two numbers.
    Count(std::ops::Range<usize>),
    /// Some numbers of the record.
    Some(std::ops::Range<usize>),
    /// How long the long part is.
    Length,
}

impl Ctr {
    /// The fields of the short part, and those of the long one.
    fn fields(&self) -> [Vec<Field>; 2] {
        let counts = [Field::Count(self.show.clone()), Field::Count(self.click.clone())];
        let days = [Field::One(UNSEEN_DAYS), Field::One(DELTA_SCORE)];
        let embed = [Field::One(self.embed), Field::Some(self.embed_state.clone())];
        let (weights, state) =
            (Field::Some(self.embedx.clone()), Field::Some(self.embedx_state.clone()));
        let slot = Field::One(SLOT);
        match self.config.class {
            CtrClass::CtrCommonAccessor | CtrClass::SparseAccessor => [
                [slot].into_iter().chain(days).chain(counts).chain(embed).collect(),
                vec![weights, state],
            ],
            CtrClass::CtrDoubleAccessor => [
                days.into_iter().chain(counts).chain(embed).chain([slot]).collect(),
                vec![state, weights],
            ],
            CtrClass::CtrDymfAccessor => {
                let end = [slot, Field::Length];
                [
                    days.into_iter().chain(counts).chain(embed).chain(end).collect(),
                    vec![state, weights],
                ]
            }
        }
    }

    pub(super) fn text_of(&self, record: &[f32], numbers: &mut Vec<f32>) {
        let has_long = record[self.has_embedx()] != 0.0
            && self.score_of(record) >= f64::from(self.config.embedx_threshold);
        let parts = if has_long { 2 } else { 1 };
        for field in self.fields().into_iter().take(parts).flatten() {
            match field {
                Field::One(at) => numbers.push(record[at]),
                Field::Count(at) => numbers.push(count(&record[at]) as f32),
                Field::Some(range) => numbers.extend_from_slice(&record[range]),
                Field::Length => {
                    numbers.push(if has_long { self.embedx.len() as f32 } else { 0.0 })
                }
            }
        }
    }

    pub(super) fn parse_text(&self, mut numbers: &[f32], record: &mut [f32]) -> Result<(), String> {
        let given = numbers.len();
        let wide = |field: &Field| if let Field::Some(range) = field { range.len() } else { 1 };
        let [short, long] = self.fields();
        let short_width = short.iter().map(wide).sum::<usize>();
        let long_width = long.iter().map(wide).sum::<usize>();
        let has_long = given == short_width + long_width;
        if given != short_width && !has_long {
            return Err(format!(
                "a row has {given} numbers, but this table's have {short_width} or {}",
                short_width + long_width
            ));
        }
        for field in short.into_iter().chain(long.into_iter().filter(|_| has_long)) {
            let (now, rest) = numbers.split_at(wide(&field));
            match field {
                Field::One(at) => record[at] = now[0],
                Field::Count(range) => set_count(&mut record[range], f64::from(now[0])),
                Field::Some(range) => record[range].copy_from_slice(now),
                Field::Length => {}
            }
            numbers = rest;
        }
        record[self.has_embedx()] = f32::from(u8::from(has_long));
        Ok(())
    }
}
