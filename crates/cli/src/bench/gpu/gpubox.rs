//! GPUBox: passes over keys of which some are new, the next made ready while one is trained. Over samples in memory by
//! keys, as passes are trained that come once, and by row numbers, as those that come again; and over a few batches that
//! nobody assembles.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use bireme_data::{
    Batches, Input, KeyedPart, MemoryDataset, MemorySettings, Rows, Samples, Slot, Training,
    Values, train,
};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Feed};
use bireme_fleet::gpubox::{PassReport, Passes};
use bireme_fleet::{Environment, Fleet, RoleMaker, Strategy};
use bireme_ir::Program;

use super::steps::Model;
use super::workload::Net;
use super::{Figure, Precision, Run, Source};

/// Passes that are trained; the first brings all rows and does not count.
const PASSES: u64 = 3;

/// Of the keys of a pass, one in so many was not in the pass before.
const NEW: u64 = 20;

/// What a step is fed.
#[derive(Clone, Copy)]
enum Fed<'a> {
    /// Keys of samples in memory, assembled ahead in page-locked memory.
    Samples(&'a MemoryDataset),
    /// Row numbers of the same, which are looked up once.
    Rows(&'a MemoryDataset),
    /// Keys of a few batches, from ordinary memory.
    Keys,
}

/// A measured road: million samples a second, and what passes were.
struct Measured {
    speed: f64,
    more: Vec<(&'static str, f64)>,
}

impl Run {
    /// Million samples a second once passes overlap, on each road; the ratio is to steps of the same net whose table and
    /// batches lie on the card.
    pub(super) fn gpubox(&self, batch: usize, precision: Precision) -> Result<Vec<Figure>> {
        let on_card = self.step(Model::CtrDnn, batch, precision, Source::Card)?.value;
        let small = self.small_batch(batch);
        let rows = self.scale.of(10_000_000, 1000);
        let batches = self.scale.of(8, 2);
        let net = Net::ctr_dnn(rows, self.ctr_widths(), small, batches, precision.amp()?)?;
        let samples = samples(&net, small, self.scale.of(50_000_000 / small, 2))?;
        let roads = [
            ("samples", Fed::Samples(&samples)),
            ("rows", Fed::Rows(&samples)),
            ("keys", Fed::Keys),
        ];
        let measure = |(part, fed)| -> Result<Figure> {
            let measured = self.passes(batch, precision, fed)?;
            let ratio = Some(measured.speed / on_card);
            let mut figure = Figure::new(measured.speed, "M samples/s", ratio);
            figure.part = Some(part);
            figure.more = measured.more;
            figure.more.push(("on_card", on_card));
            Ok(figure)
        };
        roads.into_iter().map(measure).collect()
    }

    fn passes(&self, batch: usize, precision: Precision, fed: Fed<'_>) -> Result<Measured> {
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
        let (mut own, mut seconds, mut reports) = (keys(0), 0.0, Vec::new());
        let mut bytes_of_sample = 0.0;
        for pass in 0..PASSES {
            let next = keys(pass + 1);
            let started = Instant::now();
            let mut passes = fleet.passes().ok_or_else(|| anyhow!("there are no passes"))?;
            let ids = (steps * batch * 26) as u64;
            let batches = steps as u64;
            passes.begin(&KeyedPart { batches, ids, keys: vec![own], most: Vec::new() })?;
            let (ahead, coming) = (passes.ahead(), vec![next.clone()]);
            let thread = std::thread::spawn(move || ahead.prepare(coming));
            match fed {
                Fed::Samples(samples) => {
                    self.train_over(
                        &executor,
                        &program,
                        samples,
                        samples.part(0..u64::MAX, None)?,
                    )?;
                    bytes_of_sample = samples.bytes() as f64 / samples.len() as f64;
                }
                Fed::Rows(samples) => {
                    bytes_of_sample = self.train_rows(&mut passes, &executor, &program, samples)?;
                }
                Fed::Keys => self.train_steps(&executor, &program, &net, steps)?,
            }
            passes.trained(steps as u64);
            passes.end()?;
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
        let mut more = parts_of(&reports);
        more.push(("flush_s", flushing.elapsed().as_secs_f64()));
        if !matches!(fed, Fed::Keys) {
            more.push(("bytes_of_sample", bytes_of_sample));
        }
        fleet.stop_worker()?;
        let speed = (PASSES - 1) as f64 * (steps * batch) as f64 / seconds / 1e6;
        Ok(Measured { speed, more })
    }

    /// Trains samples by their row numbers, and waits for the card; bytes that a sample takes.
    fn train_rows(
        &self,
        passes: &mut Passes,
        executor: &Executor,
        program: &Program,
        samples: &MemoryDataset,
    ) -> Result<f64> {
        // As for the second of several epochs: samples that are used once are not numbered.
        passes.run_over(program, &[], samples, None)?;
        let run = passes.run_over(program, &[], samples, None)?;
        let bytes = (samples.bytes() + run.row_bytes()) as f64 / samples.len() as f64;
        let program = run.program.as_ref().unwrap_or(program);
        self.train_over(executor, program, samples, run.open(samples, 0)?)?;
        Ok(bytes)
    }

    /// Trains the batches of samples in memory, and waits for the card.
    fn train_over(
        &self,
        executor: &Executor,
        program: &Program,
        samples: &MemoryDataset,
        batches: Box<dyn Batches>,
    ) -> Result<()> {
        let training = Training {
            device: Some(Arc::clone(&self.device)),
            ..Training::new(program, executor.scope(), &samples.settings().slots)
        };
        train(&training, vec![batches])?;
        Ok(self.device.synchronize()?)
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
        ("resolve_s", mean(|report| report.resolve_seconds)),
        ("train_s", mean(|report| report.train_seconds)),
    ]
}

/// So many batches of a net in memory: its own, again and again, in a shuffled order.
fn samples(net: &Net, batch: usize, steps: usize) -> Result<MemoryDataset> {
    let slots = net.feeds.iter().zip(&net.batches[0]).map(|(name, tensor)| {
        let width = tensor.dims().tail(1);
        match tensor.as_slice::<i64>() {
            Ok(_) => Slot { shape: Some(vec![width]), ..Slot::id(*name) },
            Err(_) => Slot::floats(*name, width),
        }
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let input = Arc::new(Repeated { batches: Arc::new(net.batches.clone()), files: steps });
    let settings = MemorySettings::new(input, slots.collect());
    let settings = MemorySettings { batch_size: batch, readers: cores, ..settings };
    let mut samples = MemoryDataset::new(settings)?;
    samples.load()?;
    samples.local_shuffle(1);
    Ok(samples)
}

/// Files that have one batch each.
struct Repeated {
    batches: Arc<Vec<Vec<Tensor>>>,
    files: usize,
}

/// A batch that is read.
struct Opened(Arc<Vec<Vec<Tensor>>>, usize);

impl Input for Repeated {
    fn files(&self) -> usize {
        self.files
    }

    fn open(&self, file: usize) -> bireme_data::Result<Box<dyn Rows>> {
        Ok(Box::new(Opened(Arc::clone(&self.batches), file % self.batches.len())))
    }
}

impl Rows for Opened {
    fn read(&mut self, out: &mut Samples, _: usize) -> bireme_data::Result<bool> {
        let tensors = &self.0[self.1];
        for row in 0..tensors[0].rows() {
            for (tensor, column) in tensors.iter().zip(out.columns_mut()) {
                let width = tensor.dims().tail(1);
                let range = row * width..(row + 1) * width;
                match column.values_mut() {
                    Values::Ids(ids) => {
                        ids.extend(tensor.as_slice::<i64>()?[range].iter().map(|id| *id as u64));
                    }
                    Values::Floats(to) => to.extend_from_slice(&tensor.as_slice::<f32>()?[range]),
                }
            }
            out.end_row();
        }
        Ok(false)
    }
}
