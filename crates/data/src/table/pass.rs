//! The pass over all training files, with threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::learn::Learner;
use super::learned::{FileMark, Learned};
use super::settings::Settings;
use crate::parse::BadLines;
use crate::source::{Reader, Source};
use crate::{Error, Result, Samples};

/// Samples between two looks at the clock.
const ROWS: usize = 8192;

/// Learns what settings ask for, from some files. `on_samples` is told how many samples have been
/// read so far, and says whether to go on.
///
/// # Errors
/// When a file cannot be read, has a bad line beyond what is tolerated, or [`Error::Interrupted`].
pub fn learn(
    settings: &Settings,
    files: &[PathBuf],
    tolerated: u64,
    threads: usize,
    on_samples: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Learned> {
    let marks = files.iter().map(|file| FileMark::of(file)).collect::<Result<Vec<_>>>()?;
    let (next, samples, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let source = Source {
        bad_lines: Arc::new(BadLines::tolerate(tolerated)),
        ..Source::new(files.to_vec(), crate::parse::Format::slot_value())
    };
    let learned: Vec<Mutex<Option<Result<Learner>>>> =
        files.iter().map(|_| Mutex::default()).collect();
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let file = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = learned.get(file) else { break };
            let outcome = one_file(settings, &source, file, &mut |count| {
                let all = samples.fetch_add(count, Ordering::Relaxed) + count;
                !stop.load(Ordering::Relaxed) && on_samples(all)
            });
            if outcome.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(files.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut all = Learner::new(settings);
    let mut interrupted = false;
    // The first error by the order of files, but for those who were told to stop because of it.
    for outcome in learned {
        match outcome.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(learner)) => all.add(learner),
            Some(Err(Error::Interrupted)) | None => interrupted = true,
            Some(Err(error)) => return Err(error),
        }
    }
    match interrupted {
        true => Err(Error::Interrupted),
        false => all.finish(marks),
    }
}

fn one_file(
    settings: &Settings,
    source: &Source,
    file: usize,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Learner> {
    let mut reader = Reader::learning(source, file, settings)?;
    let (mut samples, mut more) = (Samples::of(&[]), true);
    while more {
        samples.clear();
        more = reader.read(&mut samples, ROWS)?;
        if !go_on(samples.len() as u64) {
            return Err(Error::Interrupted);
        }
    }
    reader.into_facts()
}
