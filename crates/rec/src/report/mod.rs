//! What a run was like: its event logs, and a page that shows them.

mod chart;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub(crate) use chart::{Line, chart, escape};
pub(crate) use page::html;
pub use page::page;

use crate::run::{Event, INFER};
use crate::{Error, Result};

/// What the trainers of a run have logged.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// One for each trainer, in the order of their numbers.
    pub trainers: Vec<Trained>,
    /// What `infer` has said of its models, the last of each epoch.
    pub tested: BTreeMap<u64, BTreeMap<String, f64>>,
}

/// What one trainer has logged, without what was trained again after a crash.
#[derive(Clone, Debug, Default)]
pub struct Trained {
    /// The number of the trainer.
    pub trainer: u32,
    /// The zoo model.
    pub model: String,
    /// `local`, `sync`, …
    pub mode: String,
    /// Keys of the configuration.
    pub config: BTreeMap<String, String>,
    /// How often it went on from a checkpoint.
    pub resumed: u32,
    /// Steps, epochs and saves, in order.
    pub events: Vec<Event>,
    /// Whether training was completed.
    pub ended: bool,
}

/// Reads the logs of a run's folder; the folder of its models will do as well.
///
/// # Errors
/// When there are none, or nothing is in them, or a line is no event.
pub fn read(folder: &Path) -> Result<Run> {
    let inside = folder.join("run");
    let folder = if inside.is_dir() { inside.as_path() } else { folder };
    let (mut run, mut empty) = (Run::default(), Vec::new());
    let entries = fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| Error::file(folder, error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix("trainer-").and_then(|rest| rest.strip_suffix(".jsonl"));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else { continue };
        let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        let trained = Trained { trainer: number, ..trained(&path, &text)? };
        match trained.events.is_empty() {
            true => empty.push(path),
            false => run.trainers.push(trained),
        }
    }
    if let Some(path) = empty.first().filter(|_| run.trainers.is_empty()) {
        let problem = "there is no step, epoch or save in this event log: the run has trained nothing \
                       yet, or failed before it did; see its output";
        return Err(Error::file(path, problem));
    }
    if run.trainers.is_empty() {
        let problem = "there is no event log (`trainer-0.jsonl`): give the folder of a run";
        return Err(Error::file(folder, problem));
    }
    run.trainers.sort_by_key(|trained| trained.trainer);
    run.tested = tested(folder)?;
    Ok(run)
}

/// What `infer` has logged in the folder of a run.
fn tested(folder: &Path) -> Result<BTreeMap<u64, BTreeMap<String, f64>>> {
    let path = folder.join(INFER);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        text => text.map_err(|error| Error::file(&path, error))?,
    };
    let events = trained(&path, &text)?.events.into_iter();
    let of_epoch = |event| match event {
        Event::Infer { epoch, metrics, .. } => Some((epoch, metrics)),
        _ => None,
    };
    Ok(events.filter_map(of_epoch).collect())
}

fn trained(path: &Path, text: &str) -> Result<Trained> {
    let mut trained = Trained::default();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let event = match serde_json::from_str(line) {
            Ok(event) => event,
            // A process that was killed, or is at work: the line before a new start, or the last.
            Err(_) if lines.get(at + 1).is_none_or(|next| next.trim().is_empty()) => continue,
            Err(error) => {
                let problem = format!("line {} is no event: {error}", at + 1);
                return Err(Error::file(path, problem));
            }
        };
        take(&mut trained, event);
    }
    Ok(trained)
}

fn take(trained: &mut Trained, event: Event) {
    match event {
        Event::Start { model, mode, config, batch, .. } => {
            let again = !trained.model.is_empty();
            trained.resumed += u32::from(again);
            (trained.model, trained.mode, trained.config) = (model, mode, config);
            // What came after the checkpoint was lost, and is trained again.
            trained.events.retain(|event| position(event) <= batch);
        }
        Event::End { .. } => trained.ended = true,
        event => trained.events.push(event),
    }
}

/// Batches that were trained when something happened.
fn position(event: &Event) -> u64 {
    match event {
        Event::Start { batch, .. }
        | Event::Step { batch, .. }
        | Event::Epoch { batch, .. }
        | Event::Valid { batch, .. }
        | Event::Save { batch, .. }
        | Event::End { batch, .. } => *batch,
        // It has trained nothing.
        Event::Infer { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn step(batch: u64, loss: f64) -> String {
        format!(
            r#"{{"event":"step","time":1.0,"epoch":0,"batch":{batch},"loss":{loss},"metrics":{{"auc":0.{batch}}},"samples":64,"seconds":0.5,"reader_seconds":0.1,"samples_per_second":128.0}}"#
        )
    }

    pub(super) fn start(batch: u64) -> String {
        format!(
            r#"{{"event":"start","time":1.0,"model":"dnn","mode":"local","trainer":0,"trainers":1,"batch":{batch},"config":{{"runner.epochs":"3"}}}}"#
        )
    }

    #[test]
    fn what_was_trained_again_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let lines = [
            start(0),
            step(2, 0.7),
            step(4, 0.6),
            "{\"ev".into(),
            String::new(),
            start(2),
            step(4, 0.6),
        ];
        fs::write(folder.path().join("trainer-0.jsonl"), lines.join("\n")).unwrap();
        let run = read(folder.path()).unwrap();
        assert_eq!((run.trainers[0].resumed, run.trainers[0].events.len()), (1, 2));
        assert!(!run.trainers[0].ended);
        fs::write(folder.path().join("trainer-0.jsonl"), "nonsense\n{}\n").unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("line 1 is no event"));
    }

    #[test]
    fn a_folder_without_logs_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains("no event log"));
    }

    #[test]
    fn a_log_in_which_nothing_happened_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for lines in [String::new(), start(0) + "\n"] {
            fs::write(folder.path().join("trainer-1.jsonl"), lines).unwrap();
            let error = read(folder.path()).unwrap_err().to_string();
            assert!(error.contains("trainer-1.jsonl`: there is no step"), "{error}");
        }
        // Beside another that has something to show it is left out.
        let lines = [start(0), step(2, 0.7)].join("\n");
        fs::write(folder.path().join("trainer-0.jsonl"), lines).unwrap();
        assert_eq!(read(folder.path()).unwrap().trainers.len(), 1);
    }
}
