//! All samples of a dataset in memory, and how files and peers fill it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::chunk::{Chunk, Layout, Record};
use super::columns::{Columns, MAX_ROWS, MAX_VALUES, parts};
use crate::{Error, Input, Result, Samples, Slot};

/// A chunk is cut when its samples, before packing, take more than this; twice as much after each of
/// [`DOUBLING`] chunks, so that a small dataset has small buffers and a large one few chunks, of several
/// large pages each.
const MAX_BYTES: usize = 4 << 20;

/// See [`MAX_BYTES`].
const DOUBLING: [usize; 4] = [1 << 4, 1 << 5, 1 << 12, 1 << 13];

/// Rows that are asked of a file at once.
const READ_ROWS: usize = 4096;

/// Packed samples. A sample has a number of 32 bits: its chunk's and its own in that chunk.
#[derive(Clone, Default)]
pub(super) struct Store {
    pub(super) chunks: Vec<Arc<Chunk>>,
    /// The different layouts of the chunks.
    layouts: HashSet<Arc<Layout>>,
    /// Where the samples of each file are, in the order of the files.
    pub(super) segments: Vec<Segment>,
}

/// Some consecutive rows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The file that they come from.
    file: usize,
    pub(super) chunk: usize,
    pub(super) first: usize,
    pub(super) rows: usize,
}

impl Store {
    /// How many samples there are.
    pub(super) fn rows(&self) -> usize {
        self.segments.iter().map(|segment| segment.rows).sum()
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        let layouts: usize = self.layouts.iter().map(|layout| layout.bytes()).sum();
        layouts + self.chunks.iter().map(|chunk| chunk.bytes()).sum::<usize>()
    }

    /// The numbers of all samples, in the order of the files.
    pub(super) fn order(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.rows());
        for segment in &self.segments {
            let first = segment.chunk * MAX_ROWS + segment.first;
            order.extend((first..first + segment.rows).map(|row| row as u32));
        }
        order
    }

    /// The number of a sample's chunk, and its row there.
    #[inline]
    pub(super) fn place(sample: u32) -> (usize, usize) {
        (sample as usize / MAX_ROWS, sample as usize % MAX_ROWS)
    }

    /// The chunk and the row of a sample.
    #[inline]
    pub(super) fn find(&self, sample: u32) -> (&Chunk, usize) {
        let (chunk, row) = Store::place(sample);
        (&self.chunks[chunk], row)
    }

    /// The record of a sample.
    #[inline]
    pub(super) fn record(&self, sample: u32) -> Record<'_> {
        let (chunk, row) = self.find(sample);
        chunk.record(row)
    }

    /// Adds what a builder has.
    pub(super) fn add(&mut self, built: Builder) -> Result<()> {
        let (chunks, segments) = built.finish()?;
        let before = self.chunks.len();
        if before + chunks.len() > MAX_ROWS {
            return Err(Error::Settings(
                "the dataset does not fit into one process: use more trainers, or a QueueDataset"
                    .to_owned(),
            ));
        }
        for chunk in chunks {
            self.push(chunk);
        }
        let moved = |segment: Segment| Segment { chunk: before + segment.chunk, ..segment };
        self.segments.extend(segments.into_iter().map(moved));
        Ok(())
    }

    /// Adds a chunk, which shares its layout with those that have the same.
    pub(super) fn push(&mut self, mut chunk: Chunk) {
        match self.layouts.get(chunk.layout()) {
            Some(known) => chunk.share(known),
            None => {
                self.layouts.insert(Arc::clone(chunk.layout()));
            }
        }
        self.chunks.push(Arc::new(chunk));
    }

    /// Reads all files with some threads. The order of samples does not depend on their number.
    /// Ends early, with [`Error::Interrupted`], when `failed` becomes true.
    pub(super) fn load(
        input: &dyn Input,
        slots: &[Slot],
        threads: usize,
        failed: &AtomicBool,
    ) -> Result<Store> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut builder = Builder::new(slots);
            while !failed.load(Ordering::Relaxed) {
                let file = next.fetch_add(1, Ordering::Relaxed);
                if file >= input.files() {
                    break;
                }
                let read = builder.read(input, file, failed);
                read.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            }
            Ok(builder)
        };
        let threads = threads.clamp(1, input.files().max(1));
        let built: Result<Vec<Builder>> = std::thread::scope(|scope| {
            let spawn = |at| {
                let thread = std::thread::Builder::new().name(format!("loader-{at}"));
                let problem = "cannot start a loading thread";
                thread.spawn_scoped(scope, work).map_err(|error| {
                    failed.store(true, Ordering::Relaxed);
                    Error::Settings(format!("{problem}: {error}; use fewer of them"))
                })
            };
            let spawned: Result<Vec<_>> = (1..threads).map(spawn).collect();
            let mine = work();
            let others = spawned?.into_iter().map(|thread| {
                let panicked = |_| Error::Settings("a loading thread panicked".to_owned());
                thread.join().map_err(panicked)?
            });
            std::iter::once(mine).chain(others).collect()
        });
        let built = built?;
        if failed.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        input.check()?;
        let mut store = Store::default();
        for builder in built {
            store.add(builder)?;
        }
        // A file has one reader, which keeps its order; sorting brings the files into theirs.
        store.segments.sort_by_key(|segment| segment.file);
        Ok(store)
    }
}

/// Packs samples as they come.
pub(super) struct Builder {
    pending: Samples,
    /// Which files the pending samples come from: file and rows.
    runs: Vec<(usize, usize)>,
    chunks: Vec<Chunk>,
    segments: Vec<Segment>,
}

impl Builder {
    pub(super) fn new(slots: &[Slot]) -> Builder {
        let pending = Samples::of(slots);
        Builder { pending, runs: Vec::new(), chunks: Vec::new(), segments: Vec::new() }
    }

    fn read(&mut self, input: &dyn Input, file: usize, stop: &AtomicBool) -> Result<()> {
        let mut rows = input.open(file)?;
        let mut more = true;
        while more && !stop.load(Ordering::Relaxed) {
            let before = self.pending.len();
            more = rows.read(&mut self.pending, READ_ROWS)?;
            self.came_from(file, before)?;
        }
        Ok(())
    }

    /// Adds all samples of a chunk.
    pub(super) fn push(&mut self, chunk: &Chunk) -> Result<()> {
        let before = self.pending.len();
        (0..chunk.rows).for_each(|row| chunk.unpack(row, &mut self.pending));
        self.came_from(0, before)
    }

    fn came_from(&mut self, file: usize, before: usize) -> Result<()> {
        let rows = self.pending.len() - before;
        match self.runs.last_mut() {
            Some(run) if run.0 == file => run.1 += rows,
            _ => self.runs.push((file, rows)),
        }
        let doubled = DOUBLING.iter().filter(|chunks| self.chunks.len() >= **chunks).count();
        let limit = MAX_BYTES << doubled;
        match self.pending.len() >= MAX_ROWS || self.pending.bytes() >= limit {
            true => self.cut(MAX_VALUES),
            false => Ok(()),
        }
    }

    /// Packs what is pending, with at most `max_values` values in a column of a chunk.
    fn cut(&mut self, max_values: usize) -> Result<()> {
        let (mut runs, mut left) = (self.runs.drain(..), 0);
        let mut file = 0;
        for part in parts(&self.pending, max_values)? {
            let (chunk, mut first) = (self.chunks.len(), 0);
            self.chunks.push(Columns::pack(&self.pending, part.clone()).into());
            while first < part.len() {
                if left == 0 {
                    // Files without samples have runs of no rows.
                    (file, left) = runs.next().unwrap_or((file, part.len() - first));
                    continue;
                }
                let rows = left.min(part.len() - first);
                self.segments.push(Segment { file, chunk, first, rows });
                (first, left) = (first + rows, left - rows);
            }
        }
        drop(runs);
        self.pending.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(Vec<Chunk>, Vec<Segment>)> {
        self.cut(MAX_VALUES)?;
        Ok((self.chunks, self.segments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{push, slots};

    #[test]
    fn chunks_are_cut_where_values_would_be_too_many_to_number() {
        let mut builder = Builder::new(&slots());
        (0..100).for_each(|number| push(&mut builder.pending, number));
        builder.runs = vec![(0, 30), (1, 0), (2, 70)];
        builder.cut(40).unwrap();
        let mut store = Store::default();
        store.add(builder).unwrap();
        assert!(store.chunks.len() > 2);
        let of_file = |file| store.segments.iter().filter(move |segment| segment.file == file);
        let rows = [0, 1, 2].map(|file| of_file(file).map(|segment| segment.rows).sum::<usize>());
        assert_eq!(rows, [30, 0, 70]);
        let (mut back, mut expected) = (Samples::of(&slots()), Samples::of(&slots()));
        for sample in store.order() {
            let (chunk, row) = store.find(sample);
            chunk.unpack(row, &mut back);
        }
        (0..100).for_each(|number| push(&mut expected, number));
        assert_eq!(back, expected);
    }
}
