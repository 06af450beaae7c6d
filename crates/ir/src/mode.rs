//! How trainers keep time with one another: attribute `distributed_mode` of the ops that talk to
//! servers.

/// How trainers keep time with one another and with the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Gradients of all trainers are averaged, one update a step.
    Sync = 0,
    /// Every gradient is applied when it arrives; queues on the trainers merge them.
    Async = 1,
    /// As async, but a trainer's step ends only when its own gradients are applied.
    HalfAsync = 2,
    /// Trainers update their own copies and exchange differences every few steps.
    Geo = 3,
    /// Dense parameters as in sync, tables as in async with a staleness bound.
    Hybrid = 4,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 5] = [Mode::Sync, Mode::Async, Mode::HalfAsync, Mode::Geo, Mode::Hybrid];

    /// The number that stands for it in programs; Paddle's where Paddle has the mode.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The mode of a number.
    pub fn from_code(code: i32) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.code() == code)
    }

    /// Its name in settings and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Async => "async",
            Mode::HalfAsync => "half_async",
            Mode::Geo => "geo",
            Mode::Hybrid => "hybrid",
        }
    }

    /// The mode of a name.
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether a step ends when all trainers have come to its barrier, so that the loss of one ends
    /// the job.
    pub const fn waits_for_all(self) -> bool {
        matches!(self, Mode::Sync | Mode::Hybrid)
    }

    /// Whether gradients wait for that barrier, those of tables (`sparse`) or the others.
    pub const fn merges_at_barrier(self, sparse: bool) -> bool {
        matches!(self, Mode::Sync) || matches!(self, Mode::Hybrid) && !sparse
    }

    /// Whether servers apply each gradient when it arrives, perhaps late.
    pub const fn applies_at_once(self) -> bool {
        matches!(self, Mode::Async | Mode::HalfAsync)
    }

    /// Whether trainers send differences of their own copies instead of gradients.
    pub const fn sends_deltas(self) -> bool {
        matches!(self, Mode::Geo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_come_back() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_code(mode.code()), Some(mode));
            assert_eq!(Mode::from_name(mode.name()), Some(mode));
        }
        assert_eq!((Mode::from_code(5), Mode::from_name("")), (None, None));
    }
}
