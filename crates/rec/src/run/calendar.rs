//! Days and passes of a stream: `train_data_dir/20190720/0005`. Rust's trainers and Python's have
//! the same.

use std::fmt;

/// A day, written `20190720`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    year: u32,
    month: u32,
    day: u32,
}

impl Day {
    /// The day of a number such as 20190720.
    pub fn parse(number: usize) -> Option<Day> {
        let number = u32::try_from(number).ok()?;
        let day = Day { year: number / 10_000, month: number / 100 % 100, day: number % 100 };
        let exists = (1000..=9999).contains(&day.year)
            && (1..=12).contains(&day.month)
            && (1..=day.days_of_month()).contains(&day.day);
        exists.then_some(day)
    }

    /// The day after it.
    pub fn next(self) -> Day {
        if self.day < self.days_of_month() {
            return Day { day: self.day + 1, ..self };
        }
        match self.month {
            12 => Day { year: self.year + 1, month: 1, day: 1 },
            month => Day { month: month + 1, day: 1, ..self },
        }
    }

    fn days_of_month(self) -> u32 {
        let leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}{:02}", self.year, self.month, self.day)
    }
}

/// The folders of each pass of a day: `0000`, `0005`, …
///
/// As in PaddleRec, minutes at the end of a day that make no whole folder, and folders that make no
/// whole pass, belong to none.
pub fn passes(split_interval: usize, split_per_pass: usize) -> Vec<Vec<String>> {
    const DAY: usize = 24 * 60;
    let interval = split_interval.max(1);
    let folder = |number: usize| {
        let minute = number * interval;
        format!("{:02}{:02}", minute / 60, minute % 60)
    };
    let folders: Vec<String> = (0..DAY / interval).map(folder).collect();
    folders.chunks_exact(split_per_pass.max(1)).map(<[String]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other() {
        let next = |day| Day::parse(day).unwrap().next().to_string();
        assert_eq!(next(20_190_731), "20190801");
        assert_eq!(next(20_191_231), "20200101");
        assert_eq!(next(20_200_228), "20200229");
        assert_eq!(next(21_000_228), "21000301");
        assert_eq!(Day::parse(20_190_732), None);
        assert_eq!(Day::parse(7), None);
    }

    #[test]
    fn a_day_is_cut_into_passes() {
        let passes = passes(5, 2);
        assert_eq!(
            (passes.len(), passes[1].as_slice()),
            (144, &["0010".into(), "0015".into()][..])
        );
        assert_eq!(super::passes(60, 24).len(), 1);
        assert_eq!(super::passes(60, 25).len(), 0);
        // Three folders of 8 hours make one pass of two.
        assert_eq!(super::passes(480, 2), [["0000", "0800"]]);
        assert_eq!(super::passes(7, 1).last().unwrap(), &["2348"]);
    }
}
