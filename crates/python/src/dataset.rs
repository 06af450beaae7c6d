//! `QueueData` and `MemoryData`: datasets as Python holds them.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bireme_data::parse::{BadLines, CriteoOptions, Format, MultiSlotOptions, SlotValueOptions};
use bireme_data::source::{Source, expand};
use bireme_data::{
    Batch, Batches, CONTENT, Closer, Error, Exchange, Files, INS_ID, MemoryDataset, MemorySettings,
    QueueDataset, QueueSettings, Result, Slot,
};
use bireme_engine::tensor::Tensor;
use bireme_fleet::{Environment, share_files};
use pyo3::exceptions::{PyRuntimeWarning, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::{data_to_py, enter, enter_data};
use crate::executor::signalled;
use crate::jobs;
use crate::kwargs::Kwargs;
use crate::lod_tensor::LoDTensor;
use crate::variable::Variable;

/// What a dataset is told in Python.
struct Told {
    source: Source,
    slots: Vec<Slot>,
    batch_size: usize,
    readers: usize,
    /// Whoever deals the files out, and for which epoch.
    share: Option<Py<FileShare>>,
    epoch: u64,
    /// Those of the files that hold nothing.
    empty_files: Vec<String>,
}

impl Told {
    fn read(variables: &Bound<'_, PyAny>, settings: &Bound<'_, PyDict>) -> PyResult<Told> {
        let mut slots: Vec<Slot> =
            variables.try_iter()?.map(|one| slot_of(&one?)).collect::<PyResult<_>>()?;
        let mut given = Kwargs::new("a dataset".to_owned(), settings)?;
        let files: Vec<String> = given.need("files")?;
        let name: String = given.need("format")?;
        let tokens: Vec<String> = given.or("slot_names", Vec::new())?;
        let multi_slot = MultiSlotOptions {
            parse_ins_id: given.or("parse_ins_id", false)?,
            parse_content: given.or("parse_content", false)?,
        };
        let batched: bool = given.or("lines_are_batches", false)?;
        slots.iter_mut().for_each(|slot| slot.batched = batched);
        let texts = [(multi_slot.parse_ins_id, INS_ID), (multi_slot.parse_content, CONTENT)];
        let texts = texts.into_iter().filter(|(kept, _)| *kept);
        slots.extend(texts.map(|(_, name)| Slot::ids(name)));
        let format = match name.as_str() {
            "multislot" => Format::MultiSlot(multi_slot),
            "slot_value" => {
                Format::SlotValue(SlotValueOptions { tokens, ..SlotValueOptions::default() })
            }
            "criteo" => Format::Criteo(CriteoOptions { tokens, ..CriteoOptions::default() }),
            _ => return Err(PyValueError::new_err(format!("there is no data format `{name}`"))),
        };
        let files: Vec<PathBuf> = expand(&files).map_err(data_to_py)?;
        let is_empty = |file: &&PathBuf| file.metadata().is_ok_and(|about| about.len() == 0);
        let empty_files = files.iter().filter(is_empty);
        let empty_files = empty_files.map(|file| file.display().to_string()).collect();
        let mut source = Source::new(files, format);
        source.pipe_command = given.maybe("pipe_command")?;
        source.bad_lines = Arc::new(BadLines::tolerate(given.or("skip_bad_lines", 0)?));
        let trainers = Environment::read().ok().and_then(|environment| environment.trainers);
        source.partial = trainers.is_some_and(|trainers| trainers > 1);
        let told = Told {
            source,
            slots,
            batch_size: given.need("batch_size")?,
            readers: given.need("threads")?,
            share: match given.object("share")? {
                Some(share) => Some(share.cast::<FileShare>()?.clone().unbind()),
                None => None,
            },
            epoch: given.or("epoch", 0)?,
            empty_files,
        };
        given.end()?;
        Ok(told)
    }

    /// The files, of whose first lines a warning may tell before anything is trained.
    fn input(&self, py: Python<'_>) -> PyResult<Arc<Files>> {
        let input = Files::new(self.source.clone(), &self.slots).map_err(data_to_py)?;
        if !self.source.partial
            && let Some(problem) = input.look_ahead().map_err(data_to_py)?
        {
            let text = CString::new(problem)?;
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
        }
        Ok(Arc::new(input))
    }
}

/// The slot that feeds a variable.
fn slot_of(variable: &Bound<'_, PyAny>) -> PyResult<Slot> {
    let Ok(variable) = variable.cast::<Variable>() else {
        let kind = variable.get_type().name()?;
        return Err(PyTypeError::new_err(format!("`use_var` must hold variables, not {kind}")));
    };
    variable.get().read(Slot::of_var)?.map_err(data_to_py)
}

/// Whether a slot feeds no variable, but keeps what lines say about samples.
fn is_text(slot: &Slot) -> bool {
    slot.name == INS_ID || slot.name == CONTENT
}

/// Files that the workers of a job draw one after the other; worker 0 counts them.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct FileShare {
    share: Arc<dyn bireme_data::FileShare>,
}

#[pymethods]
impl FileShare {
    /// The share of worker `rank`, which others reach at `host`; `gather` takes bytes and returns
    /// those of all workers, who make this call together.
    #[new]
    fn new(
        py: Python<'_>,
        rank: u32,
        host: Option<String>,
        gather: Py<PyAny>,
    ) -> PyResult<FileShare> {
        let share = enter(py, || {
            let gathered = |own: &[u8]| -> bireme_fleet::Result<Vec<Vec<u8>>> {
                Python::attach(|py| {
                    let all = gather.call1(py, (PyBytes::new(py, own),));
                    all.and_then(|all| all.extract::<Vec<Vec<u8>>>(py)).map_err(|raised| {
                        let problem = raised.to_string();
                        raised.restore(py);
                        bireme_fleet::Error::Config(problem)
                    })
                })
            };
            let environment = jobs::environment()?;
            let shared = share_files(rank, host, &environment, &gathered);
            shared.map_err(jobs::to_engine)
        })?;
        Ok(FileShare { share })
    }
}

/// Files that are read while they are trained on.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct QueueData {
    dataset: QueueDataset,
    bad_lines: Arc<BadLines>,
    /// The files that hold nothing.
    #[pyo3(get)]
    empty_files: Vec<String>,
}

#[pymethods]
impl QueueData {
    /// Reads the slots of `variables`; the settings are those of `DataSettings.for_core`.
    #[new]
    fn new(variables: &Bound<'_, PyAny>, settings: &Bound<'_, PyDict>) -> PyResult<QueueData> {
        let told = Told::read(variables, settings)?;
        let bad_lines = Arc::clone(&told.source.bad_lines);
        let empty_files = told.empty_files.clone();
        let mut queue = QueueSettings::new(told.input(settings.py())?, told.slots);
        queue.batch_size = told.batch_size;
        queue.readers = told.readers;
        queue.share = told.share.map(|share| Arc::clone(&share.get().share));
        queue.epoch = told.epoch;
        let dataset = QueueDataset::new(queue).map_err(data_to_py)?;
        Ok(QueueData { dataset, bad_lines, empty_files })
    }

    /// Goes through all batches, in the order of one training thread.
    fn batches(&self, py: Python<'_>) -> PyResult<DataBatches> {
        let opened = enter_data(py, || self.dataset.open(1))?;
        DataBatches::new(&self.dataset.settings().slots, opened).map_err(data_to_py)
    }

    /// How many bad lines were passed over.
    #[getter]
    fn bad_lines(&self) -> u64 {
        self.bad_lines.count()
    }
}

/// Samples in memory.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct MemoryData {
    /// Locked only while the interpreter is free.
    dataset: Mutex<MemoryDataset>,
    bad_lines: Arc<BadLines>,
    slots: Vec<Slot>,
    /// The files that hold nothing.
    #[pyo3(get)]
    empty_files: Vec<String>,
}

impl MemoryData {
    pub(crate) fn lock(&self) -> MutexGuard<'_, MemoryDataset> {
        self.dataset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut MemoryDataset) -> Result<T> + Send,
    ) -> PyResult<T> {
        enter_data(py, || work(&mut self.lock()))
    }
}

#[pymethods]
impl MemoryData {
    /// As `QueueData`; nothing is read yet.
    #[new]
    fn new(variables: &Bound<'_, PyAny>, settings: &Bound<'_, PyDict>) -> PyResult<MemoryData> {
        let told = Told::read(variables, settings)?;
        let bad_lines = Arc::clone(&told.source.bad_lines);
        let (slots, empty_files) = (told.slots.clone(), told.empty_files.clone());
        let mut memory = MemorySettings::new(told.input(settings.py())?, told.slots);
        memory.batch_size = told.batch_size;
        memory.readers = told.readers;
        let dataset = MemoryDataset::new(memory).map_err(data_to_py)?;
        Ok(MemoryData { dataset: Mutex::new(dataset), bad_lines, slots, empty_files })
    }

    /// Reads all files.
    fn load(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |dataset| {
            dataset.preload(dataset.settings().readers)?;
            dataset.wait_unless(&signalled)
        })
    }

    /// Begins to read all files.
    fn preload(&self, py: Python<'_>, threads: usize) -> PyResult<()> {
        self.with(py, |dataset| dataset.preload(threads.max(1)))
    }

    /// Waits for what was begun.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |dataset| dataset.wait_unless(&signalled))
    }

    /// Shuffles the samples of this process.
    fn local_shuffle(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        self.with(py, |dataset| {
            dataset.local_shuffle(seed);
            Ok(())
        })
    }

    /// Shuffles the samples of all workers; `exchange` takes a list of bytes, one for each of
    /// them, and returns what they sent, as worker `rank` of `size`.
    fn global_shuffle(
        &self,
        py: Python<'_>,
        exchange: Py<PyAny>,
        rank: usize,
        size: usize,
        seed: u64,
    ) -> PyResult<()> {
        let peers = Called { exchange, rank, size };
        self.with(py, |dataset| dataset.global_shuffle(&peers, seed))
    }

    /// As `global_shuffle`, and then merges samples of the same name; returns how many were left
    /// out, and why the first of them.
    fn global_merge(
        &self,
        py: Python<'_>,
        exchange: Py<PyAny>,
        rank: usize,
        size: usize,
        seed: u64,
        merge_size: usize,
    ) -> PyResult<(usize, Vec<String>)> {
        let peers = Called { exchange, rank, size };
        let merged = self.with(py, |dataset| dataset.global_merge(&peers, seed, merge_size))?;
        Ok((merged.dropped, merged.reasons))
    }

    /// Swaps the values of some slots among the samples.
    fn slots_shuffle(&self, py: Python<'_>, slots: Vec<String>, seed: u64) -> PyResult<()> {
        let slots: Vec<&str> = slots.iter().map(String::as_str).collect();
        self.with(py, |dataset| dataset.slots_shuffle(&slots, seed))
    }

    /// Cuts batches of this size from now on.
    fn set_batch_size(&self, py: Python<'_>, batch_size: usize) -> PyResult<()> {
        self.with(py, |dataset| {
            dataset.set_batch_size(batch_size);
            Ok(())
        })
    }

    /// Goes through all batches, in the order of one training thread.
    fn batches(&self, py: Python<'_>) -> PyResult<DataBatches> {
        let opened = self.with(py, |dataset| dataset.open(1))?;
        DataBatches::new(&self.slots, opened).map_err(data_to_py)
    }

    /// Forgets all samples.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |dataset| {
            dataset.release();
            Ok(())
        })
    }

    /// How many samples there are.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |dataset| Ok(dataset.len()))
    }

    /// Bytes of memory that the samples take.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |dataset| Ok(dataset.bytes()))
    }

    /// How many bad lines were passed over.
    #[getter]
    fn bad_lines(&self) -> u64 {
        self.bad_lines.count()
    }
}

/// Workers that a Python function reaches.
struct Called {
    exchange: Py<PyAny>,
    rank: usize,
    size: usize,
}

impl Exchange for Called {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        Python::attach(|py| {
            let call = || {
                let parts = PyList::new(py, parts.iter().map(|part| PyBytes::new(py, part)))?;
                self.exchange.call1(py, (parts,))?.extract::<Vec<Vec<u8>>>(py)
            };
            call().map_err(|raised| {
                let problem = raised.to_string();
                // The caller raises it as it is; see `enter_data`.
                raised.restore(py);
                bireme_data::Error::Settings(problem)
            })
        })
    }
}

/// A dataset that is trained on.
pub(crate) enum Data<'py> {
    Queue(&'py QueueData),
    Memory(&'py MemoryData),
}

impl<'py> Data<'py> {
    /// The dataset behind a Python object.
    pub(crate) fn of(object: &'py Bound<'_, PyAny>) -> PyResult<Data<'py>> {
        if let Ok(queue) = object.cast::<QueueData>() {
            return Ok(Data::Queue(queue.get()));
        }
        match object.cast::<MemoryData>() {
            Ok(memory) => Ok(Data::Memory(memory.get())),
            Err(_) => Err(PyTypeError::new_err("expected a dataset of the core")),
        }
    }

    /// Whether its files are shared with other workers.
    pub(crate) fn draws_files(&self) -> bool {
        matches!(self, Data::Queue(queue) if queue.dataset.settings().share.is_some())
    }

    /// The slots of its samples.
    pub(crate) fn slots(&self) -> &[Slot] {
        match self {
            Data::Queue(queue) => &queue.dataset.settings().slots,
            Data::Memory(memory) => &memory.slots,
        }
    }

    /// The batches for each training thread.
    pub(crate) fn open(&self, threads: usize) -> Result<Vec<Box<dyn Batches>>> {
        match self {
            Data::Queue(queue) => queue.dataset.open(threads),
            Data::Memory(memory) => memory.lock().open(threads),
        }
    }
}

/// The batches of a dataset, as feeds.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct DataBatches {
    slots: Vec<Slot>,
    /// Locked only while the interpreter is free.
    open: Mutex<Option<Reading>>,
}

/// A thread that reads batches when it is asked: who asks looks for signals while it waits.
struct Reading {
    ask: mpsc::Sender<()>,
    /// The tensors of the next batch; none at the end.
    answers: mpsc::Receiver<Result<Option<Vec<Tensor>>>>,
    close: Closer,
}

impl DataBatches {
    fn new(slots: &[Slot], mut opened: Vec<Box<dyn Batches>>) -> Result<DataBatches> {
        let open = opened.pop().map(|batches| Reading::start(slots, batches)).transpose()?;
        Ok(DataBatches { slots: slots.to_vec(), open: Mutex::new(open) })
    }
}

impl Reading {
    fn start(slots: &[Slot], mut batches: Box<dyn Batches>) -> Result<Reading> {
        let (mut batch, close) = (Batch::of(slots), batches.closer());
        let ((ask, asked), (answer, answers)) = (mpsc::channel(), mpsc::channel());
        let read = move || {
            while asked.recv().is_ok() {
                let more = batches.next(&mut batch);
                let tensors = || batch.tensors().into_iter().cloned().collect();
                if answer.send(more.map(|more| more.then(tensors))).is_err() {
                    break;
                }
            }
        };
        let started = thread::Builder::new().name("dataset-batches".to_owned()).spawn(read);
        started.map_err(|error| Error::Settings(format!("cannot start a thread: {error}")))?;
        Ok(Reading { ask, answers, close })
    }

    fn next(&self) -> Result<Option<Vec<Tensor>>> {
        // A thread that is gone has panicked, which the wait for its answer finds.
        self.ask.send(()).ok();
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if signalled() => (self.close)(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let problem = "a reader thread panicked: please report it with your data";
                    return Err(Error::Settings(problem.to_owned()));
                }
            }
        }
    }
}

/// How often a wait for data looks for signals.
const LOOK: Duration = Duration::from_millis(50);

#[pymethods]
impl DataBatches {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// The next batch: a tensor for each variable.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let tensors: Option<Vec<Tensor>> = enter_data(py, || {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(reading) = open.as_ref() else { return Ok(None) };
            let tensors = reading.next()?;
            if tensors.is_none() {
                *open = None;
            }
            Ok(tensors)
        })?;
        let Some(tensors) = tensors else { return Ok(None) };
        let feed = PyDict::new(py);
        let variables = self.slots.iter().zip(tensors);
        for (slot, tensor) in variables.filter(|(slot, _)| !is_text(slot)) {
            feed.set_item(&slot.name, Py::new(py, LoDTensor::own(tensor))?)?;
        }
        Ok(Some(feed))
    }
}
