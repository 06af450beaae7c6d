//! `lookup_table` and `lookup_table_v2`: rows of a table by id, and the table's gradient, dense or as
//! selected rows; and `find_rows`, keys to rows.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::divider::{MAX_DIVIDEND, divider};
use super::segments::Rows;
use super::sort::{NO_ROW, Unsorted, sort};
use super::{Lower, Lowering, Outcome, Var, host};

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("find_rows", find_rows),
    ("lookup_table", look_up),
    ("lookup_table_v2", look_up),
    ("lookup_table_grad", gradient),
    ("lookup_table_v2_grad", gradient),
];

/// The `padding_idx` of a table without padding.
const NO_PADDING: i64 = -1;

/// Lists of keys in one launch, as in `kernels/lookup.cu`.
const MAX_LISTS: usize = 64;
const THREADS: usize = 256;

/// How many keys each list has, as in `kernels/lookup.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct KeyCounts([u32; MAX_LISTS]);

/// What both directions read.
struct Lookup {
    table: Var,
    ids: Var,
    ids_suffix: &'static str,
    rows: usize,
    /// The id that stands for nothing; [`NO_ROW`] when there is none.
    padding: i64,
}

impl Lookup {
    fn of(cx: &Lowering<'_>) -> Outcome<Lookup> {
        let (table, ids) = (cx.input("W")?.dense()?, cx.input("Ids")?.dense()?);
        // A table that lives on servers has no rows here.
        if cx.op.bool("remote_prefetch")? || table.dims.len() != 2 {
            return host();
        }
        let ids_suffix = match ids.dtype {
            DType::I64 | DType::I32 => ids.suffix()?,
            _ => return host(),
        };
        let padding = cx.op.i64("padding_idx")?;
        let padding = if padding == NO_PADDING { NO_ROW } else { padding };
        Ok(Lookup { rows: table.dims[0], table, ids, ids_suffix, padding })
    }
}

fn look_up(cx: &mut Lowering<'_>) -> Outcome {
    let Lookup { table, ids, ids_suffix, rows, padding } = Lookup::of(cx)?;
    let out = cx.output("Out")?;
    if !matches!(table.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16)
        || out.dtype != table.dtype
        || out.numel() != ids.numel() * table.width()
    {
        return host();
    }
    let row_bytes = table.width() * table.dtype.size();
    let Some(size) = [16, 8, 4, 2].into_iter().find(|size| row_bytes.is_multiple_of(*size)) else {
        return host();
    };
    let pieces = row_bytes / size;
    let count = ids.numel() * pieces;
    if count >= MAX_DIVIDEND {
        return host();
    }
    if count == 0 {
        return Ok(());
    }
    cx.over(format!("look_up_{size}_{ids_suffix}"), count)
        .var(&table)
        .var(&ids)
        .var(&out)
        .value(count as u32)
        .value(divider(pieces))
        .size(rows)
        .value(padding)
        .complaint()
        .launch();
    Ok(())
}

fn gradient(cx: &mut Lowering<'_>) -> Outcome {
    let Lookup { table, ids, ids_suffix, rows, padding } = Lookup::of(cx)?;
    let dout = cx.input("Out@GRAD")?.dense()?;
    let (count, width) = (ids.numel(), table.width());
    if dout.dtype != table.dtype || dout.numel() != count * width {
        return host();
    }
    if !matches!(table.dtype, DType::F32 | DType::F64) {
        return host();
    }
    if !cx.op.bool("is_sparse")? {
        let grad = cx.output("W@GRAD")?.dense()?;
        let unsorted = Unsorted { at: ids.at, dtype: ids.dtype, count, padding, bound: rows };
        let sorted = sort(cx, &unsorted)?;
        cx.clear(grad.at, grad.bytes());
        return Rows { sorted, values: dout.at, dtype: table.dtype, width, view: None }
            .add_to(cx, grad.at);
    }
    cx.select("W@GRAD", count);
    let grad = cx.output("W@GRAD")?;
    let Some(selected) = grad.selected else { return host() };
    cx.over(format!("looked_up_rows_{ids_suffix}"), count)
        .var(&ids)
        .at(selected.rows)
        .size(count)
        .size(rows)
        .value(padding)
        .complaint()
        .launch();
    cx.copy(dout.at, grad.at, dout.bytes());
    Ok(())
}

fn find_rows(cx: &mut Lowering<'_>) -> Outcome {
    let (keys, rows, index) = (cx.inputs("Ids"), cx.outputs("Out"), cx.input("Index")?.dense()?);
    let slots = index.dims.first().copied().unwrap_or(0);
    let is_index = index.dtype == DType::I64 && index.dims.len() == 2 && index.dims[1] == 2;
    let fits = keys.iter().zip(&rows).all(|(keys, rows)| {
        keys.dtype == DType::I64
            && rows.dtype == DType::I64
            && keys.numel() == rows.numel()
            && keys.numel() < MAX_DIVIDEND
    });
    if !is_index || !fits || slots < 2 || !slots.is_power_of_two() || slots > 1 << 31 {
        return host();
    }
    let padding = cx.op.i64("padding_idx")?;
    let lists: Vec<(&Var, &Var)> = keys.iter().zip(&rows).collect();
    for (chunk, lists) in lists.chunks(MAX_LISTS).enumerate() {
        let mut counts = KeyCounts::zeroed();
        let mut refs = vec![crate::work::Ref::NULL; 2 * MAX_LISTS];
        for (at, (keys, rows)) in lists.iter().enumerate() {
            counts.0[at] = keys.numel() as u32;
            (refs[at], refs[MAX_LISTS + at]) = (keys.at, rows.at);
        }
        let most = counts.0.iter().max().copied().unwrap_or(0) as usize;
        let blocks = [most.div_ceil(THREADS) as u32, lists.len() as u32, 1];
        cx.kernel("find_rows", blocks, THREADS as u32)
            .refs(refs, 2 * MAX_LISTS)
            .value(counts)
            .var(&index)
            .value(slots as u32)
            .value(64 - slots.trailing_zeros())
            .value(padding)
            .value(i32::from(padding != NO_PADDING))
            .value((chunk * MAX_LISTS) as u32)
            .complaint()
            .launch();
    }
    Ok(())
}
