//! `fused_embedding_concat`: lookups of many slots, and dense features, side by side; one kernel for all of
//! them, and one for the gradient.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::divider::{MAX_DIVIDEND, divider};
use super::sort::NO_ROW;
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] =
    &[("fused_embedding_concat", join), ("fused_embedding_concat_grad", split)];

/// Parts of one launch, as in `kernels/lookup.cu`.
const MAX_PARTS: usize = 64;
/// Threads of a block, and pieces that each moves.
const THREADS: usize = 256;
const PIECES: usize = 4;

/// One stretch of a row, in the order of columns.
#[derive(Clone)]
struct Part {
    /// The table or the dense features; of the gradient, where theirs goes.
    values: Ref,
    /// Null for dense features.
    ids: Ref,
    /// Of the gradient: where row numbers go.
    numbers: Ref,
    padding: i64,
    /// Rows of the table.
    rows: usize,
    /// Columns of one id, and ids for each sample.
    width: usize,
    per_sample: usize,
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

    /// Whether both can be told apart by one division.
    fn is_alike(&self, other: &Part) -> bool {
        let is_dense = self.ids == Ref::NULL || other.ids == Ref::NULL;
        !is_dense && (self.width, self.per_sample) == (other.width, other.per_sample)
    }
}

/// All parts of a row.
struct Row {
    parts: Vec<Part>,
    samples: usize,
    /// Elements from one row to the next.
    pitch: usize,
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
    let is_whole = parts.iter().map(Part::columns).sum::<usize>() == width;
    if is_whole && samples * joined.pitch < MAX_DIVIDEND {
        Ok(Row { parts, samples, pitch: joined.pitch })
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
    if table.dtype != DType::F32 || ids.dtype != DType::I64 || table.dims.len() != 2 {
        return host();
    }
    let per_sample = ids.numel().checked_div(samples).unwrap_or(0);
    Ok(Part {
        values: table.at,
        ids: ids.at,
        numbers: Ref::NULL,
        padding: if padding < 0 { NO_ROW } else { padding },
        rows: table.dims[0],
        width: table.dims[1],
        per_sample: if samples == 0 { 1 } else { per_sample },
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
        numbers: Ref::NULL,
        padding: NO_ROW,
        rows: 0,
        width: dense.dims[1],
        per_sample: 1,
        which: Source::Dense(which),
    })
}

fn join(cx: &mut Lowering<'_>) -> Outcome {
    let out = cx.output("Out")?;
    if out.numel() == 0 {
        return Ok(());
    }
    let row = read(cx, &out)?;
    move_parts(cx, "join_parts", &row, &out)
}

fn split(cx: &mut Lowering<'_>) -> Outcome {
    let grad = cx.input("Out@GRAD")?.dense()?;
    // Without samples the numbers of ids are not told by shapes.
    if grad.numel() == 0 {
        return host();
    }
    let mut row = read(cx, &grad)?;
    for which in 0..cx.outputs("W@GRAD").len() {
        let of_table = |part: &&Part| part.which == Source::Table(which);
        let counts = row.parts.iter().filter(of_table).map(|part| part.per_sample * row.samples);
        let count = counts.sum();
        cx.select_one("W@GRAD", which, count);
    }
    let (tables, dense) = (cx.outputs("W@GRAD"), cx.outputs("Dense@GRAD"));
    let mut next = vec![0; tables.len()];
    for part in &mut row.parts {
        part.values = Ref::NULL;
        match part.which {
            Source::Table(which) => {
                let Some(grad) = tables.get(which) else { continue };
                let Some(selected) = grad.selected else { return host() };
                part.values = grad.at.plus(next[which] * part.width * 4);
                part.numbers = selected.rows.plus(next[which] * 8);
                next[which] += part.per_sample * row.samples;
            }
            Source::Dense(which) => {
                part.values = dense.get(which).map_or(Ref::NULL, |grad| grad.at)
            }
        }
    }
    move_parts(cx, "split_parts", &row, &grad)
}

/// Neighbouring parts that are alike, as in `kernels/lookup.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Stretch {
    column: u32,
    end: u32,
    part: u32,
    ids: u32,
    width: [u32; 3],
}

/// The shapes of the parts of one launch, as in `kernels/lookup.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parts {
    padding: [i64; MAX_PARTS],
    rows: [i64; MAX_PARTS],
    stretches: [Stretch; MAX_PARTS],
    pitch: u32,
    first_column: u32,
    pieces: [u32; 3],
    count: u32,
    unused: [u32; 2],
}

/// Moves all parts between where they belong and `joined`, which has all of them in each row, in its own type.
fn move_parts(cx: &mut Lowering<'_>, kernel: &str, row: &Row, joined: &Var) -> Outcome {
    // 16 bytes at once where every part allows it; dense features at the end of a row may be of any width.
    let looked_up = match row.parts.split_last() {
        Some((last, others)) if last.ids == Ref::NULL => others,
        _ => &row.parts[..],
    };
    let fits = |part: &Part| part.width.is_multiple_of(4);
    let step = if looked_up.iter().all(fits) && row.pitch.is_multiple_of(4) { 4 } else { 1 };
    let (mut column, suffix) = (0, joined.suffix()?);
    for parts in row.parts.chunks(MAX_PARTS) {
        let columns = parts.iter().map(Part::columns).sum::<usize>();
        let count = row.samples * columns.div_ceil(step);
        let mut shapes = Parts {
            pitch: row.pitch as u32,
            first_column: column as u32,
            pieces: divider(columns.div_ceil(step)),
            count: count as u32,
            ..Parts::zeroed()
        };
        for (shape, part) in parts.iter().enumerate() {
            (shapes.padding[shape], shapes.rows[shape]) = (part.padding, part.rows as i64);
        }
        for (at, stretch) in stretches(parts, column).into_iter().enumerate() {
            shapes.stretches[at] = stretch;
        }
        let places: [fn(&Part) -> Ref; 3] =
            [|part| part.values, |part| part.ids, |part| part.numbers];
        let refs = places.iter().flat_map(|place| {
            let given = parts.iter().map(place);
            given.chain(std::iter::repeat(Ref::NULL)).take(MAX_PARTS)
        });
        let blocks = count.div_ceil(THREADS * PIECES) as u32;
        cx.kernel(format!("{kernel}_{step}_{suffix}"), [blocks, 1, 1], THREADS as u32)
            .refs(refs, 3 * MAX_PARTS)
            .value(shapes)
            .var(joined)
            .complaint()
            .launch();
        column += columns;
    }
    Ok(())
}

fn stretches(parts: &[Part], mut column: usize) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let end = column + part.columns();
        match found.last_mut() {
            Some(last) if parts[at - 1].is_alike(part) => last.end = end as u32,
            _ => found.push(Stretch {
                column: column as u32,
                end: end as u32,
                part: at as u32,
                ids: part.per_sample as u32,
                width: divider(part.width),
            }),
        }
        column = end;
    }
    found
}
