//! Every rank to every rank, in rounds: in round k a rank sends to the one k after it and receives
//! from the one k before it, so that nobody is crowded.

use super::pieces;
use crate::group::Turn;
use crate::{Error, Result};

impl Turn<'_> {
    pub(crate) fn wire_all_gather(&self, part: &[u8], out: &mut [u8]) -> Result<()> {
        self.each_round(part.len(), |_| part, out)
    }

    pub(crate) fn wire_all_to_all(&self, parts: &[u8], out: &mut [u8]) -> Result<()> {
        let length = parts.len() / self.size();
        self.each_round(length, |to| &parts[to * length..(to + 1) * length], out)
    }

    pub(crate) fn wire_all_gather_varied(&self, part: &[u8]) -> Result<Vec<Vec<u8>>> {
        let parts = vec![part; self.size()];
        self.wire_all_to_all_varied(&parts)
    }

    fn each_round<'a>(
        &self,
        length: usize,
        part: impl Fn(usize) -> &'a [u8],
        out: &mut [u8],
    ) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        out[rank * length..(rank + 1) * length].copy_from_slice(part(rank));
        for round in 1..size {
            let (to, from) = ((rank + round) % size, (rank + size - round) % size);
            for piece in pieces::<u8>(0..length) {
                self.send(to, &part(to)[piece.clone()])?;
                let body = self.receive(from, piece.len())?;
                out[from * length..(from + 1) * length][piece].copy_from_slice(&body);
            }
        }
        Ok(())
    }

    pub(crate) fn wire_all_to_all_varied(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let (rank, size) = (self.rank(), self.size());
        let mut out = vec![Vec::new(); size];
        out[rank] = parts[rank].to_vec();
        for round in 1..size {
            let (to, from) = ((rank + round) % size, (rank + size - round) % size);
            let mut sending = pieces::<u8>(0..parts[to].len());
            let mut receiving = Incoming::default();
            loop {
                let piece = sending.next();
                if let Some(piece) = &piece {
                    self.send_noted(to, parts[to].len() as u64, &parts[to][piece.clone()])?;
                }
                if !receiving.is_complete() {
                    self.receive_more(from, &mut receiving)?;
                } else if piece.is_none() {
                    break;
                }
            }
            out[from] = receiving.bytes;
        }
        Ok(out)
    }

    /// Sends from point to point.
    pub(crate) fn send_to(&self, to: usize, data: &[u8]) -> Result<()> {
        let length = data.len() as u64;
        pieces::<u8>(0..data.len()).try_for_each(|piece| self.send_noted(to, length, &data[piece]))
    }

    /// Receives from point to point.
    pub(crate) fn receive_from(&self, from: usize, data: &mut [u8]) -> Result<()> {
        for piece in pieces::<u8>(0..data.len()) {
            let (note, body) = self.receive_noted(from)?;
            if note != data.len() as u64 || body.len() != piece.len() {
                return Err(Error::Mismatch {
                    peer: self.name(from),
                    ours: format!("a receive of {} bytes", data.len()),
                    theirs: format!("a send of {note}"),
                });
            }
            data[piece].copy_from_slice(&body);
        }
        Ok(())
    }

    pub(crate) fn wire_scatter(&self, parts: &[u8], out: &mut [u8], root: usize) -> Result<()> {
        let length = out.len();
        if self.rank() != root {
            for piece in pieces::<u8>(0..length) {
                let into = &mut out[piece];
                into.copy_from_slice(&self.receive(root, into.len())?);
            }
            return Ok(());
        }
        for (to, part) in (0..self.size()).map(|to| (to, &parts[to * length..(to + 1) * length])) {
            if to == root {
                out.copy_from_slice(part);
            } else {
                pieces::<u8>(0..length).try_for_each(|piece| self.send(to, &part[piece]))?;
            }
        }
        Ok(())
    }

    fn receive_more(&self, from: usize, incoming: &mut Incoming) -> Result<()> {
        let (note, body) = self.receive_noted(from)?;
        let length = *incoming.length.get_or_insert(note);
        if note != length || (incoming.bytes.len() + body.len()) as u64 > length {
            return Err(Error::Mismatch {
                peer: self.name(from),
                ours: format!("a part of {length} bytes"),
                theirs: format!("one of {note}"),
            });
        }
        // Grows with what came, not with what was promised.
        incoming.bytes.extend_from_slice(&body);
        Ok(())
    }
}

/// A part whose length comes with its first piece.
#[derive(Default)]
struct Incoming {
    length: Option<u64>,
    bytes: Vec<u8>,
}

impl Incoming {
    fn is_complete(&self) -> bool {
        self.length == Some(self.bytes.len() as u64)
    }
}
