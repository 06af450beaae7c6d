//! GPUBox: passes over keys of which some are new, the next made ready while one is trained.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use bireme_engine::{Executor, Feed};
use bireme_fleet::gpubox::PassReport;
use bireme_fleet::{Environment, Fleet, RoleMaker, Strategy};
use bireme_ir::Program;

use super::steps::Model;
use super::workload::Net;
use super::{Figure, Precision, Run};

/// Passes that are trained; the first brings all rows and does not count.
const PASSES: u64 = 4;

/// Of the keys of a pass, one in so many was not in the pass before.
const NEW: u64 = 20;

impl Run {
    /// Million samples a second once passes overlap; the ratio is to steps of the same net whose table and batches
    /// lie on the card.
    pub(super) fn gpubox(&self, batch: usize, precision: Precision) -> Result<Vec<Figure>> {
        let on_card = self.step(Model::CtrDnn, batch, precision, true)?;
        let batch = self.small_batch(batch);
        let rows = self.scale.of(10_000_000u64, 1000);
        precision.set();
        let net = Net::ctr_dnn(
            rows as usize,
            self.ctr_widths(),
            batch,
            self.scale.of(8, 2),
            precision.amp()?,
        )?;
        let mut fleet = Fleet::init(RoleMaker::alone(), &Environment::default())?;
        fleet.distribute(&net.main, &net.startup, &Strategy::gpubox())?;
        let executor = fleet.init_worker(Executor::on(Arc::clone(&self.device)))?;
        let steps = self.scale.of(50_000_000 / batch, 2);
        let program = fleet.main_program()?.clone();
        // Rows of the samples, and some that each pass has for itself.
        let keys = |pass: u64| -> Vec<u64> {
            let own = rows + pass * (rows / NEW);
            (0..rows).chain(own..own + rows / NEW).collect()
        };
        let mut all: Vec<Vec<u64>> = (0..=PASSES).rev().map(keys).collect();
        let mut own = all.pop().unwrap_or_default();
        let (mut seconds, mut reports) = (0.0, Vec::new());
        for pass in 0..PASSES {
            let next = all.pop().unwrap_or_default();
            let started = Instant::now();
            let mut passes = fleet.passes().ok_or_else(|| anyhow!("there are no passes"))?;
            passes.begin(&[own], (steps * batch * 26) as u64)?;
            let (ahead, coming) = (passes.ahead(), vec![next.clone()]);
            let thread = std::thread::spawn(move || ahead.prepare(coming));
            self.train_steps(&executor, &program, &net, steps)?;
            passes.trained(steps as u64);
            passes.end();
            if pass > 0 {
                seconds += started.elapsed().as_secs_f64();
                reports.push(*passes.report());
            }
            drop(passes);
            thread.join().map_err(|_| anyhow!("the thread that works ahead panicked"))?;
            own = next;
        }
        let flushing = Instant::now();
        fleet.flush()?;
        let flush = flushing.elapsed().as_secs_f64();
        fleet.stop_worker()?;
        let speed = (PASSES - 1) as f64 * (steps * batch) as f64 / seconds / 1e6;
        let mut figure = Figure::new(speed, "M samples/s", Some(speed / on_card.value));
        figure.more = parts_of(&reports);
        figure.more.extend([("on_card", on_card.value), ("flush_s", flush)]);
        Ok(vec![figure])
    }

    /// Trains so many batches, which come from the host's memory, and waits for the card.
    fn train_steps(
        &self,
        executor: &Executor,
        program: &Program,
        net: &Net,
        steps: usize,
    ) -> Result<()> {
        let mut step = executor.prepare(program, &net.feeds, &[])?;
        for at in 0..steps {
            let batch = &net.batches[at % net.batches.len()];
            step.run_fed(&batch.iter().map(Feed::Host).collect::<Vec<_>>())?;
        }
        Ok(self.device.synchronize()?)
    }
}

/// What a pass was and how long its parts took, on average.
fn parts_of(reports: &[PassReport]) -> Vec<(&'static str, f64)> {
    let mean = |part: fn(&PassReport) -> f64| {
        reports.iter().map(part).sum::<f64>() / reports.len().max(1) as f64
    };
    vec![
        ("unique_keys", mean(|report| report.unique as f64)),
        ("new_keys", mean(|report| report.new as f64)),
        ("wait_s", mean(|report| report.wait_seconds)),
        ("pull_s", mean(|report| report.pull_seconds)),
        ("move_s", mean(|report| report.move_seconds)),
        ("train_s", mean(|report| report.train_seconds)),
    ]
}
