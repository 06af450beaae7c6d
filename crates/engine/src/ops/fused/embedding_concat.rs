//! `fused_embedding_concat`: many slots' lookups, and dense features, side by side in one row.
//!
//! What a recommender does before its first layer: `lookup_table` for every slot, a reshape each,
//! and a `concat`. Here each looked-up row is copied once, straight to its place; the gradient
//! goes back as one list of rows for each table.

use bireme_ir::VarKind;

use crate::ops::embedding::Id;
use crate::ops::prelude::*;
use crate::tensor::Elements;

/// `order` lists the parts of a row: `i >= 0` is the i-th of `Ids`, `-1 - i` the i-th of `Dense`.
/// `table` names the table of each of `Ids`; `padding_idx` its padding row, or -1. `out_dtype` is the type of what is
/// written, where it is not that of the tables.
const ATTRS: &[AttrSpec] = &[
    attr::ints("order", &[]),
    attr::ints("table", &[]),
    attr::longs("padding_idx", &[]),
    attr::int("out_dtype", -1),
];

pub(super) const DEF: OpDef = OpDef::new("fused_embedding_concat", kernel)
    .inputs(&[Slot::many("W"), Slot::many("Ids"), Slot::any("Dense")])
    .outputs(&[Slot::one("Out")])
    .attrs(ATTRS)
    .shared(&["W"])
    .infer(infer)
    .split(SplitRule::batch(&["Ids", "Dense"]));

pub(super) const GRAD: OpDef = OpDef::new("fused_embedding_concat_grad", grad_kernel)
    .inputs(&[Slot::many("W"), Slot::many("Ids"), Slot::any("Dense"), Slot::one("Out@GRAD")])
    .outputs(&[Slot::any("W@GRAD"), Slot::any("Dense@GRAD")])
    .attrs(ATTRS)
    .shared(&["W"])
    .infer(infer_grad)
    .split(SplitRule::Batch { rows: &["Ids", "Dense", "Out@GRAD"], partial: &["W@GRAD"] });

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (tables, ids, dense) = (cx.inputs("W"), cx.inputs("Ids"), cx.inputs("Dense"));
    let table_of = cx.op().longs("table")?;
    let first = ids.first().ok_or_else(|| Error::kernel("no ids"))?;
    let mut rows = first.dims.first().copied().unwrap_or(-1);
    let mut width = 0;
    for (ids, table) in ids.iter().zip(table_of) {
        let table = tables[table as usize];
        if table.rank() != 2 || ids.rank() == 0 {
            return Err(Error::kernel(format!(
                "cannot look ids of shape {:?} up in a table of shape {:?}",
                ids.dims, table.dims
            )));
        }
        rows = same_rows(rows, ids.dims[0])?;
        width += ids.dims[1..].iter().product::<i64>() * table.dims[1];
    }
    for dense in dense {
        if dense.rank() != 2 {
            return Err(Error::kernel(format!("cannot join a tensor of shape {:?}", dense.dims)));
        }
        rows = same_rows(rows, dense.dims[0])?;
        width += dense.dims[1];
    }
    let narrow = cx.op().i64("out_dtype")? >= 0;
    let dtype = if narrow { cx.op().dtype("out_dtype")? } else { tables[0].dtype };
    let out = Meta::new(dtype, [rows, width]);
    cx.set("Out", out);
    Ok(())
}

fn same_rows(a: i64, b: i64) -> Result<i64> {
    same_dim(a, b)
        .map_err(|_| Error::kernel(format!("cannot join {a} rows and {b} rows side by side")))
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let tables = cx
        .inputs("W")
        .into_iter()
        .map(|table| Meta { kind: VarKind::SelectedRows, ..table.clone() });
    let tables: Vec<Meta> = tables.collect();
    cx.set_each("W@GRAD", tables);
    let dense: Vec<Meta> = cx.inputs("Dense").into_iter().cloned().collect();
    cx.set_each("Dense@GRAD", dense);
    Ok(())
}

/// Does something with ids of either type.
macro_rules! with_ids {
    ($tensor:expr, $ids:ident => $work:expr) => {
        match $tensor.dtype() {
            DType::I32 => {
                let $ids = $tensor.as_slice::<i32>()?;
                $work
            }
            _ => {
                let $ids = $tensor.as_slice::<i64>()?;
                $work
            }
        }
    };
}

/// One stretch of a row.
#[derive(Clone, Copy)]
enum Part {
    /// Looked up in a table.
    Ids { at: usize, ids: In, table: usize, padding: i64 },
    /// Copied.
    Dense(usize),
}

/// The attributes and slots, read once.
struct Parts {
    tables: Vec<In>,
    dense: Vec<In>,
    parts: Vec<Part>,
    /// Names of the tables and the ids, for messages.
    table_names: Vec<String>,
    ids_names: Vec<String>,
}

impl Parts {
    fn of(op: &OpView<'_>) -> Result<Parts> {
        let (ids, table, padding) =
            (op.inputs("Ids"), op.longs("table")?, op.longs("padding_idx")?);
        let part = |at: i64| match usize::try_from(at) {
            Ok(at) => {
                Part::Ids { at, ids: ids[at], table: table[at] as usize, padding: padding[at] }
            }
            Err(_) => Part::Dense((-1 - at) as usize),
        };
        let parts = op.longs("order")?.into_iter().map(part).collect();
        Ok(Parts {
            tables: op.inputs("W"),
            dense: op.inputs("Dense"),
            parts,
            table_names: op.op.inputs_of("W").to_vec(),
            ids_names: op.op.inputs_of("Ids").to_vec(),
        })
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let parts = Parts::of(op)?;
    let mut out = op.output("Out")?;
    Ok(Box::new(move |run| {
        let out = run.out(&mut out)?;
        let (rows, width) = out.dims().matrix(1);
        let out = out.as_mut_slice::<f32>()?;
        let mut column = 0;
        for part in &parts.parts {
            column += match *part {
                Part::Ids { at, ids, table, padding } => {
                    let names = (&parts.ids_names[at], &parts.table_names[table]);
                    let (ids, table) = (run.tensor(ids)?, run.tensor(parts.tables[table])?);
                    let out = (rows, &mut out[column..], width);
                    let done = with_ids!(ids, ids => match table.as_shared::<f32>()? {
                        None => gather(ids, &Table::of(table, table.as_slice()?, padding), out),
                        Some(values) => gather(ids, &Table::of(table, values, padding), out),
                    });
                    done.map_err(|outside| outside.named(names))?
                }
                Part::Dense(dense) => {
                    let dense = run.get::<f32>(parts.dense[dense])?;
                    let columns = dense.len().checked_div(rows).unwrap_or(0);
                    for (row, dense) in dense.chunks_exact(columns.max(1)).enumerate() {
                        out[row * width + column..][..columns].copy_from_slice(dense);
                    }
                    columns
                }
            };
        }
        Ok(())
    }))
}

struct Table<E> {
    values: E,
    rows: usize,
    dim: usize,
    padding: i64,
}

impl<E: Elements<f32>> Table<E> {
    fn of(tensor: &Tensor, values: E, padding: i64) -> Table<E> {
        let (rows, dim) = tensor.dims().matrix(1);
        Table { values, rows, dim, padding }
    }

    fn check(&self, id: i64, position: usize) -> std::result::Result<usize, Outside> {
        let at = usize::try_from(id).ok().filter(|id| *id < self.rows);
        at.ok_or(Outside { id, position, rows: self.rows })
    }
}

/// An id that its table does not have.
struct Outside {
    id: i64,
    position: usize,
    rows: usize,
}

impl Outside {
    fn named(self, (ids, table): (&String, &String)) -> Error {
        let Outside { id, position, rows } = self;
        Error::kernel(format!(
            "id {id} at position {position} of `{ids}` lies outside the table `{table}` of {rows} rows"
        ))
    }
}

/// Rows are far apart in a large table: ask for them this many ids ahead.
const AHEAD: usize = 16;

/// Copies the rows of `ids` to the start of each row of `out`; returns how many columns they fill.
fn gather<E: Elements<f32>, I: Id>(
    ids: &[I],
    table: &Table<E>,
    (rows, out, width): (usize, &mut [f32], usize),
) -> std::result::Result<usize, Outside> {
    let per_row = ids.len().checked_div(rows).unwrap_or(0);
    let dim = table.dim;
    for (row, line) in ids.chunks_exact(per_row.max(1)).enumerate() {
        let target = &mut out[row * width..][..per_row * dim];
        for (i, (id, target)) in line.iter().zip(target.chunks_exact_mut(dim)).enumerate() {
            let position = row * per_row + i;
            if let Some(next) = ids.get(position + AHEAD) {
                table.values.prefetch((next.long() as usize).wrapping_mul(dim), dim);
            }
            let id = id.long();
            if id == table.padding && table.padding >= 0 {
                target.fill(0.0);
            } else {
                let at = table.check(id, position)?;
                table.values.load(at * dim, target);
            }
        }
    }
    Ok(per_row * dim)
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let parts = Parts::of(op)?;
    let dout = op.input("Out@GRAD")?;
    let (mut dtables, mut ddense) = (op.outputs("W@GRAD"), op.outputs("Dense@GRAD"));
    Ok(Box::new(move |run| {
        let (rows, width) = run.dims(dout)?.matrix(1);
        let dout = run.get::<f32>(dout)?;
        for (table, output) in dtables.iter_mut().enumerate() {
            let dims = run.dims(parts.tables[table])?;
            let grad = run.out_rows(output, DType::F32);
            grad.height = dims[0];
            grad.rows.clear();
            let count = looked_up(run, &parts, table)?;
            grad.value.resize(DType::F32, [count, dims[1]]);
            scatter(run, &parts, table, (dout, rows, width), grad)?;
        }
        let mut column = 0;
        for part in &parts.parts {
            column += match *part {
                Part::Ids { ids, table, .. } => {
                    let per_row = run.tensor(ids)?.numel().checked_div(rows).unwrap_or(0);
                    per_row * run.dims(parts.tables[table])?[1]
                }
                Part::Dense(dense) => {
                    let columns = run.dims(parts.dense[dense])?[1];
                    if let Some(output) = ddense.get_mut(dense) {
                        let grad = run.set::<f32>(output)?;
                        for (row, grad) in grad.chunks_exact_mut(columns.max(1)).enumerate() {
                            grad.copy_from_slice(&dout[row * width + column..][..columns]);
                        }
                    }
                    columns
                }
            };
        }
        Ok(())
    }))
}

/// How many rows of `table` the batch looks up, padding left out.
fn looked_up(run: &Run<'_>, parts: &Parts, table: usize) -> Result<usize> {
    let mut count = 0;
    for part in &parts.parts {
        if let Part::Ids { ids, table: of, padding, .. } = *part
            && of == table
        {
            let ids = run.tensor(ids)?;
            count += with_ids!(ids, ids => match padding {
                ..0 => ids.len(),
                _ => ids.iter().filter(|id| id.long() != padding).count(),
            });
        }
    }
    Ok(count)
}

/// Appends the gradient rows of `table` in the order of the parts.
fn scatter(
    run: &Run<'_>,
    parts: &Parts,
    table: usize,
    (dout, rows, width): (&[f32], usize, usize),
    grad: &mut crate::tensor::SelectedRows,
) -> Result<()> {
    let mut column = 0;
    let (names, values) = (&mut grad.rows, grad.value.as_mut_slice::<f32>()?);
    let mut next = 0;
    for part in &parts.parts {
        let (ids, of, padding) = match *part {
            Part::Ids { ids, table, padding, .. } => (run.tensor(ids)?, table, padding),
            Part::Dense(dense) => {
                column += run.dims(parts.dense[dense])?[1];
                continue;
            }
        };
        let dim = run.dims(parts.tables[of])?[1];
        let per_row = ids.numel().checked_div(rows).unwrap_or(0);
        if of == table {
            with_ids!(ids, ids => for (row, line) in ids.chunks_exact(per_row.max(1)).enumerate() {
                let source = &dout[row * width + column..][..per_row * dim];
                for (id, source) in line.iter().zip(source.chunks_exact(dim)) {
                    if id.long() != padding {
                        names.push(id.long());
                        values[next..next + dim].copy_from_slice(source);
                        next += dim;
                    }
                }
            });
        }
        column += per_row * dim;
    }
    Ok(())
}
