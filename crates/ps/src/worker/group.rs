//! What trainers do together or on behalf of all: meetings on server 0, checkpoints, the care of
//! tables. None of it waits for trainers that do not take part.

use std::path::Path;
use std::sync::atomic::Ordering;

use bireme_comm::{Body, Lane};
use bireme_engine::remote::Remote;

use super::Worker;
use super::link::{Ask, unexpected};
use crate::message::{Answer, Format, Request};
use crate::server::{Stat, TableStat};
use crate::{Error, Result, checkpoint};

/// How [`Worker::all_reduce`] combines numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl Worker {
    /// Waits until all trainers are here with the same `name`, and returns what each brought, by
    /// rank. Heter workers take no part.
    ///
    /// # Errors
    /// When a trainer or server 0 is lost, or the deadline passes.
    pub fn meet(&self, name: &str, data: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.meet_as("trainer", name, self.config.trainer, self.config.readers(), data)
    }

    /// [`Worker::meet`] for any group of processes that agree on a name.
    ///
    /// # Errors
    /// As [`Worker::meet`].
    pub fn meet_as(
        &self,
        group: &str,
        name: &str,
        member: u32,
        members: u32,
        data: &[u8],
    ) -> Result<Vec<Vec<u8>>> {
        self.open()?;
        // The server ends a meeting before it answers, so the next one of a name is a new one; a
        // trainer that was restarted finds the others in it.
        let request = Request::Meet { group, name, member, members, data };
        let what = format!("to meet {members} members of `{group}` for `{name}`");
        let body = self.links.ask(&Ask { server: 0, lane: Lane::Get, what, request })?;
        match Answer::decode(&body)? {
            Answer::Gathered { parts } => Ok(parts.into_iter().map(<[u8]>::to_vec).collect()),
            other => Err(unexpected("a meeting", &other)),
        }
    }

    /// Waits until all trainers are here.
    ///
    /// # Errors
    /// As [`Worker::meet`].
    pub fn barrier(&self) -> Result<()> {
        self.meet("barrier", &[]).map(drop)
    }

    /// What every trainer brings, by rank.
    ///
    /// # Errors
    /// As [`Worker::meet`].
    pub fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.meet("all_gather", data)
    }

    /// Combines the trainers' numbers, one by one; in the order of ranks, so that all get the same.
    ///
    /// # Errors
    /// As [`Worker::meet`], and when trainers bring different numbers of numbers.
    pub fn all_reduce(&self, values: &[f64], how: Reduce) -> Result<Vec<f64>> {
        let parts = self.meet("all_reduce", bytemuck::cast_slice(values))?;
        let mut sums: Option<Vec<f64>> = None;
        for (rank, part) in parts.iter().enumerate() {
            let part = bytemuck::pod_collect_to_vec::<u8, f64>(part);
            let Some(sums) = &mut sums else {
                sums = Some(part);
                continue;
            };
            if sums.len() != part.len() {
                return Err(Error::Request(format!(
                    "trainer {rank} brought {} numbers to an all_reduce, trainer 0 {}",
                    part.len(),
                    sums.len()
                )));
            }
            for (sum, value) in sums.iter_mut().zip(part) {
                *sum = match how {
                    Reduce::Sum => *sum + value,
                    Reduce::Min => sum.min(value),
                    Reduce::Max => sum.max(value),
                };
            }
        }
        Ok(sums.unwrap_or_default())
    }

    /// Has every server write its part of a checkpoint, after this trainer's own pushes are
    /// applied, and completes it: `directory` must be the same place for all of them. `table`
    /// limits it to one table or variable; `mode` is Paddle's number (0 all, 1 changes, …).
    ///
    /// # Errors
    /// When a server is lost or cannot write, or its files cannot be seen from here.
    pub fn save(
        &self,
        directory: &str,
        table: Option<&str>,
        mode: u32,
        format: Format,
    ) -> Result<()> {
        self.flush()?;
        let what = format!("to save to `{directory}`");
        let number = self.saves.fetch_add(1, Ordering::Relaxed);
        let number = u64::from(self.config.trainer) << 32 | u64::from(number);
        let request = Request::Save { number, directory, table, mode, format };
        let completed = self.texts(&what, &request).and_then(|answers| {
            let answers: Vec<Vec<u8>> = answers.into_iter().map(String::into_bytes).collect();
            checkpoint::complete_request(Path::new(directory), &answers)
        });
        if let Err(error) = completed {
            // Who cannot be told finds out when the next save comes.
            drop(self.ask_all("to give up a save", &Request::Abandon { number }));
            return Err(error);
        }
        // The checkpoint is whole without it: the next one of changes has more rows then.
        if let Err(error) =
            self.ask_all("to hear that a save is complete", &Request::Commit { number })
        {
            tracing::warn!("{}: `{directory}` is complete, but: {error}", self.whoami());
        }
        Ok(())
    }

    /// Has every server read its part of a checkpoint; how many rows and variables were read.
    /// Values that are here already are forgotten.
    ///
    /// # Errors
    /// When a server is lost or cannot read.
    pub fn load(&self, directory: &str, table: Option<&str>, mode: u32) -> Result<u64> {
        self.flush()?;
        let what = format!("to load `{directory}`");
        let count = self.count(&what, &Request::Load { directory, table, mode })?;
        self.forget();
        Ok(count)
    }

    /// Ages tables and drops rows that are worth nothing any more; how many were dropped.
    ///
    /// # Errors
    /// When a server is lost or does not know the table.
    pub fn shrink(&self, table: Option<&str>) -> Result<u64> {
        self.flush()?;
        self.count("to shrink tables", &Request::Shrink { table })
    }

    /// Empties tables; how many rows were dropped.
    ///
    /// # Errors
    /// When a server is lost or does not know the table.
    pub fn clear(&self, table: Option<&str>) -> Result<u64> {
        self.flush()?;
        let count = self.count("to clear tables", &Request::Clear { table })?;
        self.forget();
        Ok(count)
    }

    /// What every server holds and did: the JSON of [`crate::server::Stat`], in order.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn server_stats(&self) -> Result<Vec<String>> {
        self.texts("what it holds", &Request::Stat)
    }

    /// The texts that all servers answer with, in order.
    fn texts(&self, what: &str, request: &Request<'_>) -> Result<Vec<String>> {
        let bodies = self.ask_all(what, request)?;
        let text = |body: &Body| match Answer::decode(body)? {
            Answer::Text { text } => Ok(text.to_owned()),
            other => Err(unexpected(what, &other)),
        };
        bodies.iter().map(text).collect()
    }

    /// The keyed tables in the order of their numbers, all servers together.
    ///
    /// # Errors
    /// When a server is lost, or of another version.
    pub fn table_stats(&self) -> Result<Vec<TableStat>> {
        let mut tables: Vec<TableStat> = Vec::new();
        for text in self.server_stats()? {
            let stat: Stat = serde_json::from_str(&text)
                .map_err(|error| Error::Request(format!("a server's figures: {error}")))?;
            for (number, table) in stat.tables.into_iter().enumerate() {
                match tables.get_mut(number) {
                    Some(sum) => {
                        sum.rows += table.rows;
                        sum.bytes += table.bytes;
                        sum.updates = sum.updates.max(table.updates);
                    }
                    None => tables.push(table),
                }
            }
        }
        Ok(tables)
    }

    /// Sums the counts that all servers answer with.
    fn count(&self, what: &str, request: &Request<'_>) -> Result<u64> {
        let mut sum = 0;
        for body in self.ask_all(what, request)? {
            match Answer::decode(&body)? {
                Answer::Counted { count } => sum += count,
                Answer::Done => {}
                other => return Err(unexpected(what, &other)),
            }
        }
        Ok(sum)
    }

    fn ask_all(&self, what: &str, request: &Request<'_>) -> Result<Vec<Body>> {
        self.open()?;
        self.links.ask_all(Lane::Get, what, request)
    }
}
