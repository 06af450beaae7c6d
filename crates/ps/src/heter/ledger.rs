//! Which units of a step have come to a worker, and when a step is complete. Pure: no wait, no clock.
//!
//! In sync modes a step is everybody's: it is complete when all units have come that the trainers
//! at work send to this worker, and the next one begins when it has been pushed. Otherwise a step
//! is one trainer's.

use std::collections::{BTreeMap, BTreeSet};

use super::assigned;
use super::sections::StageConfig;

/// The units of one worker.
pub(super) struct Ledger<T> {
    trainers: u32,
    micros: u32,
    workers: usize,
    index: usize,
    is_sync: bool,
    /// The step that units may be of, in sync modes.
    step: u64,
    /// Trainers that send nothing more.
    done: BTreeSet<u32>,
    /// How often each trainer has ended: what an earlier one began does not count.
    incarnations: BTreeMap<u32, u64>,
    /// What came, by step, trainer and number; in the order in which it is added up.
    units: BTreeMap<(u64, u32, u32), (f32, T)>,
}

impl<T> Ledger<T> {
    pub(super) fn new(config: &StageConfig) -> Ledger<T> {
        Ledger {
            trainers: config.trainers(),
            micros: config.micro_batches,
            workers: config.workers(),
            index: config.index() as usize,
            is_sync: config.is_sync(),
            step: 0,
            done: BTreeSet::new(),
            incarnations: BTreeMap::new(),
            units: BTreeMap::new(),
        }
    }

    /// The step that units may be of, in sync modes.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Whether this worker has this unit.
    pub(super) fn is_mine(&self, trainer: u32, micro: u32) -> bool {
        trainer < self.trainers
            && micro < self.micros
            && assigned(trainer, micro, self.micros, self.workers) == self.index
    }

    /// A trainer is there; returns whether it was lost before. In sync modes one that has finished
    /// stays so.
    pub(super) fn begin(&mut self, trainer: u32) -> bool {
        !self.is_sync && self.done.remove(&trainer)
    }

    /// A trainer was started again before its end was noticed: what it began before goes. Returns
    /// whether that matters: in sync modes it ends the job.
    pub(super) fn restart(&mut self, trainer: u32) -> bool {
        if !self.is_sync {
            self.finish(trainer);
            self.done.remove(&trainer);
        }
        !self.is_sync
    }

    /// Which incarnation of a trainer this is.
    pub(super) fn incarnation(&self, trainer: u32) -> u64 {
        self.incarnations.get(&trainer).copied().unwrap_or(0)
    }

    /// A unit has been computed, of the trainer's `incarnation`; it counts if that has not ended.
    pub(super) fn add(&mut self, at: (u64, u32, u32), incarnation: u64, weight: f32, unit: T) {
        let is_alive = incarnation == self.incarnation(at.1) && !self.done.contains(&at.1);
        if self.is_sync || is_alive {
            self.units.insert(at, (weight, unit));
        }
    }

    /// A trainer sends nothing more: what it began and did not end goes.
    pub(super) fn finish(&mut self, trainer: u32) {
        self.done.insert(trainer);
        if self.is_sync {
            return;
        }
        *self.incarnations.entry(trainer).or_default() += 1;
        let micros = self.mine(|other| other == trainer);
        let steps: BTreeSet<u64> =
            self.units.keys().filter(|at| at.1 == trainer).map(|at| at.0).collect();
        for step in steps {
            let came = |(_, micro): &(u32, u32)| self.units.contains_key(&(step, trainer, *micro));
            if !micros.iter().all(came) {
                drop(self.take(|at| (at.0, at.1) == (step, trainer)));
            }
        }
    }

    /// Whether a trainer sends nothing more.
    pub(super) fn has_finished(&self, trainer: u32) -> bool {
        self.done.contains(&trainer)
    }

    /// Whether all trainers have finished.
    pub(super) fn is_over(&self) -> bool {
        self.done.len() >= self.trainers as usize
    }

    /// Whether nothing more will come here, and nothing is left.
    pub(super) fn is_idle(&self) -> bool {
        self.units.is_empty() && self.mine(|trainer| !self.done.contains(&trainer)).is_empty()
    }

    /// Takes the units of a step that is complete, with the weights that they are added up by: so
    /// that the servers' mean over the workers of the stage is the mean over trainers.
    pub(super) fn take_complete(&mut self) -> Option<Vec<(f32, T)>> {
        if !self.is_sync {
            return self.take_of_trainer();
        }
        let step = self.step;
        let expected = self.mine(|trainer| !self.done.contains(&trainer));
        let came =
            |(trainer, micro): &(u32, u32)| self.units.contains_key(&(step, *trainer, *micro));
        let any = self.units.range((step, 0, 0)..(step + 1, 0, 0)).next().is_some();
        if !any || !expected.iter().all(came) {
            return None;
        }
        let units = self.take(|at| at.0 == step);
        let share = self.mine(|_| true).len() as f32 / units.len() as f32;
        let factor = self.workers as f32 / self.trainers as f32 * share;
        Some(units.into_iter().map(|(weight, unit)| (weight * factor, unit)).collect())
    }

    /// Sync modes: the step that was taken has been pushed.
    pub(super) fn next_step(&mut self) {
        self.step += 1;
    }

    fn take_of_trainer(&mut self) -> Option<Vec<(f32, T)>> {
        let complete = |(step, trainer, _): &(u64, u32, u32)| {
            let micros = self.mine(|other| other == *trainer);
            micros.iter().all(|(_, micro)| self.units.contains_key(&(*step, *trainer, *micro)))
        };
        let (step, trainer, _) = *self.units.keys().find(|at| complete(at))?;
        Some(self.take(|at| (at.0, at.1) == (step, trainer)))
    }

    fn take(&mut self, wanted: impl Fn(&(u64, u32, u32)) -> bool) -> Vec<(f32, T)> {
        let (taken, kept) =
            std::mem::take(&mut self.units).into_iter().partition(|(at, _)| wanted(at));
        self.units = kept;
        let taken: BTreeMap<_, _> = taken;
        taken.into_values().collect()
    }

    /// The units of a step that this worker has of some trainers.
    fn mine(&self, of: impl Fn(u32) -> bool) -> Vec<(u32, u32)> {
        let all = (0..self.trainers).filter(|trainer| of(*trainer));
        let units = all.flat_map(|trainer| (0..self.micros).map(move |micro| (trainer, micro)));
        units.filter(|(trainer, micro)| self.is_mine(*trainer, *micro)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    fn ledger(counts: [u32; 2], micros: u32, index: u32, mode: Mode) -> Ledger<&'static str> {
        Ledger::new(&StageConfig {
            stage: 2,
            rank: counts[0] + index,
            counts: counts.to_vec(),
            micro_batches: micros,
            mode,
            endpoint: String::new(),
            next: Vec::new(),
        })
    }

    #[test]
    fn a_sync_step_needs_all_units_and_is_added_up_in_order() {
        let mut ledger = ledger([2, 1], 2, 0, Mode::Sync);
        for (at, name) in [((0, 1, 1), "d"), ((0, 0, 0), "a"), ((0, 1, 0), "c")] {
            ledger.add(at, 0, 0.5, name);
            assert!(ledger.take_complete().is_none());
        }
        ledger.add((0, 0, 1), 0, 0.5, "b");
        let taken = ledger.take_complete().unwrap();
        assert_eq!(taken, [(0.25, "a"), (0.25, "b"), (0.25, "c"), (0.25, "d")]);
        assert!(ledger.take_complete().is_none(), "the next step has not begun");
        ledger.next_step();
        assert_eq!(ledger.step(), 1);
    }

    #[test]
    fn a_trainer_that_has_finished_is_not_waited_for() {
        let mut ledger = ledger([2, 1], 1, 0, Mode::Sync);
        ledger.add((0, 0, 0), 0, 1.0, "a");
        assert!(ledger.take_complete().is_none());
        ledger.finish(1);
        assert_eq!(ledger.take_complete().unwrap(), [(1.0, "a")], "the mean over those at work");
        assert!(ledger.is_idle() || !ledger.is_over());
        ledger.finish(0);
        assert!(ledger.is_idle() && ledger.is_over());
    }

    #[test]
    fn workers_share_units_and_their_weights_make_the_mean() {
        // Three trainers, two workers: the first has two units, the second one.
        let mut first = ledger([3, 2], 1, 0, Mode::Sync);
        let mut second = ledger([3, 2], 1, 1, Mode::Sync);
        assert!(first.is_mine(0, 0) && second.is_mine(1, 0) && first.is_mine(2, 0));
        first.add((0, 0, 0), 0, 1.0, "a");
        first.add((0, 2, 0), 0, 1.0, "c");
        second.add((0, 1, 0), 0, 1.0, "b");
        let (a, b) = (first.take_complete().unwrap(), second.take_complete().unwrap());
        let weight = 2.0 / 3.0;
        assert_eq!((a, b), (vec![(weight, "a"), (weight, "c")], vec![(weight, "b")]));
    }

    #[test]
    fn without_sync_every_trainer_has_steps_of_its_own() {
        let mut ledger = ledger([2, 1], 2, 0, Mode::Async);
        ledger.add((5, 0, 0), 0, 0.5, "a");
        ledger.add((9, 1, 0), 0, 0.5, "x");
        assert!(ledger.take_complete().is_none());
        ledger.add((9, 1, 1), 0, 0.5, "y");
        assert_eq!(ledger.take_complete().unwrap(), [(0.5, "x"), (0.5, "y")]);
        ledger.finish(1);
        assert!(!ledger.is_idle());
    }

    #[test]
    fn what_a_lost_trainer_began_is_not_waited_for() {
        let mut ledger = ledger([2, 1], 2, 0, Mode::Async);
        assert!(!ledger.begin(0));
        let incarnation = ledger.incarnation(0);
        ledger.add((5, 0, 0), incarnation, 0.5, "a");
        ledger.add((4, 0, 0), incarnation, 0.5, "whole");
        ledger.add((4, 0, 1), incarnation, 0.5, "too");
        ledger.finish(0);
        assert_eq!(ledger.take_complete().unwrap(), [(0.5, "whole"), (0.5, "too")]);
        // Computed meanwhile, for nobody.
        ledger.add((5, 0, 1), incarnation, 0.5, "b");
        ledger.finish(1);
        assert!(ledger.is_idle() && ledger.is_over() && ledger.take_complete().is_none());
        // It comes again, and counts its steps anew.
        assert!(ledger.begin(0));
        let again = ledger.incarnation(0);
        assert!(!ledger.is_over() && !ledger.is_idle() && !ledger.has_finished(0));
        ledger.add((0, 0, 0), incarnation, 0.5, "of the one before");
        ledger.add((0, 0, 0), again, 0.5, "c");
        ledger.add((0, 0, 1), again, 0.5, "d");
        assert_eq!(ledger.take_complete().unwrap(), [(0.5, "c"), (0.5, "d")]);
        ledger.finish(0);
        assert!(ledger.is_idle() && ledger.is_over());
    }
    #[test]
    fn a_trainer_that_is_started_again_at_once_does_not_mix_with_its_former_life() {
        let mut ledger = ledger([1, 1], 2, 0, Mode::Async);
        let incarnation = ledger.incarnation(0);
        ledger.add((0, 0, 0), incarnation, 0.5, "before");
        assert!(!ledger.begin(0) && ledger.restart(0));
        assert!(!ledger.is_idle() && !ledger.has_finished(0), "nobody leaves meanwhile");
        ledger.add((0, 0, 1), incarnation, 0.5, "computed meanwhile");
        let again = ledger.incarnation(0);
        ledger.add((0, 0, 1), again, 0.5, "b");
        assert!(ledger.take_complete().is_none());
        ledger.add((0, 0, 0), again, 0.5, "a");
        assert_eq!(ledger.take_complete().unwrap(), [(0.5, "a"), (0.5, "b")]);
    }
}
