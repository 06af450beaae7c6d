//! What a step takes of a card's memory, for people.

use std::fmt;
use std::sync::Arc;

use super::DeviceMemory;

/// Is told what a step takes of a card's memory.
pub type OnMemory = Arc<dyn Fn(&MemoryPlan) + Send + Sync>;

/// What a step takes of a card's memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The card.
    pub device: String,
    /// What the card has, where that can be asked.
    pub memory: Option<DeviceMemory>,
    /// Rows of the batch; 0 where feeds have none in common.
    pub batch: usize,
    /// Parameters, and other variables that outlive a step.
    pub parameters: usize,
    /// What optimizers keep.
    pub state: usize,
    /// How much of the two is on the card already.
    pub there: usize,
    /// Feeds of a step, and of the next one.
    pub feeds: usize,
    /// One block for all that lives for a part of the step, in which what is never alive together overlaps. Where a
    /// sixteenth of a card's free memory is enough for it, nothing overlaps, and it is larger.
    pub arena: usize,
    /// Results of ops, at the moment that needs most of the arena.
    pub activations: usize,
    /// Memory of kernels beside their variables, at that moment.
    pub scratch: usize,
    /// Runs of ops on the card, between which the host has something to do.
    pub segments: Vec<SegmentMemory>,
    /// Variables whose rows lie side by side with those of others that are updated with them.
    pub in_lines: Vec<String>,
    /// Tables that stay on the host, since the card has no memory for them: name and size.
    pub at_home: Vec<(String, usize)>,
}

/// A run of ops on a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMemory {
    /// How many.
    pub ops: usize,
    /// The type of the first.
    pub first: String,
    /// The type of the last.
    pub last: String,
    /// The most of the arena that is used while it runs.
    pub bytes: usize,
}

impl MemoryPlan {
    /// All that the step uses.
    pub fn total(&self) -> usize {
        self.parameters + self.state + self.feeds + self.arena
    }

    /// What is not on the card yet.
    pub fn missing(&self) -> usize {
        self.total().saturating_sub(self.there)
    }

    /// A line about tables that stay on the host, if there are any.
    pub fn says_at_home(&self) -> Option<String> {
        let (name, _) = self.at_home.first()?;
        let bytes = self.at_home.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let others = match self.at_home.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        Some(format!(
            "the card has no memory for `{name}`{others} ({}): what looks up and updates its rows runs on the host",
            Bytes(bytes)
        ))
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (parameters {}, optimizer state {}, feeds {}, activations {}, scratch {})",
            Bytes(self.total()),
            Bytes(self.parameters),
            Bytes(self.state),
            Bytes(self.feeds),
            Bytes(self.activations),
            Bytes(self.scratch)
        )?;
        match self.memory {
            Some(DeviceMemory { free, total }) => {
                write!(f, ", of which {} are not there yet", Bytes(self.missing()))?;
                write!(f, "; {} of {} are free", Bytes(free), Bytes(total))
            }
            None => Ok(()),
        }
    }
}

/// A number of bytes, for people.
struct Bytes(usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut size = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while size >= 1024.0 && unit + 1 < UNITS.len() {
            size /= 1024.0;
            unit += 1;
        }
        write!(f, "{size:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_one_line() {
        let plan = MemoryPlan {
            memory: Some(DeviceMemory { free: 5 << 30, total: 8 << 30 }),
            parameters: 3 << 30,
            state: 1 << 30,
            there: 1 << 30,
            arena: 3 << 20,
            feeds: 100,
            activations: 2 << 20,
            scratch: 1536,
            at_home: vec![("table".to_owned(), 9 << 30), ("moment".to_owned(), 9 << 30)],
            ..MemoryPlan::default()
        };
        assert_eq!(
            plan.to_string(),
            "4.0 GiB (parameters 3.0 GiB, optimizer state 1.0 GiB, feeds 100 B, activations 2.0 MiB, scratch \
             1.5 KiB), of which 3.0 GiB are not there yet; 5.0 GiB of 8.0 GiB are free"
        );
        assert_eq!(
            plan.says_at_home().unwrap(),
            "the card has no memory for `table` and 1 more (18.0 GiB): what looks up and updates its rows runs on \
             the host"
        );
    }
}
