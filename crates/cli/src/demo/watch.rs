//! The training of a cluster, as the process sees it that started the members: one display for all
//! of them, and an orderly end on Ctrl-C.

use anyhow::Result;
use bireme_fleet::Mode;

use crate::cluster::message::{Order, Report, Trained};
use crate::cluster::{Cluster, Who};
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// How training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The samples are used up, and the model is saved.
    Complete,
    /// The user stopped it.
    Interrupted { done: u64, saved: bool },
}

/// Watches a cluster whose trainers have been started until all of its members have ended.
///
/// # Errors
/// When a member fails: which one, how, and the end of its log. The others are ended when the
/// cluster is dropped.
pub(crate) fn watch(
    cluster: &mut Cluster,
    mode: Mode,
    total: u64,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Watched> {
    let mut watch = Watch {
        mode,
        total,
        quiet,
        trainers: cluster.running_trainers(),
        ready: 0,
        progress: None,
        aucs: vec![None; cluster.running_trainers()],
        halt: Halt::No,
        saved: None,
    };
    let watched = watch.run(cluster, interrupt);
    if let Some(progress) = &mut watch.progress {
        progress.finish();
    }
    match watched {
        // A member that had not yet learned to leave Ctrl-C to us.
        Err(_) if interrupt.is_raised() && watch.progress.is_none() => {}
        other => other?,
    }
    let done = watch.progress.as_ref().map_or(0, Progress::done);
    Ok(match (watch.saved, watch.halt) {
        (Some(false), _) => Watched::Complete,
        (saved, _) => Watched::Interrupted { done, saved: saved.is_some() },
    })
}

/// How far the trainers are on their way to an early end.
enum Halt {
    No,
    /// They were told to hold; these have answered, with the steps that they had begun.
    Asked(Vec<u64>),
    /// They know where to stop.
    Ordered,
}

struct Watch {
    mode: Mode,
    total: u64,
    quiet: bool,
    trainers: usize,
    /// Trainers that have their data.
    ready: usize,
    /// Made when training begins, so that preparations do not count.
    progress: Option<Progress>,
    /// The last AUC of each trainer.
    aucs: Vec<Option<f64>>,
    halt: Halt,
    /// Whether the model was saved, as that of an interrupted run.
    saved: Option<bool>,
}

impl Watch {
    fn run(&mut self, cluster: &mut Cluster, interrupt: &Interrupt) -> Result<()> {
        while !cluster.is_over() {
            if interrupt.is_raised() && matches!(self.halt, Halt::No) {
                if self.progress.is_none() {
                    // Nobody has begun a step: there is nothing to end in order, and no reason to
                    // wait until the trainers have their data.
                    return Ok(());
                }
                self.halt = Halt::Asked(Vec::new());
                cluster.order_trainers(&Order::Hold);
            }
            if let Some((who, report)) = cluster.next()? {
                self.hear(who, report);
            }
            self.halt_together(cluster);
        }
        Ok(())
    }

    fn hear(&mut self, who: Who, report: Report) {
        match (who, report) {
            (Who::Trainer(_), Report::Ready) => {
                self.ready += 1;
                if self.ready == self.trainers {
                    self.progress();
                }
            }
            (Who::Trainer(rank), Report::Trained(trained)) => self.trained(rank, trained),
            (Who::Trainer(_), Report::Held(begun)) => {
                if let Halt::Asked(answers) = &mut self.halt {
                    answers.push(begun);
                }
            }
            (_, Report::Saved { interrupted }) => self.saved = Some(interrupted),
            (_, Report::Ready | Report::Held(_) | Report::Trained(_) | Report::Listening(_)) => {}
        }
    }

    fn trained(&mut self, rank: usize, trained: Trained) {
        if let Some(auc) = self.aucs.get_mut(rank) {
            *auc = trained.auc.or(*auc);
        }
        let known: Vec<f64> = self.aucs.iter().flatten().copied().collect();
        let auc = known.iter().sum::<f64>() / known.len() as f64;
        let losses = (trained.loss.unwrap_or(f64::NAN), trained.steps);
        self.progress().steps(trained.samples, losses, auc);
    }

    /// The display: from when all trainers are ready, or one of a mode without barriers began.
    fn progress(&mut self) -> &mut Progress {
        let (total, quiet) = (self.total, self.quiet);
        self.progress.get_or_insert_with(|| Progress::new(total, quiet))
    }

    /// Tells trainers where to stop once all of those that run have said how far they are.
    fn halt_together(&mut self, cluster: &mut Cluster) {
        let Halt::Asked(answers) = &self.halt else { return };
        if answers.len() < cluster.running_trainers() {
            return;
        }
        let furthest = answers.iter().copied().max().unwrap_or(0);
        // Who waits for nobody stops where it is.
        let steps = match self.mode {
            Mode::Sync | Mode::Hybrid => furthest,
            Mode::Async | Mode::HalfAsync | Mode::Geo => 0,
        };
        cluster.order_trainers(&Order::Until { steps, save: furthest > 0 });
        self.halt = Halt::Ordered;
    }
}
