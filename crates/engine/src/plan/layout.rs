//! A selection laid out for feeds of given shapes: shapes inferred, stages assigned, memory placed,
//! kernels prepared. Everything a step does is decided here, so that a step decides nothing.

#![expect(unsafe_code, reason = "binds variables to the memory that the layout owns")]

use std::cell::UnsafeCell;
use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::{DType, VarKind};

use crate::collective::Link;
use crate::op::{Infer, Meta, Share, Spread, meta_of, shape_like};
use crate::plan::beside::{Beside, Sharing};
use crate::plan::frame::{Call, Frame, Shapes};
use crate::plan::many;
use crate::plan::memory::{Need, pack};
use crate::plan::select::{SelectedOp, Selection, VarId};
use crate::plan::stage::{self, Stage, Stages};
use crate::remote::{Held, Remote};
use crate::scope::Cell;
use crate::tensor::{Buffer, Dims, Tensor};
use crate::value::Value;
use crate::{Error, Result, flow};

/// What makes two batches alike enough to share a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedShape {
    pub(crate) dtype: DType,
    pub(crate) dims: Dims,
    /// Ragged feeds have another number of rows each time.
    pub(crate) lod_level: u32,
}

impl FeedShape {
    pub(crate) fn of(tensor: &Tensor) -> FeedShape {
        let lod_level = tensor.lod().len() as u32;
        let dims = if lod_level > 0 { tensor.dims().with_rows(0) } else { tensor.dims() };
        FeedShape { dtype: tensor.dtype(), dims, lod_level }
    }

    pub(crate) fn meta(&self) -> Meta {
        let mut dims: Vec<i64> = self.dims.iter().map(|dim| *dim as i64).collect();
        if self.lod_level > 0 && !dims.is_empty() {
            dims[0] = -1;
        }
        Meta { kind: VarKind::LodTensor, dtype: self.dtype, dims, lod_level: self.lod_level }
    }
}

/// The pieces of a partial variable: the first becomes the sum.
pub(crate) struct Merge {
    pub(crate) pieces: Vec<NonNull<Value>>,
    /// Elements to add; `None` for selected rows, which are appended.
    pub(crate) range: Option<std::ops::Range<usize>>,
}

/// A step, ready to run for feeds of one shape.
pub(crate) struct Layout {
    pub(crate) shapes: Vec<FeedShape>,
    pub(crate) shares: Vec<Share>,
    pub(crate) before: Calls,
    /// One list for each share.
    pub(crate) split: Vec<Calls>,
    pub(crate) merges: Vec<Merge>,
    /// One list for each level.
    pub(crate) after: Vec<Calls>,
    /// Where each feed goes: the whole, then the rows of each share.
    pub(crate) feeds: Vec<Vec<NonNull<Value>>>,
    pub(crate) fetches: Vec<NonNull<Value>>,
    /// Persistable inputs and the shapes they had when the layout was made.
    bound: Vec<(Arc<Cell>, DType, Dims)>,
    /// What a step does first that may run beside others; `None` for one that must be alone.
    pub(crate) beside: Option<Beside>,
    /// The frames hold what the pointers above point to.
    _frames: Vec<Frame>,
}

/// Ops that several workers may run, each by the worker that claims it.
pub(crate) struct Calls(Box<[UnsafeCell<Call>]>);

impl Calls {
    fn new(calls: Vec<Call>) -> Calls {
        Calls(calls.into_iter().map(UnsafeCell::new).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The ops, to be run by who has all of them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Call> {
        self.0.iter_mut().map(UnsafeCell::get_mut)
    }

    /// An op, to be run.
    ///
    /// # Safety
    /// Nobody else runs it now.
    #[expect(clippy::mut_from_ref, reason = "each op has one worker at a time")]
    pub(crate) unsafe fn claim(&self, at: usize) -> &mut Call {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0[at].get() }
    }
}

/// What a layout is made from.
pub(crate) struct Source<'a> {
    pub(crate) selection: &'a Selection,
    /// The cell of each persistable variable.
    pub(crate) cells: &'a HashMap<VarId, Arc<Cell>>,
    /// Those of them that other training threads change while this one runs a step.
    pub(crate) shared: &'a HashSet<VarId>,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    pub(crate) remote: Option<&'a Arc<dyn Remote>>,
    pub(crate) link: Option<&'a Arc<Link>>,
    /// What blocks inside of the program run with.
    pub(crate) flow: &'a flow::Context,
    /// What a `recv` op keeps of its last run, where its outputs are still there in the next.
    pub(crate) held: Option<&'a Arc<Held>>,
}

impl Layout {
    /// Lays the selection out for feeds of these shapes; the caller is alone on the scope.
    ///
    /// # Errors
    /// When shapes do not fit, or a persistable variable is read that holds nothing.
    pub(crate) fn new(source: &Source<'_>, shapes: Vec<FeedShape>) -> Result<Layout> {
        let metas = infer_all(source, &shapes)?;
        let batch = common_rows(&shapes);
        let split = source.threads > 1 && batch >= source.threads;
        let (stages, shares) = if split {
            let count = source.selection.vars.len();
            let persistable: Vec<bool> =
                (0..count).map(|v| source.cells.contains_key(&v)).collect();
            let (selection, shares) = (source.selection, shares(batch, source.threads));
            let rows = (batch, shares.len());
            let stages =
                stage::assign(&selection.ops, &metas, &persistable, &selection.feeds, rows);
            (stages, shares)
        } else {
            (Stages::single(source.selection.ops.len()), vec![Share::WHOLE])
        };
        // With nothing to split, ops run in program order, which memory is then packed by.
        let (stages, shares) = if stages.ops.contains(&Stage::Split) {
            (stages, shares)
        } else {
            (Stages::single(source.selection.ops.len()), vec![Share::WHOLE])
        };
        Builder { source, metas: &metas, stages: &stages, shares: &shares, batch }.build(shapes)
    }

    /// Whether the persistable variables still have the shapes the layout was made for.
    pub(crate) fn still_fits(&self) -> bool {
        self.bound.iter().all(|(cell, dtype, dims)| {
            // SAFETY: the caller has a turn, and only the shape is read.
            match cell.get().map(|value| unsafe { value.as_ref() }) {
                Some(Value::Tensor(tensor)) => tensor.dtype() == *dtype && tensor.dims() == *dims,
                _ => false,
            }
        })
    }
}

/// Runs every shape rule, starting from the feeds and the persistable variables as they are.
pub(super) fn infer_all(source: &Source<'_>, shapes: &[FeedShape]) -> Result<Vec<Option<Meta>>> {
    let selection = source.selection;
    let mut metas: Vec<Option<Meta>> = vec![None; selection.vars.len()];
    for (var, shape) in selection.feeds.iter().zip(shapes) {
        metas[*var] = Some(shape.meta());
    }
    for (var, cell) in source.cells {
        // SAFETY: who makes a layout is alone on the scope.
        metas[*var] = unsafe { cell.meta() };
    }
    infer_from(source, metas)
}

/// Runs every shape rule, starting from the values whose shapes are known.
pub(super) fn infer_from(
    source: &Source<'_>,
    mut metas: Vec<Option<Meta>>,
) -> Result<Vec<Option<Meta>>> {
    let selection = source.selection;
    for selected in &selection.ops {
        let known = |var: &VarId| metas[*var].clone().ok_or_else(|| no_value(source, *var));
        let inputs = selected.inputs.iter().map(known).collect::<Result<Vec<_>>>()?;
        let outputs = match selected.def.flow {
            Some(of) => flow::infer(&source.flow.program, &selected.op, selected.def, of, &inputs),
            None => Infer::run(&selected.view(), &inputs),
        };
        let outputs = outputs.map_err(|error| error.in_op(&selected.op))?;
        for (var, meta) in selected.outputs.iter().zip(outputs) {
            if !selected.inputs.contains(var) {
                metas[*var] = Some(meta);
            }
        }
    }
    Ok(metas)
}

pub(super) fn no_value(source: &Source<'_>, var: VarId) -> Error {
    let name = source.selection.vars[var].name.clone();
    if source.cells.contains_key(&var) {
        Error::NotInitialized { var: name }
    } else {
        Error::Feed { var: name, problem: "the program reads it, so it must be fed".to_owned() }
    }
}

/// The number of rows that all feeds have; 0 when they differ, or when one is ragged.
pub(crate) fn common_rows(shapes: &[FeedShape]) -> usize {
    let rows =
        |shape: &FeedShape| if shape.lod_level > 0 { None } else { shape.dims.first().copied() };
    let first = shapes.first().and_then(rows).unwrap_or(0);
    if shapes.iter().all(|shape| rows(shape) == Some(first)) { first } else { 0 }
}

/// Cuts a batch into shares: one for each thread, and of large batches a smaller one more, which threads take that are
/// done with theirs. Processors are not equally fast, and some have other work; but every share has sums of its own that
/// must be added up, and reads all weights, so that there are no more than pay.
fn shares(batch: usize, threads: usize) -> Vec<Share> {
    // Rows for each thread; few threads seldom wait long for one another.
    let large = if threads >= many::LEAST { 192 } else { 512 };
    let first = if batch / threads >= large { batch * 3 / 4 } else { batch };
    let cut = |begin: usize, end: usize| {
        let start = move |at: usize| begin + (end - begin) * at / threads;
        let share =
            move |at| Share { first: start(at), rows: start(at + 1) - start(at), total: batch };
        (0..threads).map(share).filter(|share| share.rows > 0)
    };
    cut(0, first).chain(cut(first, batch)).collect()
}

struct Builder<'a> {
    source: &'a Source<'a>,
    metas: &'a [Option<Meta>],
    stages: &'a Stages,
    shares: &'a [Share],
    batch: usize,
}

/// How the workers see a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// One value, shared by all.
    Main,
    /// One value, of which each worker sees its rows.
    MainRows,
    /// Each worker has its own.
    Own,
    /// Each worker has its own; worker 0 has the shared one, into which the others are summed.
    Summed,
}

impl Builder<'_> {
    fn build(&self, shapes: Vec<FeedShape>) -> Result<Layout> {
        let vars = self.source.selection.vars.len();
        let homes: Vec<Home> = (0..vars).map(|var| self.home(var)).collect();
        let main = Frame::new(vars);
        let workers: Vec<Frame> = self.shares.iter().map(|_| Frame::new(vars)).collect();
        self.shape_persistables();
        self.place_main(&main, &homes);
        if self.is_split() {
            for (worker, frame) in workers.iter().enumerate() {
                self.place_worker(worker, frame, &main, &homes);
            }
        }
        for var in &self.source.selection.fetches {
            if self.metas[*var].is_none() {
                return Err(no_value(self.source, *var));
            }
        }
        let mut sharing = Sharing::new(self.source, self.metas, &main);
        let calls = self.bind(&main, &workers, &homes, sharing.as_mut())?;
        let merges = self.merges(&main, &workers, &homes);
        let at = |var: VarId| match &sharing {
            Some(sharing) if sharing.contains(var) => main.at(var),
            _ => self.main_address(&main, var),
        };
        let fetches = self.source.selection.fetches.iter().map(|var| at(*var)).collect();
        let feeds = self.source.selection.feeds.iter().map(|var| {
            let rows = workers.iter().filter(|_| self.is_split()).map(|frame| frame.at(*var));
            std::iter::once(main.at(*var)).chain(rows).collect()
        });
        Ok(Layout {
            shapes,
            shares: self.shares.to_vec(),
            before: Calls::new(calls.0),
            split: calls.1.into_iter().map(Calls::new).collect(),
            merges,
            after: calls.2.into_iter().map(Calls::new).collect(),
            feeds: feeds.collect(),
            fetches,
            bound: self.bound(),
            beside: sharing.map(Sharing::finish),
            _frames: workers.into_iter().chain([main]).collect(),
        })
    }

    fn is_split(&self) -> bool {
        self.stages.ops.contains(&Stage::Split)
    }

    fn home(&self, var: VarId) -> Home {
        let selection = self.source.selection;
        let readers = selection.ops.iter().zip(&self.stages.ops);
        let crosses = selection.feeds.contains(&var)
            || selection.fetches.contains(&var)
            || readers
                .clone()
                .any(|(op, stage)| matches!(stage, Stage::After(_)) && op.inputs.contains(&var));
        match self.stages.spread(var) {
            _ if self.source.cells.contains_key(&var) => Home::Main,
            Spread::Whole => Home::Main,
            Spread::Rows if crosses => Home::MainRows,
            Spread::Partial if crosses => Home::Summed,
            _ => Home::Own,
        }
    }

    /// Gives persistable outputs their shapes, and remembers nothing: cells keep them.
    fn shape_persistables(&self) {
        for (var, cell) in self.source.cells {
            let Some(meta) = &self.metas[*var] else { continue };
            // SAFETY: who makes a layout is alone on the scope.
            let value =
                unsafe { cell.get_or_init(|| Value::Tensor(Tensor::empty(meta.dtype))).as_mut() };
            if meta.is_static() && meta_of(value) != *meta {
                shape_like(value, meta);
            }
        }
    }

    fn bound(&self) -> Vec<(Arc<Cell>, DType, Dims)> {
        let mut bound = Vec::new();
        for cell in self.source.cells.values() {
            // SAFETY: who makes a layout is alone on the scope.
            if let Some(Value::Tensor(tensor)) = cell.get().map(|value| unsafe { value.as_ref() }) {
                bound.push((Arc::clone(cell), tensor.dtype(), tensor.dims()));
            }
        }
        bound
    }

    /// The shared value of a variable: in the scope if it persists, else in the main frame.
    fn main_address(&self, main: &Frame, var: VarId) -> NonNull<Value> {
        let cell = self.source.cells.get(&var).and_then(|cell| cell.get());
        cell.unwrap_or_else(|| main.at(var))
    }

    /// Temporaries with a fixed size; feeds bring their own memory, selected rows grow theirs.
    fn placeable(&self, var: VarId) -> Option<&Meta> {
        let temporary =
            !self.source.cells.contains_key(&var) && !self.source.selection.feeds.contains(&var);
        let meta = self.metas[var].as_ref()?;
        (temporary && meta.kind == VarKind::LodTensor && meta.is_static()).then_some(meta)
    }

    /// Places shared temporaries. On one thread, those that are never alive together share memory;
    /// with workers the stages overlap, and what is left here is small.
    fn place_main(&self, main: &Frame, homes: &[Home]) {
        let placed: Vec<VarId> = (0..homes.len())
            .filter(|var| homes[*var] != Home::Own && self.placeable(*var).is_some())
            .collect();
        let always = (0, self.stages.ops.len());
        let lifetimes = if self.is_split() { HashMap::new() } else { self.lifetimes(|_| true) };
        let needs = placed.iter().map(|var| {
            let fetched = self.source.selection.fetches.contains(var);
            let (first, last) = lifetimes.get(var).copied().filter(|_| !fetched).unwrap_or(always);
            (*var, dims_of(self.placeable(*var)), first, last)
        });
        self.place(main, needs.collect());
    }

    fn place_worker(&self, worker: usize, frame: &Frame, main: &Frame, homes: &[Home]) {
        let lifetimes = self.lifetimes(|stage| stage == Stage::Split);
        let mut needs = Vec::new();
        for (var, home) in homes.iter().enumerate() {
            let Some(meta) = self.placeable(var) else { continue };
            let dims = dims_of(Some(meta));
            let (first, last) = lifetimes.get(&var).copied().unwrap_or((0, self.stages.ops.len()));
            match home {
                Home::Main => {}
                Home::MainRows => self.window_rows(worker, frame, main, var),
                Home::Own if self.stages.spread(var) == Spread::Rows => {
                    let rows = dims[0] / self.batch * self.shares[worker].rows;
                    needs.push((var, dims.with_rows(rows), first, last));
                }
                Home::Own => needs.push((var, dims, first, last)),
                // A piece is read after the split, so nothing may reuse its memory.
                Home::Summed if worker > 0 => needs.push((var, dims, 0, self.stages.ops.len())),
                Home::Summed => {}
            }
        }
        self.place(frame, needs);
    }

    fn window_rows(&self, worker: usize, frame: &Frame, main: &Frame, var: VarId) {
        // SAFETY: nothing runs while a layout is made; the main frame's memory is never moved
        // after `place_main`, and lives as long as the worker's frame.
        let (whole, mut mine) = (main.at(var), frame.at(var));
        if let Value::Tensor(whole) = unsafe { whole.as_ref() } {
            let share = self.shares[worker];
            let per_row = whole.rows() / self.batch;
            // SAFETY: as above.
            unsafe {
                *mine.as_mut() =
                    Value::Tensor(whole.rows_window(share.first * per_row, share.rows * per_row));
            }
        }
    }

    /// First and last op to touch each variable, among ops of the stages that `counts` accepts.
    fn lifetimes(&self, counts: impl Fn(Stage) -> bool) -> HashMap<VarId, (usize, usize)> {
        let mut lifetimes = HashMap::new();
        let ops = self.source.selection.ops.iter().zip(&self.stages.ops).enumerate();
        for (position, (op, _)) in ops.filter(|(_, (_, stage))| counts(**stage)) {
            for var in op.inputs.iter().chain(&op.outputs) {
                lifetimes.entry(*var).or_insert((position, position)).1 = position;
            }
        }
        lifetimes
    }

    fn place(&self, frame: &Frame, wanted: Vec<(VarId, Dims, usize, usize)>) {
        let dtype = |var: VarId| self.metas[var].as_ref().map_or(DType::F32, |meta| meta.dtype);
        let need = |(var, dims, first, last): &(VarId, Dims, usize, usize)| Need {
            bytes: dims.numel() * dtype(*var).size(),
            first: *first,
            last: *last,
        };
        let packing = pack(&wanted.iter().map(need).collect::<Vec<_>>());
        let arena = Arc::new(Buffer::zeroed(packing.bytes));
        for ((var, dims, ..), offset) in wanted.into_iter().zip(packing.offsets) {
            let bytes = dims.numel() * dtype(var).size();
            let window = Tensor::window(dtype(var), dims, Buffer::window(&arena, offset, bytes));
            // SAFETY: the frame is the layout's own, and nobody has the layout yet.
            unsafe { *frame.at(var).as_mut() = Value::Tensor(window) };
        }
    }

    #[expect(clippy::type_complexity, reason = "the three stages, named where they are used")]
    fn bind(
        &self,
        main: &Frame,
        workers: &[Frame],
        homes: &[Home],
        mut sharing: Option<&mut Sharing<'_>>,
    ) -> Result<(Vec<Call>, Vec<Vec<Call>>, Vec<Vec<Call>>)> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut split: Vec<Vec<Call>> = workers.iter().map(|_| Vec::new()).collect();
        for (position, selected) in self.source.selection.ops.iter().enumerate() {
            let shapes = shapes_of(selected, |var| self.metas[var].as_ref());
            let mut bind = |address: &dyn Fn(VarId) -> NonNull<Value>, share| {
                let bound = sharing.as_mut().map(|sharing| sharing.bind(position));
                let (places, copies) = bound.unwrap_or_default();
                let address = |var| places.get(&var).copied().unwrap_or_else(|| address(var));
                Call::new(position, selected, self.source, address, share, shapes, copies)
            };
            let in_main = |var: VarId| self.main_address(main, var);
            match self.stages.ops[position] {
                Stage::Before => before.push(bind(&in_main, Share::WHOLE)?),
                Stage::After(level) => {
                    if after.len() <= level {
                        after.resize_with(level + 1, Vec::new);
                    }
                    after[level].push(bind(&in_main, Share::WHOLE)?);
                }
                Stage::Split => {
                    for (worker, frame) in workers.iter().enumerate() {
                        let address = |var: VarId| match homes[var] {
                            Home::Main => in_main(var),
                            Home::Summed if worker == 0 => main.at(var),
                            _ => frame.at(var),
                        };
                        split[worker].push(bind(&address, self.shares[worker])?);
                    }
                }
            }
        }
        // Long tasks first, so that workers finish a level together.
        for level in &mut after {
            level.sort_by_key(|call| std::cmp::Reverse(self.cost(call.op)));
        }
        Ok((before, split, after))
    }

    /// A rough measure of an op's work: the elements it touches. Selected rows count as if dense,
    /// which rightly puts table updates first.
    fn cost(&self, position: usize) -> i64 {
        let op = &self.source.selection.ops[position];
        let size = |var: &VarId| self.metas[*var].as_ref().and_then(Meta::numel).unwrap_or(0);
        op.inputs.iter().chain(&op.outputs).map(size).sum()
    }

    fn merges(&self, main: &Frame, workers: &[Frame], homes: &[Home]) -> Vec<Merge> {
        /// Elements that one worker sums in one go: a half of a first-level cache.
        const CHUNK: usize = 1 << 13;
        let mut merges = Vec::new();
        for (var, _) in homes.iter().enumerate().filter(|(_, home)| **home == Home::Summed) {
            let others = workers[1..].iter().map(|frame| frame.at(var));
            let pieces: Vec<_> = std::iter::once(main.at(var)).chain(others).collect();
            match self.placeable(var) {
                None => merges.push(Merge { pieces, range: None }),
                Some(meta) => {
                    let len = dims_of(Some(meta)).numel();
                    merges.extend((0..len).step_by(CHUNK).map(|start| Merge {
                        pieces: pieces.clone(),
                        range: Some(start..len.min(start + CHUNK)),
                    }));
                }
            }
        }
        merges.sort_by_key(|merge| merge.range.is_some());
        merges
    }
}

/// What is known of the shapes of an op's values before it runs.
pub(super) fn shapes_of<'m>(op: &SelectedOp, meta: impl Fn(VarId) -> Option<&'m Meta>) -> Shapes {
    let open = |var: &VarId| {
        meta(*var).is_none_or(|meta| meta.kind == VarKind::LodTensor && !meta.is_static())
    };
    let ragged = |var: &VarId| meta(*var).is_some_and(|meta| meta.lod_level > 0);
    // What a block writes has the shape that the block gives it.
    let sized = op.def.flow.is_some() || op.def.sizes_itself;
    let dynamic = !sized && op.outputs.iter().any(open);
    Shapes { dynamic, ragged: op.inputs.iter().any(ragged) }
}

fn dims_of(meta: Option<&Meta>) -> Dims {
    let dims = meta.map(|meta| meta.dims.iter().map(|dim| *dim as usize).collect::<Vec<_>>());
    Dims::new(&dims.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_a_batch_once_and_small_ones_come_last() {
        for (batch, threads, count) in
            [(5, 2, 2), (2048, 16, 16), (2049, 8, 16), (8191, 16, 32), (511, 2, 2), (1024, 2, 4)]
        {
            let shares = shares(batch, threads);
            assert_eq!(shares.len(), count, "{batch} rows, {threads} threads");
            let mut next = 0;
            for share in &shares {
                assert_eq!((share.first, share.total), (next, batch));
                next += share.rows;
            }
            assert_eq!(next, batch);
            let smallest = shares.iter().map(|share| share.rows).min();
            assert!(shares.last().map(|share| share.rows) <= smallest.map(|rows| rows + 1));
        }
    }
}
