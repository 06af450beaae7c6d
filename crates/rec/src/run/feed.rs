//! The batches of one training thread, handed out in portions: what lies between two checkpoints is
//! one portion, and the count of all of them is the position that a checkpoint remembers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bireme_data::{Agree, Batch, Batches, Closer, Result};
use bireme_fleet::collective::Rings;
use bireme_fleet::{Fleet, Reduce, group};

use super::stop::Stop;
use super::topology::Topology;

/// How trainers that make their steps together agree on how many they make; `None` where they do
/// not. Whoever is asked to stop has no more.
pub(super) fn agree(
    fleet: &Fleet,
    rings: Option<&Arc<Rings>>,
    topology: Topology,
    stop: &Stop,
) -> Option<Arc<Agree<'static>>> {
    if fleet.worker_num() < 2 || !topology.is_in_step() {
        return None;
    }
    let lost = |error: String| bireme_data::Error::Peers(error);
    let stop = stop.clone();
    // One that is asked to stop stops all of them, at the same batch.
    let vote = move |mine: bool| f64::from(u8::from(mine && !stop.is_asked()));
    if let Some(worker) = fleet.worker().map(Arc::clone) {
        return Some(Arc::new(move |mine| {
            let least = worker.all_reduce(&[vote(mine)], Reduce::Min);
            Ok(least.map_err(|error| lost(error.to_string()))?[0] > 0.0)
        }));
    }
    let rings = Arc::clone(rings?);
    Some(Arc::new(move |mine| {
        let mut least = [vote(mine)];
        let reduced = rings.group(0).all_reduce(&mut least, group::Reduce::Min);
        reduced.map_err(|error| lost(error.to_string()))?;
        Ok(least[0] > 0.0)
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
    /// The batches that are left of an epoch of which `taken` were trained before.
    pub(super) fn new(batches: Box<dyn Batches>, taken: u64, waited: &Arc<AtomicU64>) -> Feed {
        Feed {
            batches: Arc::new(Mutex::new(batches)),
            taken: Arc::new(AtomicU64::new(taken)),
            ended: Arc::default(),
            waited: Arc::clone(waited),
        }
    }

    /// Goes on with other batches, which are those after the ones that were trained.
    pub(super) fn go_on_with(&self, batches: Box<dyn Batches>) {
        *self.batches.lock().unwrap_or_else(PoisonError::into_inner) = batches;
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

#[cfg(test)]
mod tests {
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
        let feed = Feed::new(Box::new(Count(7)), 3, &Arc::default());
        assert_eq!(drain(&mut *feed.portion(4)), 4);
        assert_eq!((feed.taken(), feed.is_ended()), (7, false));
        assert_eq!(drain(&mut *feed.portion(4)), 3);
        assert_eq!((feed.taken(), feed.is_ended()), (10, true));
    }
}
