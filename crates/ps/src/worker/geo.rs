//! Geo: the trainer updates its own copies and exchanges differences with the servers every few
//! steps. The way there and back runs beside the training; the copies themselves are only touched
//! in [`Geo::exchange`], on the trainer's thread.
//!
//! For every element, `latest` is the trainer's copy and `old` what it knows of the server's:
//! `delta = (latest - old) / trainers` is added to `old` and to the server; when the server's value
//! comes back, `latest += server - old` and `old = server`. What others did thus reaches `latest`
//! without undoing what the trainer did meanwhile.

mod flight;
mod flush;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_engine::remote::GeoParam;
use bireme_engine::tensor::Tensor;

use super::config::WorkerConfig;
use super::finite::check_delta;
use super::link::Links;
use crate::{Error, Result};
pub(in crate::worker) use flight::Delta;
use flight::{Arrival, Cargo, Content, Flight};

/// The exchanges of a geo trainer.
pub(crate) struct Geo {
    links: Arc<Links>,
    trainers: u32,
    /// Steps between two exchanges.
    every: u32,
    /// Whether differences that are not finite are refused.
    check_finite: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Pieces as the startup program received them: the first `old`.
    received: HashMap<String, Vec<f32>>,
    /// By the name of the first piece.
    params: HashMap<String, Known>,
    /// Steps since the last exchange.
    steps: u32,
    /// The exchange on its way.
    flight: Option<Flight>,
}

/// What is known of one parameter.
struct Known {
    old: Vec<f32>,
    /// Tables: one bit for each row, set when a step has looked it up.
    touched: Vec<u64>,
}

impl Geo {
    /// Nothing is known yet.
    pub(crate) fn new(links: Arc<Links>, config: &WorkerConfig) -> Geo {
        let (trainers, every) = (config.trainers, config.geo_steps);
        let check_finite = config.communicator.check_finite;
        Geo { links, trainers, every, check_finite, state: Mutex::default() }
    }

    /// A startup program received a piece: the trainer's copy and the server's value agree.
    pub(crate) fn remember(&self, piece: &str, value: &Tensor) -> Result<()> {
        let mut state = self.lock();
        if !state.params.is_empty() {
            // Training starts anew: what is on its way belongs to copies that are gone.
            state.land(&self.links)?;
            state.params.clear();
            state.steps = 0;
        }
        if let Ok(values) = value.as_slice::<f32>() {
            state.received.insert(piece.to_owned(), values.to_vec());
        }
        Ok(())
    }

    /// The end of a step: corrects the copies by what has arrived, and sends the next differences
    /// when it is time. `step` is the number of the step, for messages.
    pub(crate) fn exchange(&self, params: &mut [GeoParam<'_>], step: u64) -> Result<()> {
        let mut state = self.lock();
        for param in params.iter() {
            state.touch(param)?;
        }
        state.steps += 1;
        let due = state.steps >= self.every;
        if due || state.flight.as_ref().is_some_and(Flight::is_over) {
            state.arrive(&self.links, params)?;
        }
        if due {
            self.depart(&mut state, params, step)?;
        }
        Ok(())
    }

    /// Exchanges what there is now, and waits until it is done.
    pub(crate) fn flush(&self, params: &mut [GeoParam<'_>], step: u64) -> Result<()> {
        let mut state = self.lock();
        for param in params.iter() {
            state.touch(param)?;
        }
        state.arrive(&self.links, params)?;
        self.depart(&mut state, params, step)?;
        state.arrive(&self.links, params)
    }

    /// Waits for the exchange on its way, whose answer nobody needs any more; the number of steps
    /// that were never exchanged.
    pub(crate) fn finish(&self) -> Result<u32> {
        let mut state = self.lock();
        state.land(&self.links)?;
        Ok(state.steps)
    }

    fn depart(&self, state: &mut State, params: &[GeoParam<'_>], step: u64) -> Result<()> {
        let mut cargo = Cargo::new(self.links.len());
        for param in params {
            let known = state.params.get_mut(key(param)).expect("touched before it departs");
            cargo.load(&self.links, param, |span| {
                let delta = match param.touched {
                    Some(_) => known.take_rows(param, span, self.trainers)?,
                    None => known.take_dense(param, span, self.trainers)?,
                };
                if self.check_finite {
                    check_delta(key(param), &delta, step)?;
                }
                Ok(delta)
            })?;
        }
        state.steps = 0;
        state.flight = Some(Flight::start(&self.links, cargo)?);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes the rows that a step looked up; learns a parameter when it is first seen.
    fn touch(&mut self, param: &GeoParam<'_>) -> Result<()> {
        let rows = param.value.rows();
        if !self.params.contains_key(key(param)) {
            let latest = param.value.as_slice::<f32>()?;
            let old = self.take_received(param, latest.len()).unwrap_or_else(|| latest.to_vec());
            let bits = if param.touched.is_some() { rows.div_ceil(64) } else { 0 };
            let known = Known { old, touched: vec![0; bits] };
            self.params.insert(key(param).to_owned(), known);
        }
        let known = self.params.get_mut(key(param)).expect("inserted above");
        if known.old.len() != param.value.numel() {
            return Err(Error::Request(format!(
                "`{}` changed its size between two steps of geo training",
                key(param)
            )));
        }
        for ids in param.touched.unwrap_or_default() {
            for id in *ids {
                // Padding is no row.
                if let Some(bits) = known.touched.get_mut((*id as u64 / 64) as usize) {
                    *bits |= 1 << (*id as u64 % 64);
                }
            }
        }
        Ok(())
    }

    /// The values of a parameter's pieces as they were received, one after the other.
    fn take_received(&mut self, param: &GeoParam<'_>, numel: usize) -> Option<Vec<f32>> {
        let mut pieces = param.pieces.iter();
        let mut old = self.received.remove(&pieces.next()?.0.name)?;
        for (piece, _) in pieces {
            old.extend(self.received.remove(&piece.name)?);
        }
        (old.len() == numel).then_some(old)
    }

    /// Waits for the exchange on its way; what it brought back, if there is one.
    fn land(&mut self, links: &Links) -> Result<Vec<Arrival>> {
        match &self.flight {
            Some(flight) => flight.wait(links)?,
            None => return Ok(Vec::new()),
        }
        self.flight.take().map_or_else(|| Ok(Vec::new()), Flight::land)
    }

    /// Waits for the exchange on its way and corrects the copies.
    fn arrive(&mut self, links: &Links, params: &mut [GeoParam<'_>]) -> Result<()> {
        for arrival in self.land(links)? {
            let Some(param) = params.iter_mut().find(|param| key(param) == arrival.param) else {
                continue;
            };
            let Some(known) = self.params.get_mut(&arrival.param) else { continue };
            known.correct(param.value, &arrival)?;
        }
        Ok(())
    }
}

impl Known {
    /// The difference of a piece of a parameter that is no table.
    fn take_dense(
        &mut self,
        param: &GeoParam<'_>,
        span: std::ops::Range<usize>,
        trainers: u32,
    ) -> Result<Delta> {
        let latest = &param.value.as_slice::<f32>()?[span.clone()];
        let row = row_elements(param.value);
        let dims = param.value.dims().with_rows(span.len() / row);
        let mut values = vec![0.0; span.len()];
        move_old(latest, &mut self.old[span], trainers, &mut values);
        Ok(Delta { dims, height: 0, rows: None, values })
    }

    /// The differences of the touched rows of a piece.
    fn take_rows(
        &mut self,
        param: &GeoParam<'_>,
        span: std::ops::Range<usize>,
        trainers: u32,
    ) -> Result<Delta> {
        let latest = param.value.as_slice::<f32>()?;
        let width = row_elements(param.value);
        let (first, end) = (span.start / width, span.end / width);
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for row in first..end {
            let bits = &mut self.touched[row / 64];
            if *bits & (1 << (row % 64)) == 0 {
                continue;
            }
            *bits &= !(1 << (row % 64));
            rows.push((row - first) as i64);
            let (at, from) = (row * width, values.len());
            values.resize(from + width, 0.0);
            let old = &mut self.old[at..at + width];
            move_old(&latest[at..at + width], old, trainers, &mut values[from..]);
        }
        let dims = param.value.dims().with_rows(rows.len());
        Ok(Delta { dims, height: (end - first) as u64, rows: Some(rows), values })
    }

    /// Takes over what the server has now.
    fn correct(&mut self, latest: &mut Tensor, arrival: &Arrival) -> Result<()> {
        let width = row_elements(latest);
        let latest = latest.as_mut_slice::<f32>()?;
        let outside = || Error::Request(format!("a server sent too much of `{}`", arrival.param));
        match &arrival.content {
            Content::Dense { start, values } => {
                let span = arrival.first + start..arrival.first + start + values.len();
                let latest = latest.get_mut(span.clone()).ok_or_else(outside)?;
                correct(latest, &mut self.old[span], values);
            }
            Content::Rows { rows, values } => {
                for (row, server) in rows.iter().zip(values.chunks_exact(width)) {
                    let at = arrival.first + *row as usize * width;
                    let latest = latest.get_mut(at..at + width).ok_or_else(outside)?;
                    correct(latest, &mut self.old[at..at + width], server);
                }
            }
        }
        Ok(())
    }
}

/// What identifies a parameter.
fn key<'a>(param: &'a GeoParam<'_>) -> &'a str {
    param.pieces.first().map_or("", |(piece, _)| &piece.name)
}

/// Elements in a row; at least 1.
fn row_elements(value: &Tensor) -> usize {
    (value.numel() / value.rows().max(1)).max(1)
}

/// `delta = (latest - old) / trainers; old += delta`.
fn move_old(latest: &[f32], old: &mut [f32], trainers: u32, delta: &mut [f32]) {
    let trainers = trainers as f32;
    for ((latest, old), delta) in latest.iter().zip(old).zip(delta) {
        *delta = (latest - *old) / trainers;
        *old += *delta;
    }
}

/// `latest += server - old; old = server`.
fn correct(latest: &mut [f32], old: &mut [f32], server: &[f32]) {
    for ((latest, old), server) in latest.iter_mut().zip(old).zip(server) {
        *latest += server - *old;
        *old = *server;
    }
}

#[cfg(test)]
mod tests {
    use bireme_engine::remote::Piece;

    use super::*;

    #[test]
    fn two_trainers_meet_in_the_middle() {
        // Both start from 1; one moves to 2, the other to 4: the server ends at 1 + 0.5 + 1.5.
        let mut server = 1.0f32;
        let (mut latest, mut old, mut delta) = ([2.0f32], [1.0f32], [0.0f32]);
        move_old(&latest, &mut old, 2, &mut delta);
        assert_eq!((delta, old), ([0.5], [1.5]));
        server += delta[0] + (4.0 - 1.0) / 2.0;
        assert_eq!(server, 3.0);
        latest[0] += 0.25; // A step while the exchange was on its way.
        correct(&mut latest, &mut old, &[server]);
        assert_eq!((latest, old), ([3.75], [3.0]));
    }

    #[test]
    fn only_touched_rows_travel() {
        let pieces = [("a", 2u64), ("b", 3)]
            .map(|(name, rows)| (Piece { name: name.into(), endpoint: "e".into() }, rows));
        let mut value = Tensor::from_slice([5, 2], &[0f32; 10]).unwrap();
        let mut state = State::default();
        let ids: [&[i64]; 1] = [&[1, 4, 4, -1]];
        let param = GeoParam { pieces: &pieces, value: &mut value, touched: Some(&ids) };
        state.touch(&param).unwrap();
        param.value.as_mut_slice::<f32>().unwrap()[8..].copy_from_slice(&[3.0, 6.0]);
        let known = state.params.get_mut("a").unwrap();
        let delta = known.take_rows(&param, 4..10, 3).unwrap();
        assert_eq!((delta.rows.as_deref().unwrap(), delta.height), (&[2i64][..], 3));
        assert_eq!(delta.values, [1.0, 2.0]);
        assert_eq!(known.old[8..], [1.0, 2.0]);
        assert!(known.take_rows(&param, 4..10, 3).unwrap().values.is_empty());
        assert_eq!(known.take_rows(&param, 0..4, 3).unwrap().rows.unwrap(), [1]);
    }
}
