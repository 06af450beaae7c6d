//! `fused_embedding_concat`: lookups of many slots, and dense features, side by side; one kernel for all of
//! them, and one for the gradient.

use bireme_engine::device::View;
use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::divider::{MAX_DIVIDEND, divider};
use super::lowering::suffix;
use super::sort::NO_ROW;
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] =
    &[("fused_embedding_concat", join), ("fused_embedding_concat_grad", split)];

/// Parts of one launch, as in `kernels/lookup.cu`.
const MAX_PARTS: usize = 64;
/// Threads of a block.
const THREADS: usize = 256;
/// Pieces up to which every thread of a card moves one; beyond, each has several under way.
const FEW_PIECES: usize = 1 << 18;
const AT_ONCE: usize = 4;

/// One stretch of a row, in the order of columns.
#[derive(Clone)]
struct Part {
    /// The table or the dense features; of the gradient, where theirs goes.
    values: Ref,
    /// Null for dense features.
    ids: Ref,
    /// Whether ids have 32 bits, not 64.
    is_narrow: bool,
    /// Of the gradient: where row numbers go.
    numbers: Ref,
    padding: i64,
    /// Rows of the table.
    rows: usize,
    /// Its first column.
    column: usize,
    /// Columns of one id, and ids for each sample.
    width: usize,
    per_sample: usize,
    /// Elements from one row of the table, or of the features, to the next.
    pitch: usize,
    /// Which table, or which of the dense features.
    which: Source,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Table(usize),
    Dense(usize),
}

impl Part {
    fn columns(&self) -> usize {
        self.width * self.per_sample
    }
}

/// All parts of a row.
struct Row {
    parts: Vec<Part>,
    samples: usize,
    /// Elements from one row to the next.
    pitch: usize,
    dtype: DType,
}

fn read(cx: &Lowering<'_>, joined: &Var) -> Outcome<Row> {
    let (tables, ids, dense) = (cx.inputs("W"), cx.inputs("Ids"), cx.inputs("Dense"));
    let (table_of, padding) = (cx.op.longs("table")?, cx.op.longs("padding_idx")?);
    let is_known = matches!(joined.dtype, DType::F32 | DType::BF16 | DType::F16);
    if joined.dims.len() != 2 || !is_known {
        return host();
    }
    let (samples, width) = (joined.dims[0], joined.dims[1]);
    let mut parts = Vec::new();
    for at in cx.op.longs("order")? {
        parts.push(match usize::try_from(at) {
            Ok(at) => {
                let (Some(ids), Some(table), Some(padding)) =
                    (ids.get(at), table_of.get(at), padding.get(at))
                else {
                    return host();
                };
                looked_up(&tables, ids, *table as usize, *padding, samples)?
            }
            Err(_) => {
                let which = (-1 - at) as usize;
                dense.get(which).map_or_else(host, |dense| features(dense, which, samples))?
            }
        });
    }
    // Features without columns have nothing to move; ids would still be rows of the gradient.
    parts.retain(|part| part.ids != Ref::NULL || part.columns() > 0);
    if parts.iter().any(|part| part.columns() == 0) {
        return host();
    }
    let mut end = 0;
    for part in &mut parts {
        part.column = end;
        end += part.columns();
    }
    if end == width && samples * joined.pitch < MAX_DIVIDEND {
        Ok(Row { parts, samples, pitch: joined.pitch, dtype: joined.dtype })
    } else {
        host()
    }
}

fn looked_up(
    tables: &[Var],
    ids: &Var,
    which: usize,
    padding: i64,
    samples: usize,
) -> Outcome<Part> {
    let Some(table) = tables.get(which) else { return host() };
    let (table, ids) = (table.clone().dense()?, ids.clone().dense()?);
    let is_ids = matches!(ids.dtype, DType::I64 | DType::I32);
    if table.dtype != DType::F32 || !is_ids || table.dims.len() != 2 {
        return host();
    }
    let per_sample = ids.numel().checked_div(samples).unwrap_or(0);
    Ok(Part {
        values: table.at,
        ids: ids.at,
        is_narrow: ids.dtype == DType::I32,
        numbers: Ref::NULL,
        padding: if padding < 0 { NO_ROW } else { padding },
        rows: table.dims[0],
        column: 0,
        width: table.dims[1],
        per_sample: if samples == 0 { 1 } else { per_sample },
        pitch: table.pitch,
        which: Source::Table(which),
    })
}

fn features(dense: &Var, which: usize, samples: usize) -> Outcome<Part> {
    let dense = dense.clone().dense()?;
    if dense.dtype != DType::F32 || dense.dims.len() != 2 || dense.dims[0] != samples {
        return host();
    }
    Ok(Part {
        values: dense.at,
        ids: Ref::NULL,
        is_narrow: false,
        numbers: Ref::NULL,
        padding: NO_ROW,
        rows: 0,
        column: 0,
        width: dense.dims[1],
        per_sample: 1,
        pitch: dense.dims[1],
        which: Source::Dense(which),
    })
}

fn join(cx: &mut Lowering<'_>) -> Outcome {
    let out = cx.output("Out")?;
    if out.numel() == 0 {
        return Ok(());
    }
    let row = read(cx, &out)?;
    for (shapes, refs, kernel) in row.launches()? {
        cx.kernel(format!("join_parts_{}", kernel.name), kernel.blocks, THREADS as u32)
            .refs(refs, 3 * MAX_PARTS)
            .value(shapes)
            .at(out.at)
            .complaint()
            .launch();
    }
    Ok(())
}

fn split(cx: &mut Lowering<'_>) -> Outcome {
    let grad = cx.input("Out@GRAD")?.dense()?;
    // Without samples the numbers of ids are not told by shapes.
    if grad.numel() == 0 {
        return host();
    }
    let mut row = read(cx, &grad)?;
    let input = cx.op.input_position("Out@GRAD")?;
    let mut is_view = Vec::new();
    for which in 0..cx.outputs("W@GRAD").len() {
        let counts = row.of_table(which).map(|part| part.per_sample * row.samples);
        cx.select_one("W@GRAD", which, counts.sum());
        let view = row.view(which, input);
        is_view.push(view.is_some_and(|view| cx.view_one("W@GRAD", which, view)));
    }
    let (tables, dense) = (cx.outputs("W@GRAD"), cx.outputs("Dense@GRAD"));
    let mut next = vec![0; tables.len()];
    for part in &mut row.parts {
        (part.values, part.pitch) = (Ref::NULL, part.width);
        match part.which {
            Source::Table(which) => {
                let Some(grad) = tables.get(which) else { continue };
                let Some(selected) = grad.selected else { return host() };
                if !is_view[which] {
                    part.values = grad.at.plus(next[which] * part.width * 4);
                }
                part.numbers = selected.rows.plus(next[which] * 8);
                next[which] += part.per_sample * row.samples;
            }
            Source::Dense(which) => {
                part.values = dense.get(which).map_or(Ref::NULL, |grad| grad.at)
            }
        }
    }
    number(cx, &row);
    if row.parts.iter().all(|part| part.values == Ref::NULL) {
        return Ok(());
    }
    for (shapes, refs, kernel) in row.launches()? {
        cx.kernel(format!("split_parts_{}", kernel.name), kernel.blocks, THREADS as u32)
            .refs(refs, 3 * MAX_PARTS)
            .value(shapes)
            .at(grad.at)
            .launch();
    }
    Ok(())
}

/// Writes the row numbers of the gradients: apart from their values, for they are known, and can be sorted, before
/// the net has run.
fn number(cx: &mut Lowering<'_>, row: &Row) {
    let numbered: Vec<&Part> = row.parts.iter().filter(|part| part.numbers != Ref::NULL).collect();
    for parts in numbered.chunks(MAX_PARTS) {
        let mut shapes = Numbered::zeroed();
        for (at, part) in parts.iter().enumerate() {
            (shapes.padding[at], shapes.rows[at]) = (part.padding, part.rows as i64);
            shapes.count[at] = (row.samples * part.per_sample) as u32;
            shapes.narrow |= u64::from(part.is_narrow) << at;
        }
        let most = shapes.count.iter().max().copied().unwrap_or(0) as usize;
        let blocks = [most.div_ceil(THREADS) as u32, parts.len() as u32, 1];
        cx.kernel("number_parts", blocks, THREADS as u32)
            .refs(places(parts.iter().copied()), 3 * MAX_PARTS)
            .value(shapes)
            .complaint()
            .launch();
    }
}

/// The shape of one part of a launch, as in `kernels/lookup.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Shape {
    padding: i64,
    rows: i64,
    width: [u32; 3],
    ids: u32,
    pieces: [u32; 3],
    count: u32,
    column: u32,
    pitch: u32,
}

/// The shapes of all, as in `kernels/lookup.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Shapes {
    of: [Shape; MAX_PARTS],
    narrow: u64,
    pitch: u32,
    unused: u32,
}

/// What row numbers are made of, as in `kernels/lookup.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Numbered {
    padding: [i64; MAX_PARTS],
    rows: [i64; MAX_PARTS],
    narrow: u64,
    count: [u32; MAX_PARTS],
}

/// How a kernel that moves parts is launched.
struct Kernel {
    /// What its name ends in.
    name: String,
    blocks: [u32; 3],
}

impl Row {
    /// The parts of table `which`.
    fn of_table(&self, which: usize) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.which == Source::Table(which))
    }

    /// The gradient of table `which` as it lies in `input`, this row's gradient: where its parts are as far apart as
    /// each other, and kernels could read it.
    fn view(&self, which: usize, input: usize) -> Option<View> {
        let parts: Vec<&Part> = self.of_table(which).collect();
        let (first, offset) = (*parts.first()?, parts.first()?.column);
        let apart = parts.get(1).map_or(first.width, |second| second.column - offset);
        let is_regular = |(at, part): (usize, &&Part)| {
            let same = (part.width, part.per_sample) == (first.width, first.per_sample);
            same && part.column == offset + at * apart
        };
        if !parts.iter().enumerate().all(is_regular) {
            return None;
        }
        let (run, step, run_step) = match (first.per_sample, parts.len()) {
            (1, _) => (self.samples, self.pitch, apart),
            (ids, 1) => (ids, first.width, self.pitch),
            _ => return None,
        };
        // Values of 16 bits are read four at once only.
        let is_wide = first.width.is_multiple_of(4);
        let is_aligned = [offset, step, run_step].iter().all(|at| at.is_multiple_of(4));
        let fits = if is_wide { is_aligned } else { self.dtype == DType::F32 };
        fits.then_some(View { input, dtype: self.dtype, offset, run, step, run_step })
    }

    /// What moves all parts between where they belong and the row that has all of them.
    fn launches(&self) -> Outcome<Vec<(Shapes, Vec<Ref>, Kernel)>> {
        // Four elements at once where every part allows it; dense features at the end of a row may be of any width.
        let looked_up = match self.parts.split_last() {
            Some((last, others)) if last.ids == Ref::NULL => others,
            _ => &self.parts[..],
        };
        let fits = |part: &Part| part.width.is_multiple_of(4);
        let is_wide = looked_up.iter().all(fits) && self.pitch.is_multiple_of(4);
        let step = if is_wide { 4 } else { 1 };
        let parts = self.with_gap();
        let mut launches = Vec::new();
        for (chunk, of_chunk) in parts.chunks(MAX_PARTS).enumerate() {
            let mut shapes = Shapes { pitch: self.pitch as u32, ..Shapes::zeroed() };
            for (at, (shape, part)) in shapes.of.iter_mut().zip(of_chunk).enumerate() {
                let next = parts.get(chunk * MAX_PARTS + at + 1).map_or(self.pitch, |p| p.column);
                let pieces = (next - part.column).div_ceil(step);
                *shape = Shape {
                    padding: part.padding,
                    rows: part.rows as i64,
                    width: divider(part.width),
                    ids: part.per_sample as u32,
                    pieces: divider(pieces),
                    count: (self.samples * pieces) as u32,
                    column: part.column as u32,
                    pitch: part.pitch as u32,
                };
            }
            let narrow = of_chunk.iter().enumerate();
            let narrow = narrow.map(|(at, part)| u64::from(part.is_narrow) << at);
            shapes.narrow = narrow.sum();
            let counts = || shapes.of.iter().map(|shape| shape.count as usize);
            let at_once = if counts().sum::<usize>() <= FEW_PIECES { 1 } else { AT_ONCE };
            let most = counts().max().unwrap_or(0);
            let blocks = [most.div_ceil(THREADS * at_once) as u32, of_chunk.len() as u32, 1];
            let name = format!("{step}x{at_once}_{}", suffix(self.dtype)?);
            launches.push((shapes, places(of_chunk.iter()), Kernel { name, blocks }));
        }
        Ok(launches)
    }

    /// The parts, with one for the gap behind the last. Behind dense features there is none: they are followed by zeros.
    fn with_gap(&self) -> Vec<Part> {
        let mut parts = self.parts.clone();
        if let Some(last) = parts.last().filter(|last| last.ids != Ref::NULL) {
            let column = last.column + last.columns();
            if column < self.pitch {
                let (values, ids, rows) = (Ref::NULL, Ref::NULL, 0);
                let (width, per_sample) = (self.pitch - column, 1);
                parts.push(Part { values, ids, rows, column, width, per_sample, ..last.clone() });
            }
        }
        parts
    }
}

/// The pointers of a kernel's `Places`.
fn places<'a>(parts: impl Iterator<Item = &'a Part> + Clone) -> Vec<Ref> {
    let places: [fn(&Part) -> Ref; 3] = [|part| part.values, |part| part.ids, |part| part.numbers];
    let refs = places.iter().flat_map(|place| {
        let given = parts.clone().map(place);
        given.chain(std::iter::repeat(Ref::NULL)).take(MAX_PARTS)
    });
    refs.collect()
}
