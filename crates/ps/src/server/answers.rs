//! What a server does for each request: one function for each entry of [`Request`]'s table.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bireme_comm::Peer;
use bireme_ir::difference;

use super::gather::Gather;
use super::meet::{self, Ended, Meeting};
use super::roster::{Failing, Standing};
use super::service::Service;
use super::tables::RowGrads;
use crate::message::{Answer, Array, Asked, Format, Life, Request, Serve};
use crate::{Error, Mode, Result};

/// Bytes of memory that a connection keeps for its next answer.
const KEPT_WORDS: usize = (64 << 20) / 8;

thread_local! {
    /// Memory for values and rows on their way out; connections have their own threads.
    static WORDS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    static ROWS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

impl Serve<'_> for Service {
    fn join(
        &self,
        asked: Asked<'_>,
        trainer: u32,
        trainers: u32,
        mode: Mode,
        process: &str,
        program: Vec<&str>,
        life: Life<'_>,
    ) {
        let peer = asked.peer;
        let checked = self.check_job(peer, trainer, trainers, mode);
        let checked = checked.and_then(|()| self.compare_programs(peer, &program));
        let checked = checked.and_then(|()| self.agree(&life));
        if let Err(error) = checked.and_then(|()| self.take_in(peer, trainer, process)) {
            return asked.answer(Err(error));
        }
        let step = self.state.step.load(Ordering::Acquire);
        let (server, lineage) = (self.state.config.server, self.state.lineage());
        let joined = Answer::Joined { server, life: lineage.life(step) }.encode().parts().concat();
        // Before it is sent: a trainer that is slow to listen must not hold up the others.
        drop(lineage);
        asked.reply.send(&[&joined]);
    }

    fn begin(&self, asked: Asked<'_>) {
        self.state.lineage().begin();
        asked.done(Ok(()));
    }

    fn push(&self, asked: Asked<'_>, trainer: u32, values: Vec<(&str, Array<'_>)>) {
        let mut values = values.iter();
        asked.done(values.try_for_each(|(name, array)| self.state.push(trainer, name, array)));
    }

    fn barrier(&self, asked: Asked<'_>, trainer: u32) {
        if !self.state.is_sync() {
            return asked.done(Ok(()));
        }
        let mut roster = self.roster();
        // Again, under the lock: who comes after a failure must not wait.
        let refusal = roster.refusal(asked.peer, &Request::Barrier { trainer });
        if let Some(problem) = refusal.or_else(|| roster.failure_for(trainer)) {
            drop(roster);
            return asked.reply.fail(&problem);
        }
        let stale = roster.barrier.insert(trainer, (asked.reply, Instant::now()));
        self.step_if_all_are_here(roster);
        if let Some((stale, _)) = stale {
            stale.fail("the same trainer came to the barrier again");
        }
    }

    fn get(
        &self,
        asked: Asked<'_>,
        trainer: u32,
        names: Vec<&str>,
        start: u64,
        versions: Vec<u64>,
        ahead: bool,
    ) {
        let ahead = match ahead && self.state.looks_ahead() {
            true => self.roster().others_at_work(trainer),
            false => 0,
        };
        self.send_values(asked, |to| self.state.get(trainer, &names, start, &versions, ahead, to));
    }

    fn pull_rows(&self, asked: Asked<'_>, table: &str, keys: &[u64]) {
        let mut rows = ROWS.take();
        let pulled = self.state.pull_rows(table, keys, self.limit, &mut rows);
        asked.answer(pulled.map(|()| Answer::Rows { values: &rows }));
        if rows.capacity() <= 2 * KEPT_WORDS {
            ROWS.set(rows);
        }
    }

    fn push_rows(
        &self,
        asked: Asked<'_>,
        trainer: u32,
        table: &str,
        keys: &[u64],
        grads: &[f32],
        counts: Option<&[[f32; 2]]>,
    ) {
        let rows = RowGrads::new(keys, grads, counts);
        asked.done(rows.and_then(|rows| self.state.push_rows(trainer, table, rows)));
    }

    fn pull_records(&self, asked: Asked<'_>, table: &str, keys: &[u64]) {
        let mut rows = ROWS.take();
        let pulled = self.state.pull_records(table, keys, self.limit, &mut rows);
        asked.answer(pulled.map(|()| Answer::Rows { values: &rows }));
        if rows.capacity() <= 2 * KEPT_WORDS {
            ROWS.set(rows);
        }
    }

    fn push_records(
        &self,
        asked: Asked<'_>,
        _: u32,
        table: &str,
        step: u64,
        keys: &[u64],
        records: &[f32],
    ) {
        asked.done(self.state.push_records(table, step, keys, records));
    }

    fn push_delta(&self, asked: Asked<'_>, _: u32, values: Vec<(&str, Array<'_>)>) {
        let mut values = values.iter();
        asked.done(values.try_for_each(|(name, delta)| self.state.push_delta(name, delta)));
    }

    fn pull_geo(&self, asked: Asked<'_>, trainer: u32, names: Vec<&str>, start: u64) {
        self.send_values(asked, |to| self.state.pull_geo(trainer, &names, start, to));
    }

    fn set(&self, asked: Asked<'_>, values: Vec<(&str, Array<'_>)>) {
        asked.done(values.iter().try_for_each(|(name, array)| self.state.set(name, array)));
    }

    fn set_rows(&self, asked: Asked<'_>, table: &str, keys: &[u64], values: &[f32]) {
        asked.done(self.state.table(table).and_then(|table| table.rows.set(keys, values)));
    }

    fn meet(
        &self,
        asked: Asked<'_>,
        group: &str,
        name: &str,
        member: u32,
        members: u32,
        data: &[u8],
    ) {
        let mut roster = self.roster();
        let key = (group.to_owned(), name.to_owned());
        let config = &self.state.config;
        let most = config.trainers.saturating_add(config.endpoints.len() as u32);
        let failure = if group == meet::TRAINERS { roster.failure_for(member) } else { None };
        let fits = || meet::check(&roster, &key, members, most, data.len(), self.limit).err();
        if let Some(problem) = failure.or_else(fits) {
            drop(roster);
            return asked.reply.fail(&problem);
        }
        let meeting = roster.meetings.entry(key);
        let meeting = meeting.or_insert_with(|| Meeting::new(members));
        let refused = meeting.enter(member, members, data, asked.reply);
        let ended = self.settle(&mut roster);
        drop(roster);
        if let Some((reply, problem)) = refused {
            reply.fail(&problem);
        }
        ended.into_iter().for_each(Ended::deliver);
    }

    fn save(
        &self,
        asked: Asked<'_>,
        number: u64,
        directory: &str,
        table: Option<&str>,
        mode: u32,
        format: Format,
    ) {
        let (asker, is_same_user) = ((asked.peer.session, number), asked.peer.is_same_user);
        self.work(&format!("saving to `{directory}`"), true, asked.reply, || {
            self.state.folders.check(directory, is_same_user)?;
            let text = self.state.save(asker, directory, table, mode, format)?;
            Ok(Answer::Text { text: &text }.encode().parts().concat())
        });
    }

    fn commit(&self, asked: Asked<'_>, number: u64) {
        self.state.commit(number);
        asked.done(Ok(()));
    }

    fn abandon(&self, asked: Asked<'_>, number: u64) {
        self.state.abandon(number);
        asked.done(Ok(()));
    }

    fn load(&self, asked: Asked<'_>, directory: &str, table: Option<&str>, _: u32) {
        let is_same_user = asked.peer.is_same_user;
        self.count(asked, &format!("loading `{directory}`"), true, || {
            self.state.folders.check(directory, is_same_user)?;
            self.state.load(directory, table)
        });
    }

    fn shrink(&self, asked: Asked<'_>, table: Option<&str>) {
        self.count(asked, "shrinking or clearing tables", false, || {
            let tables = self.state.tables_named(table)?.into_iter();
            Ok(tables.map(|table| table.rows.shrink().removed as u64).sum())
        });
    }

    fn clear(&self, asked: Asked<'_>, table: Option<&str>) {
        self.count(asked, "shrinking or clearing tables", false, || {
            let mut count = 0;
            for table in self.state.tables_named(table)? {
                count += table.rows.len() as u64;
                table.rows.clear();
            }
            Ok(count)
        });
    }

    fn stat(&self, asked: Asked<'_>) {
        let to_json =
            |stat| serde_json::to_string(&stat).map_err(|error| Error::Request(error.to_string()));
        match self.state.stat().and_then(to_json) {
            Ok(text) => asked.answer(Ok(Answer::Text { text: &text })),
            Err(error) => asked.answer(Err(error)),
        }
    }

    fn quit(&self, asked: Asked<'_>, problem: &str) {
        self.lose(asked.peer, &format!("it ended with an error: {problem}"), true);
        asked.done(Ok(()));
    }

    fn complete(&self, asked: Asked<'_>, trainer: u32) {
        let mut roster = self.roster();
        // Again, under the lock: another process may have its place by now.
        if let Some(problem) = roster.refusal(asked.peer, &Request::Complete { trainer }) {
            drop(roster);
            return asked.reply.fail(&problem);
        }
        // Before the answer: a goodbye may follow it on another connection.
        roster.complete(trainer);
        drop(roster);
        asked.done(Ok(()));
        let mut roster = self.roster();
        let ended = self.settle(&mut roster);
        self.step_if_all_are_here(roster);
        ended.into_iter().for_each(Ended::deliver);
        self.news.notify_all();
    }
}

impl Service {
    fn send_values<'a>(
        &self,
        asked: Asked<'_>,
        gather: impl FnOnce(&mut Gather<'a>) -> Result<()>,
    ) {
        let mut to = Gather::new(WORDS.take(), self.limit);
        let gathered = gather(&mut to);
        asked.answer(gathered.map(|()| to.answer()));
        let words = to.into_words();
        if words.capacity() <= KEPT_WORDS {
            WORDS.set(words);
        }
    }

    /// Work whose answer is a number.
    fn count(
        &self,
        asked: Asked<'_>,
        what: &str,
        on_disk: bool,
        run: impl FnOnce() -> Result<u64>,
    ) {
        self.work(what, on_disk, asked.reply, || {
            Ok(Answer::Counted { count: run()? }.encode().parts().concat())
        });
    }

    /// Refuses a trainer of another job description. Where trainers are still expected it was to be
    /// one of them: they would be waited for in vain, so that all hear of it now.
    fn refuse_and_fail_job(&self, problem: String) -> Error {
        let mut roster = self.roster();
        if roster.trainers.contains(&Standing::Absent) {
            let failing = roster.fail(&problem);
            drop(roster);
            failing.deliver();
            self.news.notify_all();
        }
        Error::Config(problem)
    }

    /// Refuses a trainer that takes the job for another one.
    fn check_job(&self, peer: &Peer, trainer: u32, trainers: u32, mode: Mode) -> Result<()> {
        let (config, name) = (&self.state.config, self.state.name());
        if trainers != config.trainers || trainer >= trainers {
            return Err(self.refuse_and_fail_job(format!(
                "{peer} says it is trainer {trainer} of {trainers}, but {name} serves {} trainers: \
                 start all processes with the same number of trainers",
                config.trainers
            )));
        }
        if mode != config.mode {
            return Err(self.refuse_and_fail_job(format!(
                "{peer} trains in {mode:?} mode, but {name} serves {:?} mode: transpile all \
                 programs with the same `sync_mode` and strategy",
                config.mode
            )));
        }
        if self.roster().rank_of(peer.identity) != Some(trainer) {
            return Err(Error::Config(format!("{peer} says it is trainer {trainer}")));
        }
        Ok(())
    }

    /// Refuses a trainer whose program differs from the server's, or from that of the first trainer
    /// where the server's is not known.
    fn compare_programs(&self, peer: &Peer, program: &[&str]) -> Result<()> {
        if program.is_empty() {
            return Ok(());
        }
        let (known, name) = (&self.state.config.program, self.state.name());
        let (whose, known) = self.state.program.get_or_init(|| match known.is_empty() {
            false => (name.clone(), known.clone()),
            true => (peer.to_string(), program.iter().map(|line| (*line).to_owned()).collect()),
        });
        match difference((whose, known), (&peer.to_string(), program)) {
            None => Ok(()),
            Some(difference) => Err(self.refuse_and_fail_job(format!(
                "{peer} trains another program than {whose}: {difference}. Start all processes of \
                 the job with the same script and settings"
            ))),
        }
    }

    /// Refuses a trainer of another life of the job's state.
    fn agree(&self, life: &Life<'_>) -> Result<()> {
        let (step, server) = (self.state.step.load(Ordering::Acquire), self.state.config.server);
        let agreed = self.state.lineage().agree((server, &self.state.name()), step, life);
        agreed.map_err(|problem| self.refuse_and_fail_job(problem))
    }

    /// Gives a process the place of its rank; an older one that has it is no longer part of the job.
    fn take_in(&self, peer: &Peer, trainer: u32, process: &str) -> Result<()> {
        let name = self.state.name();
        let forgetting = self.forgetting();
        let mut roster = self.roster();
        if let Some(problem) = roster.failure_for(trainer) {
            return Err(Error::Missing(problem));
        }
        let was = roster.join(trainer, peer, process);
        if let Standing::Here { session, process: older, .. } = was
            && session != peer.session
        {
            let who = peer.identity.to_string();
            let problem = format!("two processes have joined as {who}: {older}, then {process}");
            let failing = (!self.goes_on()).then(|| {
                let advice = roster.duplicate_id_advice(&who);
                roster.fail(&format!(
                    "{problem}. {advice} and restart the job from its last checkpoint, because the \
                     steps that others wait for are lost"
                ))
            });
            drop(roster);
            failing.into_iter().for_each(Failing::deliver);
            tracing::warn!("{name}: {problem}; the older one is no longer part of the job");
            self.state.forget(trainer);
        } else {
            drop(roster);
        }
        drop(forgetting);
        self.news.notify_all();
        Ok(())
    }
}
