//! From the keys of a configuration to batches: which files, how they are read, in what order.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bireme_data::parse::{BadLines, Format, Named};
use bireme_data::source::{LineShare, Source, expand, open};
use bireme_data::{
    Batch, Batches, FileShare, Files, Input, KeyedPart, MemoryDataset, MemorySettings,
    QueueDataset, QueueSettings, Slot,
};

use bireme_fleet::gpubox::Passes;
use bireme_fleet::{Fleet, Reduce};

use super::pipe;
use super::shuffle::Order;
use crate::config::Config;
use crate::log::Log;
use crate::zoo::Model;
use crate::{Error, Result};

/// How samples become batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Read while training, batches from several readers.
    Queue,
    /// Read once.
    Memory,
    /// Read while training by one reader, without a last short batch.
    Loader,
}

/// The data of a run.
pub(super) struct Data {
    kind: Kind,
    input: Arc<dyn Input>,
    /// The input, where samples are read from files.
    files: Option<Arc<Files>>,
    slots: Vec<Slot>,
    batch_size: usize,
    readers: usize,
    drop_last: bool,
    /// In what order samples come.
    order: Order,
    memory: Option<MemoryDataset>,
    /// Whom readers ask for the next file, if the trainers share them.
    share: Option<Arc<dyn FileShare>>,
    bad_lines: Arc<BadLines>,
    interrupt: Interrupt,
    /// Whether a warning told of a slot that no line names.
    has_warned: bool,
}

/// Says whether somebody wants to stop.
pub(super) type Interrupt = Option<Arc<dyn Fn() -> bool + Send + Sync>>;

/// What the data is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Train,
    Valid,
    Infer,
}

impl Purpose {
    fn folder_key(self) -> &'static str {
        match self {
            Purpose::Train => "runner.train_data_dir",
            Purpose::Valid => "runner.valid_data_dir",
            Purpose::Infer => "runner.test_data_dir",
        }
    }
}

/// The files that a purpose has, sorted.
///
/// # Errors
/// When the key is missing, or there are no files.
pub(super) fn files(config: &Config, purpose: Purpose) -> Result<Vec<PathBuf>> {
    let key = purpose.folder_key();
    let path = config.text(key);
    if path.is_empty() {
        return Err(Error::Settings(format!(
            "{}: `{key}` is missing: say where the data is",
            config.path().display()
        )));
    }
    let path = existing(config, &path);
    expand(&[path]).map_err(|error| config.refuse(key, format!("cannot be used: {error}")))
}

/// A path of the configuration: as it is, or from the folder of the file if only that exists.
pub(super) fn existing(config: &Config, path: &str) -> PathBuf {
    let (here, beside) = (PathBuf::from(path), config.folder().join(path));
    match !here.exists() && beside.exists() {
        true => beside,
        // A pattern exists nowhere: its folder decides.
        false if path.contains(['*', '?']) => {
            let folder = |path: &Path| path.parent().is_some_and(Path::is_dir);
            if !folder(&here) && folder(&beside) { beside } else { here }
        }
        false => here,
    }
}

/// What a run says about its data.
pub(super) struct Reading<'a> {
    pub(super) config: &'a Config,
    pub(super) model: &'a Model,
    pub(super) purpose: Purpose,
    /// Lines that may be bad; `None` for what the configuration says.
    pub(super) skip_bad_lines: Option<u64>,
    /// Threads that train at once.
    pub(super) threads: usize,
    /// Which slots lines have named.
    pub(super) named: Arc<Named>,
    /// Which lines of the files are read; all by default.
    pub(super) lines: Option<LineShare>,
    /// Whether other files hold more of the same data, of other trainers or of other passes.
    pub(super) partial: bool,
    /// Whether servers take part, which decides the default reader.
    pub(super) with_servers: bool,
    pub(super) interrupt: Interrupt,
    pub(super) log: &'a Log,
}

impl Data {
    /// The data in these files.
    ///
    /// # Errors
    /// When the reader or the format does not exist, or there are no files.
    pub(super) fn new(reading: &Reading<'_>, files: Vec<PathBuf>) -> Result<Data> {
        let Reading { config, model, .. } = *reading;
        let tolerated =
            reading.skip_bad_lines.unwrap_or(config.count("runner.skip_bad_lines") as u64);
        let bad_lines = Arc::new(BadLines::tolerate(tolerated));
        let (format, pipe_command) = pipe::format(reading)?;
        let mut source = Source {
            pipe_command,
            bad_lines: Arc::clone(&bad_lines),
            named: Arc::clone(&reading.named),
            share: reading.lines,
            // A test file may lack what the training had: that is only said.
            partial: reading.partial || reading.purpose != Purpose::Train,
            ..Source::new(files, format)
        };
        let ahead = match reading.partial {
            true => None,
            false => Files::new(source.clone(), &model.slots)?.look_ahead()?,
        };
        if let Some(problem) = &ahead {
            reading.log.warn(problem);
        }
        // Who reads while it trains looks at the names when the epoch is saved, see `unnamed`.
        source.partial |= kind(reading)? != Kind::Memory;
        let files = Arc::new(Files::new(source, &model.slots)?);
        let data = Data::given(reading, Arc::clone(&files) as _)?;
        Ok(Data { files: Some(files), bad_lines, has_warned: ahead.is_some(), ..data })
    }

    /// Samples that are there already.
    ///
    /// # Errors
    /// When the reader does not exist, or a batch has no samples.
    pub(super) fn given(reading: &Reading<'_>, input: Arc<dyn Input>) -> Result<Data> {
        let config = reading.config;
        let kind = kind(reading)?;
        let batch_size = match (reading.purpose, config.count("runner.infer_batch_size")) {
            (Purpose::Valid | Purpose::Infer, size) if size > 0 => size,
            _ => config.count("runner.train_batch_size"),
        };
        if batch_size == 0 {
            return Err(config.refuse("runner.train_batch_size", "must be at least 1"));
        }
        let readers = match (kind, config.count("runner.num_workers")) {
            (Kind::Loader, _) => 1,
            // Nothing is trained meanwhile.
            (Kind::Memory, 0) => reading.threads.max(cores()),
            (_, 0) => reading.threads,
            (_, workers) => workers,
        };
        let order = match reading.purpose {
            Purpose::Train => Order::of(config, kind == Kind::Memory)?,
            Purpose::Valid | Purpose::Infer => Order::AsRead,
        };
        Ok(Data {
            kind,
            input,
            files: None,
            slots: reading.model.slots.clone(),
            order,
            batch_size,
            readers: readers.max(1),
            // A last short batch of an evaluation counts too.
            drop_last: kind == Kind::Loader && reading.purpose == Purpose::Train,
            memory: None,
            share: None,
            bad_lines: Arc::default(),
            interrupt: reading.interrupt.clone(),
            has_warned: false,
        })
    }

    /// The data of one pass of a stream, which is held in memory.
    ///
    /// # Errors
    /// As [`Data::new`].
    pub(super) fn of_pass(reading: &Reading<'_>, files: Vec<PathBuf>) -> Result<Data> {
        // Its samples are mixed with those of the other trainers, see `shuffle`.
        let data = Data::new(reading, files)?;
        Ok(Data { kind: Kind::Memory, order: Order::AsRead, drop_last: false, ..data })
    }

    /// Begins to read everything into memory, with some threads.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn preload(&mut self, threads: usize) -> Result<()> {
        let mut settings = MemorySettings::new(Arc::clone(&self.input), self.slots.clone());
        settings.batch_size = self.batch_size;
        let mut memory = MemoryDataset::new(settings)?;
        memory.preload(threads.max(1))?;
        self.memory = Some(memory);
        Ok(())
    }

    /// Waits until everything is in memory, and mixes it with what the other trainers have.
    ///
    /// # Errors
    /// When a file cannot be read, or another trainer is lost.
    pub(super) fn shuffle(&mut self, fleet: &Fleet, seed: u64) -> Result<()> {
        if let Some(memory) = &mut self.memory {
            memory.wait()?;
            memory.global_shuffle(&fleet.peers()?, seed)?;
        }
        Ok(())
    }

    /// As [`Data::preload`], and tells `then` the keys of a pass's tables when everything is read.
    ///
    /// # Errors
    /// As [`Data::preload`].
    pub(super) fn preload_with_keys(
        &mut self,
        threads: usize,
        (groups, ranks): (Vec<Vec<String>>, usize),
        then: impl FnOnce(KeyedPart) + Send + 'static,
    ) -> Result<()> {
        let mut settings = MemorySettings::new(Arc::clone(&self.input), self.slots.clone());
        settings.batch_size = self.batch_size;
        let mut memory = MemoryDataset::new(settings)?;
        memory.preload_then(threads.max(1), move |loaded| {
            // What is wrong with them is said when the pass begins.
            if let Ok(keyed) = loaded.keys(&groups, threads.max(1), ranks) {
                then(keyed);
            }
        })?;
        self.memory = Some(memory);
        Ok(())
    }

    /// Has samples held in memory, where the configuration does not say how they are read.
    pub(super) fn hold_in_memory(&mut self) {
        (self.kind, self.drop_last) = (Kind::Memory, false);
    }

    /// Leaves samples in the order of their files.
    pub(super) fn keep_order(&mut self) {
        self.order = Order::AsRead;
    }

    /// In what order samples come.
    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Whether samples are held in memory.
    pub(super) fn is_memory(&self) -> bool {
        self.kind == Kind::Memory || self.order.needs_memory()
    }

    /// The samples that are held in memory.
    pub(super) fn memory(&self) -> Option<&MemoryDataset> {
        self.memory.as_ref()
    }

    /// The passes that this data is.
    ///
    /// # Errors
    /// When the samples cannot be read, or one batch alone takes more memory than there is.
    pub(super) fn keyed_parts(&mut self, passes: &Passes) -> Result<Vec<KeyedPart>> {
        drop(self.open(0, 1)?);
        let Some(memory) = &self.memory else { return Ok(Vec::new()) };
        Ok(passes.parts(memory, self.readers)?)
    }

    /// Whether files are read while training.
    pub(super) fn is_queue(&self) -> bool {
        self.kind == Kind::Queue && !self.is_memory()
    }

    /// Has readers ask for the next file.
    pub(super) fn share(&mut self, share: Arc<dyn FileShare>) {
        self.share = Some(share);
    }

    /// The files, as datasets read them; none where samples are given.
    pub(super) fn source(&self) -> Option<&Arc<Files>> {
        self.files.as_ref()
    }

    /// Words and lines of all files, as PaddleRec counts them before training.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn count_words(&self, log: &Log) -> Result<(u64, u64)> {
        let (mut words, mut lines) = (0, 0);
        for path in self.files() {
            let failed = |error| Error::file(path, error);
            let mut text = BufReader::new(open(path).map_err(failed)?);
            let (mut line, mut here) = (Vec::new(), 0);
            while text.read_until(b'\n', &mut line).map_err(failed)? > 0 {
                let found = line.split(|byte| byte.is_ascii_whitespace());
                here += found.filter(|word| !word.is_empty()).count() as u64;
                lines += 1;
                line.clear();
            }
            log.info(&format!("File: {} has {here} words", path.display()));
            words += here;
        }
        log.info(&format!("Total word: {words}"));
        Ok((words, lines))
    }

    /// Whether steps are shown as PaddleRec's loop shows them, not as Paddle's executor does.
    pub(super) fn is_loader(&self) -> bool {
        self.kind == Kind::Loader
    }

    /// Samples in a batch.
    pub(super) fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// The files.
    pub(super) fn files(&self) -> &[PathBuf] {
        self.files.as_ref().map_or(&[], |files| &files.source().files)
    }

    /// The batches of an epoch, for so many training threads.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub(super) fn open(&mut self, epoch: u64, threads: usize) -> Result<Vec<Box<dyn Batches>>> {
        if self.is_memory() {
            self.load()?;
        }
        let order = self.order;
        if let Some(memory) = &mut self.memory {
            order.bring_into(memory, epoch);
            return Ok(memory.open(threads)?);
        }
        let mut settings = QueueSettings::new(Arc::clone(&self.input), self.slots.clone());
        settings.batch_size = self.batch_size;
        settings.readers = self.readers;
        settings.drop_last = self.drop_last;
        settings.epoch = epoch;
        settings.share = self.share.clone();
        settings.shuffle = order.of_readers();
        Ok(QueueDataset::new(settings)?.open(threads)?)
    }

    /// Reads everything into memory, unless it is there; whether it was not.
    fn load(&mut self) -> Result<bool> {
        if self.memory.is_some() {
            return Ok(false);
        }
        let mut settings = MemorySettings::new(Arc::clone(&self.input), self.slots.clone());
        (settings.batch_size, settings.drop_last) = (self.batch_size, self.drop_last);
        let mut memory = MemoryDataset::new(settings)?;
        memory.preload(self.readers)?;
        let interrupt = || self.interrupt.as_ref().is_some_and(|asked| asked());
        memory.wait_unless(&interrupt)?;
        self.memory = Some(memory);
        Ok(true)
    }

    /// Reads what is to be shuffled in memory, and spreads it over the trainers, each of which has a
    /// part of the data; all of them call it together, before the first batch. The seed and the files
    /// decide who gets which sample, so a run that resumes has the same.
    ///
    /// # Errors
    /// When a file cannot be read, or another trainer is lost.
    pub(super) fn spread(&mut self, fleet: &Fleet) -> Result<()> {
        let Order::Shuffled { seed, .. } = self.order else { return Ok(()) };
        if self.is_memory() && self.load()? && fleet.worker_num() > 1 {
            let memory = self.memory.as_mut().expect("it was loaded a line ago");
            memory.global_shuffle(&fleet.peers()?, seed)?;
        }
        Ok(())
    }

    /// How many samples the files have, which are read once more for it.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub(super) fn count_samples(&mut self, epoch: u64) -> Result<usize> {
        // Those that make no whole batch count, and so do files that were handed out already.
        (self.drop_last, self.share, self.memory) = (false, None, None);
        let (mut samples, mut batch) = (0, Batch::of(&self.slots));
        for mut batches in self.open(epoch, 1)? {
            while batches.next(&mut batch)? {
                samples += batch.rows();
            }
        }
        Ok(samples)
    }

    /// Says, unless that was said before, which slot no line names.
    pub(super) fn warn_unnamed(&mut self, problem: &str, log: &Log) {
        if !std::mem::replace(&mut self.has_warned, true) {
            log.warn(problem);
        }
    }

    /// Says which lines were passed over.
    pub(super) fn report_bad_lines(&self, log: &Log) {
        let count = self.bad_lines.count();
        if count == 0 {
            return;
        }
        log.warn(&format!("{count} bad lines were skipped, the first of them:"));
        for line in self.bad_lines.first() {
            log.warn(&format!("{}:{}: {}", line.path.display(), line.line, line.problem));
        }
    }
}

/// A slot that no line names.
pub(super) struct Unnamed {
    /// What is wrong, in words.
    pub(super) problem: String,
    /// Whether lines have names of no slot instead: the data is there, and is not trained.
    pub(super) is_error: bool,
}

/// Looks for slots that no line of any trainer has named; all trainers call it together, when they
/// have read everything.
///
/// # Errors
/// When another trainer is lost.
pub(super) fn unnamed(input: &Files, fleet: &Fleet) -> Result<Option<Unnamed>> {
    let source = input.source();
    if !matches!(source.format, Format::SlotValue(_)) {
        return Ok(None);
    }
    let mut own = source.named.slots();
    own.resize(input.slots().len(), false);
    own.push(source.named.has_unknown_names());
    let own: Vec<f64> = own.into_iter().map(|named| f64::from(u8::from(named))).collect();
    let all = fleet.util().all_reduce(&own, Reduce::Max)?;
    let mut all: Vec<bool> = all.into_iter().map(|named| named > 0.0).collect();
    let is_error = all.pop() == Some(true);
    Ok(input.unnamed(&all)?.map(|problem| Unnamed { problem, is_error }))
}

fn kind(reading: &Reading<'_>) -> Result<Kind> {
    let key = match reading.purpose {
        Purpose::Valid | Purpose::Infer if reading.config.has("runner.infer_reader_type") => {
            "runner.infer_reader_type"
        }
        _ => "runner.reader_type",
    };
    let name = reading.config.text(key);
    match name.as_str() {
        "" if reading.with_servers => Ok(Kind::Queue),
        "" => Ok(Kind::Loader),
        "QueueDataset" => Ok(Kind::Queue),
        "InmemoryDataset" | "InMemoryDataset" => Ok(Kind::Memory),
        "DataLoader" | "RecDataset" => Ok(Kind::Loader),
        other => Err(reading.config.refuse(
            key,
            format!(
                "is `{other}`, which is no reader: use QueueDataset, InmemoryDataset, DataLoader or \
                 RecDataset"
            ),
        )),
    }
}

/// Threads that read at a time what is held in memory.
fn cores() -> usize {
    /// Disks seldom have more to give.
    const MOST: usize = 16;
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST))
}
