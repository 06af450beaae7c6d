//! Dense values as text: a line for each element, `value state state …`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;
use serde::{Deserialize, Serialize};

use super::super::disk::Disk;
use super::super::save::check_value;
use super::super::{Holdings, Piece, ServerIndex, StateKind, bad};
use super::import::Reader;
use super::number;
use crate::{Error, Result};

/// A run of lines of a server's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DensePiece {
    pub(super) variable: String,
    pub(super) shape: Vec<usize>,
    pub(super) start: usize,
    pub(super) len: usize,
    /// The columns after the value.
    pub(super) columns: Vec<String>,
    /// States that belong to the piece as a whole.
    pub(super) whole: Vec<(String, Vec<f32>)>,
}

/// Writes the pieces of a server. Only single-precision values have a place in Paddle's layout.
pub(super) fn write_dense(
    disk: &Disk<'_>,
    holdings: &dyn Holdings,
    folder: &Path,
    server: ServerIndex,
) -> Result<Vec<DensePiece>> {
    let name = format!("part-{:03}", server.index);
    let (aside, path) = (folder.join(format!(".{name}.tmp")), folder.join(&name));
    let failed = |error: std::io::Error| bad(&path, format!("cannot write it: {error}"));
    disk.make_folder(folder).map_err(failed)?;
    let mut out = BufWriter::new(disk.create(&aside).map_err(failed)?);
    let mut pieces = holdings.pieces();
    pieces.sort_by(|a, b| (&a.variable, a.start).cmp(&(&b.variable, b.start)));
    let mut written = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.dtype == DType::F32) {
        let mut lines = String::new();
        let mut about = None;
        holdings.read_piece(&piece.name, &mut |values| {
            about = Some(describe(piece, values, &mut lines)?);
            Ok(())
        })?;
        written.extend(about);
        out.write_all(lines.as_bytes()).map_err(failed)?;
        disk.progressed();
    }
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    disk.sync(&file).and_then(|()| disk.rename(&aside, &path)).map_err(failed)?;
    Ok(written)
}

fn describe(piece: &Piece, values: &[&Tensor], lines: &mut String) -> Result<DensePiece> {
    let [value, states @ ..] = values else { return Err(missing_states(piece)) };
    if states.len() != piece.states.len() {
        return Err(missing_states(piece));
    }
    check_value(piece, value, DType::F32, StateKind::Elementwise)?;
    let mut columns: Vec<(String, &[f32])> = Vec::new();
    let mut whole = Vec::new();
    for (state, tensor) in piece.states.iter().zip(states) {
        check_value(piece, tensor, state.dtype, state.kind)?;
        if state.dtype != DType::F32 {
            return Err(Error::Config(format!(
                "`{}` is {}, which Paddle's layout has no place for: save a checkpoint instead",
                state.variable, state.dtype
            )));
        }
        let numbers = tensor.as_slice::<f32>()?;
        match state.kind {
            StateKind::Elementwise => columns.push((state.variable.clone(), numbers)),
            StateKind::Whole => whole.push((state.variable.clone(), numbers.to_vec())),
        }
    }
    for (index, number) in value.as_slice::<f32>()?.iter().enumerate() {
        number::push(lines, *number);
        for (_, numbers) in &columns {
            lines.push(' ');
            number::push(lines, numbers[index]);
        }
        writeln!(lines).expect("a string takes any text");
    }
    Ok(DensePiece {
        variable: piece.variable.clone(),
        shape: piece.shape.clone(),
        start: piece.start,
        len: piece.len,
        columns: columns.into_iter().map(|(name, _)| name).collect(),
        whole,
    })
}

fn missing_states(piece: &Piece) -> Error {
    Error::Config(format!("`{}` has not the states that it should have", piece.name))
}

/// Where the lines of a piece here begin, and what they are to it.
pub(super) struct Overlap<'a> {
    pub(super) piece: &'a Piece,
    pub(super) saved: &'a DensePiece,
    /// Values of the elements that both have, and for each state of `piece` its numbers.
    pub(super) start: usize,
    pub(super) values: Vec<f32>,
    pub(super) states: Vec<Option<Vec<f32>>>,
}

impl<'a> Overlap<'a> {
    fn of(piece: &'a Piece, saved: &'a DensePiece) -> Option<Overlap<'a>> {
        let start = piece.start.max(saved.start);
        let end = (piece.start + piece.len).min(saved.start.checked_add(saved.len)?);
        if piece.variable != saved.variable || start >= end {
            return None;
        }
        let state = |state: &super::super::State| match state.kind {
            StateKind::Elementwise => saved.columns.contains(&state.variable).then(Vec::new),
            StateKind::Whole => {
                let found = saved.whole.iter().find(|(name, _)| *name == state.variable);
                found.map(|(_, numbers)| numbers.clone())
            }
        };
        let states = piece.states.iter().map(state).collect();
        Some(Overlap { piece, saved, start, values: Vec::new(), states })
    }

    /// Elements that both have.
    pub(super) fn len(&self) -> usize {
        let end = (self.piece.start + self.piece.len).min(self.saved.start + self.saved.len);
        end - self.start
    }

    fn take(&mut self, element: usize, numbers: &[f32]) {
        let end = self.piece.start + self.piece.len;
        if !(self.start..end).contains(&element) {
            return;
        }
        self.values.push(numbers[0]);
        for (state, into) in self.piece.states.iter().zip(&mut self.states) {
            let column = self.saved.columns.iter().position(|name| *name == state.variable);
            if let (StateKind::Elementwise, Some(column), Some(into)) = (state.kind, column, into) {
                into.push(numbers[column + 1]);
            }
        }
    }
}

/// Reads a server's file as far as it has elements of the pieces here.
pub(super) fn read_dense<'a>(
    path: &Path,
    saved: &'a [DensePiece],
    pieces: &'a [Piece],
) -> Result<Vec<Overlap<'a>>> {
    let mut lines = BufReader::new(Reader::open(path)?).lines();
    let mut number = 0usize;
    let mut overlaps = Vec::new();
    for saved in saved {
        let mut here: Vec<Overlap<'a>> =
            pieces.iter().filter_map(|piece| Overlap::of(piece, saved)).collect();
        for element in saved.start..saved.start.saturating_add(saved.len) {
            number += 1;
            let line = match lines.next() {
                Some(Ok(line)) => line,
                Some(Err(error)) => return Err(bad(path, format!("cannot read it: {error}"))),
                None => {
                    let what = format!("it ends before line {number}, `layout.json` says more");
                    return Err(bad(path, what));
                }
            };
            if here.is_empty() {
                continue;
            }
            let numbers = number::parse(&mut line.split_ascii_whitespace())
                .map_err(|problem| bad(path, format!("line {number}: {problem}")))?;
            if numbers.len() != saved.columns.len() + 1 {
                let problem =
                    format!("line {number} should have {} numbers", saved.columns.len() + 1);
                return Err(bad(path, problem));
            }
            here.iter_mut().for_each(|overlap| overlap.take(element, &numbers));
        }
        overlaps.append(&mut here);
    }
    Ok(overlaps)
}

/// Puts what was read into the pieces.
pub(super) fn fill_dense(holdings: &dyn Holdings, overlaps: &[Overlap<'_>]) -> Result<()> {
    for overlap in overlaps {
        let piece = overlap.piece;
        let range = overlap.start - piece.start..overlap.start - piece.start + overlap.values.len();
        holdings.write_piece(&piece.name, &mut |targets| {
            let Some((value, states)) = targets.split_first_mut() else { return Ok(()) };
            check_value(piece, value, DType::F32, StateKind::Elementwise)?;
            value.as_mut_slice::<f32>()?[range.clone()].copy_from_slice(&overlap.values);
            for ((target, state), from) in states.iter_mut().zip(&piece.states).zip(&overlap.states)
            {
                let Some(from) = from else { continue };
                check_value(piece, target, DType::F32, state.kind)?;
                match state.kind {
                    StateKind::Elementwise => {
                        target.as_mut_slice::<f32>()?[range.clone()].copy_from_slice(from);
                    }
                    StateKind::Whole => {
                        target.resize(DType::F32, [from.len()]);
                        target.as_mut_slice::<f32>()?.copy_from_slice(from);
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Whether a file is there, compressed or not; which one.
pub(super) fn dense_file(folder: &Path, server: u32) -> std::path::PathBuf {
    let plain = folder.join(format!("part-{server:03}"));
    let packed = folder.join(format!("part-{server:03}.gz"));
    if File::open(&plain).is_err() && packed.exists() { packed } else { plain }
}
