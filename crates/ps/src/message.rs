//! The protocol of the parameter servers: one table of everything that a trainer can ask, and one of
//! every answer.
//!
//! An entry of [`Request`] gives number, name, the function of [`Serve`] that answers it, its
//! [`Rules`] and its fields; encoding, decoding and dispatch follow. Only these types cross the wire.
//! Arrays are borrowed on both sides: sent from where they lie, looked at where they arrived. A
//! server answers a request that fails by an error text of `comm`.

mod array;
pub(crate) mod field;
mod rules;
#[cfg(test)]
mod tests;

pub use array::Array;
pub use bireme_comm::wire::Encoded;
pub use rules::{Asker, Pace, Rules};

use bireme_comm::wire::{self, Reader};
use field::{Field, fields, messages};
pub(crate) use rules::Asked;
use rules::{CHANGES, READS, requests};

use crate::{Mode, Result};

requests! {
    /// What a trainer asks of a server.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Request<'a>, answered by Serve {
        /// The first request of a trainer. The server checks that both run the same job.
        /// Answer: [`Answer::Joined`].
        1 Join join [READS.of(Asker::Anybody)] {
            /// The trainer's rank.
            trainer: u32,
            /// How many trainers it knows of.
            trainers: u32,
            /// How it keeps time.
            mode: Mode,
            /// The process behind it, in words.
            process: &'a str,
            /// The fingerprint of what it trains, a line for each thing that must be the same in all
            /// processes; empty where it is not known, and not compared.
            program: Vec<&'a str>,
            /// The life of the job's state: one that is proposed to server 0, what that one answered to
            /// the others.
            life: Life<'a>,
        },
        /// This trainer has joined all servers: from now on a server that has not been joined is not
        /// one of this life of the job. To server 0. Answer: [`Answer::Done`].
        21 Begin begin [CHANGES],
        /// Gradients (or counters, or learning rates) by their names on the server. In sync mode they
        /// wait for the barrier, in the others they are applied before the answer.
        /// A dense value may come in pieces ([`Array::Dense`]), selected rows may come in several
        /// requests, which add up. Answer: [`Answer::Done`].
        2 Push push [CHANGES] {
            /// The trainer's rank.
            trainer: u32,
            /// Names and values.
            values: Vec<(&'a str, Array<'a>)>,
        },
        /// The trainer has pushed everything of this step. Answered in sync and hybrid mode by
        /// [`Answer::Updated`], when all trainers are here and the update ran, in the others at once
        /// by [`Answer::Done`].
        ///
        3 Barrier barrier [CHANGES.until_others_come()] {
            /// The trainer's rank.
            trainer: u32,
        },
        /// Current values. Answer: [`Answer::Values`] in the order of `names`, as far as one answer can
        /// hold them: when there are fewer, or the last one is not whole, ask again for the rest.
        4 Get get [READS] {
            /// The trainer's rank; DC-ASGD remembers what it got.
            trainer: u32,
            /// Names on the server.
            names: Vec<&'a str>,
            /// The first element wanted of the first name; 0 but for the rest of a large value.
            start: u64,
            /// The version of each value that the trainer has, 0 for none; empty when it has none of
            /// them. A value that it has comes without elements ([`Array::nothing_new`]).
            versions: Vec<u64>,
            /// Async: whether the values are for a step, and may be those that are expected when its
            /// gradients arrive.
            ahead: bool,
        },
        /// Rows of a table: keys of a keyed one, row numbers inside the piece of a row-sliced one;
        /// any order, repeats allowed. Answer: [`Answer::Rows`], in the order of `keys`.
        5 PullRows pull_rows [READS] {
            /// The table's name on the server.
            table: &'a str,
            /// Keys or row numbers.
            keys: &'a [u64],
        },
        /// Gradients of rows of a keyed table. Answer: [`Answer::Done`].
        6 PushRows push_rows [CHANGES] {
            /// The trainer's rank.
            trainer: u32,
            /// The table's name on the server.
            table: &'a str,
            /// Keys, each once.
            keys: &'a [u64],
            /// Gradients, row after row.
            grads: &'a [f32],
            /// Show and click of each key, where the table counts them.
            counts: Option<&'a [[f32; 2]]>,
        },
        /// Geo: what a trainer's own copies moved by since the last exchange, divided by the number of
        /// trainers. The server adds it. Dense for parameters, rows (numbers inside the piece) for
        /// row-sliced tables. Answer: [`Answer::Done`].
        7 PushDelta push_delta [CHANGES] {
            /// The trainer's rank.
            trainer: u32,
            /// Names of the parameter pieces, without `.delta`, and differences.
            values: Vec<(&'a str, Array<'a>)>,
        },
        /// Geo: current values of the rows that changed since this trainer last asked (tables), or of
        /// whole parameters (others). Answer: [`Answer::Values`], as for [`Request::Get`], but rows
        /// that do not fit into the answer come with the next request.
        8 PullGeo pull_geo [CHANGES] {
            /// The trainer's rank.
            trainer: u32,
            /// Names of the parameter pieces.
            names: Vec<&'a str>,
            /// The first element wanted of the first name, as in [`Request::Get`].
            start: u64,
        },
        /// Initial values from a trainer; dense values may come in pieces. Answer: [`Answer::Done`].
        ///
        9 Set set [CHANGES] {
            /// Names on the server, and values.
            values: Vec<(&'a str, Array<'a>)>,
        },
        /// Initial values of rows of a keyed table. Answer: [`Answer::Done`].
        10 SetRows set_rows [CHANGES] {
            /// The table's name on the server.
            table: &'a str,
            /// Keys, each once.
            keys: &'a [u64],
            /// Values, row after row.
            values: &'a [f32],
        },
        /// Whole records of rows of a keyed table: weights and optimizer state, for a trainer that
        /// trains them itself. Rows that the table does not have come as they would be made, and are
        /// not. Answer: [`Answer::Rows`], in the order of `keys`.
        22 PullRecords pull_records [READS] {
            /// The table's name on the server.
            table: &'a str,
            /// Keys.
            keys: &'a [u64],
        },
        /// Records that a trainer has trained take the place of the table's; missing ones are made.
        /// Answer: [`Answer::Done`].
        23 PushRecords push_records [CHANGES] {
            /// The trainer's rank.
            trainer: u32,
            /// The table's name on the server.
            table: &'a str,
            /// Steps that the trainer has made, in all.
            step: u64,
            /// Keys, each once.
            keys: &'a [u64],
            /// Records, one after the other.
            records: &'a [f32],
        },
        /// Waits until `members` processes have come with the same group and name, and gives each of
        /// them everybody's data. Answer: [`Answer::Gathered`].
        // Servers meet, too.
        11 Meet meet [CHANGES.of(Asker::Current).until_others_come()] {
            /// Who meets, for messages: `trainer`, `server`; trainers are missed by their ranks.
            group: &'a str,
            /// What for: `barrier 3`.
            name: &'a str,
            /// The rank inside the group.
            member: u32,
            /// How many meet.
            members: u32,
            /// What this one brings; empty for a barrier.
            data: &'a [u8],
        },
        /// Writes this server's part of a checkpoint. Answer: [`Answer::Text`], whose bytes go, with
        /// those of all servers, to [`crate::checkpoint::complete_request`]; its rows count as saved
        /// when [`Request::Commit`] comes.
        12 Save save [CHANGES.work_on_files()] {
            /// What the asker calls this save in [`Request::Commit`] and [`Request::Abandon`].
            number: u64,
            /// The checkpoint's folder, as the server sees it.
            directory: &'a str,
            /// Only this table or variable.
            table: Option<&'a str>,
            /// Paddle's number: 0 all, 1 changes, 2 base, 3 all and a day older.
            mode: u32,
            /// How to write it.
            format: Format,
        },
        /// The checkpoint of a save is complete: what changed before it need not be in the next save of
        /// changes. A save that was not the server's last is left alone. Answer: [`Answer::Done`].
        ///
        20 Commit commit [CHANGES] {
            /// The save's number.
            number: u64,
        },
        /// A save could not be completed, and counts as never made. Answer: [`Answer::Done`].
        18 Abandon abandon [CHANGES] {
            /// The save's number.
            number: u64,
        },
        /// Reads this server's part of a checkpoint. Answer: [`Answer::Counted`].
        13 Load load [CHANGES.work_on_files()] {
            /// The checkpoint's folder, as the server sees it.
            directory: &'a str,
            /// Only this table or variable.
            table: Option<&'a str>,
            /// Paddle's number, as for saving.
            mode: u32,
        },
        /// Ages tables and drops rows that are worth nothing any more. Answer: [`Answer::Counted`],
        /// rows dropped.
        14 Shrink shrink [CHANGES.work_on_files()] {
            /// Only this table.
            table: Option<&'a str>,
        },
        /// Empties tables. Answer: [`Answer::Counted`], rows dropped.
        15 Clear clear [CHANGES.work_on_files()] {
            /// Only this table.
            table: Option<&'a str>,
        },
        /// What the server holds and did. Answer: [`Answer::Text`], JSON of
        /// [`crate::server::Stat`].
        16 Stat stat [READS],
        /// The trainer ends with an error; whoever waits for it is told at once. Answer:
        /// [`Answer::Done`].
        // A trainer may end before it has joined.
        19 Quit quit [CHANGES.of(Asker::Anybody)] {
            /// The error.
            problem: &'a str,
        },
        /// The trainer has finished; nobody waits for it any more. Answer: [`Answer::Done`].
        17 Complete complete [CHANGES] {
            /// The trainer's rank.
            trainer: u32,
        },
    }
}

/// What all servers of a job must agree on: a server that was restarted alone has lost what the
/// others still have, and must not be taken for one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life<'a> {
    /// Drawn at random by the first trainer of a job, kept by servers while they run; 0 for none.
    pub number: u64,
    /// Whether a trainer has joined all servers.
    pub began: bool,
    /// Updates applied so far, those of the checkpoint included.
    pub step: u64,
    /// A number of what the servers started with; 0 for first values.
    pub origin: u64,
    /// The checkpoint that they started with; empty for first values.
    pub start: &'a str,
    /// The last checkpoint that was saved, or the one that they started with; empty for none.
    pub checkpoint: &'a str,
}

/// How a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Bireme's own: shards with checksums.
    Native,
    /// Paddle's text files.
    Text,
}

fields!(Life<'a> { number, began, step, origin, start, checkpoint });

messages! {
    /// What a server answers.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Answer<'a> {
        /// It is done.
        0 Done,
        /// Welcome.
        1 Joined {
            /// The server's number.
            server: u32,
            /// The life of the job's state that it belongs to.
            life: Life<'a>,
        },
        /// Values, with their names.
        2 Values {
            /// Names and values.
            values: Vec<(&'a str, Array<'a>)>,
            /// A number for each value, which is another one when the value has changed; 0 where nobody
            /// counts. Empty for [`Request::PullGeo`].
            versions: Vec<u64>,
        },
        /// Rows of a table, one after the other.
        3 Rows {
            /// Their elements.
            values: &'a [f32],
        },
        /// What everybody brought, by rank.
        4 Gathered {
            /// One for each member.
            parts: Vec<&'a [u8]>,
        },
        /// A number of things; which ones, the request says.
        5 Counted {
            /// How many.
            count: u64,
        },
        /// A text.
        6 Text {
            /// The text.
            text: &'a str,
        },
        /// The update of a step was applied.
        7 Updated {
            /// How long it took; the rest of a wait was for trainers.
            nanos: u64,
        },
    }
}

impl<'a> Answer<'a> {
    /// The body to send.
    pub fn encode(&self) -> Encoded<'_> {
        Encoded::new(|to| {
            to.head(&[self.method() as u8]);
            self.write_fields(to);
        })
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(body: &'a [u8]) -> Result<Answer<'a>> {
        let read = |from: &mut Reader<'a>| {
            let number = u8::read(from)?;
            Answer::read_fields(number.into(), from)
        };
        Ok(wire::decode(body, read)?)
    }
}
