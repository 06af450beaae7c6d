//! The batches of one training thread, handed out in portions: what lies between two checkpoints is
//! one portion, and the count of all of them is the position that a checkpoint remembers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bireme_data::{Batch, Batches, Closer, Result, Slot};
use bireme_fleet::collective::Rings;
use bireme_fleet::{Fleet, Reduce, group};

use super::topology::Topology;

/// Batches that trainers agree on at once.
const ROUND: usize = 32;

/// Says the least of the numbers of all trainers; all ask together.
pub(super) type Agree = Arc<dyn Fn(u64) -> Result<u64> + Send + Sync>;

/// How trainers that make their steps together agree on how many they make; `None` where they do
/// not.
pub(super) fn agree(
    fleet: &Fleet,
    rings: Option<&Arc<Rings>>,
    topology: Topology,
) -> Option<Agree> {
    if fleet.worker_num() < 2 || !topology.is_in_step() {
        return None;
    }
    let lost = |error: String| bireme_data::Error::Peers(error);
    if let Some(worker) = fleet.worker().map(Arc::clone) {
        return Some(Arc::new(move |count| {
            let least = worker.all_reduce(&[count as f64], Reduce::Min);
            Ok(least.map_err(|error| lost(error.to_string()))?[0] as u64)
        }));
    }
    let rings = Arc::clone(rings?);
    Some(Arc::new(move |count| {
        let mut least = [count as f64];
        let reduced = rings.group(0).all_reduce(&mut least, group::Reduce::Min);
        reduced.map_err(|error| lost(error.to_string()))?;
        Ok(least[0] as u64)
    }))
}

/// The batches of one training thread in one epoch.
#[derive(Clone)]
pub(super) struct Feed {
    batches: Arc<Mutex<Box<dyn Batches>>>,
    /// Batches that were trained.
    taken: Arc<AtomicU64>,
    /// 1 when there are no more.
    ended: Arc<AtomicU64>,
    /// Nanoseconds that threads waited for batches, of all feeds of a run.
    waited: Arc<AtomicU64>,
}

impl Feed {
    /// The batches after the first `taken`, which were trained before.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn new(
        mut batches: Box<dyn Batches>,
        taken: u64,
        waited: &Arc<AtomicU64>,
    ) -> Result<Feed> {
        batches.skip(taken)?;
        Ok(Feed {
            batches: Arc::new(Mutex::new(batches)),
            taken: Arc::new(AtomicU64::new(taken)),
            ended: Arc::default(),
            waited: Arc::clone(waited),
        })
    }

    /// Batches that were trained, from the beginning of the epoch.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether there are no more.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == 1
    }

    /// The next `count` batches.
    pub(super) fn portion(&self, count: u64) -> Box<dyn Batches> {
        Box::new(Portion { feed: self.clone(), left: count })
    }
}

struct Portion {
    feed: Feed,
    left: u64,
}

impl Batches for Portion {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let asked = Instant::now();
        let more = self.feed.batches.lock().unwrap_or_else(PoisonError::into_inner).next(batch)?;
        let waited = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.feed.waited.fetch_add(waited, Ordering::Relaxed);
        if !more {
            self.feed.ended.store(1, Ordering::Relaxed);
            return Ok(false);
        }
        self.left -= 1;
        self.feed.taken.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    fn skip(&mut self, batches: u64) -> Result<u64> {
        let count = batches.min(self.left);
        self.left -= count;
        self.feed.batches.lock().unwrap_or_else(PoisonError::into_inner).skip(count)
    }

    fn closer(&self) -> Closer {
        self.feed.batches.lock().unwrap_or_else(PoisonError::into_inner).closer()
    }
}

/// Batches of a trainer that makes its steps together with others: it has as many as the one that
/// has fewest, for a step that one of them does not make would never end.
pub(super) struct Agreed {
    inner: Box<dyn Batches>,
    slots: Vec<Slot>,
    agree: Agree,
    ready: VecDeque<Batch>,
    /// Used up; their memory is filled again.
    free: Vec<Batch>,
    /// Whether another trainer has no more.
    over: bool,
}

impl Agreed {
    pub(super) fn new(inner: Box<dyn Batches>, slots: &[Slot], agree: Agree) -> Agreed {
        let (ready, free) = (VecDeque::new(), Vec::new());
        Agreed { inner, slots: slots.to_vec(), agree, ready, free, over: false }
    }

    /// Reads the next round, and leaves out what others do not have.
    fn round(&mut self) -> Result<()> {
        while self.ready.len() < ROUND {
            let mut batch = self.free.pop().unwrap_or_else(|| Batch::of(&self.slots));
            if !self.inner.next(&mut batch)? {
                break;
            }
            self.ready.push_back(batch);
        }
        let least = (self.agree)(self.ready.len() as u64)? as usize;
        self.over = least < ROUND;
        self.ready.truncate(least);
        Ok(())
    }
}

impl Batches for Agreed {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        if self.ready.is_empty() && !self.over {
            self.round()?;
        }
        let Some(mut next) = self.ready.pop_front() else { return Ok(false) };
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
    use std::sync::Barrier;

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
        count
    }

    #[test]
    fn portions_count_on() {
        let feed = Feed::new(Box::new(Count(10)), 3, &Arc::default()).unwrap();
        assert_eq!(drain(&mut *feed.portion(4)), 4);
        assert_eq!((feed.taken(), feed.is_ended()), (7, false));
        assert_eq!(drain(&mut *feed.portion(4)), 3);
        assert_eq!((feed.taken(), feed.is_ended()), (10, true));
    }

    #[test]
    fn trainers_make_as_many_steps_as_the_one_with_fewest_batches() {
        for (counts, steps) in [([100, 70], 70), ([64, 64], 64), ([0, 5], 0), ([31, 33], 31)] {
            let barrier = Barrier::new(2);
            let offers = Mutex::new([0, 0]);
            let (barrier, offers) = (Arc::new(barrier), Arc::new(offers));
            std::thread::scope(|scope| {
                for (rank, count) in counts.into_iter().enumerate() {
                    let (barrier, offers) = (Arc::clone(&barrier), Arc::clone(&offers));
                    scope.spawn(move || {
                        let agree = move |mine| {
                            offers.lock().unwrap()[rank] = mine;
                            barrier.wait();
                            let least = *offers.lock().unwrap().iter().min().unwrap();
                            barrier.wait();
                            Ok(least)
                        };
                        let mut agreed = Agreed::new(Box::new(Count(count)), &[], Arc::new(agree));
                        assert_eq!(drain(&mut agreed), steps);
                    });
                }
            });
        }
    }
}
