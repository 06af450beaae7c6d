//! Which keys a table admits. A key that is not admitted reads as zeros and is not trained.

use serde::{Deserialize, Serialize};

/// Who may have a row (attribute `entry` of the lookup).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// Every key, from its first pull on.
    #[default]
    Every,
    /// Keys that were pushed this often; a push with counts counts as often as its shows say.
    CountFilter(u64),
    /// This share of the keys. Which keys, the table's seed decides: all servers agree on them.
    Probability(f64),
    /// Every key from its first push on; shows and clicks come with the pushes, from the variables
    /// of these names. The row counts them, and accessors admit the long part of a row by them.
    ShowClick {
        /// The variable of shows.
        show: String,
        /// The variable of clicks.
        click: String,
    },
}

impl Entry {
    /// Reads Paddle's form: `count_filter_entry:10`, `probability_entry:0.5`,
    /// `show_click_entry:show:click`, or nothing.
    ///
    /// # Errors
    /// When the text is none of these, or its number is out of range.
    pub fn parse(text: &str) -> Result<Entry, String> {
        let wrong = |problem: String| format!("entry `{text}`: {problem}");
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [""] | ["none"] => Ok(Entry::Every),
            ["count_filter_entry", count] => count
                .parse()
                .map(Entry::CountFilter)
                .map_err(|_| wrong(format!("`{count}` is no whole number from 0 on"))),
            ["probability_entry", share] => match share.parse() {
                Ok(share) if share > 0.0 && share < 1.0 => Ok(Entry::Probability(share)),
                _ => Err(wrong(format!("`{share}` is no number between 0 and 1"))),
            },
            ["show_click_entry", show, click] if !show.is_empty() && !click.is_empty() => {
                Ok(Entry::ShowClick { show: show.to_owned(), click: click.to_owned() })
            }
            _ => Err(wrong(
                "write `count_filter_entry:N`, `probability_entry:P`, \
                 `show_click_entry:SHOW:CLICK` or nothing"
                    .to_owned(),
            )),
        }
    }

    /// Counters that a row of a plain table keeps for it, at its start.
    pub fn counters(&self) -> usize {
        match self {
            Entry::Every | Entry::Probability(_) => 0,
            Entry::CountFilter(_) => 1,
            Entry::ShowClick { .. } => 2,
        }
    }

    /// Whether a pull makes rows; otherwise only a push does.
    pub fn made_by_pull(&self) -> bool {
        matches!(self, Entry::Every | Entry::Probability(_))
    }

    /// Whether the row with these counters is admitted.
    #[inline(always)]
    pub fn admits(&self, counters: &[f32]) -> bool {
        match self {
            Entry::CountFilter(count) => counters[0] >= *count as f32,
            _ => true,
        }
    }

    /// Counts a push with this many shows and clicks.
    #[inline(always)]
    pub fn count(&self, counters: &mut [f32], [shows, clicks]: [f32; 2]) {
        match self {
            Entry::CountFilter(_) => counters[0] += shows,
            Entry::ShowClick { .. } => {
                counters[0] += shows;
                counters[1] += clicks;
            }
            Entry::Every | Entry::Probability(_) => {}
        }
    }

    /// Makes the counters those of an admitted row.
    pub fn admit(&self, counters: &mut [f32]) {
        if let Entry::CountFilter(count) = self {
            counters[0] = counters[0].max(*count as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paddles_forms_are_read() {
        let parse = |text| Entry::parse(text).unwrap();
        assert_eq!(parse(""), Entry::Every);
        assert_eq!(parse("none"), Entry::Every);
        assert_eq!(parse("count_filter_entry:10"), Entry::CountFilter(10));
        assert_eq!(parse("probability_entry:0.25"), Entry::Probability(0.25));
        let names = Entry::ShowClick { show: "s".into(), click: "c".into() };
        assert_eq!(parse("show_click_entry:s:c"), names);
        for bad in [
            "count_filter_entry:-1",
            "count_filter_entry",
            "probability_entry:1",
            "probability_entry:nan",
            "show_click_entry:s",
            "show_click_entry::c",
            "other:1",
        ] {
            let error = Entry::parse(bad).unwrap_err();
            assert!(error.contains(bad), "{error}");
        }
    }
}
