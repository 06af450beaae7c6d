//! Tables of a GPUBox trainer whose records are more than weights and accumulators: those that admit
//! keys by an entry, and those of Paddle's accessors.
//!
//! A plain table with an entry has a variable of marks and counters beside its weights: `admit_rows`
//! says which rows are read and which are trained, `count_rows` counts. A table with an accessor has a
//! variable of whole records, and its weights are what pulls of them give: `update_records` takes the
//! place of the optimizer.

use std::collections::BTreeMap;

use bireme_ir::{Attr, DType, Op, OpRole, Var, VarKind};

use super::Build;
use crate::analysis::Update;
use crate::sparse::{Table, counters, padding, string};

/// What the records of a table are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Weights and accumulators.
    Plain,
    /// The same, with the marks and counters of an entry.
    Entry(String),
    /// Those of an accessor, given by its settings, and an entry.
    Accessor(String, String),
}

impl Kind {
    /// What the lookups of a table say.
    pub(super) fn of(lookups: &[&Op]) -> Result<Kind, String> {
        let entry = entry_of(lookups[0]);
        for op in lookups {
            // Lookups may count by different variables.
            if entry_of(op) != entry && (counters(op).is_none() || counters(lookups[0]).is_none()) {
                return Err(format!(
                    "it is looked up with entry `{entry}` and with `{}`: give all its lookups one",
                    entry_of(op)
                ));
            }
            if padding(op) != padding(lookups[0]) {
                return Err(format!(
                    "it is looked up with `padding_idx` {} and with {}: give all its lookups one",
                    padding(lookups[0]),
                    padding(op)
                ));
            }
        }
        Ok(match (string(lookups[0], "entry_config"), entry) {
            (accessor, entry) if !accessor.is_empty() => Kind::Accessor(accessor, entry),
            (_, entry) if !entry.is_empty() => Kind::Entry(entry),
            _ => Kind::Plain,
        })
    }

    /// What a push counts.
    fn counting(&self) -> Counting {
        match self {
            Kind::Entry(entry) if counts(entry) => Counting::Always,
            Kind::Accessor(..) => Counting::Given,
            Kind::Plain | Kind::Entry(_) => Counting::Nothing,
        }
    }
}

/// Which rows of a push have shows and clicks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    Nothing,
    /// Those whose lookups name variables that count.
    Given,
    /// All; a row without such a lookup counts one show.
    Always,
}

/// The ops that count the rows of a push, the last of which writes `out`.
pub(super) struct Counted {
    pub(super) ops: Vec<Op>,
    pub(super) vars: Vec<Var>,
    pub(super) out: String,
}

fn entry_of(lookup: &Op) -> String {
    Some(string(lookup, "entry")).filter(|entry| entry != "none").unwrap_or_default()
}

/// The row numbers of ids: all, and those that are read and trained.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) all: String,
    pub(super) read: String,
    pub(super) trained: String,
}

impl Rows {
    /// What of the rows in variable `all` is read and trained.
    pub(super) fn of(all: String, kind: &Kind) -> Rows {
        let (read, trained) = match kind {
            Kind::Plain | Kind::Accessor(..) => (all.clone(), all.clone()),
            Kind::Entry(entry) if counts(entry) => {
                (format!("{all}@READ"), format!("{all}@TRAINED"))
            }
            Kind::Entry(_) => (format!("{all}@READ"), format!("{all}@READ")),
        };
        Rows { all, read, trained }
    }

    /// The names, each once.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names = vec![self.all.as_str(), &self.read, &self.trained];
        names.dedup();
        names
    }
}

/// Whether an entry counts pushes; one by chance does not.
fn counts(entry: &str) -> bool {
    !entry.starts_with("probability_entry")
}

/// The op that says which rows are read and trained, if some are not.
pub(super) fn admit(table: &Table, kind: &Kind, rows: &[&Rows]) -> Option<Op> {
    let Kind::Entry(entry) = kind else { return None };
    let op = Op::new("admit_rows")
        .input("Rows", rows.iter().map(|rows| &rows.all))
        .input("Entry", [entries(&table.name)])
        .output("Out", rows.iter().map(|rows| &rows.read));
    let op = match counts(entry) {
        true => op.output("Trained", rows.iter().map(|rows| &rows.trained)),
        false => op,
    };
    Some(op.attr("entry", entry.clone()).role(OpRole::FORWARD))
}

/// The variable with the marks and counters of a table.
fn entries(table: &str) -> String {
    format!("{table}@ENTRY")
}

fn variable(name: String, width: i64) -> Var {
    let mut var = Var::tensor(name, DType::F32, [-1, width]);
    (var.persistable, var.stop_gradient) = (true, true);
    var
}

impl Build<'_> {
    /// Puts in what counts the pushes of a plain table with an entry; describes its counters.
    pub(super) fn entry(
        &mut self,
        table: &Table,
        entry: &str,
        counts: Option<String>,
        at: Option<usize>,
        described: Op,
    ) -> Op {
        let name = entries(&table.name);
        let columns = match entry.split(':').next() {
            Some("count_filter_entry") => 2,
            Some("show_click_entry") => 3,
            _ => 1,
        };
        self.vars.push(variable(name.clone(), columns));
        if let (Some(at), Some(counts)) = (at, counts) {
            let op = Op::new("count_rows")
                .input("Entry", [name.as_str()])
                .input("Counts", [counts])
                .output("EntryOut", [name.as_str()])
                .attr("entry", entry)
                .role(OpRole::OPTIMIZE);
            self.edit.after(at, op);
        }
        described.input("Entry", [name])
    }

    /// Puts a push to whole records in the place of the optimizer's op at `at`; describes them.
    pub(super) fn accessor(
        &mut self,
        table: &Table,
        (accessor, entry): (&str, &str),
        update: &Update,
        (counts, at): (Option<String>, usize),
        described: Op,
    ) -> Op {
        let records = format!("{}@RECORD", table.name);
        self.vars.push(variable(records.clone(), -1));
        let rule = update.op();
        // The gradient of all ranks, where there are several.
        let grad = self.edit.op_mut(at).inputs_of("Grad").to_vec();
        let mut op = Op::new("update_records")
            .input("Param", [table.name.as_str()])
            .input("Record", [records.as_str()])
            .input("Grad", grad)
            .input("Counts", counts)
            .output("ParamOut", [table.name.as_str()])
            .output("RecordOut", [records.as_str()])
            .attr("accessor", accessor)
            .attr("entry", entry)
            .attr("optimizer", rule.kind.clone())
            .role(OpRole::OPTIMIZE);
        for name in ["beta1", "beta2", "epsilon"] {
            if let (Some(number @ Attr::Float(_)), "adam") = (rule.attrs.get(name), &*rule.kind) {
                op.attrs.insert(name.to_owned(), number.clone());
            }
        }
        self.edit.remove(at);
        self.edit.after(at, op);
        // Accumulators that nobody keeps need no first values.
        let of_rows = |state: &&Var| state.shape == update.param.shape;
        self.rows.extend(update.states.iter().filter(of_rows).map(|state| state.name.clone()));
        described.input("Record", [records])
    }

    /// Puts in, after op `at`, what gives the shows and clicks of the rows that are pushed; their
    /// variable, unless nothing is counted.
    pub(super) fn count(
        &mut self,
        table: &Table,
        kind: &Kind,
        found: &BTreeMap<String, Rows>,
        at: usize,
    ) -> Option<String> {
        let rows = |ids: &String| found.get(ids).map(|rows| rows.all.clone());
        let Counted { ops, vars, out } = self.counted(table, kind, rows, &table.name)?;
        ops.into_iter().for_each(|op| self.edit.after(at, op.role(OpRole::OPTIMIZE)));
        self.vars.extend(vars);
        Some(out)
    }

    /// What gives the shows and clicks of the rows that this trainer's samples push: rows of a tensor
    /// as tall as variable `tall`, where `rows` says which variable has those of some ids.
    pub(super) fn counted(
        &self,
        table: &Table,
        kind: &Kind,
        rows: impl Fn(&String) -> Option<String>,
        tall: &str,
    ) -> Option<Counted> {
        let always = match kind.counting() {
            Counting::Nothing => return None,
            counting => counting == Counting::Always,
        };
        let ops = &self.plan.program.global().ops;
        let mut by_counters: BTreeMap<Option<[String; 2]>, Vec<String>> = BTreeMap::new();
        for grad in &table.grads {
            let rows = ops[*grad].inputs_of("Ids").iter().filter_map(&rows);
            by_counters.entry(counters(&ops[*grad])).or_default().extend(rows);
        }
        // Beside others that count, a lookup without counters counts nothing.
        let are_given = self.counts_are_given(table);
        if by_counters.is_empty() || !are_given && !always {
            return None;
        }
        if are_given {
            by_counters.remove(&None);
        }
        let padding = if padding(&ops[table.lookups[0]]) == -1 { -1i64 } else { 0 };
        let (mut made, mut parts) = (Vec::new(), Vec::new());
        for (counters, rows) in by_counters {
            let out = format!("{}@COUNTS@{}", table.name, parts.len());
            made.push(counts_of_rows(&rows, tall, counters, &out).attr("padding_idx", padding));
            parts.push(out);
        }
        let out = match parts.as_slice() {
            [one] => one.clone(),
            _ => {
                let whole = format!("{}@COUNTS", table.name);
                made.push(Op::new("sum").input("X", &parts).output("Out", [whole.as_str()]));
                parts.push(whole.clone());
                whole
            }
        };
        Some(Counted { ops: made, vars: parts.into_iter().map(counts_var).collect(), out })
    }

    /// Whether variables say what the samples of a table count.
    pub(super) fn counts_are_given(&self, table: &Table) -> bool {
        let ops = &self.plan.program.global().ops;
        table.grads.iter().any(|grad| counters(&ops[*grad]).is_some())
    }
}

/// The op that gives the counts of rows of variable `tall`, but for its padding.
pub(super) fn counts_of_rows(
    rows: &[String],
    tall: &str,
    counters: Option<[String; 2]>,
    out: &str,
) -> Op {
    let op = Op::new("counts_of_rows").input("Rows", rows).input("W", [tall]).output("Out", [out]);
    match counters {
        Some([show, click]) => op.input("Shows", [show]).input("Clicks", [click]),
        None => op,
    }
}

/// A variable with counts of rows.
pub(super) fn counts_var(name: String) -> Var {
    let mut var = Var::tensor(name, DType::F32, [-1, 2]);
    (var.kind, var.stop_gradient) = (VarKind::SelectedRows, true);
    var
}
