//! Records of keyed tables that a trainer holds for a pass (`kernels/records.cu`): which rows a step reads and trains,
//! what it counts, and pushes.

use bireme_engine::accessor::{Ctr, Entry, SparseRule, SparseRuleKind};
use bireme_engine::ops::accessor_of;
use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::divider::MAX_DIVIDEND;
use super::lowering::invalid;
use super::selected_rows::sorted_rows;
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("admit_rows", admit_rows),
    ("count_rows", count_rows),
    ("counts_of_rows", counts_of_rows),
    ("update_records", update_records),
];

/// Lists of rows in one launch, as in `kernels/records.cu`.
const MAX_LISTS: usize = 64;
const THREADS: usize = 256;

/// How many rows each list has, as in `kernels/records.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ListCounts([u32; MAX_LISTS]);

/// As in `kernels/records.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ListShapes {
    count: [u32; MAX_LISTS],
    per_sample: [u32; MAX_LISTS],
    first: [u32; MAX_LISTS],
}

/// A sparse rule, as in `kernels/accessor.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Rule {
    kind: u32,
    rate: f32,
    bounds: [f32; 2],
    numbers: [f32; 3],
    unused: u32,
}

/// An accessor, as in `kernels/accessor.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Accessor {
    least_shows: f64,
    nonclk_coeff: f32,
    click_coeff: f32,
    embedx_threshold: f32,
    show_scale: u32,
    width: u32,
    head: u32,
    lent: u32,
    numbers: u32,
    places: [u32; 6],
    embed_rule: Rule,
    embedx_rule: Rule,
}

impl Rule {
    fn of(rule: &SparseRule) -> Rule {
        let (kind, numbers) = match rule.kind {
            SparseRuleKind::Naive => (0, [0.0; 3]),
            SparseRuleKind::AdaGrad { initial_g2sum } => (1, [initial_g2sum, 0.0, 0.0]),
            SparseRuleKind::StdAdaGrad { initial_g2sum } => (2, [initial_g2sum, 0.0, 0.0]),
            SparseRuleKind::Adam { beta1, beta2, epsilon } => (3, [beta1, beta2, epsilon]),
            SparseRuleKind::SharedAdam { beta1, beta2, epsilon } => (4, [beta1, beta2, epsilon]),
        };
        Rule { kind, rate: rule.learning_rate, bounds: rule.bounds, numbers, unused: 0 }
    }
}

impl Accessor {
    fn of(ctr: &Ctr) -> Accessor {
        let place = |at: usize| (Ctr::LENT_HEAD + at) as u32;
        let config = &ctr.config;
        Accessor {
            least_shows: ctr.least_shows.map_or(f64::NEG_INFINITY, |least| least as f64),
            nonclk_coeff: config.nonclk_coeff,
            click_coeff: config.click_coeff,
            embedx_threshold: config.embedx_threshold,
            show_scale: u32::from(config.show_scale),
            width: ctr.width as u32,
            head: config.class.head() as u32,
            lent: ctr.lent_width() as u32,
            numbers: ctr.show.len() as u32,
            places: [
                place(ctr.show.start),
                place(ctr.embed),
                place(ctr.embed_state.start),
                place(ctr.embedx.start),
                place(ctr.embedx_state.start),
                place(ctr.has_embedx()),
            ],
            embed_rule: Rule::of(&config.embed),
            embedx_rule: Rule::of(&config.embedx),
        }
    }
}

fn is_rows(var: &Var) -> bool {
    var.selected.is_none() && var.dtype == DType::I64 && var.numel() < MAX_DIVIDEND
}

fn is_table(var: &Var) -> bool {
    let is_matrix = var.selected.is_none() && var.dims.len() == 2 && !var.has_gaps();
    is_matrix && var.dtype == DType::F32
}

fn admit_rows(cx: &mut Lowering<'_>) -> Outcome {
    let (rows, entries) = (cx.inputs("Rows"), cx.input("Entry")?);
    let (read, trained) = (cx.outputs("Out"), cx.outputs("Trained"));
    let entry = Entry::parse(&cx.op.string("entry")?).map_err(invalid)?;
    if !is_table(&entries) || !rows.iter().all(is_rows) || entries.width() != 1 + entry.counters() {
        return host();
    }
    let (kind, least) = match entry {
        Entry::CountFilter(least) => (1i32, least as f32),
        Entry::ShowClick { .. } => (2, 0.0),
        Entry::Every | Entry::Probability(_) => (0, 0.0),
    };
    let lists: Vec<usize> = (0..rows.len()).collect();
    for lists in lists.chunks(MAX_LISTS) {
        let mut counts = ListCounts::zeroed();
        let mut refs = vec![Ref::NULL; 3 * MAX_LISTS];
        for (at, list) in lists.iter().enumerate() {
            counts.0[at] = rows[*list].numel() as u32;
            (refs[at], refs[MAX_LISTS + at]) = (rows[*list].at, read[*list].at);
            refs[2 * MAX_LISTS + at] = trained.get(*list).map_or(Ref::NULL, |trained| trained.at);
        }
        let most = counts.0.iter().max().copied().unwrap_or(0) as usize;
        let blocks = [most.div_ceil(THREADS) as u32, lists.len() as u32, 1];
        cx.kernel("admit_rows", blocks, THREADS as u32)
            .refs(refs, 3 * MAX_LISTS)
            .value(counts)
            .var(&entries)
            .value(entries.width() as u32)
            .value(kind)
            .value(least)
            .size(entries.dims[0])
            .complaint()
            .launch();
    }
    Ok(())
}

fn count_rows(cx: &mut Lowering<'_>) -> Outcome {
    let (entries, out, counts) = (cx.input("Entry")?, cx.output("EntryOut")?, cx.input("Counts")?);
    let entry = Entry::parse(&cx.op.string("entry")?).map_err(invalid)?;
    if !is_table(&entries) || out.has_gaps() || counts.width() != 2 || counts.dtype != DType::F32 {
        return host();
    }
    cx.carry_over(&entries, &out);
    let each = i32::from(matches!(entry, Entry::CountFilter(_)));
    let rows = sorted_rows(cx, &counts)?;
    rows.sum(cx, ["count_rows", "count_row_spans"], |launch| {
        launch.at(out.at).value(entries.width() as u32).value(each)
    })
}

/// The type of counts, as in `kernels/records.cu`, where there is one for each sample.
fn counts_type(counts: &Var) -> Outcome<i32> {
    let samples = counts.dims.first().copied().unwrap_or(1);
    if counts.selected.is_some() || counts.numel() != samples {
        return host();
    }
    Ok(match counts.dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::I32 => 2,
        DType::I64 => 3,
        _ => return host(),
    })
}

fn counts_of_rows(cx: &mut Lowering<'_>) -> Outcome {
    let (rows, table) = (cx.inputs("Rows"), cx.input("W")?);
    let (shows, clicks) = (cx.maybe_input("Shows"), cx.maybe_input("Clicks"));
    let height = table.dims.first().copied().unwrap_or(0);
    let (samples, types) = match (&shows, &clicks) {
        (Some(shows), Some(clicks)) if shows.numel() == clicks.numel() => {
            (shows.numel(), [counts_type(shows)?, counts_type(clicks)?])
        }
        (None, None) => (1, [0, 0]),
        _ => return host(),
    };
    // Whatever does not fit is the host's to complain of.
    let fits = |rows: &Var| {
        let have = rows.dims.first().copied().unwrap_or(1);
        is_rows(rows) && (samples == 1 || samples > 0 && have.is_multiple_of(samples))
    };
    if !rows.iter().all(fits) {
        return host();
    }
    let total: usize = rows.iter().map(Var::numel).sum();
    if total >= MAX_DIVIDEND {
        return host();
    }
    cx.select("Out", total);
    let out = cx.output("Out")?;
    let Some(selected) = out.selected else { return host() };
    let has_padding = i32::from(cx.op.i64("padding_idx")? != -1);
    let mut first = 0;
    for lists in rows.chunks(MAX_LISTS) {
        let mut shapes = ListShapes::zeroed();
        for (at, rows) in lists.iter().enumerate() {
            let count = rows.numel() as u32;
            shapes.count[at] = count;
            shapes.per_sample[at] = (count / samples as u32).max(1);
            shapes.first[at] = first;
            first += count;
        }
        let most = shapes.count.iter().max().copied().unwrap_or(0) as usize;
        let blocks = [most.div_ceil(THREADS) as u32, lists.len() as u32, 1];
        let counted = [&shows, &clicks].map(|var| var.as_ref().map_or(Ref::NULL, |var| var.at));
        cx.kernel("counts_of_rows", blocks, THREADS as u32)
            .refs(lists.iter().map(|rows| rows.at), MAX_LISTS)
            .value(shapes)
            .refs(counted, 2)
            .value(types[0])
            .value(types[1])
            .value(has_padding)
            .size(height)
            .at(selected.rows)
            .at(out.at)
            .complaint()
            .launch();
    }
    Ok(())
}

fn update_records(cx: &mut Lowering<'_>) -> Outcome {
    let (param, param_out) = (cx.input("Param")?, cx.output("ParamOut")?);
    let (records, records_out) = (cx.input("Record")?, cx.output("RecordOut")?);
    let (grad, counts) = (cx.input("Grad")?, cx.maybe_input("Counts"));
    let ctr = accessor_of(cx.op, param.width())?;
    let fits = is_table(&param)
        && is_table(&records)
        && !param_out.has_gaps()
        && !records_out.has_gaps()
        && records.width() == ctr.lent_width()
        && records.dims[0] == param.dims[0]
        && grad.dtype == DType::F32
        && grad.width() == param.width();
    let Some(selected) = grad.selected.filter(|_| fits) else { return host() };
    cx.carry_over(&param, &param_out);
    cx.carry_over(&records, &records_out);
    if let Some(counts) = &counts {
        if counts.width() != 2 || counts.dtype != DType::F32 {
            return host();
        }
        let lent = ctr.lent_width() as u32;
        let rows = sorted_rows(cx, counts)?;
        rows.sum(cx, ["note_counts", "note_count_spans"], |launch| {
            launch.at(records_out.at).value(lent)
        })?;
    }
    let merged = cx.scratch(selected.count * grad.width() * DType::F32.size());
    let rows = sorted_rows(cx, &grad)?;
    rows.merge(cx, merged, Ref::NULL, Ref::NULL)?;
    let sorted = rows.sorted;
    if sorted.count == 0 {
        return Ok(());
    }
    cx.over("push_records", sorted.count)
        .refs([sorted.keys, sorted.positions], 2)
        .value(sorted.count as u32)
        .value(sorted.bound)
        .at(merged)
        .at(param_out.at)
        .at(records_out.at)
        .value(Accessor::of(&ctr))
        .value(i32::from(counts.is_some()))
        .launch();
    Ok(())
}
