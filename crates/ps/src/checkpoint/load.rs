//! Loading a checkpoint onto any number of servers, cut in any way.
//!
//! All files that a server needs are verified before it changes anything, so that a damaged
//! checkpoint leaves it as it was.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bireme_engine::tensor::Tensor;

use super::manifest::{Manifest, PieceEntry, Save, Variable};
use super::save::check_value;
use super::tensor_file::TensorReader;
use super::{Holdings, Piece, ServerIndex, StateKind, bad, read_manifest};
use crate::Result;

pub(super) use tables::assemble;

/// Bytes that are read before somebody is told of the progress.
const BYTES_AT_ONCE: usize = 64 << 20;

/// What a server took from a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Updates that are in it.
    pub step: u64,
    /// Dense pieces that were filled.
    pub pieces: usize,
    /// Rows that each table has from it, by name.
    pub rows: BTreeMap<String, u64>,
    /// What did not fit exactly, in words: states of another optimizer, tables that are not here.
    pub notes: Vec<String>,
}

/// Loads a server's share of the checkpoint in `dir`.
///
/// # Errors
/// When the checkpoint is damaged, or lacks a variable or table of this server, or has it in
/// another shape.
pub fn load(dir: &Path, holdings: &dyn Holdings, server: ServerIndex) -> Result<Loaded> {
    load_selected(dir, holdings, server, None)
}

/// As [`load`], of one table alone.
///
/// # Errors
/// As [`load`], and when there is no such table.
pub fn load_table(
    dir: &Path,
    holdings: &dyn Holdings,
    server: ServerIndex,
    table: &str,
) -> Result<Loaded> {
    load_selected(dir, holdings, server, Some(table))
}

fn load_selected(
    dir: &Path,
    holdings: &dyn Holdings,
    server: ServerIndex,
    only: Option<&str>,
) -> Result<Loaded> {
    let manifest = read_manifest(dir)?;
    let mut loaded = Loaded { step: manifest.step, ..Loaded::default() };
    // A checkpoint of single tables has no dense variables.
    let with_dense = only.is_none() && manifest.saves.iter().any(|save| save.complete);
    let pieces = if with_dense { holdings.pieces() } else { Vec::new() };
    let mut sources = Vec::new();
    for piece in &pieces {
        sources.push(Source::of(dir, &manifest, piece, &mut loaded.notes)?);
    }
    let tables = tables::plan(dir, &manifest, holdings, server, only, &mut loaded.notes)?;

    let mut files: BTreeSet<(usize, &str)> = sources.iter().flat_map(Source::files).collect();
    files.extend(tables.iter().flat_map(tables::TablePlan::files));
    for (save, name) in files {
        let entry = manifest.saves[save].files.iter().find(|file| file.name == name);
        let entry = entry.expect("a manifest lists the files that it names");
        TensorReader::verify(dir, entry, &|| holdings.progressed())?;
    }

    let progressed = || holdings.progressed();
    let mut open = OpenFiles { progressed: &progressed, ..OpenFiles::new(dir) };
    for (piece, source) in pieces.iter().zip(&sources) {
        source.fill(holdings, piece, &mut open)?;
        loaded.pieces += 1;
    }
    for table in &tables {
        let rows = table.load(&mut open, server)?;
        loaded.rows.insert(table.name().to_owned(), rows);
    }
    if only.is_none() {
        holdings.set_step(manifest.step);
    }
    for note in &loaded.notes {
        tracing::warn!("checkpoint `{}`: {note}", dir.display());
    }
    Ok(loaded)
}

/// Files of a checkpoint, each opened once.
pub(super) struct OpenFiles<'a> {
    dir: &'a Path,
    files: BTreeMap<String, TensorReader>,
    /// Called when something was read.
    pub(super) progressed: &'a dyn Fn(),
}

impl<'a> OpenFiles<'a> {
    pub(super) fn new(dir: &'a Path) -> OpenFiles<'a> {
        OpenFiles { dir, files: BTreeMap::new(), progressed: &|| () }
    }

    pub(super) fn get(&mut self, name: &str) -> Result<&mut TensorReader> {
        if !self.files.contains_key(name) {
            let reader = TensorReader::open(&self.dir.join(name))?;
            self.files.insert(name.to_owned(), reader);
        }
        Ok(self.files.get_mut(name).expect("it was just put there"))
    }
}

/// The newest save that has a variable, and the variable.
pub(super) fn newest<'a>(manifest: &'a Manifest, name: &str) -> Option<(usize, &'a Variable)> {
    let has = |(index, save): (usize, &'a Save)| {
        save.variables.iter().find(|variable| variable.name == name).map(|found| (index, found))
    };
    manifest.saves.iter().enumerate().rev().find_map(has)
}

/// Where the elements of a piece come from.
struct Source<'a> {
    save: usize,
    variable: &'a Variable,
    /// Saved pieces that cover it, in order, with the elements to take from each.
    from: Vec<(&'a PieceEntry, std::ops::Range<usize>)>,
    /// For each state of the piece here, its place among the saved ones.
    states: Vec<Option<usize>>,
}

impl<'a> Source<'a> {
    fn of(
        dir: &Path,
        manifest: &'a Manifest,
        piece: &Piece,
        notes: &mut Vec<String>,
    ) -> Result<Source<'a>> {
        let name = &piece.variable;
        let Some((save, variable)) = newest(manifest, name) else {
            let problem = format!(
                "it has no variable `{name}`: load a checkpoint of this model, or start without one"
            );
            return Err(bad(dir, problem));
        };
        if variable.shape != piece.shape || variable.dtype != piece.dtype.name() {
            let problem = format!(
                "variable `{name}` is {} {:?} there and {} {:?} in this program: load a checkpoint \
                 of this model",
                variable.dtype, variable.shape, piece.dtype, piece.shape
            );
            return Err(bad(dir, problem));
        }
        let wanted = piece.start..piece.start + piece.len;
        let from = cover(variable, wanted);
        let mut states = Vec::new();
        for state in &piece.states {
            let place = variable.states.iter().position(|saved| {
                (saved.name.as_str(), saved.dtype.as_str(), saved.kind)
                    == (state.variable.as_str(), state.dtype.name(), state.kind)
            });
            if place.is_none() {
                let state = &state.variable;
                notes.push(format!("`{name}` comes without `{state}`, which starts afresh"));
            }
            states.push(place);
        }
        Ok(Source { save, variable, from, states })
    }

    fn files(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.from.iter().map(|(piece, _)| (self.save, piece.file.as_str()))
    }

    /// Fills a piece and its states from the disk, where they lie: a row-sliced table may be too
    /// large to be in memory twice.
    fn fill(&self, holdings: &dyn Holdings, piece: &Piece, open: &mut OpenFiles<'_>) -> Result<()> {
        holdings.write_piece(&piece.name, &mut |targets| {
            let Some((value, states)) = targets.split_first_mut() else { return Ok(()) };
            check_value(piece, value, piece.dtype, StateKind::Elementwise)?;
            self.read(None, piece, value, open)?;
            for ((target, state), place) in states.iter_mut().zip(&piece.states).zip(&self.states) {
                if place.is_some() {
                    check_value(piece, target, state.dtype, state.kind)?;
                    self.read(*place, piece, target, open)?;
                }
            }
            Ok(())
        })
    }

    /// Reads the value (`None`) or a state of the piece.
    fn read(
        &self,
        state: Option<usize>,
        piece: &Piece,
        into: &mut Tensor,
        open: &mut OpenFiles<'_>,
    ) -> Result<()> {
        let dtype = into.dtype();
        let whole = state.is_some_and(|state| self.variable.states[state].kind == StateKind::Whole);
        for (saved, range) in &self.from {
            let tensor = state.map_or(&saved.tensor, |state| &saved.states[state]);
            let reader = open.get(&saved.file)?;
            let elements = reader.elements(tensor, dtype)?;
            if whole {
                // Copies differ only where servers took different numbers of steps.
                if into.numel() != elements {
                    into.resize(dtype, [elements]);
                }
                return reader.bytes(tensor, 0, into.as_mut_bytes());
            }
            let (at, size) = (range.start - piece.start, dtype.size());
            let bytes = &mut into.as_mut_bytes()[at * size..(at + range.len()) * size];
            let mut from = (range.start - saved.start) * size;
            for some in bytes.chunks_mut(BYTES_AT_ONCE) {
                open.get(&saved.file)?.bytes(tensor, from, some)?;
                from += some.len();
                (open.progressed)();
            }
        }
        Ok(())
    }
}

/// The saved pieces that cover some elements of a variable; the manifest was checked to have them.
pub(super) fn cover(
    variable: &Variable,
    wanted: std::ops::Range<usize>,
) -> Vec<(&PieceEntry, std::ops::Range<usize>)> {
    let mut pieces: Vec<&PieceEntry> = variable.pieces.iter().collect();
    pieces.sort_by_key(|piece| (piece.start, std::cmp::Reverse(piece.len)));
    let mut from = Vec::new();
    let mut reached = wanted.start;
    for piece in pieces {
        let end = (piece.start + piece.len).min(wanted.end);
        if piece.start <= reached && end > reached {
            from.push((piece, reached..end));
            reached = end;
        }
    }
    from
}
