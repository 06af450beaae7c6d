//! Streaming, as PaddleRec's `static_ps_online_trainer.py`: days and passes. Each pass is loaded,
//! shuffled among the trainers, evaluated with the model so far, and trained; models are saved on
//! the way, and the last that is complete is where a run goes on.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bireme_data::parse::Named;
use bireme_data::source::expand;
use bireme_data::train::too_many_threads;
use bireme_data::{Agreed, Batches, Files, Summary, Training};
use bireme_engine::Executor;
use bireme_engine::ir::Program;
use bireme_fleet::collective::Rings;
use bireme_fleet::{Fleet, SaveMode, Spent, clock};

use super::calendar::{Day, passes};
use super::data::{self, Data, Purpose, Reading};
use super::events::{self, Event, Events};
use super::feed::{self, Feed};
use super::gpubox::Parts;
use super::scores::Wanted;
use super::show::{Show, Since, Style};
use super::stop::Stop;
use super::topology::Topology;
use super::{Epoch, Options, Outcome, gpubox, metrics, threads_on, trainer};
use crate::config::{Config, python_float};
use crate::zoo::Model;
use crate::{Error, Log, Result};

/// Checkpoints that are complete: day, key, path, pass.
pub(super) const DONE: &str = "donefile.txt";
/// Models for serving that are complete.
const BASE_DONE: &str = "xbox_base_done.txt";
/// Differences for serving that are complete.
const DELTA_DONE: &str = "xbox_patch_done.txt";

/// A trainer of a stream.
pub(super) struct Stream<'a> {
    config: &'a Config,
    options: &'a Options,
    topology: Topology,
    name: String,
    model: Model,
    fleet: Fleet,
    rings: Option<Arc<Rings>>,
    executor: Executor,
    threads: (usize, usize),
    folder: PathBuf,
    /// Where the event log is, and the log once training has begun.
    run: PathBuf,
    events: Option<Mutex<Events>>,
    /// Batches that were trained.
    batches: u64,
    /// Whether a pass was trained: before that there is no model to evaluate.
    has_trained: bool,
    /// Which slots the lines of all passes have named.
    named: Arc<Named>,
    /// The files of the last pass.
    input: Option<Arc<Files>>,
}

impl<'a> Stream<'a> {
    /// Connects a trainer.
    ///
    /// # Errors
    /// When a server cannot be reached.
    pub(super) fn new(
        config: &'a Config,
        options: &'a Options,
        topology: Topology,
        name: String,
        model: Model,
        mut fleet: Fleet,
    ) -> Result<Stream<'a>> {
        days(config)?;
        check_keys(config, topology)?;
        options.log.info("Run Worker Begin");
        let threads = config.count("runner.train_thread_num");
        too_many_threads(threads).iter().for_each(|warning| options.log.warn(warning));
        let card = options.card(config)?;
        let threads = threads_on(card.as_ref(), fleet.main_program()?, threads, false);
        let executor = options.executor(config)?;
        // Trainers meet at every pass, so one that failed cannot join the others in the middle.
        fleet.reporter().together();
        let executor = fleet.init_worker(executor)?;
        let rings = fleet.join()?;
        let folder = PathBuf::from(config.text("runner.model_save_path"));
        let run = trainer::folder(config, "runner.run_path", "run");
        Ok(Stream {
            config,
            options,
            topology,
            name,
            model,
            fleet,
            rings,
            executor,
            threads,
            folder,
            run,
            events: None,
            batches: 0,
            has_trained: false,
            named: Arc::default(),
            input: None,
        })
    }

    /// Trains all days that are left.
    ///
    /// # Errors
    /// As [`super::train`].
    pub(super) fn run(mut self, goes_on: bool) -> Result<Outcome> {
        let (mut day, last) = days(self.config)?;
        warn_left_out(self.config, &self.options.log)?;
        let mut first_pass = 1;
        let done = if goes_on { self.last_done()? } else { None };
        self.begin_log(done.as_ref().map(|(_, _, path)| path.as_path()))?;
        if let Some((done_day, done_pass, path)) = done {
            self.load(&path)?;
            self.options.log.info(&format!(
                "goes on from {}: day {done_day}, pass {done_pass}",
                path.display()
            ));
            day = done_day;
            if day > last {
                self.options.log.warn(&format!(
                    "nothing is trained: all days up to `runner.end_day`, {last}, are done"
                ));
            }
            first_pass = usize::try_from(done_pass).map_or(1, |pass| pass + 1);
        } else if self.config.switch("runner.save_first_base") {
            self.save(day, "base", SaveMode::Base, BASE_DONE, -1)?;
        }
        let mut epochs = Vec::new();
        while day <= last {
            self.day_of_passes(day, first_pass, &mut epochs)?;
            (day, first_pass) = (day.next(), 1);
        }
        self.rings = None;
        self.fleet.stop_worker()?;
        self.write(&Event::End { time: events::now(), batch: self.batches })?;
        self.options.log.info("Run Success, Exit.");
        Ok(Outcome { epochs, best: None, run: Some(self.run) })
    }

    /// Opens the event log, of a run that begins anew or goes on from what was saved at a path.
    fn begin_log(&mut self, done: Option<&Path>) -> Result<()> {
        let trainer = self.fleet.worker_index();
        self.batches = done.map_or(0, |path| events::batch_of_save(&self.run, trainer, path));
        self.events = Some(Mutex::new(Events::open(&self.run, trainer, done.is_some())?));
        let mode = self.topology.name();
        self.write(&events::start(self.config, &self.fleet, &self.name, mode, self.batches))
    }

    fn write(&self, event: &Event) -> Result<()> {
        match &self.events {
            Some(events) => events.lock().unwrap_or_else(PoisonError::into_inner).write(event),
            None => Ok(()),
        }
    }

    /// The number of a pass among those of all days, from 0.
    fn number(&self, day: Day, pass: usize) -> Result<u64> {
        let count = |key| self.config.count(key);
        let of_day = passes(count("runner.split_interval"), count("runner.split_per_pass")).len();
        let (mut first, mut before) = (days(self.config)?.0, 0);
        while first < day {
            (first, before) = (first.next(), before + 1);
        }
        Ok((before * of_day + pass - 1) as u64)
    }

    fn day_of_passes(&mut self, day: Day, first: usize, epochs: &mut Vec<Epoch>) -> Result<()> {
        let count = |key| self.config.count(key);
        let all = passes(count("runner.split_interval"), count("runner.split_per_pass"));
        let (checkpoints, deltas) = (
            count("runner.checkpoint_per_pass").max(1),
            count("runner.save_delta_frequency").max(1),
        );
        let mut ahead: Option<(usize, Option<Data>)> = None;
        for pass in first..=all.len() {
            let data = match ahead.take() {
                Some((number, data)) if number == pass => data,
                _ => self.read(day, &all[pass - 1])?,
            };
            if self.config.switch("runner.prefetch") && pass < all.len() {
                ahead = Some((pass + 1, self.read(day, &all[pass])?));
            }
            let Some(data) = data else { continue };
            self.input = data.source().cloned();
            epochs.push(self.pass(day, pass, data)?);
            if pass % checkpoints == 0 && pass < all.len() {
                self.save(day, &pass.to_string(), SaveMode::Full, DONE, pass as i64)?;
            }
            if pass % deltas == 0 {
                self.save(day, &format!("delta_{pass}"), SaveMode::Delta, DELTA_DONE, pass as i64)?;
            }
        }
        if let Some(input) = self.input.take().filter(|_| first == 1)
            && let Some(unnamed) = data::unnamed(&input, &self.fleet)?
        {
            // No error: what the day has trained is to be saved, and the stream goes on.
            self.options.log.warn(&unnamed.problem);
        }
        if self.fleet.server_num() > 0 {
            self.options.log.info("shrink table");
            self.fleet.shrink()?;
        }
        let next = day.next();
        self.save(next, "base", SaveMode::Base, BASE_DONE, -1)?;
        self.save(next, "0", SaveMode::FullAging, DONE, -1)
    }

    /// Begins to read this trainer's files of a pass; none where there is no data.
    fn read(&self, day: Day, folders: &[String]) -> Result<Option<Data>> {
        let root = data::existing(self.config, &self.config.text("runner.train_data_dir"));
        let mut files = Vec::new();
        for folder in folders {
            let folder = root.join(day.to_string()).join(folder);
            self.wait_for(&folder)?;
            if folder.is_dir() {
                files.extend(expand(&[&folder])?);
            }
        }
        let done = self.config.text("runner.data_donefile");
        files.retain(|file| file.file_name().is_none_or(|name| *name != *done));
        if files.is_empty() {
            return Ok(None);
        }
        let own = self.fleet.split_files(&files)?.to_vec();
        if own.is_empty() {
            return Err(Error::Settings(format!(
                "day {day}: {} files are too few for {} trainers: use fewer trainers",
                files.len(),
                self.fleet.worker_num()
            )));
        }
        let reading = Reading {
            config: self.config,
            model: &self.model,
            purpose: Purpose::Train,
            skip_bad_lines: self.options.skip_bad_lines,
            threads: self.threads.0,
            named: Arc::clone(&self.named),
            lines: None,
            // A pass may be minutes of data: a slot may come later in the day.
            partial: true,
            with_servers: true,
            interrupt: self.options.interrupt.clone(),
            log: &self.options.log,
        };
        if gpubox::streams_days(self.config, self.topology) {
            return Ok(Some(Data::new(&reading, own)?));
        }
        let mut data = Data::of_pass(&reading, own)?;
        let threads = self.config.count("runner.preload_thread_num");
        match self.fleet.passes() {
            // Its records come while the pass before it is trained.
            Some(passes) => {
                let (ahead, groups) = (passes.ahead(), passes.plan().groups());
                let of = (groups, passes.ranks());
                data.preload_with_keys(threads, of, move |keyed| ahead.prepare(keyed.keys))?;
            }
            None => data.preload(threads)?,
        }
        Ok(Some(data))
    }

    /// Waits until a folder's data is complete, where a file says so.
    fn wait_for(&self, folder: &Path) -> Result<()> {
        let done = self.config.text("runner.data_donefile");
        if done.is_empty() {
            return Ok(());
        }
        let sleep =
            Duration::from_secs(self.config.count("runner.data_sleep_second").max(1) as u64);
        let mut waited = Duration::MAX;
        while !folder.join(&done).exists() {
            if waited >= sleep {
                self.options.log.info(&format!("wait for {}", folder.join(&done).display()));
                waited = Duration::ZERO;
            }
            if self.options.interrupt.as_ref().is_some_and(|asked| asked()) {
                return Err(Error::Interrupted);
            }
            // Short naps, so that Ctrl-C is heard.
            let nap = Duration::from_millis(100);
            std::thread::sleep(nap);
            waited = waited.saturating_add(nap);
        }
        Ok(())
    }

    /// Evaluates a pass with the model so far, and trains it.
    fn pass(&mut self, day: Day, pass: usize, mut data: Data) -> Result<Epoch> {
        let log = &self.options.log;
        let started = Instant::now();
        let seed = self.config.count("runner.seed") as u64;
        data.shuffle(&self.fleet, seed.wrapping_add(pass as u64))?;
        let mut parts = Parts::of(&self.fleet, &mut data, log)?;
        let read = started.elapsed().as_secs_f64();
        let inferring = Instant::now();
        if self.has_trained {
            self.run_over(&mut data, &mut parts, true, pass as u64, None)?;
            let seen = self.global()?;
            log.info(&format!("Day:{day}, Pass: {pass}, Infer Global Metric: {}", text(&seen)));
        }
        self.has_trained = true;
        let infer = inferring.elapsed().as_secs_f64();
        let training = Instant::now();
        let number = self.number(day, pass)?;
        let (summary, loss) =
            self.run_over(&mut data, &mut parts, false, pass as u64, Some(number))?;
        let samples = summary.samples;
        self.batches += summary.batches;
        match &mut parts {
            // Its rows stay; the tables are given them while the next pass begins.
            Some(parts) => parts.end(&self.fleet, log)?,
            None if gpubox::end_stream(&self.fleet, log) => {}
            None => self.fleet.flush()?,
        }
        let train = training.elapsed().as_secs_f64();
        let metrics = self.global()?;
        log.info(&format!("Day:{day}, Pass: {pass}, Train Global Metric: {}", text(&metrics)));
        let releasing = Instant::now();
        drop(data);
        let release = releasing.elapsed().as_secs_f64();
        let seconds = started.elapsed().as_secs_f64();
        let other = (seconds - read - train - infer - release).max(0.0);
        let minutes = |seconds: f64| python_float(seconds / 60.0);
        log.info(&format!(
            "finished train epoch {pass} time cost:{} min job time \
             cost:[read_data:{}][train: {}][metric: 0.0][release: {}][infer:{}][infer_metric: 0.0]\
             [other:{}]",
            minutes(seconds),
            minutes(read),
            minutes(train),
            minutes(release),
            minutes(infer),
            minutes(other)
        ));
        let model = self.folder.join(day.to_string());
        self.write(&Event::Epoch {
            time: events::now(),
            epoch: number,
            batch: self.batches,
            metrics: metrics.clone(),
            samples,
            seconds: train,
        })?;
        let (epoch, valid) = (pass as u64, BTreeMap::new());
        Ok(Epoch { epoch, loss, metrics, valid, samples, seconds, model })
    }

    /// Goes through the data once; what was done, and the mean loss. Steps of the pass with this
    /// `number` among all go to the event log.
    fn run_over(
        &self,
        data: &mut Data,
        parts: &mut Option<Parts>,
        infer: bool,
        pass: u64,
        number: Option<u64>,
    ) -> Result<(Summary, f64)> {
        let threads = match infer {
            true => (1, self.config.count("runner.infer_thread_num").max(1)),
            false => self.threads,
        };
        let only_loss = vec!["cost".to_owned()];
        let fetches = [self.model.loss.name().to_owned()];
        let (waited, log) = (Arc::default(), &self.options.log);
        let (worker, device) = (self.fleet.worker(), self.executor.device());
        let worker = worker.map(|worker| &**worker);
        let show = Show {
            logged_epoch: number.unwrap_or(pass),
            names: only_loss,
            print_interval: self.config.count("runner.print_interval").max(1) as u64,
            events: number.and(self.events.as_ref()),
            before: (0, self.batches),
            worker,
            since: Mutex::new(Since::now(&waited, worker)),
            ..Show::new(Style::Executor, pass, &self.model, &Wanted::default(), log, &waited)
        };
        let reporter = self.fleet.reporter();
        let spent = || Spent::of(worker, device.map(|device| &**device));
        let hook = |progress: &bireme_data::Progress<'_>| {
            reporter.steps(1, Some(progress.data.rows() as u64), spent);
            show.step(progress).map_err(|error| bireme_data::Error::Settings(error.to_string()))
        };
        let interrupt = || self.options.interrupt.as_ref().is_some_and(|asked| asked());
        let feeds = self.feeds(data, threads.0, infer, &waited)?;
        let scope = self.executor.scope().clone();
        let program = trainer::of_portion(self.fleet.main_program()?, number.unwrap_or(0));
        let warn = |text: &str| self.options.log.warn_once(text);
        let training = Training {
            fetches: &fetches,
            split: threads.1,
            infer,
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
        let summary = self.train_parts(&training, &feeds, data, parts)?;
        let (since, _) = show.into_parts();
        Ok((summary, since.total_loss / summary.batches.max(1) as f64))
    }

    /// The batches of each training thread.
    fn feeds(
        &self,
        data: &mut Data,
        threads: usize,
        infer: bool,
        waited: &Arc<AtomicU64>,
    ) -> Result<Vec<Feed>> {
        let agree = match infer || gpubox::is_stream(&self.fleet, data) {
            true => None,
            // A pass is trained whole, or its trainers begin it anew.
            false => feed::agree(&self.fleet, self.rings.as_ref(), self.topology, &Stop::default()),
        };
        let mut feeds = Vec::new();
        for batches in data.open(0, threads)? {
            let batches: Box<dyn Batches> = match &agree {
                Some(agree) => Box::new(Agreed::new(batches, &self.model.slots, Arc::clone(agree))),
                None => batches,
            };
            let (slots, log) = (&self.model.slots, &self.options.log);
            let batches = gpubox::with_rows(&self.fleet, data, batches, slots, !infer, log)?;
            feeds.push(Feed::new(batches, 0, waited));
        }
        Ok(feeds)
    }

    /// Trains all batches: at once, or part by part.
    fn train_parts(
        &self,
        training: &Training<'_>,
        feeds: &[Feed],
        data: &Data,
        parts: &mut Option<Parts>,
    ) -> Result<Summary> {
        let mut all = Summary::default();
        loop {
            let begun = match parts {
                Some(parts) => {
                    let log = &self.options.log;
                    parts.begin(all.batches, training.fetches, data, &self.fleet, log)?
                }
                None => None,
            };
            let (mut most, mut by_rows) = (u64::MAX, None);
            if let Some(begun) = begun {
                feeds[0].go_on_with(begun.batches);
                (most, by_rows) = (begun.left, begun.run.program);
            } else if parts.is_some() {
                return Ok(all);
            }
            let seed = training.program.random_seed;
            let by_rows = by_rows.map(|program| Program { random_seed: seed, ..program });
            let program = by_rows.as_ref().unwrap_or(training.program);
            let portions = feeds.iter().map(|feed| feed.portion(most)).collect();
            let part = bireme_data::train(&Training { program, ..training.clone() }, portions)?;
            if let (Some(mut passes), false) = (self.fleet.passes(), training.infer) {
                passes.trained(part.batches);
            }
            all.batches += part.batches;
            all.samples += part.samples;
            all.seconds += part.seconds;
            all.wait_for_data_seconds += part.wait_for_data_seconds;
            let is_over = parts.as_ref().is_none_or(|parts| parts.are_over(all.batches));
            if part.batches == 0 || is_over {
                return Ok(all);
            }
        }
    }

    /// Metrics over all trainers, whose counts begin anew.
    fn global(&self) -> Result<BTreeMap<String, f64>> {
        let scope = self.executor.scope();
        let mut values = BTreeMap::new();
        for metric in &self.model.metrics {
            if let Some(value) = metrics::global(metric, scope, &self.fleet)? {
                values.insert(metric.name.clone(), value);
                metrics::reset(metric, scope)?;
            }
        }
        Ok(values)
    }

    /// Saves, and notes in a file that it is complete.
    fn save(&self, day: Day, name: &str, mode: SaveMode, done: &str, pass: i64) -> Result<()> {
        let path = self.folder.join(day.to_string()).join(name);
        let started = Instant::now();
        self.fleet.save_persistables(&path, self.executor.scope(), mode)?;
        let what = if done == DONE { "checkpoint" } else { "model" };
        self.write(&Event::Save {
            time: events::now(),
            batch: self.batches,
            what: what.to_owned(),
            path: path.clone(),
            seconds: started.elapsed().as_secs_f64(),
        })?;
        if !self.fleet.is_first_worker() {
            return Ok(());
        }
        let file = self.folder.join(done);
        let failed = |error| Error::file(&file, error);
        let key = clock::unix_seconds() as u64;
        let line = format!("{day}\t{key}\t{}\t{pass}\t0\n", path.display());
        let mut out = OpenOptions::new().create(true).append(true).open(&file).map_err(failed)?;
        out.write_all(line.as_bytes()).and_then(|()| out.sync_all()).map_err(failed)
    }

    /// The last complete checkpoint, as trainer 0 sees it: day, pass, path.
    fn last_done(&self) -> Result<Option<(Day, i64, PathBuf)>> {
        let own = match self.fleet.is_first_worker() {
            true => fs::read_to_string(self.folder.join(DONE)).unwrap_or_default(),
            false => String::new(),
        };
        let own = own.lines().next_back().unwrap_or_default();
        let line = self.fleet.util().all_gather(own.as_bytes())?.swap_remove(0);
        let line = String::from_utf8_lossy(&line).into_owned();
        let fields: Vec<&str> = line.split('\t').collect();
        let [day, _, path, pass, ..] = fields[..] else { return Ok(None) };
        let day = day.parse().ok().and_then(Day::parse);
        Ok(day.zip(pass.parse().ok()).map(|(day, pass)| (day, pass, PathBuf::from(path))))
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        if self.fleet.server_num() == 0 {
            let program = self.fleet.original_program()?;
            let scope = self.executor.scope();
            return Ok(bireme_engine::io::load_persistables(path, program, scope, None)?);
        }
        self.fleet.load_model(path, SaveMode::Full)?;
        self.fleet.restart(&mut self.executor)?;
        Ok(())
    }
}

/// The first day and the last.
///
/// # Errors
/// When one is missing or no day, or the last comes before the first.
fn days(config: &Config) -> Result<(Day, Day)> {
    let day = |key: &str| {
        if !config.has(key) {
            return Err(Error::Settings(format!(
                "{}: `{key}` is missing: a stream has a first and a last day, like 20190720",
                config.path().display()
            )));
        }
        let number = config.count(key);
        Day::parse(number)
            .ok_or_else(|| config.refuse(key, format!("is {number}, and no day like 20190720")))
    };
    let (first, last) = (day("runner.start_day")?, day("runner.end_day")?);
    match first <= last {
        true => Ok((first, last)),
        false => Err(config.refuse(
            "runner.end_day",
            format!("is {last}, before `runner.start_day`, {first}: there is no day to train"),
        )),
    }
}

/// Refuses what is of epochs alone, and another order of samples than that of passes, which are
/// shuffled among all trainers.
fn check_keys(config: &Config, topology: Topology) -> Result<()> {
    for key in ["runner.valid_data_dir", "runner.metrics", "runner.early_stop.patience"] {
        if config.has(key) {
            let problem =
                "is of epochs: a stream tries its model on every pass before it is trained";
            return Err(config.refuse(key, problem));
        }
    }
    let key = "runner.shuffle";
    let is_read_while_trained = gpubox::streams_days(config, topology);
    match config.text(key).as_str() {
        "" | "memory" if !is_read_while_trained => Ok(()),
        "" | "none" | "files" | "buffer" if is_read_while_trained => Ok(()),
        other => {
            let problem = format!("is `{other}`, but a stream shuffles its passes: leave it out");
            Err(config.refuse(key, problem))
        }
    }
}

/// Says which folders of a day belong to no pass.
///
/// # Errors
/// When none does.
fn warn_left_out(config: &Config, log: &Log) -> Result<()> {
    let (interval, each) = ("runner.split_interval", "runner.split_per_pass");
    let all = passes(config.count(interval), 1);
    let used = passes(config.count(interval), config.count(each)).concat();
    match (used.last(), all.get(used.len())) {
        (None, _) => {
            let problem = format!("is more than the {} folders of a day", all.len());
            return Err(config.refuse(each, problem));
        }
        (_, Some(first)) => log.warn(&format!(
            "`{each}` folders at a time do not make whole days: those from `{}` on are not trained",
            first[0]
        )),
        _ => {}
    }
    Ok(())
}

fn text(metrics: &BTreeMap<String, f64>) -> String {
    let text =
        |(name, value): (&String, &f64)| format!("global {}={value:.6}", name.to_uppercase());
    metrics.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_make_no_sense_are_refused() {
        let wrong = |keys: &str| {
            let text = format!("runner: {{{keys}}}");
            days(&Config::parse(Path::new("a.yaml"), &text, &[]).unwrap()).unwrap_err().to_string()
        };
        assert_eq!(
            wrong("start_day: 20190720"),
            "a.yaml: `runner.end_day` is missing: a stream has a first and a last day, like 20190720"
        );
        assert_eq!(
            wrong("start_day: 20190720, end_day: 20190719"),
            "a.yaml:1:40: `runner.end_day` is 20190719, before `runner.start_day`, 20190720: there \
             is no day to train"
        );
        assert!(wrong("start_day: 7, end_day: 8").contains("is 7, and no day like 20190720"));
    }

    #[test]
    fn folders_that_make_no_pass_are_said() {
        let log = Log::to(std::io::sink());
        let check = |keys: &str| {
            let text = format!("runner: {{{keys}}}");
            warn_left_out(&Config::parse(Path::new("a.yaml"), &text, &[]).unwrap(), &log)
        };
        check("split_interval: 480, split_per_pass: 2").unwrap();
        let error = check("split_interval: 480, split_per_pass: 4").unwrap_err().to_string();
        assert!(error.ends_with("is more than the 3 folders of a day"), "{error}");
    }
}
