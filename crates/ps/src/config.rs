//! How trainers keep time with one another.

/// How trainers keep time with one another and with the servers; attribute `distributed_mode` of
/// the ops that talk to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Gradients of all trainers are averaged, one update a step.
    Sync,
    /// Every gradient is applied when it arrives; queues on the trainers merge them.
    Async,
    /// As async, but a trainer's step ends only when its own gradients are applied.
    HalfAsync,
    /// Trainers update their own copies and exchange differences every few steps.
    Geo,
    /// Dense parameters as in sync, sparse ones as in async with a staleness bound.
    Hybrid,
}

impl Mode {
    /// The number that stands for it in programs; Paddle's where Paddle has the mode.
    pub fn code(self) -> i32 {
        match self {
            Mode::Sync => 0,
            Mode::Async => 1,
            Mode::HalfAsync => 2,
            Mode::Geo => 3,
            Mode::Hybrid => 4,
        }
    }

    /// The mode of a number.
    pub fn from_code(code: i32) -> Option<Mode> {
        const ALL: [Mode; 5] = [Mode::Sync, Mode::Async, Mode::HalfAsync, Mode::Geo, Mode::Hybrid];
        ALL.into_iter().find(|mode| mode.code() == code)
    }
}
