//! The global shuffle: every sample goes to a trainer that chance decides, a bounded part of them at
//! a time.

use std::sync::Arc;

use bireme_engine::random::Philox;

use super::chunk::Chunk;
use super::columns::{Columns, MAX_ROWS, MAX_VALUES, parts};
use super::store::{Builder, Store};
use super::wire;
use crate::order::below;
use crate::{Error, Result, Samples, Slot};

/// The trainers that shuffle their samples together. All make the same calls in the same order.
pub trait Exchange {
    /// The number of this trainer.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Part `i` goes to trainer `i`; what comes is in the order of the trainers.
    ///
    /// # Errors
    /// When a trainer is lost.
    fn exchange(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>>;
}

/// Bytes of samples that a trainer sends at once.
const ROUND_BYTES: usize = 32 << 20;

/// Hands the samples of a store out and returns those that came. What was sent is forgotten on the
/// way, so that memory holds little more than one store. Chance decides where a sample goes, or its
/// values in the slot `name`.
pub(super) fn spread(
    mut store: Store,
    slots: &[Slot],
    peers: &dyn Exchange,
    seed: u64,
    name: Option<usize>,
) -> Result<Store> {
    let order = store.order();
    let rounds = rounds(&store);
    let mine = (rounds.len() as u64).to_le_bytes().to_vec();
    let counts = checked(peers, peers.exchange(vec![mine; peers.size()])?)?;
    let counts = counts.iter().map(|bytes| bytes.as_slice().try_into().map(u64::from_le_bytes));
    let most = counts.collect::<std::result::Result<Vec<_>, _>>();
    let most = most.map_err(|_| out_of_step())?.into_iter().max().unwrap_or(0);
    let numbers = Philox::new(seed, "global shuffle").stream(peers.rank() as u64);
    let mut left: Vec<usize> = store.chunks.iter().map(|chunk| chunk.rows).collect();
    let mut builder = Builder::new(slots);
    let mut at = 0;
    for round in 0..most as usize {
        let rows = rounds.get(round).copied().unwrap_or(0);
        let mut parts: Vec<Samples> = (0..peers.size()).map(|_| Samples::of(slots)).collect();
        for (sample, index) in order[at..at + rows].iter().zip(at as u64..) {
            let (chunk, row) = store.find(*sample);
            let to = match name {
                Some(slot) => chunk.number(slot, row, peers.size()),
                None => below(&numbers, index, peers.size()),
            };
            chunk.unpack(row, &mut parts[to]);
            let chunk = *sample as usize / MAX_ROWS;
            left[chunk] -= 1;
            if left[chunk] == 0 {
                store.chunks[chunk] = Arc::new(Chunk::default());
            }
        }
        at += rows;
        let parts = parts.iter().map(packed).collect::<Result<Vec<_>>>()?;
        for part in checked(peers, peers.exchange(parts)?)? {
            builder.push(&wire::decode(&part, slots)?.into())?;
        }
    }
    let mut received = Store::default();
    received.add(builder)?;
    Ok(received)
}

/// The bytes of samples that go to a trainer.
fn packed(samples: &Samples) -> Result<Vec<u8>> {
    match parts(samples, MAX_VALUES)?.as_slice() {
        [] | [_] => Ok(wire::encode(&Columns::pack(samples, 0..samples.len()))),
        _ => Err(Error::Settings(
            "the samples of one round of `global_shuffle` have more values than it can number: \
             samples are far larger than the others of their file"
                .to_owned(),
        )),
    }
}

/// The samples of each round: no more than a chunk may have, and not too many bytes.
fn rounds(store: &Store) -> Vec<usize> {
    let (mut rounds, mut rows, mut bytes) = (Vec::new(), 0, 0);
    for segment in &store.segments {
        let chunk = &store.chunks[segment.chunk];
        let of_a_row = chunk.bytes().div_ceil(chunk.rows).max(1);
        let mut left = segment.rows;
        while left > 0 {
            let room = (ROUND_BYTES.saturating_sub(bytes) / of_a_row).min(MAX_ROWS - rows);
            let taken = left.min(room.max(usize::from(rows == 0)));
            rows += taken;
            bytes += taken * of_a_row;
            left -= taken;
            if left > 0 {
                rounds.push(rows);
                (rows, bytes) = (0, 0);
            }
        }
    }
    if rows > 0 {
        rounds.push(rows);
    }
    rounds
}

fn checked(peers: &dyn Exchange, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    if parts.len() == peers.size() { Ok(parts) } else { Err(out_of_step()) }
}

fn out_of_step() -> Error {
    Error::Peers(
        "the trainers are not in step: all must call `global_shuffle` at the same point".to_owned(),
    )
}
