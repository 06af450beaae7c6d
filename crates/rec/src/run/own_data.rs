//! A trainer's share of the data: which files are its own, or that trainers draw them one after the
//! other; and what of them the speed counts.

use std::path::PathBuf;
use std::sync::Arc;

use bireme_data::source::LineShare;
use bireme_fleet::{Fleet, Mode};

use super::Options;
use super::data::{self, Data, Purpose, Reading};
use super::topology::Topology;
use crate::config::Config;
use crate::zoo::Model;
use crate::{Error, Result};

const SHARE_FILES: &str = "runner.share_files";

/// The data of this trainer.
///
/// # Errors
/// When there are no files for it, or what is configured does not go together.
pub(super) fn of_trainer(
    config: &Config,
    options: &Options,
    topology: Topology,
    model: &Model,
    fleet: &Fleet,
    threads: (usize, usize),
) -> Result<Data> {
    let trainers = fleet.worker_num();
    let mut reading = Reading {
        config,
        model,
        purpose: Purpose::Train,
        skip_bad_lines: options.skip_bad_lines,
        threads: threads.0 * threads.1,
        named: Arc::default(),
        lines: None,
        partial: trainers > 1,
        with_servers: topology.has_servers(),
        interrupt: options.interrupt.clone(),
        log: &options.log,
    };
    if let Some(input) = &options.input {
        return Data::given(&reading, Arc::clone(input));
    }
    let files = data::files(config, Purpose::Train)?;
    let share = shares_files(config, topology);
    let (files, lines) = match trainers > 1 && !share {
        true => own_files(config, options, fleet, files)?,
        // Those who draw their files know all of them.
        false => (files, None),
    };
    if files.is_empty() {
        return Err(Error::Settings(format!(
            "trainer {} of {} has no files: use fewer trainers, or split the data into more files",
            fleet.worker_index(),
            fleet.worker_num()
        )));
    }
    reading.lines = lines;
    let data = Data::new(&reading, files)?;
    if share {
        check_sharing(config, topology, &data)?;
    }
    Ok(data)
}

/// The files of this trainer, one of several, and which of their lines are its own.
fn own_files(
    config: &Config,
    options: &Options,
    fleet: &Fleet,
    files: Vec<PathBuf>,
) -> Result<(Vec<PathBuf>, Option<LineShare>)> {
    let (trainers, count) = (fleet.worker_num(), files.len());
    let warn = |text: &str| {
        if fleet.is_first_worker() {
            options.log.warn(text);
        }
    };
    if !config.switch("runner.split_file_list") {
        warn(&format!(
            "`runner.split_file_list` is False: each of {trainers} trainers reads all of its {count} \
             files, so if they are the same, every sample is trained {trainers} times"
        ));
        return Ok((files, None));
    }
    if count >= trainers as usize {
        return Ok((fleet.split_files(&files)?.to_vec(), None));
    }
    warn(&format!(
        "{count} files are fewer than {trainers} trainers: each reads all of them, and trains on \
         every {trainers}th {} lines",
        LineShare::GROUP
    ));
    let share = LineShare { rank: fleet.worker_index().into(), of: trainers.into() };
    Ok((files, Some(share)))
}

/// Whether trainers draw their files one after the other.
pub(super) fn shares_files(config: &Config, topology: Topology) -> bool {
    topology != Topology::Alone && config.switch(SHARE_FILES)
}

/// That what is configured goes together with files that trainers draw.
fn check_sharing(config: &Config, topology: Topology, data: &Data) -> Result<()> {
    if !matches!(topology, Topology::Servers(Mode::Async | Mode::Geo)) {
        return Err(config.refuse(
            SHARE_FILES,
            format!(
                "lets trainers make different numbers of steps, and in {} mode they make them \
                 together: use `runner.split_file_list`, or sync_mode async or geo",
                topology.name()
            ),
        ));
    }
    if !data.is_queue() {
        let problem = "needs files that are read while training: set `runner.reader_type` to \
                       QueueDataset, and `runner.shuffle` not to memory";
        return Err(config.refuse(SHARE_FILES, problem));
    }
    if config.count("runner.checkpoint_interval") > 0 {
        let problem = "cannot be used with `runner.share_files`: who gets which file is not \
                       repeatable, so only the end of an epoch is a place to go on from";
        return Err(config.refuse("runner.checkpoint_interval", problem));
    }
    Ok(())
}

/// What the speed in PaddleRec's lines counts.
pub(super) struct Counted {
    pub(super) unit: &'static str,
    per_sample: f64,
}

impl Counted {
    /// What the configuration says; for words, the files are read once.
    ///
    /// # Errors
    /// When it says something else, or a file cannot be read.
    pub(super) fn of(
        config: &Config,
        topology: Topology,
        data: &Data,
        options: &Options,
    ) -> Result<Counted> {
        let key = "runner.example_count_method";
        match config.text(key).as_str() {
            "example" => Ok(Counted { unit: "example", per_sample: 1.0 }),
            "word" if !topology.has_servers() => Ok(Counted { unit: "word", per_sample: 1.0 }),
            "word" => {
                let (words, lines) = data.count_words(&options.log)?;
                Ok(Counted { unit: "word", per_sample: words as f64 / lines.max(1) as f64 })
            }
            other => Err(config.refuse(key, format!("is `{other}`: use example or word"))),
        }
    }

    /// How many a second.
    pub(super) fn speed(&self, samples: u64, seconds: f64) -> f64 {
        samples as f64 * self.per_sample / seconds.max(1e-9)
    }
}
