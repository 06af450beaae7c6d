//! Lookups (each with its reshape) and the `concat` behind them, as one `fused_embedding_concat`.

use std::collections::HashSet;

use bireme_ir::{DType, Op, Program};

use super::pattern::{Edits, Uses, input, output};
use crate::op::OpView;

/// The ops with every lookup-and-concat in one piece.
pub(super) fn fuse(ops: Vec<Op>, program: &Program, kept: &HashSet<&str>) -> Vec<Op> {
    let uses = Uses::new(&ops, program, kept);
    let mut edits = Edits::default();
    for at in 0..ops.len() {
        if let Some(join) = Join::find(&ops, &uses, program, at) {
            join.replace(&ops, &uses, &mut edits);
        }
    }
    edits.apply(ops)
}

/// A `concat` and what it joins.
struct Join {
    concat: usize,
    parts: Vec<Part>,
    /// The gradient of the `concat`, in a training step.
    concat_grad: Option<usize>,
}

/// One input of the `concat`.
enum Part {
    Lookup(Lookup),
    Dense(String),
}

struct Lookup {
    lookup: usize,
    reshape: Option<usize>,
    table: String,
    ids: String,
    padding: i64,
    /// Gradients of the lookup and the reshape.
    backward: Option<(usize, Option<usize>)>,
}

impl Join {
    fn find(ops: &[Op], uses: &Uses<'_>, program: &Program, at: usize) -> Option<Join> {
        let concat = &ops[at];
        if concat.kind != "concat" || !concat.inputs_of("AxisTensor").is_empty() {
            return None;
        }
        let out = output(concat, "Out")?;
        let axis = OpView::new(concat).ok()?.i64("axis").ok()?;
        if uses.shape(out).len() != 2 || !matches!(axis, 1 | -1) {
            return None;
        }
        let concat_grad = grad_of(ops, uses, concat);
        let part = |var: &String| {
            let lookup = Lookup::find(ops, uses, program, at, concat_grad, var);
            lookup.map_or_else(|| Part::Dense(var.clone()), Part::Lookup)
        };
        let parts: Vec<Part> = concat.inputs_of("X").iter().map(part).collect();
        let dense_fits = parts.iter().all(|part| match part {
            Part::Lookup(_) => true,
            Part::Dense(var) => {
                let shape = uses.shape(var);
                let float = program.global().var(var).is_some_and(|var| var.dtype == DType::F32);
                float && shape.len() == 2 && shape[1] > 0
            }
        });
        let any = parts.iter().any(|part| matches!(part, Part::Lookup(_)));
        let join = Join { concat: at, parts, concat_grad };
        let gradients_fit =
            join.whole_tables(ops, uses) && join.dense_gradients(ops, uses).is_some();
        (any && dense_fits && gradients_fit).then_some(join)
    }

    fn lookups(&self) -> impl Iterator<Item = &Lookup> {
        self.parts.iter().filter_map(|part| match part {
            Part::Lookup(lookup) => Some(lookup),
            Part::Dense(_) => None,
        })
    }

    /// Tables in the order of their first lookup.
    fn tables(&self) -> Vec<&str> {
        let mut tables: Vec<&str> = Vec::new();
        for lookup in self.lookups() {
            if !tables.contains(&lookup.table.as_str()) {
                tables.push(&lookup.table);
            }
        }
        tables
    }

    /// In training, the gradient of each table must come from these lookups alone: their pieces
    /// are then exactly what one `sum` adds up, or there is a single lookup.
    fn whole_tables(&self, ops: &[Op], uses: &Uses<'_>) -> bool {
        if self.concat_grad.is_none() {
            return self.lookups().all(|lookup| lookup.backward.is_none());
        }
        self.tables().iter().all(|table| self.table_gradient(ops, uses, table).is_some())
    }

    /// The gradient variable of `table` and the `sum` that makes it, if there is one.
    fn table_gradient(
        &self,
        ops: &[Op],
        uses: &Uses<'_>,
        table: &str,
    ) -> Option<(String, Option<usize>)> {
        let mut pieces = Vec::new();
        for lookup in self.lookups().filter(|lookup| lookup.table == table) {
            pieces.push(output(&ops[lookup.backward?.0], "W@GRAD")?.to_owned());
        }
        if let [only] = pieces.as_slice() {
            return Some((only.clone(), None));
        }
        let sum = uses.reader_of(&pieces[0], "sum")?;
        let mut summed = ops[sum].inputs_of("X").to_vec();
        summed.sort();
        pieces.sort();
        let inner = pieces.iter().all(|piece| uses.inner(piece, &[sum]));
        if summed != pieces || !inner {
            return None;
        }
        Some((output(&ops[sum], "Out")?.to_owned(), Some(sum)))
    }

    fn replace(&self, ops: &[Op], uses: &Uses<'_>, edits: &mut Edits) {
        let mut forward = vec![self.concat];
        forward.extend(self.lookups().flat_map(|l| [Some(l.lookup), l.reshape]).flatten());
        if forward.iter().any(|at| edits.taken(*at)) {
            return;
        }
        let concat = &ops[self.concat];
        let fused =
            self.op("fused_embedding_concat").output("Out", concat.outputs_of("Out").to_vec());
        edits.replace(&forward, self.concat, located(fused, concat));
        let Some(concat_grad) = self.concat_grad else { return };
        let mut backward = vec![concat_grad];
        backward.extend(
            self.lookups().filter_map(|l| l.backward).flat_map(|(a, b)| [Some(a), b]).flatten(),
        );
        let mut tables = Vec::new();
        for table in self.tables() {
            let found = self.table_gradient(ops, uses, table);
            let (gradient, sum) = found.expect("`find` checked every table");
            tables.push(gradient);
            backward.extend(sum);
        }
        let mut grad = self
            .op("fused_embedding_concat_grad")
            .input("Out@GRAD", ops[concat_grad].inputs_of("Out@GRAD").to_vec())
            .output("W@GRAD", tables);
        let dense = self.dense_gradients(ops, uses).expect("`find` checked the dense parts");
        if !dense.is_empty() {
            grad = grad.output("Dense@GRAD", dense);
        }
        // All it reads is there when the gradient of the whole is.
        edits.replace(&backward, concat_grad, located(grad, concat));
    }

    /// Gradients of the dense parts: of all of them if anybody reads one, else of none. `None`
    /// when some are read and others have no variable to go to.
    fn dense_gradients(&self, ops: &[Op], uses: &Uses<'_>) -> Option<Vec<String>> {
        let Some(concat_grad) = self.concat_grad else { return Some(Vec::new()) };
        let parts = self.parts.iter().zip(ops[concat_grad].outputs_of("X@GRAD"));
        let gradients: Vec<String> = parts
            .filter(|(part, _)| matches!(part, Part::Dense(_)))
            .map(|(_, gradient)| gradient.clone())
            .collect();
        if gradients
            .iter()
            .all(|gradient| uses.inner(gradient, &[]) || gradient == bireme_ir::EMPTY_VAR)
        {
            return Some(Vec::new());
        }
        (!gradients.iter().any(|gradient| gradient == bireme_ir::EMPTY_VAR)).then_some(gradients)
    }

    /// The fused op without its outputs.
    fn op(&self, kind: &str) -> Op {
        let tables = self.tables();
        let (mut ids, mut dense, mut order) = (Vec::new(), Vec::new(), Vec::new());
        let (mut table_of, mut padding) = (Vec::new(), Vec::new());
        for part in &self.parts {
            match part {
                Part::Lookup(lookup) => {
                    order.push(ids.len() as i32);
                    ids.push(lookup.ids.clone());
                    let table = tables.iter().position(|table| *table == lookup.table);
                    table_of.push(table.expect("every lookup's table is listed") as i32);
                    padding.push(lookup.padding);
                }
                Part::Dense(var) => {
                    order.push(-1 - dense.len() as i32);
                    dense.push(var.clone());
                }
            }
        }
        let op = Op::new(kind).input("W", tables).input("Ids", ids).input("Dense", dense);
        op.attr("order", order).attr("table", table_of).attr("padding_idx", padding)
    }
}

impl Lookup {
    fn find(
        ops: &[Op],
        uses: &Uses<'_>,
        program: &Program,
        concat: usize,
        concat_grad: Option<usize>,
        var: &str,
    ) -> Option<Lookup> {
        let writer = uses.writer(var)?;
        let reshape = (ops[writer].kind == "reshape2").then_some(writer);
        let rows = match reshape {
            Some(reshape) => input(&ops[reshape], "X")?,
            None => var,
        };
        let lookup = uses.writer(rows)?;
        let op = &ops[lookup];
        if !matches!(op.kind.as_str(), "lookup_table_v2" | "lookup_table") {
            return None;
        }
        let (table, ids) = (input(op, "W")?, input(op, "Ids")?);
        if uses.written_between(table, lookup, concat) || uses.written_between(ids, lookup, concat)
        {
            return None;
        }
        let row = uses.shape(rows).get(1..)?;
        let whole_row = if row.contains(&-1) { -1 } else { row.iter().product::<i64>() };
        let plain = whole_row > 0 && uses.shape(var).len() == 2 && uses.shape(var)[1] == whole_row;
        let float = program.global().var(table)?.dtype == DType::F32;
        let ids64 = program.global().var(ids)?.dtype == DType::I64 && !uses.shape(ids).is_empty();
        if !plain || !float || !ids64 || program.global().var(ids)?.lod_level > 0 {
            return None;
        }
        let view = OpView::new(op).ok()?;
        let backward = match concat_grad {
            None => None,
            Some(grad) => Some(Lookup::backward(ops, uses, lookup, reshape, grad, var)?),
        };
        let padding = view.i64("padding_idx").ok()?;
        let mut readers: Vec<usize> = vec![concat];
        readers.extend(concat_grad);
        let reshape_ok = reshape.is_none_or(|reshape| {
            let grad = backward.and_then(|(_, reshape_grad)| reshape_grad);
            let inner: Vec<usize> = [Some(reshape), grad].into_iter().flatten().collect();
            uses.inner(rows, &inner)
                && ops[reshape].outputs_of("XShape").iter().all(|x| uses.inner(x, &inner))
        });
        (uses.inner(var, &readers) && reshape_ok).then(|| Lookup {
            lookup,
            reshape,
            table: table.to_owned(),
            ids: ids.to_owned(),
            padding,
            backward,
        })
    }

    /// The gradient ops that lead from `concat_grad` to the table, if they are the plain ones.
    fn backward(
        ops: &[Op],
        uses: &Uses<'_>,
        lookup: usize,
        reshape: Option<usize>,
        concat_grad: usize,
        var: &str,
    ) -> Option<(usize, Option<usize>)> {
        let at = ops[concat_grad].inputs_of("X").iter().position(|x| x == var)?;
        let mut gradient = ops[concat_grad].outputs_of("X@GRAD").get(at)?.as_str();
        let mut reshape_grad = None;
        if reshape.is_some() {
            let grad = uses.reader_of_kind(gradient, "reshape2_grad", "Out@GRAD")?;
            if !uses.inner(gradient, &[grad]) {
                return None;
            }
            gradient = output(&ops[grad], "X@GRAD")?;
            reshape_grad = Some(grad);
        }
        let kind = format!("{}_grad", ops[lookup].kind);
        let lookup_grad = uses.reader_of_kind(gradient, &kind, "Out@GRAD")?;
        let sparse = OpView::new(&ops[lookup_grad]).ok()?.bool("is_sparse").ok()?;
        (sparse && uses.inner(gradient, &[lookup_grad])).then_some((lookup_grad, reshape_grad))
    }
}

/// The `concat_grad` whose forward inputs are those of `concat`.
fn grad_of(ops: &[Op], uses: &Uses<'_>, concat: &Op) -> Option<usize> {
    let first = concat.inputs_of("X").first()?;
    let same = |at: &usize| {
        ops[*at].kind == "concat_grad" && ops[*at].inputs_of("X") == concat.inputs_of("X")
    };
    uses.readers(first).iter().copied().find(same)
}

fn located(mut op: Op, from: &Op) -> Op {
    op.site.clone_from(&from.site);
    op
}
