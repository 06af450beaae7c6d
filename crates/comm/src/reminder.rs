//! When somebody who waits tells the user what for: after three seconds, and then ever more rarely.

use std::time::{Duration, Instant};

/// The first time, and the shortest time between two.
const FIRST: Duration = Duration::from_secs(3);
/// The longest time between two.
const LONGEST: Duration = Duration::from_secs(30);

/// Counts the time of one wait.
pub struct Reminder {
    since: Instant,
    next: Duration,
    pause: Duration,
}

impl Reminder {
    /// A wait that began at `since`.
    pub fn new(since: Instant) -> Reminder {
        Reminder { since, next: FIRST, pause: FIRST }
    }

    /// Whether the user is to be told now; true once for each time.
    pub fn is_due(&mut self) -> bool {
        self.is_due_after(self.since.elapsed())
    }

    fn is_due_after(&mut self, waited: Duration) -> bool {
        if waited < self.next {
            return false;
        }
        self.next = waited + self.pause;
        self.pause = (self.pause * 2).min(LONGEST);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reminders_become_rare() {
        let mut reminder = Reminder::new(Instant::now());
        let due = (0..200).filter(|second| reminder.is_due_after(Duration::from_secs(*second)));
        assert_eq!(due.collect::<Vec<_>>(), [3, 6, 12, 24, 48, 78, 108, 138, 168, 198]);
    }
}
