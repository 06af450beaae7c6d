//! The protocol of the parameter servers: everything that a trainer can ask, and every answer.
//!
//! Only these types cross the wire. Arrays are borrowed on both sides: sent from where they lie,
//! looked at where they arrived. A server answers a request that fails by an error text of `comm`.

mod array;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub use array::Array;
pub use wire::Encoded;

use wire::{Reader, Writer, damaged};

use crate::{Mode, Result};

/// The numbers of the requests, as `comm` carries them beside the body.
pub mod method {
    /// [`super::Request::Join`].
    pub const JOIN: u16 = 1;
    /// [`super::Request::Push`].
    pub const PUSH: u16 = 2;
    /// [`super::Request::Barrier`].
    pub const BARRIER: u16 = 3;
    /// [`super::Request::Get`].
    pub const GET: u16 = 4;
    /// [`super::Request::PullRows`].
    pub const PULL_ROWS: u16 = 5;
    /// [`super::Request::PushRows`].
    pub const PUSH_ROWS: u16 = 6;
    /// [`super::Request::PushDelta`].
    pub const PUSH_DELTA: u16 = 7;
    /// [`super::Request::PullGeo`].
    pub const PULL_GEO: u16 = 8;
    /// [`super::Request::Set`].
    pub const SET: u16 = 9;
    /// [`super::Request::SetRows`].
    pub const SET_ROWS: u16 = 10;
    /// [`super::Request::Meet`].
    pub const MEET: u16 = 11;
    /// [`super::Request::Save`].
    pub const SAVE: u16 = 12;
    /// [`super::Request::Load`].
    pub const LOAD: u16 = 13;
    /// [`super::Request::Shrink`].
    pub const SHRINK: u16 = 14;
    /// [`super::Request::Clear`].
    pub const CLEAR: u16 = 15;
    /// [`super::Request::Stat`].
    pub const STAT: u16 = 16;
    /// [`super::Request::Complete`].
    pub const COMPLETE: u16 = 17;
    /// [`super::Request::Abandon`].
    pub const ABANDON: u16 = 18;
    /// [`super::Request::Quit`].
    pub const QUIT: u16 = 19;
    /// [`super::Request::Commit`].
    pub const COMMIT: u16 = 20;
    /// [`super::Request::Begin`].
    pub const BEGIN: u16 = 21;
}

/// What a trainer asks of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// The first request of a trainer. The server checks that both run the same job.
    /// Answer: [`Answer::Joined`].
    Join {
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
    /// one of this life of the job. To server 0. Answer: [`Answer::Done`]. Changes state.
    Begin,
    /// Gradients (or counters, or learning rates) by their names on the server. In sync mode they
    /// wait for the barrier, in the others they are applied before the answer.
    /// A dense value may come in pieces ([`Array::Dense`]), selected rows may come in several
    /// requests, which add up. Answer: [`Answer::Done`]. Changes state.
    Push {
        /// The trainer's rank.
        trainer: u32,
        /// Names and values.
        values: Vec<(&'a str, Array<'a>)>,
    },
    /// The trainer has pushed everything of this step. Answered by [`Answer::Done`]: in sync and
    /// hybrid mode when all trainers are here and the update ran, in the others at once.
    /// Changes state.
    Barrier {
        /// The trainer's rank.
        trainer: u32,
    },
    /// Current values. Answer: [`Answer::Values`] in the order of `names`, as far as one answer can
    /// hold them: when there are fewer, or the last one is not whole, ask again for the rest.
    Get {
        /// The trainer's rank; DC-ASGD remembers what it got.
        trainer: u32,
        /// Names on the server.
        names: Vec<&'a str>,
        /// The first element wanted of the first name; 0 but for the rest of a large value.
        start: u64,
        /// Async: whether the values are for a step, and may be those that are expected when its
        /// gradients arrive.
        ahead: bool,
    },
    /// Rows of a table: keys of a keyed one, row numbers inside the piece of a row-sliced one;
    /// any order, repeats allowed. Answer: [`Answer::Rows`], in the order of `keys`.
    PullRows {
        /// The table's name on the server.
        table: &'a str,
        /// Keys or row numbers.
        keys: &'a [u64],
    },
    /// Gradients of rows of a keyed table. Answer: [`Answer::Done`]. Changes state.
    PushRows {
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
    /// row-sliced tables. Answer: [`Answer::Done`]. Changes state.
    PushDelta {
        /// The trainer's rank.
        trainer: u32,
        /// Names of the parameter pieces, without `.delta`, and differences.
        values: Vec<(&'a str, Array<'a>)>,
    },
    /// Geo: current values of the rows that changed since this trainer last asked (tables), or of
    /// whole parameters (others). Answer: [`Answer::Values`], as for [`Request::Get`], but rows
    /// that do not fit into the answer come with the next request. Changes state.
    PullGeo {
        /// The trainer's rank.
        trainer: u32,
        /// Names of the parameter pieces.
        names: Vec<&'a str>,
        /// The first element wanted of the first name, as in [`Request::Get`].
        start: u64,
    },
    /// Initial values from a trainer; dense values may come in pieces. Answer: [`Answer::Done`].
    /// Changes state.
    Set {
        /// Names on the server, and values.
        values: Vec<(&'a str, Array<'a>)>,
    },
    /// Initial values of rows of a keyed table. Answer: [`Answer::Done`]. Changes state.
    SetRows {
        /// The table's name on the server.
        table: &'a str,
        /// Keys, each once.
        keys: &'a [u64],
        /// Values, row after row.
        values: &'a [f32],
    },
    /// Waits until `members` processes have come with the same group and name, and gives each of
    /// them everybody's data. Answer: [`Answer::Gathered`]. Changes state.
    Meet {
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
    /// when [`Request::Commit`] comes. Changes state.
    Save {
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
    /// Changes state.
    Commit {
        /// The save's number.
        number: u64,
    },
    /// A save could not be completed, and counts as never made. Answer: [`Answer::Done`]. Changes
    /// state.
    Abandon {
        /// The save's number.
        number: u64,
    },
    /// Reads this server's part of a checkpoint. Answer: [`Answer::Counted`]. Changes state.
    Load {
        /// The checkpoint's folder, as the server sees it.
        directory: &'a str,
        /// Only this table or variable.
        table: Option<&'a str>,
        /// Paddle's number, as for saving.
        mode: u32,
    },
    /// Ages tables and drops rows that are worth nothing any more. Answer: [`Answer::Counted`],
    /// rows dropped. Changes state.
    Shrink {
        /// Only this table.
        table: Option<&'a str>,
    },
    /// Empties tables. Answer: [`Answer::Counted`], rows dropped. Changes state.
    Clear {
        /// Only this table.
        table: Option<&'a str>,
    },
    /// What the server holds and did. Answer: [`Answer::Text`], JSON of
    /// [`crate::server::Stat`].
    Stat,
    /// The trainer ends with an error; whoever waits for it is told at once. Answer:
    /// [`Answer::Done`]. Changes state.
    Quit {
        /// The error.
        problem: &'a str,
    },
    /// The trainer has finished; nobody waits for it any more. Answer: [`Answer::Done`]. Changes
    /// state.
    Complete {
        /// The trainer's rank.
        trainer: u32,
    },
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

impl<'a> Request<'a> {
    /// The request's number.
    pub fn method(&self) -> u16 {
        match self {
            Request::Join { .. } => method::JOIN,
            Request::Begin => method::BEGIN,
            Request::Push { .. } => method::PUSH,
            Request::Barrier { .. } => method::BARRIER,
            Request::Get { .. } => method::GET,
            Request::PullRows { .. } => method::PULL_ROWS,
            Request::PushRows { .. } => method::PUSH_ROWS,
            Request::PushDelta { .. } => method::PUSH_DELTA,
            Request::PullGeo { .. } => method::PULL_GEO,
            Request::Set { .. } => method::SET,
            Request::SetRows { .. } => method::SET_ROWS,
            Request::Meet { .. } => method::MEET,
            Request::Save { .. } => method::SAVE,
            Request::Commit { .. } => method::COMMIT,
            Request::Abandon { .. } => method::ABANDON,
            Request::Load { .. } => method::LOAD,
            Request::Shrink { .. } => method::SHRINK,
            Request::Clear { .. } => method::CLEAR,
            Request::Stat => method::STAT,
            Request::Quit { .. } => method::QUIT,
            Request::Complete { .. } => method::COMPLETE,
        }
    }

    /// Whether it must not be executed twice: what `comm` calls `once`.
    pub fn changes_state(&self) -> bool {
        match self {
            Request::Join { .. }
            | Request::Get { .. }
            | Request::PullRows { .. }
            | Request::Stat => false,
            Request::Begin
            | Request::Push { .. }
            | Request::Barrier { .. }
            | Request::PushRows { .. }
            | Request::PushDelta { .. }
            | Request::PullGeo { .. }
            | Request::Set { .. }
            | Request::SetRows { .. }
            | Request::Meet { .. }
            | Request::Save { .. }
            | Request::Commit { .. }
            | Request::Abandon { .. }
            | Request::Load { .. }
            | Request::Shrink { .. }
            | Request::Clear { .. }
            | Request::Quit { .. }
            | Request::Complete { .. } => true,
        }
    }

    /// Whether only a trainer that has joined, and is at work, may ask for it.
    pub fn is_for_members(&self) -> bool {
        // Servers meet, too, and a trainer may end before it has joined.
        self.changes_state() && !matches!(self, Request::Meet { .. } | Request::Quit { .. })
    }

    /// The rank that the request says it comes from.
    pub fn trainer(&self) -> Option<u32> {
        match self {
            Request::Push { trainer, .. }
            | Request::Barrier { trainer }
            | Request::Get { trainer, .. }
            | Request::PushRows { trainer, .. }
            | Request::PushDelta { trainer, .. }
            | Request::PullGeo { trainer, .. }
            | Request::Complete { trainer } => Some(*trainer),
            _ => None,
        }
    }

    /// Whether its answer takes as long as files are large or as others need to come, so that only
    /// the server can say that it is overdue.
    pub fn takes_long(&self) -> bool {
        matches!(self, Request::Barrier { .. } | Request::Meet { .. }) || self.is_work_on_files()
    }

    /// Whether the server reads or writes all it has for it.
    pub fn is_work_on_files(&self) -> bool {
        matches!(
            self,
            Request::Save { .. }
                | Request::Load { .. }
                | Request::Shrink { .. }
                | Request::Clear { .. }
        )
    }

    /// The body to send.
    pub fn encode(&self) -> Encoded<'a> {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }

    fn write(&self, to: &mut Writer<'a>) {
        match self {
            Request::Join { trainer, trainers, mode, process, program, life } => {
                to.u32(*trainer);
                to.u32(*trainers);
                to.u32(mode.code() as u32);
                to.text(process);
                to.texts(program);
                write_life(to, life);
            }
            Request::Push { trainer, values } | Request::PushDelta { trainer, values } => {
                to.u32(*trainer);
                to.arrays(values);
            }
            Request::Barrier { trainer } | Request::Complete { trainer } => to.u32(*trainer),
            Request::Quit { problem } => to.text(problem),
            Request::Get { trainer, names, start, ahead } => {
                to.u32(*trainer);
                to.texts(names);
                to.u64(*start);
                to.u8(u8::from(*ahead));
            }
            Request::PullGeo { trainer, names, start } => {
                to.u32(*trainer);
                to.texts(names);
                to.u64(*start);
            }
            Request::PullRows { table, keys } => {
                to.text(table);
                to.slice(keys);
            }
            Request::PushRows { trainer, table, keys, grads, counts } => {
                to.u32(*trainer);
                to.text(table);
                to.slice(keys);
                to.slice(grads);
                to.u8(u8::from(counts.is_some()));
                if let Some(counts) = *counts {
                    to.slice(counts);
                }
            }
            Request::Set { values } => to.arrays(values),
            Request::SetRows { table, keys, values } => {
                to.text(table);
                to.slice(keys);
                to.slice(values);
            }
            Request::Meet { group, name, member, members, data } => {
                to.text(group);
                to.text(name);
                to.u32(*member);
                to.u32(*members);
                to.slice(data);
            }
            Request::Save { number, directory, table, mode, format } => {
                to.u64(*number);
                to.text(directory);
                to.maybe_text(*table);
                to.u32(*mode);
                to.u8(*format as u8);
            }
            Request::Load { directory, table, mode } => {
                to.text(directory);
                to.maybe_text(*table);
                to.u32(*mode);
            }
            Request::Shrink { table } | Request::Clear { table } => to.maybe_text(*table),
            Request::Commit { number } | Request::Abandon { number } => to.u64(*number),
            Request::Stat | Request::Begin => {}
        }
    }

    /// Reads the body of a request with this number.
    ///
    /// # Errors
    /// When there is no such request, or the body is not what it must be.
    pub fn decode(number: u16, body: &'a [u8]) -> Result<Request<'a>> {
        let mut from = Reader::new(body)?;
        let request = Request::read(number, &mut from)?;
        from.finish()?;
        Ok(request)
    }

    fn read(number: u16, from: &mut Reader<'a>) -> Result<Request<'a>> {
        Ok(match number {
            method::JOIN => Request::Join {
                trainer: from.u32()?,
                trainers: from.u32()?,
                mode: read_mode(from)?,
                process: from.text()?,
                program: from.texts()?,
                life: read_life(from)?,
            },
            method::BEGIN => Request::Begin,
            method::PUSH => Request::Push { trainer: from.u32()?, values: from.arrays()? },
            method::BARRIER => Request::Barrier { trainer: from.u32()? },
            method::GET => Request::Get {
                trainer: from.u32()?,
                names: from.texts()?,
                start: from.u64()?,
                ahead: from.flag()?,
            },
            method::PULL_ROWS => Request::PullRows { table: from.text()?, keys: from.slice()? },
            method::PUSH_ROWS => read_push_rows(from)?,
            method::PUSH_DELTA => {
                Request::PushDelta { trainer: from.u32()?, values: from.arrays()? }
            }
            method::PULL_GEO => {
                Request::PullGeo { trainer: from.u32()?, names: from.texts()?, start: from.u64()? }
            }
            method::SET => Request::Set { values: from.arrays()? },
            method::SET_ROWS => {
                Request::SetRows { table: from.text()?, keys: from.slice()?, values: from.slice()? }
            }
            method::MEET => Request::Meet {
                group: from.text()?,
                name: from.text()?,
                member: from.u32()?,
                members: from.u32()?,
                data: from.slice()?,
            },
            method::SAVE => Request::Save {
                number: from.u64()?,
                directory: from.text()?,
                table: from.maybe_text()?,
                mode: from.u32()?,
                format: read_format(from)?,
            },
            method::LOAD => Request::Load {
                directory: from.text()?,
                table: from.maybe_text()?,
                mode: from.u32()?,
            },
            method::SHRINK => Request::Shrink { table: from.maybe_text()? },
            method::CLEAR => Request::Clear { table: from.maybe_text()? },
            method::STAT => Request::Stat,
            method::COMMIT => Request::Commit { number: from.u64()? },
            method::ABANDON => Request::Abandon { number: from.u64()? },
            method::QUIT => Request::Quit { problem: from.text()? },
            method::COMPLETE => Request::Complete { trainer: from.u32()? },
            _ => return Err(damaged(&format!("there is no request {number}"))),
        })
    }
}

fn write_life<'a>(to: &mut Writer<'a>, life: &Life<'a>) {
    to.u64(life.number);
    to.u8(u8::from(life.began));
    to.u64(life.step);
    to.u64(life.origin);
    to.text(life.start);
    to.text(life.checkpoint);
}

fn read_life<'a>(from: &mut Reader<'a>) -> Result<Life<'a>> {
    Ok(Life {
        number: from.u64()?,
        began: from.flag()?,
        step: from.u64()?,
        origin: from.u64()?,
        start: from.text()?,
        checkpoint: from.text()?,
    })
}

fn read_mode(from: &mut Reader<'_>) -> Result<Mode> {
    let mode = i32::try_from(from.u32()?).ok().and_then(Mode::from_code);
    mode.ok_or_else(|| damaged("there is no such mode of training"))
}

fn read_format(from: &mut Reader<'_>) -> Result<Format> {
    match from.u8()? {
        0 => Ok(Format::Native),
        1 => Ok(Format::Text),
        _ => Err(damaged("there is no such format of checkpoints")),
    }
}

fn read_push_rows<'a>(from: &mut Reader<'a>) -> Result<Request<'a>> {
    let (trainer, table) = (from.u32()?, from.text()?);
    let (keys, grads): (&[u64], &[f32]) = (from.slice()?, from.slice()?);
    let counts: Option<&[[f32; 2]]> = if from.flag()? { Some(from.slice()?) } else { None };
    let fits = match keys.len() {
        0 => grads.is_empty(),
        rows => grads.len() % rows == 0,
    };
    if !fits || counts.is_some_and(|counts| counts.len() != keys.len()) {
        return Err(damaged("a push has not one gradient and one count for each key"));
    }
    Ok(Request::PushRows { trainer, table, keys, grads, counts })
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// It is done.
    Done,
    /// Welcome.
    Joined {
        /// The server's number.
        server: u32,
        /// The life of the job's state that it belongs to.
        life: Life<'a>,
    },
    /// Values, with their names.
    Values {
        /// Names and values.
        values: Vec<(&'a str, Array<'a>)>,
    },
    /// Rows of a table, one after the other.
    Rows {
        /// Their elements.
        values: &'a [f32],
    },
    /// What everybody brought, by rank.
    Gathered {
        /// One for each member.
        parts: Vec<&'a [u8]>,
    },
    /// A number of things; which ones, the request says.
    Counted {
        /// How many.
        count: u64,
    },
    /// A text.
    Text {
        /// The text.
        text: &'a str,
    },
}

impl<'a> Answer<'a> {
    /// The body to send.
    pub fn encode(&self) -> Encoded<'a> {
        let mut to = Writer::new();
        match self {
            Answer::Done => to.u8(0),
            Answer::Joined { server, life } => {
                to.u8(1);
                to.u32(*server);
                write_life(&mut to, life);
            }
            Answer::Values { values } => {
                to.u8(2);
                to.arrays(values);
            }
            Answer::Rows { values } => {
                to.u8(3);
                to.slice(values);
            }
            Answer::Gathered { parts } => {
                to.u8(4);
                to.u32(parts.len() as u32);
                parts.iter().for_each(|part| to.slice(part));
            }
            Answer::Counted { count } => {
                to.u8(5);
                to.u64(*count);
            }
            Answer::Text { text } => {
                to.u8(6);
                to.text(text);
            }
        }
        to.finish()
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(body: &'a [u8]) -> Result<Answer<'a>> {
        let mut from = Reader::new(body)?;
        let answer = match from.u8()? {
            0 => Answer::Done,
            1 => Answer::Joined { server: from.u32()?, life: read_life(&mut from)? },
            2 => Answer::Values { values: from.arrays()? },
            3 => Answer::Rows { values: from.slice()? },
            4 => {
                let count = from.count(8)?;
                let parts = (0..count).map(|_| from.slice()).collect::<Result<_>>()?;
                Answer::Gathered { parts }
            }
            5 => Answer::Counted { count: from.u64()? },
            6 => Answer::Text { text: from.text()? },
            _ => return Err(damaged("there is no such answer")),
        };
        from.finish()?;
        Ok(answer)
    }
}
