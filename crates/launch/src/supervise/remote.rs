//! The other machines of a job: their news among everything else that is waited for, and what this
//! machine does about them. Whatever ends the job ends it everywhere; the board of the rendezvous
//! decides what that was.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bireme_fleet::{Choice, choose_checkpoint, tell_checkpoint};
use rustix::process::Signal;

use super::Outcome;
use super::events::Event;
use super::failure::{DETAIL, Failed};
use super::screen::Level;
use super::watch::{ALL, Watch};
use crate::job::{Mode, Role};
use crate::rendezvous::{Event as News, Failure, Peers};

/// How often the thread that hears news looks whether it is still needed.
const LOOK: Duration = Duration::from_millis(500);
/// How long the board may take to say what ended the job; one that is lost is noticed earlier.
const VERDICT: Duration = Duration::from_secs(15);

/// Other machines, as something to wait for.
pub(super) struct Remote {
    peers: Arc<dyn Peers>,
    reader: PipeReader,
    heard: Arc<Heard>,
    /// Whether they know that the workers of this machine are done.
    is_told: bool,
}

#[derive(Default)]
struct Heard {
    news: Mutex<VecDeque<News>>,
    is_over: AtomicBool,
}

impl Heard {
    fn news(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remote {
    /// Listens to the others.
    ///
    /// # Errors
    /// When there are no file descriptors or threads left.
    pub(super) fn listen(peers: Arc<dyn Peers>) -> Result<Remote> {
        let (reader, mut writer) = std::io::pipe().context("cannot make a pipe for news")?;
        let heard = Arc::<Heard>::default();
        let (to, from) = (heard.clone(), peers.clone());
        std::thread::Builder::new()
            .name("peers".into())
            .spawn(move || {
                while !to.is_over.load(Ordering::Acquire) {
                    if let Some(news) = from.next_event(LOOK) {
                        to.news().push_back(news);
                        // Fails when nobody listens any more.
                        writer.write_all(&[1]).ok();
                    }
                }
            })
            .context("cannot start a thread for news")?;
        Ok(Remote { peers, reader, heard, is_told: false })
    }

    /// Readable when there is news.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// The way to the others.
    pub(super) fn peers(&self) -> &dyn Peers {
        &*self.peers
    }

    /// The next news; only after [`Remote::fd`] was readable.
    pub(super) fn take(&mut self) -> Option<News> {
        self.reader.read_exact(&mut [0]).ok()?;
        self.heard.news().pop_front()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.heard.is_over.store(true, Ordering::Release);
    }
}

impl Watch<'_> {
    fn own_address(&self) -> &str {
        self.job.nodes.get(self.job.node).map_or("", String::as_str)
    }

    /// Tells the others when the workers of this machine are done, or it has none.
    pub(super) fn tell_done(&mut self) {
        let workers = |member: &&super::watch::Member<'_>| member.process.role == Role::Worker;
        let are_done = self
            .members
            .iter()
            .filter(workers)
            .all(|member| member.ended.as_ref().is_some_and(|ended| ended.status.success()));
        if let Some(remote) = self.remote.as_mut().filter(|remote| are_done && !remote.is_told) {
            remote.is_told = true;
            remote.peers.local_workers_done();
        }
    }

    /// Tells the others that the user wants this machine to stop.
    pub(super) fn tell_interrupted(&self, signal: i32) {
        let how = format!("was told to stop by signal {signal}");
        let failure = Failure { code: 128 + signal, ..Failure::of_node(self.own_address(), &how) };
        if let Some(remote) = &self.remote {
            remote.peers.local_failed(&failure);
        }
    }

    /// Tells the others of a failure here and hears what it means: the end, usually by this very
    /// failure, or a new beginning on all machines.
    pub(super) fn ask_peers(
        &mut self,
        failed: &Failed<'_>,
        report: &str,
    ) -> Result<Option<Outcome>> {
        let own = Failure {
            node: self.own_address().to_owned(),
            process: Some((failed.process.role, failed.process.rank)),
            hearsay: failed.is_hearsay(),
            how: failed.ended.how(),
            code: failed.ended.code().into(),
            log: failed.ended.log.path.display().to_string(),
            tail: failed.tail.clone(),
        };
        if let Some(remote) = &self.remote {
            remote.peers.local_failed(&own);
        }
        let until = Instant::now() + VERDICT;
        loop {
            match self.next(Some(until))? {
                Event::Remote(news) if *news == News::Failed(own.clone()) => break,
                Event::Remote(news) => {
                    let is_own = matches!(&*news, News::Restart { failure, .. } if *failure == own);
                    let outcome = self.heard(*news);
                    if !is_own {
                        self.say(Level::Error, &format!("as a consequence: {own}"));
                    }
                    return outcome;
                }
                Event::Signal(signal) => return self.interrupted(signal).map(Some),
                Event::Time => break,
                Event::Ended(_) | Event::Stopped | Event::Lost => {}
            }
        }
        self.say(Level::Error, report);
        self.end(&ALL, Signal::TERM, self.options.grace)?;
        Ok(Some(Outcome { code: failed.ended.code(), failure: Some(failed.failure()) }))
    }

    /// Acts on news; an outcome if they end the job.
    pub(super) fn heard(&mut self, news: News) -> Result<Option<Outcome>> {
        let (code, text) = match news {
            News::AllWorkersDone => return self.finish().map(Some),
            News::Restart { round, failure } => return self.begin_again(round, &failure),
            News::Begin { .. } => return Ok(None),
            News::Failed(failure) => (failure.code, describe(&failure)),
            News::NodeLost { node, why } => (1, format!("error: node {node} is lost: {why}")),
        };
        self.pump();
        self.say(Level::Error, &text);
        self.end(&ALL, Signal::TERM, self.options.grace)?;
        let code = u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1);
        Ok(Some(Outcome { code, failure: None }))
    }

    /// Ends what runs here, waits until all machines have, and starts everything again.
    fn begin_again(&mut self, round: u32, failure: &Failure) -> Result<Option<Outcome>> {
        self.pump();
        self.say(Level::Error, &describe(failure));
        self.say(
            Level::Warning,
            &format!("all processes of all nodes are started again (restart {round})"),
        );
        self.end(&ALL, Signal::TERM, self.options.grace)?;
        self.clear_sessions();
        let chosen = self.choose_checkpoint();
        if let Some(remote) = &mut self.remote {
            remote.is_told = false;
            let saved = chosen;
            let saved = saved.and_then(|path| path.into_os_string().into_string().ok());
            remote.peers.local_stopped(round, saved);
        }
        loop {
            match self.next(None)? {
                Event::Remote(news) => match *news {
                    News::Begin { checkpoint, .. } => {
                        self.remember(checkpoint.as_deref());
                        break;
                    }
                    news => return self.heard(news),
                },
                Event::Signal(signal) => return self.interrupted(signal).map(Some),
                _ => {}
            }
        }
        self.restarts = round;
        self.events.retain(|event| !matches!(event, Event::Ended(_)));
        self.start_all()?;
        self.tell_done();
        Ok(None)
    }
}

impl Watch<'_> {
    /// Finds the checkpoint from which the processes of this machine go on, and says which others
    /// cannot be used.
    pub(super) fn choose_checkpoint(&self) -> Option<PathBuf> {
        let Choice { chosen, passed_over } =
            choose_checkpoint(&self.folder, self.job.mode != Mode::Collective);
        for (path, problem) in &passed_over {
            let path = path.display();
            self.say(Level::Warning, &format!("warning: checkpoint `{path}`: {problem}"));
        }
        match &chosen {
            _ if passed_over.is_empty() => {}
            Some(path) => {
                let path = path.display();
                self.say(Level::Warning, &format!("the one before it is loaded: `{path}`"));
            }
            None if passed_over.iter().all(|(path, _)| !path.is_dir()) => {
                let text = "no checkpoint of this job is left: training begins anew";
                self.say(Level::Warning, &format!("warning: {text}"));
            }
            None => self.say(
                Level::Warning,
                "warning: no checkpoint of this job is whole: servers will refuse the last one; \
                 bring one back from a copy, or start the job anew",
            ),
        }
        chosen
    }

    /// Lets the processes of this machine know the checkpoint of another.
    fn remember(&self, checkpoint: Option<&str>) {
        let Some(checkpoint) = checkpoint else { return };
        if let Err(error) = tell_checkpoint(&self.folder, Path::new(checkpoint)) {
            let folder = self.folder.display();
            self.say(
                Level::Warning,
                &format!(
                    "warning: servers here will not find the checkpoint `{checkpoint}`, as \
                     `{folder}` cannot be written: {error}"
                ),
            );
        }
    }
}

/// A failure on any machine, as every machine tells it.
fn describe(failure: &Failure) -> String {
    let mut text = format!("error: {failure}");
    if !failure.log.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  log:     {} on {}", failure.log, failure.node);
    }
    if !failure.tail.is_empty() {
        let tail = failure.tail.join("\n");
        let _ = write!(text, "\n{DETAIL}\n{tail}\n{}", "-".repeat(DETAIL.len()));
    }
    text
}

#[cfg(test)]
mod tests;
