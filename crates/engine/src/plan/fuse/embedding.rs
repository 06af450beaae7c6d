//! Lookups (each with its reshape) and the `concat` behind them, as one `fused_embedding_concat`.

use bireme_ir::{DType, Op};

use super::pattern::{Edits, Uses};
use crate::op::is_half;
use crate::plan::select::{SelectedOp, VarId};

/// Takes every lookup-and-concat as one piece.
pub(super) fn fuse(uses: &Uses<'_>, edits: &mut Edits) {
    for at in 0..uses.ops.len() {
        if let Some(join) = Join::find(uses, at) {
            join.replace(uses, edits);
        }
    }
}

/// A `concat` and what it joins.
struct Join {
    concat: usize,
    parts: Vec<Part>,
    /// The gradient of the `concat`, in a training step.
    concat_grad: Option<usize>,
    /// The cast of the whole row to 16 bits, and that of its gradient back.
    cast: Option<(usize, Option<usize>)>,
}

/// One input of the `concat`.
enum Part {
    Lookup(Lookup),
    Dense(VarId),
}

struct Lookup {
    lookup: usize,
    reshape: Option<usize>,
    table: VarId,
    ids: VarId,
    padding: i64,
    /// Gradients of the lookup and the reshape.
    backward: Option<(usize, Option<usize>)>,
}

impl Join {
    fn find(uses: &Uses<'_>, at: usize) -> Option<Join> {
        let concat = &uses.ops[at];
        if concat.op.kind != "concat" || !concat.inputs_of("AxisTensor").is_empty() {
            return None;
        }
        let out = concat.output("Out")?;
        let axis = concat.view().i64("axis").ok()?;
        if uses.var(out).shape().len() != 2 || !matches!(axis, 1 | -1) {
            return None;
        }
        let concat_grad = grad_of(uses, concat);
        let part = |var: &VarId| {
            let lookup = Lookup::find(uses, at, concat_grad, *var);
            lookup.map_or(Part::Dense(*var), Part::Lookup)
        };
        let parts: Vec<Part> = concat.inputs_of("X").iter().map(part).collect();
        let dense_fits = parts.iter().all(|part| match part {
            Part::Lookup(_) => true,
            Part::Dense(var) => uses.var(*var).declared.as_ref().is_some_and(|var| {
                var.dtype == DType::F32 && var.shape.len() == 2 && var.shape[1] > 0
            }),
        });
        let any = parts.iter().any(|part| matches!(part, Part::Lookup(_)));
        let cast = narrowing(uses, out, concat_grad);
        let join = Join { concat: at, parts, concat_grad, cast };
        let gradients_fit = join.whole_tables(uses) && join.dense_gradients(uses).is_some();
        (any && dense_fits && gradients_fit).then_some(join)
    }

    fn lookups(&self) -> impl Iterator<Item = &Lookup> {
        self.parts.iter().filter_map(|part| match part {
            Part::Lookup(lookup) => Some(lookup),
            Part::Dense(_) => None,
        })
    }

    /// Tables in the order of their first lookup.
    fn tables(&self) -> Vec<VarId> {
        let mut tables = Vec::new();
        for lookup in self.lookups() {
            if !tables.contains(&lookup.table) {
                tables.push(lookup.table);
            }
        }
        tables
    }

    /// In training, the gradient of each table must come from these lookups alone: their pieces
    /// are then exactly what one `sum` adds up, or there is a single lookup.
    fn whole_tables(&self, uses: &Uses<'_>) -> bool {
        if self.concat_grad.is_none() {
            return self.lookups().all(|lookup| lookup.backward.is_none());
        }
        self.tables().iter().all(|table| self.table_gradient(uses, *table).is_some())
    }

    /// The gradient of `table` and the `sum` that makes it, if there is one.
    fn table_gradient(&self, uses: &Uses<'_>, table: VarId) -> Option<(VarId, Option<usize>)> {
        let mut pieces = Vec::new();
        for lookup in self.lookups().filter(|lookup| lookup.table == table) {
            pieces.push(uses.ops[lookup.backward?.0].output("W@GRAD")?);
        }
        if let [only] = pieces.as_slice() {
            return Some((*only, None));
        }
        let sum = uses.reader_of(pieces[0], "sum")?;
        let mut summed = uses.ops[sum].inputs_of("X").to_vec();
        summed.sort_unstable();
        pieces.sort_unstable();
        let inner = pieces.iter().all(|piece| uses.inner(*piece, &[sum]));
        if summed != pieces || !inner {
            return None;
        }
        Some((uses.ops[sum].output("Out")?, Some(sum)))
    }

    fn replace(&self, uses: &Uses<'_>, edits: &mut Edits) {
        let mut forward = vec![self.concat];
        forward.extend(self.lookups().flat_map(|l| [Some(l.lookup), l.reshape]).flatten());
        if forward.iter().any(|at| edits.taken(*at)) {
            return;
        }
        forward.extend(self.cast.map(|(cast, _)| cast));
        let last = self.cast.map_or(self.concat, |(cast, _)| cast);
        let written = [("Out", uses.ops[last].outputs_of("Out"))];
        let fused = self.op("fused_embedding_concat", uses, None, &written);
        edits.replace(&forward, self.concat, fused);
        let Some(concat_grad) = self.concat_grad else { return };
        let mut backward = vec![concat_grad];
        let cast_grad = self.cast.and_then(|(_, grad)| grad);
        backward.extend(cast_grad);
        backward.extend(
            self.lookups().filter_map(|l| l.backward).flat_map(|(a, b)| [Some(a), b]).flatten(),
        );
        let mut tables = Vec::new();
        for table in self.tables() {
            let found = self.table_gradient(uses, table);
            let (gradient, sum) = found.expect("`find` checked every table");
            tables.push(gradient);
            backward.extend(sum);
        }
        let dense = self.dense_gradients(uses).expect("`find` checked the dense parts");
        let dout = match cast_grad {
            Some(cast_grad) => uses.ops[cast_grad].inputs_of("X"),
            None => uses.ops[concat_grad].inputs_of("Out@GRAD"),
        };
        let written = [("W@GRAD", &tables[..]), ("Dense@GRAD", &dense[..])];
        let grad = self.op("fused_embedding_concat_grad", uses, Some(dout), &written);
        // All it reads is there when the gradient of the whole is.
        edits.replace(&backward, concat_grad, grad);
    }

    /// Gradients of the dense parts: of all of them if anybody reads one, else of none. `None`
    /// when some are read and others have no variable to go to.
    fn dense_gradients(&self, uses: &Uses<'_>) -> Option<Vec<VarId>> {
        let Some(concat_grad) = self.concat_grad else { return Some(Vec::new()) };
        let parts = self.parts.iter().zip(uses.ops[concat_grad].outputs_of("X@GRAD"));
        let gradients: Vec<VarId> = parts
            .filter(|(part, _)| matches!(part, Part::Dense(_)))
            .map(|(_, gradient)| *gradient)
            .collect();
        let is_nothing = |gradient: &VarId| uses.var(*gradient).is_nothing();
        if gradients.iter().all(|gradient| uses.inner(*gradient, &[]) || is_nothing(gradient)) {
            return Some(Vec::new());
        }
        (!gradients.iter().any(is_nothing)).then_some(gradients)
    }

    /// The fused op, or its gradient for that of the whole.
    fn op(
        &self,
        kind: &str,
        uses: &Uses<'_>,
        dout: Option<&[VarId]>,
        written: &[(&str, &[VarId])],
    ) -> SelectedOp {
        let tables = self.tables();
        let (mut ids, mut dense, mut order) = (Vec::new(), Vec::new(), Vec::new());
        let (mut table_of, mut padding) = (Vec::new(), Vec::new());
        for part in &self.parts {
            match part {
                Part::Lookup(lookup) => {
                    order.push(ids.len() as i32);
                    ids.push(lookup.ids);
                    let table = tables.iter().position(|table| *table == lookup.table);
                    table_of.push(table.expect("every lookup's table is listed") as i32);
                    padding.push(lookup.padding);
                }
                Part::Dense(var) => {
                    order.push(-1 - dense.len() as i32);
                    dense.push(*var);
                }
            }
        }
        let op = Op::new(kind).attr("order", order).attr("table", table_of);
        let op = op.attr("padding_idx", padding);
        let dtype = self.cast.and_then(|(cast, _)| uses.ops[cast].view().dtype("out_dtype").ok());
        let op = op.attr("out_dtype", dtype.map_or(-1, |dtype| dtype.code()));
        let mut read = vec![("W", &tables[..]), ("Ids", &ids), ("Dense", &dense)];
        read.extend(dout.map(|dout| ("Out@GRAD", dout)));
        uses.selection.op(op, &uses.ops[self.concat], &read, written)
    }
}

/// The cast of a whole row to 16 bits, and that of its gradient back, if nothing else is done with the row.
fn narrowing(
    uses: &Uses<'_>,
    out: VarId,
    concat_grad: Option<usize>,
) -> Option<(usize, Option<usize>)> {
    let cast = uses.reader_of_kind(out, "cast", "X")?;
    let is_narrow = is_half(uses.ops[cast].view().dtype("out_dtype").ok()?);
    if !is_narrow || !uses.inner(out, &[cast]) {
        return None;
    }
    let Some(concat_grad) = concat_grad else { return Some((cast, None)) };
    let dout = uses.ops[concat_grad].input("Out@GRAD")?;
    let cast_grad = uses.writer(dout)?;
    let op = &uses.ops[cast_grad];
    let is_back = op.op.kind == "cast";
    let is_same = op.view().dtype("in_dtype").ok() == uses.ops[cast].view().dtype("out_dtype").ok();
    (is_back && is_same && uses.inner(dout, &[concat_grad])).then_some((cast, Some(cast_grad)))
}

impl Lookup {
    fn find(
        uses: &Uses<'_>,
        concat: usize,
        concat_grad: Option<usize>,
        var: VarId,
    ) -> Option<Lookup> {
        let ops = uses.ops;
        let writer = uses.writer(var)?;
        let reshape = (ops[writer].op.kind == "reshape2").then_some(writer);
        let rows = match reshape {
            Some(reshape) => ops[reshape].input("X")?,
            None => var,
        };
        let lookup = uses.writer(rows)?;
        let op = &ops[lookup];
        if !matches!(op.op.kind.as_str(), "lookup_table_v2" | "lookup_table") {
            return None;
        }
        let (table, ids) = (op.input("W")?, op.input("Ids")?);
        if uses.written_between(table, lookup, concat) || uses.written_between(ids, lookup, concat)
        {
            return None;
        }
        let row = uses.var(rows).shape().get(1..)?;
        let whole_row = if row.contains(&-1) { -1 } else { row.iter().product::<i64>() };
        let shape = uses.var(var).shape();
        let plain = whole_row > 0 && shape.len() == 2 && shape[1] == whole_row;
        let float = uses.var(table).declared.as_ref()?.dtype == DType::F32;
        let declared = uses.var(ids).declared.as_ref()?;
        let is_ids =
            matches!(declared.dtype, DType::I64 | DType::I32) && !declared.shape.is_empty();
        if !plain || !float || !is_ids || declared.lod_level > 0 {
            return None;
        }
        let backward = match concat_grad {
            None => None,
            Some(grad) => Some(Lookup::backward(uses, lookup, reshape, grad, var)?),
        };
        let padding = op.view().i64("padding_idx").ok()?;
        let mut readers: Vec<usize> = vec![concat];
        readers.extend(concat_grad);
        let reshape_ok = reshape.is_none_or(|reshape| {
            let grad = backward.and_then(|(_, reshape_grad)| reshape_grad);
            let inner: Vec<usize> = [Some(reshape), grad].into_iter().flatten().collect();
            uses.inner(rows, &inner)
                && ops[reshape].outputs_of("XShape").iter().all(|x| uses.inner(*x, &inner))
        });
        (uses.inner(var, &readers) && reshape_ok).then_some(Lookup {
            lookup,
            reshape,
            table,
            ids,
            padding,
            backward,
        })
    }

    /// The gradient ops that lead from `concat_grad` to the table, if they are the plain ones.
    fn backward(
        uses: &Uses<'_>,
        lookup: usize,
        reshape: Option<usize>,
        concat_grad: usize,
        var: VarId,
    ) -> Option<(usize, Option<usize>)> {
        let ops = uses.ops;
        let at = ops[concat_grad].inputs_of("X").iter().position(|x| *x == var)?;
        let mut gradient = *ops[concat_grad].outputs_of("X@GRAD").get(at)?;
        let mut reshape_grad = None;
        if reshape.is_some() {
            let grad = uses.reader_of_kind(gradient, "reshape2_grad", "Out@GRAD")?;
            if !uses.inner(gradient, &[grad]) {
                return None;
            }
            gradient = ops[grad].output("X@GRAD")?;
            reshape_grad = Some(grad);
        }
        let kind = format!("{}_grad", ops[lookup].op.kind);
        let lookup_grad = uses.reader_of_kind(gradient, &kind, "Out@GRAD")?;
        let sparse = ops[lookup_grad].view().bool("is_sparse").ok()?;
        // Rows that a table does not admit are read as others than they are trained.
        let same_ids = ops[lookup_grad].input("Ids") == ops[lookup].input("Ids");
        (sparse && same_ids && uses.inner(gradient, &[lookup_grad]))
            .then_some((lookup_grad, reshape_grad))
    }
}

/// The `concat_grad` whose forward inputs are those of `concat`.
fn grad_of(uses: &Uses<'_>, concat: &SelectedOp) -> Option<usize> {
    let first = concat.inputs_of("X").first()?;
    let same = |at: &usize| {
        let op = &uses.ops[*at];
        op.op.kind == "concat_grad" && op.inputs_of("X") == concat.inputs_of("X")
    };
    uses.readers(*first).iter().copied().find(same)
}
