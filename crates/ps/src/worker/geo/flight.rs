//! One exchange: differences to all servers at once, then their values back. Runs on a thread of
//! its own and owns everything it carries.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use bireme_comm::{Body, Interrupt, Lane};
use bireme_engine::remote::GeoParam;
use bireme_engine::tensor::Dims;
use bireme_ir::DType;

use super::key;
use crate::message::{Answer, Array, Request};
use crate::worker::link::{Ask, Links, TICK, check_done, unexpected};
use crate::worker::parcel::pieces;
use crate::{Error, Result};

/// How far the copy of a piece has moved.
pub(in crate::worker) struct Delta {
    /// The dimensions of the piece, or of the rows that are here.
    pub(in crate::worker) dims: Dims,
    /// Rows of the piece, for rows.
    pub(in crate::worker) height: u64,
    /// Which rows these are; `None` for all.
    pub(in crate::worker) rows: Option<Vec<i64>>,
    pub(in crate::worker) values: Vec<f32>,
}

/// The differences of all parameters, by server.
pub(super) struct Cargo {
    servers: Vec<Vec<Load>>,
}

/// The difference of one piece.
struct Load {
    /// The parameter's key.
    param: String,
    piece: String,
    /// The piece's first element in the parameter.
    first: usize,
    delta: Delta,
}

/// What a server has now of one piece.
pub(super) struct Arrival {
    /// The parameter's key.
    pub(super) param: String,
    /// The piece's first element in the parameter.
    pub(super) first: usize,
    pub(super) content: Content,
}

/// Values of a piece.
pub(super) enum Content {
    /// Consecutive elements.
    Dense { start: usize, values: Vec<f32> },
    /// Rows, by their numbers in the piece.
    Rows { rows: Vec<i64>, values: Vec<f32> },
}

impl Cargo {
    /// Empty, for so many servers.
    pub(super) fn new(servers: usize) -> Cargo {
        Cargo { servers: (0..servers).map(|_| Vec::new()).collect() }
    }

    /// Adds the pieces of a parameter; `take` makes the difference of a span of its elements.
    pub(super) fn load(
        &mut self,
        links: &Links,
        param: &GeoParam<'_>,
        mut take: impl FnMut(std::ops::Range<usize>) -> Result<Delta>,
    ) -> Result<()> {
        // Sections count rows or elements; which, their sum says.
        let (numel, total) =
            (param.value.numel(), param.pieces.iter().map(|(_, count)| *count).sum::<u64>());
        let unit = numel.checked_div(total as usize).unwrap_or(0);
        if unit as u64 * total != numel as u64 {
            return Err(Error::Config(format!(
                "the pieces of `{}` have {total} rows or elements, but the parameter has {numel} \
                 elements",
                key(param)
            )));
        }
        let mut first = 0;
        for (piece, count) in param.pieces {
            let end = first + *count as usize * unit;
            let delta = take(first..end)?;
            let load =
                Load { param: key(param).to_owned(), piece: piece.name.clone(), first, delta };
            self.servers[links.server(&piece.endpoint)?].push(load);
            first = end;
        }
        Ok(())
    }
}

impl Load {
    fn array(&self) -> Array<'_> {
        let (dtype, dims) = (DType::F32, self.delta.dims);
        let bytes = bytemuck::cast_slice(&self.delta.values);
        match &self.delta.rows {
            None => Array::Dense { dtype, dims, start: 0, bytes },
            Some(rows) => Array::Rows { dtype, dims, height: self.delta.height, rows, bytes },
        }
    }
}

/// An exchange on its way, on a thread of its own.
pub(super) struct Flight {
    thread: JoinHandle<Result<Vec<Arrival>>>,
    /// Closed when the thread is over.
    over: Receiver<()>,
}

impl Flight {
    /// Starts an exchange.
    pub(super) fn start(links: &Arc<Links>, cargo: Cargo) -> Result<Flight> {
        let links = Arc::clone(links);
        let (flying, over) = mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("trainer{}-geo", links.trainer));
        let thread = thread.spawn(move || {
            Interrupt::ignore_on_this_thread();
            let arrived = fly(&links, &cargo);
            drop::<Sender<()>>(flying);
            arrived
        });
        let thread = thread.map_err(|error| Error::Config(format!("no thread: {error}")))?;
        Ok(Flight { thread, over })
    }

    /// Whether [`Flight::land`] returns at once.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until it is over, or the user wants to stop: it goes on then, and can be waited for
    /// again.
    pub(super) fn wait(&self, links: &Links) -> Result<()> {
        while self.over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            links.check_interrupt()?;
        }
        Ok(())
    }

    /// What it brought back.
    pub(super) fn land(self) -> Result<Vec<Arrival>> {
        let landed = self.thread.join();
        landed.unwrap_or_else(|_| Err(Error::Missing("an exchange panicked".into())))
    }
}

/// Carries differences to the servers, and their values back.
fn fly(links: &Links, cargo: &Cargo) -> Result<Vec<Arrival>> {
    let mut pushes = Vec::new();
    for (server, loads) in cargo.servers.iter().enumerate() {
        push(links, server, loads, &mut pushes);
    }
    let answers = links.ask_each(&pushes)?;
    answers.iter().try_for_each(|body| check_done(body))?;

    let wanted: Vec<(usize, &[Load])> = cargo
        .servers
        .iter()
        .enumerate()
        .filter(|(_, loads)| !loads.is_empty())
        .map(|(server, loads)| (server, loads.as_slice()))
        .collect();
    let pulls: Vec<Ask<'_>> =
        wanted.iter().map(|(server, loads)| pull(links, *server, loads, 0)).collect();
    let mut arrivals = Vec::new();
    for (body, (server, mut loads)) in links.ask_each(&pulls)?.into_iter().zip(wanted) {
        let (mut whole, mut rest) = unload(&body, loads, &mut arrivals)?;
        while whole < loads.len() {
            loads = &loads[whole..];
            let body = links.ask(&pull(links, server, loads, rest))?;
            (whole, rest) = unload(&body, loads, &mut arrivals)?;
        }
    }
    Ok(arrivals)
}

fn push<'a>(links: &Links, server: usize, loads: &'a [Load], asks: &mut Vec<Ask<'a>>) {
    let mut send = |values: Vec<(&'a str, Array<'a>)>| {
        let what = format!("push of differences of {} parameters", values.len());
        let request = Request::PushDelta { trainer: links.trainer, values };
        asks.push(Ask { server, lane: Lane::Send, what, request });
    };
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let changed = loads.iter().filter(|load| !load.delta.values.is_empty());
    for (name, array) in changed.flat_map(|load| pieces(&load.piece, load.array(), links.max_bytes))
    {
        if bytes > 0 && bytes + array.bytes().len() > links.max_bytes {
            send(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += array.bytes().len();
        batch.push((name, array));
    }
    if !batch.is_empty() {
        send(batch);
    }
}

fn pull<'a>(links: &Links, server: usize, loads: &'a [Load], start: u64) -> Ask<'a> {
    let names: Vec<&str> = loads.iter().map(|load| load.piece.as_str()).collect();
    let what = format!("pull of changes of {} parameters", names.len());
    let request = Request::PullGeo { trainer: links.trainer, names, start };
    Ask { server, lane: Lane::Get, what, request }
}

/// Takes an answer apart: how many pieces are whole now, and the first missing element of the next.
fn unload(body: &Body, loads: &[Load], arrivals: &mut Vec<Arrival>) -> Result<(usize, u64)> {
    let Answer::Values { values, .. } = Answer::decode(body)? else {
        return Err(unexpected("a pull of changes", &Answer::decode(body)?));
    };
    let (mut whole, mut progress) = (0, false);
    for ((name, array), load) in values.iter().zip(loads) {
        if **name != load.piece || array.dtype() != DType::F32 {
            return Err(Error::Request(format!(
                "a server sent {} elements of `{name}` where floats of `{}` were asked for",
                array.dtype(),
                load.piece
            )));
        }
        let values = bytemuck::pod_collect_to_vec::<u8, f32>(array.bytes());
        progress |= !values.is_empty();
        let content = match array {
            Array::Dense { start, .. } => Content::Dense { start: *start as usize, values },
            Array::Rows { rows, .. } => Content::Rows { rows: rows.to_vec(), values },
        };
        arrivals.push(Arrival { param: load.param.clone(), first: load.first, content });
        if let Array::Dense { dims, .. } = array
            && array.end() < dims.numel() as u64
        {
            return match progress {
                true => Ok((whole, array.end())),
                false => Err(nothing(load)),
            };
        }
        whole += 1;
    }
    match whole {
        0 => Err(loads.first().map_or_else(|| unexpected("nothing", &Answer::Done), nothing)),
        whole => Ok((whole, 0)),
    }
}

fn nothing(load: &Load) -> Error {
    Error::Request(format!("a server sent nothing of `{}`", load.piece))
}
