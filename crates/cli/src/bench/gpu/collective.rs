//! What it costs a step to be one of a collective job: with NCCL inside what is recorded, and through the host's memory
//! where two ranks share a card.

use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use bireme_fleet::collective::{Rings, Road};
use bireme_fleet::comm::{Memory, Transport};
use bireme_fleet::group::{Config, Group};
use bireme_fleet::transpiler::CollectiveStrategy;

use super::steps::Model;
use super::timing::ROUNDS;
use super::workload::Workload;
use super::{Figure, Precision, Run};

/// Ranks that share the card.
const RANKS: usize = 2;

impl Run {
    /// The step of the CTR-DNN as a group of one rank with NCCL, and what it is of the same step without.
    pub(super) fn with_nccl(&self, batch: usize, precision: Precision) -> Result<Figure> {
        let batch = self.small_batch(batch);
        let mut plain = self.workload(Model::CtrDnn, batch, precision, true)?;
        plain.warm_up()?;
        let plain_loss = plain.unseen_loss()?;
        let plain_us = self.step_us(&mut plain)?;
        drop(plain);
        let rings = Arc::new(Rings::new(Group::alone()));
        rings.agree(Some(&self.device), Road::Nccl)?;
        let mut net = self.net(Model::CtrDnn, batch, precision)?;
        // As many ranks as it takes for a program to reduce; there is one, so nothing is divided.
        let how = CollectiveStrategy { average: false, ..CollectiveStrategy::default() };
        net.main = how.rewrite_main(RANKS, &net.main)?;
        let mut joined = Workload::among(&self.device, net, true, Some(rings))?;
        joined.warm_up()?;
        let loss = joined.unseen_loss()?;
        let step_us = self.step_us(&mut joined)?;
        let mut figure = Figure::new(step_us, "us", Some(step_us / plain_us));
        figure.more = vec![("plain_us", plain_us), ("loss", loss), ("plain_loss", plain_loss)];
        Ok(figure)
    }

    /// Two ranks on this card, each with half of the batch: million samples a second of both.
    pub(super) fn through_host(&self, batch: usize, precision: Precision) -> Result<Figure> {
        let batch = self.small_batch(batch).next_multiple_of(RANKS);
        let transport: Arc<dyn Transport> = Arc::new(Memory::new(1));
        let endpoints: Vec<String> = (0..RANKS).map(|rank| format!("10.0.0.{rank}:1")).collect();
        let (barrier, best) = (Barrier::new(RANKS), Mutex::new(f64::INFINITY));
        let rank = |rank: usize| -> Result<f64> {
            let config = Config::new(rank, endpoints.clone());
            let rings = Arc::new(Rings::new(Group::connect(&config, &transport)?));
            rings.agree(Some(&self.device), Road::Host)?;
            let mut net = self.net(Model::CtrDnn, batch / RANKS, precision)?;
            net.main = CollectiveStrategy::default().rewrite_main(RANKS, &net.main)?;
            let mut workload = Workload::among(&self.device, net, true, Some(rings))?;
            workload.warm_up()?;
            let loss = workload.unseen_loss()?;
            let steps = self.scale.of(64u32, 2);
            for _ in 0..self.scale.of(ROUNDS, 1) {
                barrier.wait();
                let started = Instant::now();
                (0..steps).try_for_each(|_| workload.step())?;
                self.device.synchronize()?;
                barrier.wait();
                let took = started.elapsed().as_secs_f64() / f64::from(steps);
                let mut best = best.lock().unwrap_or_else(PoisonError::into_inner);
                *best = best.min(took);
            }
            Ok(loss)
        };
        let losses = thread::scope(|scope| {
            let ranks: Vec<_> =
                (0..RANKS).map(|number| scope.spawn(move || rank(number))).collect();
            let joined = ranks.into_iter().map(|rank| rank.join());
            joined
                .map(|rank| rank.map_err(|_| anyhow!("a rank panicked"))?)
                .collect::<Result<Vec<_>>>()
        })?;
        let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut figure = Figure::new(batch as f64 / best / 1e6, "M samples/s", None);
        figure.more = vec![("step_us", best * 1e6), ("loss", losses[0])];
        Ok(figure)
    }
}
