//! What `Executor.train_from_dataset` is told, and the lines that it prints meanwhile.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bireme_data::train::{Progress, Summary};
use bireme_data::{Error, Result};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Scope};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset_dump::Dump;
use crate::jobs;
use crate::kwargs::Kwargs;

/// The settings of a training over a dataset.
pub(crate) struct Told {
    pub(crate) threads: usize,
    pub(crate) infer: bool,
    pub(crate) debug: bool,
    /// What is fetched, and what it is called where it is printed.
    pub(crate) fetches: Vec<String>,
    labels: Vec<String>,
    /// How many of them are printed; the handler's follow, then those that are dumped.
    printed: usize,
    handled_to: usize,
    dump: Option<Dump>,
    /// Batches of the first thread between two lines; 0 for none.
    print_period: u64,
    /// Counters that each thread keeps for itself.
    pub(crate) private: Vec<String>,
    /// A function of what was fetched, called so many seconds apart.
    handler: Option<(Py<PyAny>, Duration)>,
    handled: Mutex<Instant>,
}

impl Told {
    pub(crate) fn read(settings: &Bound<'_, PyDict>) -> PyResult<Told> {
        let mut given = Kwargs::new("train_from_dataset".to_owned(), settings)?;
        let fetches: Vec<(String, String)> = given.or("fetches", Vec::new())?;
        let (labels, mut fetches): (Vec<String>, Vec<String>) = fetches.into_iter().unzip();
        let dump = match given.object("dump")? {
            Some(dump) => Some(Dump::read(dump.cast::<PyDict>()?)?),
            None => None,
        };
        fetches.extend(dump.iter().flat_map(|dump| dump.fields().iter().cloned()));
        let handler = given.object("handler")?;
        let seconds: f64 = given.or("handler_seconds", 60.0)?;
        let told = Told {
            threads: given.need("threads")?,
            infer: given.or("infer", false)?,
            debug: given.or("debug", false)?,
            fetches,
            printed: given.need("printed")?,
            handled_to: labels.len(),
            dump,
            labels,
            print_period: given.or("print_period", 0)?,
            private: given.or("private", Vec::new())?,
            handler: handler
                .map(|handler| (handler.unbind(), Duration::from_secs_f64(seconds.max(0.0)))),
            handled: Mutex::new(Instant::now()),
        };
        given.end()?;
        Ok(told)
    }

    /// After a step: its launcher hears of it, and what was fetched is printed when it is time.
    pub(crate) fn after(&self, done: &Progress<'_>, scope: &Scope) -> Result<()> {
        if !self.infer {
            jobs::report_step(Some(done.data.rows() as u64));
        }
        if let Some(dump) = &self.dump {
            dump.after(done, self.handled_to, scope)?;
        }
        if done.thread != 0 || self.fetches.is_empty() {
            return Ok(());
        }
        let is_time = self.printed > 0 && self.print_period > 0;
        if is_time && done.batch.is_multiple_of(self.print_period) {
            let fetched = (0..self.printed).map(|at| done.fetched(at));
            say(&line(done.batch, &self.labels, fetched, &now()))?;
        }
        self.handle(done)
    }

    fn handle(&self, done: &Progress<'_>) -> Result<()> {
        let Some((handler, period)) = &self.handler else { return Ok(()) };
        let Ok(mut handled) = self.handled.try_lock() else { return Ok(()) };
        if handled.elapsed() < *period {
            return Ok(());
        }
        *handled = Instant::now();
        python(|py| {
            let values = PyDict::new(py);
            for (at, label) in self.labels.iter().enumerate().skip(self.printed) {
                let value = done.fetched(at).clone();
                values.set_item(label, crate::lod_tensor::fetched_array(py, label, value)?)?;
            }
            handler.call1(py, (values,)).map(drop)
        })
    }

    /// What remains to be done, and what Paddle's profile of a run says where it was asked for.
    pub(crate) fn end(&self, summary: &Summary) -> Result<()> {
        if let Some(dump) = &self.dump {
            dump.flush()?;
        }
        if !self.debug {
            return Ok(());
        }
        let Summary { samples, batches, seconds, wait_for_data_seconds } = summary;
        say(&format!(
            "train cost {seconds:.6} seconds, batches: {batches}, ins_num: {samples}, read time: \
             {wait_for_data_seconds:.6} seconds"
        ))
    }
}

/// `time: [2026-01-02 03:04:05], batch: [3], loss[1]:[0.53], ids[2]:[7 8]`, as Paddle's.
fn line<'a>(
    batch: u64,
    labels: &[String],
    fetched: impl Iterator<Item = &'a Tensor>,
    time: &str,
) -> String {
    let values: Vec<String> =
        labels.iter().zip(fetched).map(|(label, tensor)| shown(label, tensor)).collect();
    format!("time: [{time}], batch: [{batch}], {}", values.join(", "))
}

/// `loss[1]:[0.53]`
fn shown(label: &str, tensor: &Tensor) -> String {
    let count = tensor.dims().numel();
    format!("{label}[{count}]:[{}]", values(tensor, " ", 0..count))
}

/// Some of a tensor's values.
pub(crate) fn values(tensor: &Tensor, between: &str, range: Range<usize>) -> String {
    let all = |text: &dyn Fn(usize) -> String| range.clone().map(text).collect::<Vec<_>>();
    macro_rules! each {
        ($t:ty, $text:expr) => {{
            let values = tensor.as_slice::<$t>().unwrap_or_default();
            all(&|at| values.get(at).map_or_else(String::new, $text))
        }};
    }
    let texts = match tensor.dtype() {
        DType::F32 => each!(f32, |value| general((*value).into())),
        DType::F64 => each!(f64, |value| general(*value)),
        DType::I64 => each!(i64, ToString::to_string),
        DType::I32 => each!(i32, ToString::to_string),
        DType::Bool => all(&|at| tensor.as_bytes().get(at).map_or_else(String::new, u8::to_string)),
        other => return format!("values of type {other} are not printed"),
    };
    texts.join(between)
}

/// A number with six digits, as C++ streams write it (`%g`).
fn general(value: f64) -> String {
    const DIGITS: i32 = 6;
    if value == 0.0 || !value.is_finite() {
        return match () {
            () if value.is_nan() => "nan".to_owned(),
            () if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.to_owned(),
            () => if value.is_sign_negative() { "-0" } else { "0" }.to_owned(),
        };
    }
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent).max(0) as usize;
        return trimmed(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Without zeros at the end of what is behind the point.
fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// The local time, as Python has it.
fn now() -> String {
    let ask = |py: Python<'_>| {
        let time = py.import("time")?;
        time.call_method1("strftime", ("%Y-%m-%d %H:%M:%S",))?.extract::<String>()
    };
    Python::attach(ask).unwrap_or_default()
}

/// Prints a line where Python prints.
fn say(line: &str) -> Result<()> {
    python(|py| {
        let out = py.import("sys")?.getattr("stdout")?;
        if out.is_none() {
            return Ok(());
        }
        out.call_method1("write", (format!("{line}\n"),))?;
        out.call_method0("flush").map(drop)
    })
}

/// Works with the interpreter, on a training thread; what it raises ends the training.
fn python(work: impl FnOnce(Python<'_>) -> PyResult<()>) -> Result<()> {
    Python::attach(|py| work(py).map_err(|raised| Error::Settings(raised.to_string())))
}
