//! Batches of trainers that make their steps together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Batch, Batches, Closer, Result, Slot};

/// Asked whether this trainer has what it takes, says whether all trainers have; all ask together.
pub type Agree<'a> = dyn Fn(bool) -> Result<bool> + Send + Sync + 'a;

/// Batches that trainers agree on at once, when all have plenty.
const ROUND: usize = 32;
/// How long a round may take: whoever asks one of them to stop waits for its end.
const ROUND_TIME: Duration = Duration::from_secs(1);

/// Batches of a trainer that makes its steps together with others (sync, collective): it has as many
/// as the one that has fewest, for a step that one of them does not make would never end.
///
/// Trainers agree on rounds, of 1, 2, 4, … batches as long as they are quick, so that they seldom
/// wait for each other, and neither the first step nor a stop waits for many batches. When one of
/// them cannot fill a round, they agree on the batches that are left one by one.
pub struct Agreed<'a> {
    inner: Box<dyn Batches + 'a>,
    slots: Vec<Slot>,
    agree: Arc<Agree<'a>>,
    ready: VecDeque<Batch>,
    /// Used up; their memory is filled again.
    free: Vec<Batch>,
    /// Batches that all trainers have.
    granted: usize,
    /// Batches in the next round, and when the last one began.
    round: usize,
    began: Option<Instant>,
    round_time: Duration,
    /// Whether a trainer has no whole round any more, and whether one has nothing.
    one_by_one: bool,
    over: bool,
}

impl<'a> Agreed<'a> {
    /// Those of `inner` that all trainers have.
    pub fn new(inner: Box<dyn Batches + 'a>, slots: &[Slot], agree: Arc<Agree<'a>>) -> Agreed<'a> {
        Agreed {
            inner,
            slots: slots.to_vec(),
            agree,
            ready: VecDeque::new(),
            free: Vec::new(),
            granted: 0,
            round: 1,
            began: None,
            round_time: ROUND_TIME,
            one_by_one: false,
            over: false,
        }
    }

    /// Has at least so many batches ready, if there are as many; whether it does.
    fn fill(&mut self, count: usize) -> Result<bool> {
        while self.ready.len() < count {
            let mut batch = self.free.pop().unwrap_or_else(|| Batch::of(&self.slots));
            if !self.inner.next(&mut batch)? {
                return Ok(false);
            }
            self.ready.push_back(batch);
        }
        Ok(true)
    }

    /// Makes the next round larger if the last one was quick for all trainers, or else smaller.
    fn choose_round(&mut self) -> Result<()> {
        let Some(began) = self.began else { return Ok(()) };
        let is_quick = began.elapsed() * 2 <= self.round_time;
        self.round = match (self.agree)(is_quick)? {
            true => (self.round * 2).min(ROUND),
            false => (self.round / 2).max(1),
        };
        Ok(())
    }

    fn ask(&mut self) -> Result<()> {
        if !self.one_by_one {
            self.choose_round()?;
            let full = self.fill(self.round)?;
            if (self.agree)(full)? {
                self.granted = self.round;
                self.began = Some(Instant::now());
                return Ok(());
            }
            self.one_by_one = true;
        }
        let has = self.fill(1)?;
        let all_have = (self.agree)(has)?;
        (self.granted, self.over) = (usize::from(all_have), !all_have);
        Ok(())
    }
}

impl Batches for Agreed<'_> {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        if self.granted == 0 && !self.over {
            self.ask()?;
        }
        if self.granted == 0 {
            return Ok(false);
        }
        let Some(mut next) = self.ready.pop_front() else { return Ok(false) };
        self.granted -= 1;
        std::mem::swap(batch, &mut next);
        self.free.push(next);
        Ok(true)
    }

    fn skip(&mut self, batches: u64) -> Result<u64> {
        // All trainers skip as many, before the first round.
        self.inner.skip(batches)
    }

    fn closer(&self) -> Closer {
        self.inner.closer()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// So many empty batches.
    struct Count(u64);

    impl Batches for Count {
        fn next(&mut self, _: &mut Batch) -> Result<bool> {
            let more = self.0 > 0;
            self.0 -= u64::from(more);
            Ok(more)
        }

        fn skip(&mut self, batches: u64) -> Result<u64> {
            let count = batches.min(self.0);
            self.0 -= count;
            Ok(count)
        }
    }

    fn drain(batches: &mut dyn Batches) -> u64 {
        let mut batch = Batch::of(&[]);
        let mut count = 0;
        while batches.next(&mut batch).unwrap() {
            count += 1;
        }
        assert!(!batches.next(&mut batch).unwrap());
        count
    }

    #[test]
    fn rounds_are_as_long_as_they_are_quick() {
        for (round_time, round) in [(Duration::MAX, ROUND), (Duration::ZERO, 1)] {
            let mut agreed = Agreed::new(Box::new(Count(200)), &[], Arc::new(Ok));
            agreed.round_time = round_time;
            let mut batch = Batch::of(&[]);
            (0..100).for_each(|_| assert!(agreed.next(&mut batch).unwrap()));
            assert_eq!(agreed.round, round);
        }
    }

    #[test]
    fn trainers_make_as_many_steps_as_the_one_with_fewest_batches() {
        for (counts, steps) in
            [([100, 70], 70), ([64, 64], 64), ([0, 5], 0), ([31, 33], 31), ([63, 200], 63)]
        {
            let barrier = Barrier::new(2);
            let offers = Mutex::new([false, false]);
            std::thread::scope(|scope| {
                for (rank, count) in counts.into_iter().enumerate() {
                    let (barrier, offers) = (&barrier, &offers);
                    scope.spawn(move || {
                        let agree = move |mine| {
                            offers.lock().unwrap()[rank] = mine;
                            barrier.wait();
                            let all = *offers.lock().unwrap() == [true, true];
                            barrier.wait();
                            Ok(all)
                        };
                        let mut agreed = Agreed::new(Box::new(Count(count)), &[], Arc::new(agree));
                        assert_eq!(drain(&mut agreed), steps);
                    });
                }
            });
        }
    }
}
