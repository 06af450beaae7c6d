//! In what order an epoch has its samples: as the files have them, or another one every epoch that
//! the seed decides, so that a run that resumes in the middle of an epoch has the same.

use std::fmt;

use bireme_data::{MemoryDataset, Shuffle};

use crate::Result;
use crate::config::Config;

const SHUFFLE: &str = "runner.shuffle";
const BUFFER: &str = "runner.shuffle_buffer";

/// The order of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// That of the files and their lines.
    AsRead,
    /// Another one every epoch.
    Shuffled {
        /// Decides it.
        seed: u64,
        /// What is shuffled.
        what: What,
    },
}

/// What is shuffled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Files among each other.
    Files,
    /// Files, and so many samples that a reader reads in a row.
    Buffer(usize),
    /// All samples, which are held in memory.
    Memory,
}

impl Order {
    /// The order that a configuration asks for. `in_memory` says whether its reader holds samples in
    /// memory anyway; then they are shuffled unless it says otherwise.
    ///
    /// # Errors
    /// When there is no such order, or the buffer is empty.
    pub(super) fn of(config: &Config, in_memory: bool) -> Result<Order> {
        let name = config.text(SHUFFLE);
        let what = match name.as_str() {
            "" if in_memory => What::Memory,
            "" | "none" => return Ok(Order::AsRead),
            "files" => What::Files,
            "buffer" => What::Buffer(config.count(BUFFER)),
            "memory" => What::Memory,
            other => {
                let problem = format!("is `{other}`: use none, files, buffer or memory");
                return Err(config.refuse(SHUFFLE, problem));
            }
        };
        if matches!(what, What::Buffer(samples) if samples < 2) {
            return Err(
                config.refuse(BUFFER, "must be at least 2: it is how many samples are mixed")
            );
        }
        if config.has(BUFFER) && !matches!(what, What::Buffer(_)) {
            let problem = "has no effect: set `runner.shuffle` to buffer";
            return Err(config.refuse(BUFFER, problem));
        }
        if in_memory && what != What::Memory {
            let problem = format!(
                "is `{name}`, and this reader holds all samples in memory: use memory or none, or \
                 another `runner.reader_type`"
            );
            return Err(config.refuse(SHUFFLE, problem));
        }
        Ok(Order::Shuffled { seed: config.count("runner.seed") as u64, what })
    }

    /// Whether all samples must be in memory for it.
    pub(super) fn needs_memory(self) -> bool {
        matches!(self, Order::Shuffled { what: What::Memory, .. })
    }

    /// How readers shuffle what they read while it is trained.
    pub(super) fn of_readers(self) -> Option<Shuffle> {
        match self {
            Order::Shuffled { seed, what: What::Files } => Some(Shuffle { seed, window: 0 }),
            Order::Shuffled { seed, what: What::Buffer(window) } => Some(Shuffle { seed, window }),
            _ => None,
        }
    }

    /// Brings samples in memory into the order of an epoch.
    pub(super) fn bring_into(self, memory: &mut MemoryDataset, epoch: u64) {
        if let Order::Shuffled { seed, what: What::Memory } = self {
            // Apart from the seeds of other runs, which people count up.
            memory.local_shuffle(seed.wrapping_add(epoch.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        }
    }
}

/// For checkpoints, which only go on in the same order.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::AsRead => f.write_str("none"),
            Order::Shuffled { what: What::Files, .. } => f.write_str("files"),
            Order::Shuffled { what: What::Buffer(samples), .. } => {
                write!(f, "buffer of {samples} samples")
            }
            Order::Shuffled { what: What::Memory, .. } => f.write_str("memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn order(keys: &str, in_memory: bool) -> Result<Order> {
        let text = format!("runner: {{{keys}}}\n");
        Order::of(&Config::parse(Path::new("a.yaml"), &text, &[]).unwrap(), in_memory)
    }

    #[test]
    fn the_order_is_what_the_keys_say() {
        let shuffled = |what| Order::Shuffled { seed: 7, what };
        assert_eq!(order("seed: 7", false).unwrap(), Order::AsRead);
        assert_eq!(order("seed: 7", true).unwrap(), shuffled(What::Memory));
        assert_eq!(order("shuffle: none", true).unwrap(), Order::AsRead);
        assert_eq!(order("seed: 7, shuffle: files", false).unwrap(), shuffled(What::Files));
        let buffer = order("seed: 7, shuffle: buffer, shuffle_buffer: 100", false).unwrap();
        assert_eq!(
            (buffer, buffer.to_string().as_str()),
            (shuffled(What::Buffer(100)), "buffer of 100 samples")
        );
        for (keys, in_memory, words) in [
            ("shuffle: lots", false, "is `lots`: use none, files, buffer or memory"),
            ("shuffle: buffer, shuffle_buffer: 1", false, "must be at least 2"),
            ("shuffle: files, shuffle_buffer: 9", false, "has no effect"),
            ("shuffle: buffer", true, "holds all samples in memory"),
        ] {
            let error = order(keys, in_memory).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
