//! One trainer, from its connection to the last epoch.
//!
//! An epoch is trained in portions; after each, trainers may write a checkpoint together. Where a
//! portion ends depends on counts of batches only, so that a run which goes on from a checkpoint
//! trains the same portions as one that was never stopped.

mod ended;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bireme_data::train::too_many_threads;
use bireme_data::{Agreed, Batches, Training};
use bireme_engine::Executor;
use bireme_engine::ir::Program;
use bireme_fleet::collective::Rings;
use bireme_fleet::gpubox::PassRun;
use bireme_fleet::{Fleet, Reduce, Spent};

use super::best::{self, Best, Judge};
use super::checkpoint::{Checkpoints, Position, Setup};
use super::data::{self, Data};
use super::events::{self, Event, Events};
use super::explain;
use super::feed::{self, Feed};
use super::gpubox::Parts;
use super::own_data::{self, Counted};
use super::scores::{Tally, Wanted};
use super::show::{Show, Since, Style};
use super::stop::{self, Stop, Stopping};
use super::topology::Topology;
use super::validation::{self, Validation};
use super::{
    Description, Epoch, Lines, Options, Outcome, Step, gpubox, metrics, optimizer, save, threads_on,
};
use crate::config::{Config, python_float};
use crate::zoo::{self, Model};
use crate::{Error, Result};

/// A trainer that is connected and has its data.
pub(super) struct Trainer<'a> {
    config: &'a Config,
    options: &'a Options,
    topology: Topology,
    model: Model,
    fleet: Fleet,
    /// The other ranks of a collective job.
    rings: Option<Arc<Rings>>,
    executor: Executor,
    data: Data,
    /// Training threads, and threads that each splits its batch over.
    threads: (usize, usize),
    names: save::Names,
    description: Description,
    checkpoints: Checkpoints,
    setup: Setup,
    events: Mutex<Events>,
    position: Position,
    waited: Arc<AtomicU64>,
    /// What the speed counts, and how many of them are in a sample.
    counted: Counted,
    stop: Stop,
    /// What a GPUBox trainer does in passes.
    parts: Option<Parts>,
    /// Metrics beside the model's own.
    wanted: Wanted,
    /// What the model is tried on after each epoch.
    validation: Option<Validation>,
    /// What says which epoch is the best.
    judge: Option<Judge>,
}

impl<'a> Trainer<'a> {
    /// Connects a trainer, and brings it to where it is to begin.
    ///
    /// # Errors
    /// When a server cannot be reached, data or a model cannot be read.
    pub(super) fn new(
        config: &'a Config,
        options: &'a Options,
        topology: Topology,
        mut description: Description,
        model: Model,
        mut fleet: Fleet,
        goes_on: bool,
    ) -> Result<Trainer<'a>> {
        header(config, topology, options);
        let names = save::Names::of(config, &model, &options.log);
        let wanted = Wanted::of(config, zoo::named(&description.model)?, &model)?;
        let threads = config.count("runner.thread_num");
        too_many_threads(threads).iter().for_each(|warning| options.log.warn(warning));
        let (card, repeatable) = (options.card(config)?, splits_batches(config)?);
        let threads = threads_on(card.as_ref(), fleet.main_program()?, threads, repeatable);
        let mut data = own_data::of_trainer(config, options, topology, &model, &fleet, threads)?;
        gpubox::choose_reader(config, topology, &mut data)?;
        let counted = Counted::of(config, topology, &data, options)?;
        let format = data.source().map_or(&model.format, |files| &files.source().format);
        description.lines = Lines::of(format, &model.slots)?;
        let (validation, judge) =
            ended::tried(config, options, topology, (&model, &wanted), &fleet)?;
        let setup = setup(config, topology, &fleet, threads, &data, &description);
        let executor = options.executor(config)?;
        // Trainers meet at checkpoints, so one that failed cannot join the others in the middle.
        fleet.reporter().together();
        let executor = fleet.init_worker(executor)?;
        let rings = fleet.join()?;
        if own_data::shares_files(config, topology) {
            data.share(fleet.file_share()?);
        }
        data.spread(&fleet)?;
        let parts = Parts::of(&fleet, &mut data, &options.log)?;
        let mut checkpoints = Checkpoints::of_run(config, &options.log);
        let last = checkpoints.of(&fleet, &setup, goes_on, options.resume)?;
        let run = folder(config, "runner.run_path", "run");
        let events = Events::open(&run, fleet.worker_index(), last.is_some())?;
        let mut trainer = Trainer {
            config,
            options,
            topology,
            model,
            fleet,
            rings,
            executor,
            data,
            threads,
            names,
            description,
            checkpoints,
            setup,
            events: Mutex::new(events),
            position: Position::default(),
            waited: Arc::default(),
            counted,
            stop: Stop::new(options.interrupt.clone()),
            parts,
            wanted,
            validation,
            judge,
        };
        match last {
            Some((folder, state)) => trainer.resume(&folder, state.trainers)?,
            None => trainer.begin(goes_on)?,
        }
        trainer.say_start()?;
        Ok(trainer)
    }

    fn say_start(&self) -> Result<()> {
        let Setup { model, mode, .. } = &self.setup;
        self.write(events::start(self.config, &self.fleet, model, mode, self.position.batches))
    }

    /// The beginning of a run.
    fn begin(&mut self, wanted_to_go_on: bool) -> Result<()> {
        if wanted_to_go_on {
            self.options.log.warn("there is no checkpoint to go on from: training begins anew");
        }
        let number = self.checkpoints.begin(&self.fleet)?;
        if self.fleet.is_first_worker() {
            best::forget(&self.models())?;
            self.lock_events().forget_infer()?;
        }
        if self.fleet.server_num() == 0
            && let Some(folder) = save::warm_start(self.config)?
        {
            let program = self.fleet.original_program()?;
            save::check_fits(&folder, &self.description, &self.options.log)?;
            save::load(&folder, program, self.executor.scope(), &self.options.log)?;
        }
        let first = u64::try_from(self.config.integer("last_epoch") + 1);
        let epoch = first.map_err(|_| self.config.refuse("last_epoch", "must be at least -1"))?;
        let taken = vec![0; self.threads.0];
        self.position = Position { number, epoch, taken, ..Position::default() };
        Ok(())
    }

    /// Restores the trainer from a checkpoint.
    fn resume(&mut self, folder: &std::path::Path, mut positions: Vec<Position>) -> Result<()> {
        let Trainer { fleet, executor, checkpoints, .. } = self;
        let scope = executor.scope().clone();
        checkpoints.load(folder, fleet, &scope, || {
            fleet.restart(executor)?;
            Ok(())
        })?;
        self.position = positions.swap_remove(self.fleet.worker_index() as usize);
        self.check_lanes(folder)?;
        self.options.log.info(&format!(
            "goes on from checkpoint {}: epoch {}, batch {}",
            folder.display(),
            self.position.epoch,
            self.position.taken.iter().sum::<u64>()
        ));
        Ok(())
    }

    /// Refuses a place in the middle of an epoch whose batches went to training threads in another
    /// way: nobody knows which of them are left.
    fn check_lanes(&mut self, folder: &std::path::Path) -> Result<()> {
        let (taken, lanes) = (&mut self.position.taken, self.threads.0);
        if taken.iter().all(|taken| *taken == 0) {
            *taken = vec![0; lanes];
        }
        if taken.len() == lanes {
            return Ok(());
        }
        Err(Error::Settings(format!(
            "checkpoint {} is in the middle of an epoch whose batches are shared out in another way \
             (batches trained at a time: {}, in this run {lanes}): set `runner.thread_num` and \
             `runner.parallel` as they were, or resume with the version that wrote it",
            folder.display(),
            taken.len()
        )))
    }

    /// Trains all epochs that are left.
    ///
    /// # Errors
    /// As [`super::train`].
    pub(super) fn run(mut self) -> Result<Outcome> {
        let epochs = self.config.count("runner.epochs") as u64;
        if self.position.epoch >= epochs {
            self.say_nothing_is_left(epochs);
        }
        while self.position.epoch < epochs {
            if let Some(why) = self.is_over_early() {
                self.options.log.info(&why);
                break;
            }
            self.epoch()?;
        }
        self.say_best();
        self.data.report_bad_lines(&self.options.log);
        // The other ranks see that this one has gone when the last handle is dropped.
        self.rings = None;
        self.fleet.stop_worker()?;
        self.write(Event::End { time: events::now(), batch: self.position.batches })?;
        self.finish()?;
        let run = self.lock_events().folder().to_owned();
        let Position { epochs, best, .. } = self.position;
        Ok(Outcome { epochs, best, run: Some(run) })
    }

    /// Why no further epoch is trained, if that is so.
    fn is_over_early(&self) -> Option<String> {
        let (judge, best) = (self.judge.as_ref()?, self.position.best.as_ref()?);
        judge.is_over(Some(best), self.position.epoch).then(|| judge.why(best))
    }

    fn say_best(&self) {
        if let Some(Best { epoch, metric, value }) = &self.position.best {
            let text = format!("the best epoch is {epoch}: valid {metric} {value:.6}");
            self.options.log.info(&text);
        }
    }

    /// The folder of the models.
    fn models(&self) -> PathBuf {
        PathBuf::from(self.config.text("runner.model_save_path"))
    }

    /// A run that trains nothing says why.
    fn say_nothing_is_left(&self, epochs: u64) {
        let reason = match self.position.epoch {
            _ if epochs == 0 => "`runner.epochs` is 0: set it to at least 1".to_owned(),
            epoch if self.position.batches > 0 => format!(
                "the checkpoint is after epoch {}, and `runner.epochs` is {epochs}: set it higher to \
                 train more",
                epoch.saturating_sub(1)
            ),
            epoch => format!(
                "`last_epoch` is {}, and `runner.epochs` is {epochs}, which counts from epoch 0: set \
                 it to at least {}",
                epoch.saturating_sub(1),
                epoch + 1
            ),
        };
        self.options.log.warn(&format!("nothing is trained: {reason}"));
    }

    /// Trains what is left of an epoch, shows what came out, saves the model.
    fn epoch(&mut self) -> Result<()> {
        let epoch = self.position.epoch;
        if self.topology.has_servers() {
            self.options.log.info(&format!("Epoch: {epoch}, Running Dataset Begin."));
        }
        let started = Instant::now();
        let (spent, interval) =
            (self.position.seconds, self.config.count("runner.checkpoint_interval"));
        let feeds = self.feeds()?;
        if let Some(tell) = self.options.on_step.as_ref().filter(|_| self.position.batches == 0) {
            tell(&Step::default());
        }
        let each = match interval {
            0 => u64::MAX,
            batches => (batches as u64).div_ceil(self.threads.0 as u64),
        };
        let (mut last, mut left) = (Vec::new(), each);
        loop {
            let (most, run) = self.begin_part(&feeds)?;
            let before: u64 = self.position.taken.iter().sum();
            self.portion(&feeds, run.as_ref(), left.min(most), &mut last)?;
            left = left.saturating_sub(self.position.taken.iter().sum::<u64>() - before);
            self.position.seconds = spent + started.elapsed().as_secs_f64();
            if self.any_is_asked_to_stop()? {
                return self.stop_early();
            }
            let is_over = match &self.parts {
                Some(parts) => parts.are_over(self.position.taken[0]),
                None => interval == 0 || self.all(feeds.iter().all(Feed::is_ended))?,
            };
            if is_over {
                break;
            }
            if interval > 0 && (self.parts.is_none() || left == 0) {
                self.checkpoint()?;
                left = each;
            }
        }
        match &mut self.parts {
            // Its rows stay; the tables are given them while the next pass begins.
            Some(parts) => parts.end(&self.fleet, &self.options.log)?,
            None if gpubox::end_stream(&self.fleet, &self.options.log) => {}
            None => self.fleet.flush()?,
        }
        if self.all(self.position.samples == 0)? {
            return Err(self.no_batch());
        }
        let Some(valid) = self.validate()? else { return self.stop_early() };
        self.end_epoch(&last, valid)?;
        // What was trained is saved by now: it may have taken hours.
        self.check_named()
    }

    /// Begins the part of a GPUBox epoch that comes next; how many batches it has at most, and how they
    /// are trained.
    fn begin_part(&mut self, feeds: &[Feed]) -> Result<(u64, Option<PassRun>)> {
        let fetches = self.fetches();
        let Some(parts) = &mut self.parts else { return Ok((u64::MAX, None)) };
        let (taken, log) = (self.position.taken[0], &self.options.log);
        match parts.begin(taken, &fetches, &self.data, &self.fleet, log)? {
            None => Ok((0, None)),
            Some(begun) => {
                feeds[0].go_on_with(Box::new(Stopping::new(begun.batches, &self.stop)));
                Ok((begun.left, Some(begun.run)))
            }
        }
    }

    /// Looks for slots that no line has named; all trainers call it together.
    fn check_named(&mut self) -> Result<()> {
        let Some(files) = self.data.source() else { return Ok(()) };
        match data::unnamed(files, &self.fleet)? {
            Some(unnamed) if unnamed.is_error => Err(Error::Settings(format!(
                "{}; the model of the epoch is saved",
                unnamed.problem
            ))),
            Some(unnamed) if self.fleet.is_first_worker() => {
                self.data.warn_unnamed(&unnamed.problem, &self.options.log);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Saves where the run is, for one that goes on; all trainers call it together.
    fn stop_early(&mut self) -> Result<()> {
        self.options.log.info("asked to stop: a checkpoint is written");
        self.fleet.flush()?;
        self.checkpoint()?;
        self.rings = None;
        self.fleet.stop_worker()?;
        Err(Error::Interrupted)
    }

    /// That an epoch has no batch, with what there is instead.
    fn no_batch(&mut self) -> Error {
        let (epoch, size) = (self.position.epoch, self.data.batch_size());
        let samples = match self.data.count_samples(epoch) {
            Ok(samples) => samples,
            Err(error) => return error,
        };
        let others = match self.fleet.worker_num() {
            1 => String::new(),
            trainers => format!(" of this trainer, one of {trainers},"),
        };
        Error::Settings(format!(
            "there is no batch in epoch {epoch}: the {} files{others} have {samples} samples, and \
             `runner.train_batch_size` is {size}: please ensure batch size < dataset size!",
            self.data.files().len()
        ))
    }

    /// The batches of this epoch that are left.
    fn feeds(&mut self) -> Result<Vec<Feed>> {
        let agree = match gpubox::is_stream(&self.fleet, &self.data) {
            true => None,
            false => feed::agree(&self.fleet, self.rings.as_ref(), self.topology, &self.stop),
        };
        let batches = self.data.open(self.position.epoch, self.threads.0)?;
        let (mut feeds, slots) = (Vec::new(), &self.model.slots);
        for (batches, taken) in batches.into_iter().zip(&self.position.taken) {
            let mut batches: Box<dyn Batches> = match &agree {
                Some(agree) => Box::new(Agreed::new(batches, slots, Arc::clone(agree))),
                None => Box::new(Stopping::new(batches, &self.stop)),
            };
            batches.skip(*taken)?;
            let log = &self.options.log;
            let batches = gpubox::with_rows(&self.fleet, &self.data, batches, slots, true, log)?;
            feeds.push(Feed::new(batches, *taken, &self.waited));
        }
        Ok(feeds)
    }

    /// Whether something is so for all trainers; they ask together.
    fn all(&self, mine: bool) -> Result<bool> {
        let least = self.fleet.util().all_reduce(&[f64::from(u8::from(mine))], Reduce::Min)?;
        Ok(least[0] == 1.0)
    }

    /// Whether a trainer is asked to stop; they ask together. One that is asked alone may find the
    /// others in the middle of an epoch, and does not wait for its end.
    fn any_is_asked_to_stop(&self) -> Result<bool> {
        let asked = self.stop.is_asked();
        let Some(worker) = self.fleet.worker().filter(|_| asked && self.fleet.worker_num() > 1)
        else {
            return Ok(!self.all(!asked)?);
        };
        let log = &self.options.log;
        log.info("asked to stop: the checkpoint waits for the other trainers");
        let worker = Arc::clone(worker);
        match stop::soon(move || worker.all_reduce(&[0.0], Reduce::Min)) {
            Some(met) => {
                met.map(|_| true).map_err(|error| Error::from(bireme_fleet::Error::from(error)))
            }
            None => {
                log.warn(
                    "the other trainers train on, and write checkpoints only together: this one \
                     ends without; set `runner.checkpoint_interval` to have some on the way",
                );
                Err(Error::Interrupted)
            }
        }
    }

    /// Trains up to so many batches on each thread.
    fn portion(
        &mut self,
        feeds: &[Feed],
        run: Option<&PassRun>,
        each: u64,
        last: &mut Vec<f64>,
    ) -> Result<()> {
        let fetches = self.fetches();
        let program = run.and_then(|run| run.program.as_ref());
        let program = program.map_or_else(|| self.fleet.main_program(), Ok)?;
        let program = of_portion(program, self.position.portions);
        let scope = self.executor.scope().clone();
        let before: u64 = self.position.taken.iter().sum();
        let (worker, device) = (self.fleet.worker(), self.executor.device());
        let worker = worker.map(|worker| &**worker);
        let style = if self.data.is_loader() { Style::Loop } else { Style::Executor };
        let (epoch, log) = (self.position.epoch, &self.options.log);
        let wanted = self.wanted.of_training();
        let tally = Tally::new(&wanted, self.position.sums.clone());
        let show = Show {
            print_interval: self.config.count("runner.print_interval").max(1) as u64,
            events: Some(&self.events),
            on_step: self.options.on_step.as_ref(),
            before: (before, self.position.batches),
            worker,
            since: Mutex::new(Since::now(&self.waited, worker)),
            tally: Some(tally.into()),
            ..Show::new(style, epoch, &self.model, &wanted, log, &self.waited)
        };
        let reporter = self.fleet.reporter();
        let spent = || Spent::of(worker, device.map(|device| &**device));
        let hook = |progress: &bireme_data::Progress<'_>| {
            reporter.steps(1, Some(progress.data.rows() as u64), spent);
            show.step(progress).map_err(|error| bireme_data::Error::Settings(error.to_string()))
        };
        let interrupt = || self.stop.is_urgent();
        let warn = |text: &str| self.options.log.warn_once(text);
        let training = Training {
            fetches: &fetches,
            split: self.threads.1,
            check_finite: self.options.check_finite,
            device: self.executor.device().cloned(),
            on_memory: self.options.on_memory.clone(),
            warn: Some(&warn),
            remote: self.fleet.worker().map(|worker| Arc::clone(worker) as _),
            collective: self.rings.as_ref().map(|rings| Arc::clone(rings) as _),
            interrupt: Some(&interrupt),
            on_batch: Some(&hook),
            ..Training::new(&program, &scope, &self.model.slots)
        };
        let portions = feeds.iter().map(|feed| feed.portion(each)).collect();
        let summary = bireme_data::train(&training, portions)
            .map_err(|error| explain::with_line(self.data.source(), error.into()))?;
        let (since, tally) = show.into_parts();
        if !since.last.is_empty() {
            *last = since.last;
        }
        if let Some(mut passes) = self.fleet.passes() {
            passes.trained(summary.batches);
        }
        let position = &mut self.position;
        position.sums = tally.map_or_else(Vec::new, |tally| tally.sums().to_vec());
        position.loss += since.total_loss;
        position.losses += summary.batches;
        position.samples += summary.samples;
        position.batches += summary.batches;
        position.portions += 1;
        position.taken = feeds.iter().map(Feed::taken).collect();
        Ok(())
    }

    fn shown_names(&self) -> Vec<String> {
        let counted = self.wanted.of_training().names();
        [vec!["cost".to_owned()], metrics::names(&self.model), counted].concat()
    }

    fn fetches(&self) -> Vec<String> {
        validation::fetches(&self.model, &self.wanted.of_training())
    }

    fn checkpoint(&mut self) -> Result<()> {
        let started = Instant::now();
        self.position.number += 1;
        let scope = self.executor.scope();
        let folder = self.checkpoints.write(&self.fleet, scope, &self.setup, &self.position)?;
        self.saved("checkpoint", folder, started)
    }

    fn saved(&self, what: &str, path: PathBuf, started: Instant) -> Result<()> {
        self.write(Event::Save {
            time: events::now(),
            batch: self.position.batches,
            what: what.to_owned(),
            path,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    fn write(&self, event: Event) -> Result<()> {
        self.lock_events().write(&event)
    }

    fn lock_events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last lines of `static_ps_trainer.py`, and its file of results.
    fn finish(&self) -> Result<()> {
        if !self.topology.has_servers() {
            return Ok(());
        }
        let list = |values: Vec<String>| format!("[{}]", values.join(", "));
        let epochs = &self.position.epochs;
        let speed = |epoch: &Epoch| python_float(self.counted.speed(epoch.samples, epoch.seconds));
        let mut text = format!("{{'speed': {}", list(epochs.iter().map(speed).collect()));
        if let Some(metric) =
            self.model.metrics.first().filter(|_| self.config.switch("runner.use_auc"))
        {
            let auc = |epoch: &Epoch| epoch.metrics.get(&metric.name).map(|auc| python_float(*auc));
            text += &format!(", 'auc': {}", list(epochs.iter().filter_map(auc).collect()));
        }
        text.push('}');
        let log = &self.options.log;
        log.info(&format!("train_result_dict: {text}"));
        if self.fleet.is_first_worker() {
            let folder = PathBuf::from(self.config.text("runner.model_save_path"));
            let path = folder.join("train_result_dict.txt");
            std::fs::write(&path, &text).map_err(|error| Error::file(&path, error))?;
        }
        log.info("Run Success, Exit.");
        Ok(())
    }
}

/// Whether the threads of a trainer split each batch, also where they need not.
fn splits_batches(config: &Config) -> Result<bool> {
    let key = "runner.parallel";
    match config.text(key).as_str() {
        "threads" => Ok(false),
        "batch" => Ok(true),
        other => Err(config.refuse(key, format!("is `{other}`: use threads or batch"))),
    }
}

/// What must be the same for a run that goes on from a checkpoint of this one.
fn setup(
    config: &Config,
    topology: Topology,
    fleet: &Fleet,
    threads: (usize, usize),
    data: &Data,
    description: &Description,
) -> Setup {
    Setup {
        model: description.model.clone(),
        mode: topology.name().to_owned(),
        trainers: fleet.worker_num() as usize,
        threads: threads.0 * threads.1,
        batch_size: data.batch_size(),
        seed: config.count("runner.seed") as u64,
        optimizer: optimizer::name(config),
        parameters: description.parameters.clone(),
        hyper_parameters: description.hyper_parameters.clone(),
        shuffle: data.order().to_string(),
    }
}

/// A folder of the run: as the key says, or in the folder of the models.
pub(super) fn folder(config: &Config, key: &str, name: &str) -> PathBuf {
    match config.text(key) {
        own if !own.is_empty() => PathBuf::from(own),
        _ => PathBuf::from(config.text("runner.model_save_path")).join(name),
    }
}

/// The program of a portion, or of a pass: its random numbers are its own, and a run that resumes
/// there has the same ones.
pub(super) fn of_portion(program: &Program, portion: u64) -> Program {
    let mut program = program.clone();
    let apart = portion.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    program.random_seed = program.random_seed.wrapping_add(apart);
    program
}

/// The first lines of PaddleRec's trainers.
fn header(config: &Config, topology: Topology, options: &Options) {
    let log = &options.log;
    if topology.has_servers() {
        log.info("Run Worker Begin");
        return;
    }
    let stars = "**************common.configs**********";
    let value = |key: &str| {
        config.node(key).map_or_else(|| "None".to_owned(), |node| node.value.to_string())
    };
    let switch = |key: &str| if config.switch(key) { "True" } else { "False" };
    log.info(stars);
    log.info(&format!(
        "use_gpu: {}, use_xpu: {}, use_npu: {}, use_visual: {}, train_batch_size: {}, \
         train_data_dir: {}, epochs: {}, print_interval: {}, model_save_path: {}",
        switch("runner.use_gpu"),
        switch("runner.use_xpu"),
        switch("runner.use_npu"),
        switch("runner.use_visual"),
        value("runner.train_batch_size"),
        value("runner.train_data_dir"),
        value("runner.epochs"),
        value("runner.print_interval"),
        value("runner.model_save_path"),
    ));
    log.info(stars);
    log.info("read data");
}
