//! The program of a GPUBox trainer: the plain program, with the rows of a pass in ordinary variables.
//!
//! A lookup by key becomes `find_rows`, which knows the row that a key has in this pass, and a lookup
//! by row; the update ops stay with the trainer, but for tables with an accessor (`records`). `pass_table`
//! and `pass_dense` describe to `fleet/src/gpubox` what it has to bring from the servers, and what goes
//! back. What several trainers, each with a part of the rows, exchange in a step is in `ranks`.

mod ranks;
mod records;

use std::collections::{BTreeMap, BTreeSet};

use bireme_ir::{Attr, DType, Op, OpRole, Program, Var};

use crate::analysis::Update;
use crate::edit::Edit;
use crate::plan::Plan;
use crate::sparse::{Table, is_keyed, is_lookup, padding};
use crate::{Error, Result, server};
use ranks::Exchanged;
use records::{Kind, Rows};

/// Ops through which ids go as they are: keys stay keys.
pub(crate) const PASSED_THROUGH: [&str; 14] = [
    "reshape",
    "reshape2",
    "squeeze",
    "squeeze2",
    "unsqueeze",
    "unsqueeze2",
    "flatten",
    "flatten2",
    "flatten_contiguous_range",
    "transpose2",
    "concat",
    "split",
    "slice",
    "assign",
];

/// `program` with every sparse embedding as a table of keys.
pub(crate) fn with_keyed_tables(program: &Program) -> Program {
    let mut program = program.clone();
    for op in &mut program.global_mut().ops {
        let is_sparse = matches!(op.attrs.get("is_sparse"), Some(Attr::Bool(true)));
        if is_lookup(op) && (is_sparse || is_keyed(op)) {
            op.attrs.insert("is_distributed".to_owned(), Attr::Bool(true));
        }
    }
    program
}

/// Writes the trainer's program and its startup program.
///
/// # Errors
/// When a table has no rows that a trainer could hold, or is trained in a way that it does not know.
pub(crate) fn build(plan: &Plan) -> Result<(Program, Program)> {
    // What a table's rule cannot follow is refused there.
    server::build(plan, 0)?;
    let mut build = Build {
        plan,
        edit: Edit::new(&plan.program.global().ops),
        vars: Vec::new(),
        descriptions: Vec::new(),
        rows: BTreeSet::new(),
    };
    if build.ranks() > 1 {
        build.make_ids_first()?;
    }
    for (table, update) in plan.keyed() {
        build.table(table, update)?;
    }
    if build.descriptions.is_empty() {
        return Err(Error::Program(
            "GPUBox trains tables of rows, and the program has none: look ids up by \
             `static.nn.sparse_embedding`, or by an embedding with `sparse=True`"
                .to_owned(),
        ));
    }
    if build.ranks() > 1 {
        build.average_dense()?;
    }
    build.dense();
    let Build { edit, vars, descriptions, rows, .. } = build;
    let mut program = plan.program.clone();
    let global = program.global_mut();
    global.ops = edit.finish();
    global.ops.extend(descriptions);
    for var in vars {
        global.add_var(var);
    }
    let mut startup = plan.startup.clone();
    let makes_rows = |op: &Op| op.output_vars().any(|out| rows.contains(out));
    startup.global_mut().ops.retain(|op| !makes_rows(op));
    Ok((program, startup))
}

struct Build<'a> {
    plan: &'a Plan,
    edit: Edit,
    vars: Vec<Var>,
    /// The ops that describe tables and parameters.
    descriptions: Vec<Op>,
    /// Variables with the rows of a pass, which no startup program makes.
    rows: BTreeSet<String>,
}

impl Build<'_> {
    fn table(&mut self, table: &Table, update: Option<&Update>) -> Result<()> {
        let plan = self.plan;
        let ops = &plan.program.global().ops;
        let problem =
            |problem: String| Error::Program(format!("table `{}`: {problem}", table.name));
        let lookups: Vec<&Op> = table.lookups.iter().map(|index| &ops[*index]).collect();
        let kind = Kind::of(&lookups).map_err(problem)?;
        let padded = padding(lookups[0]);
        let states = states_of(&kind, update).map_err(problem)?;
        let index = format!("{}@KEYS", table.name);
        let mut feeds = BTreeSet::new();
        let found = self.find(table, &kind, &index, padded);
        for at in &table.lookups {
            for ids in ops[*at].inputs_of("Ids") {
                feeds_of(ops, *at, ids, &mut feeds).map_err(problem)?;
            }
        }
        self.by_rows(table, &kind, &found, padded);
        let is_update = |op: &Op| op.outputs_of("ParamOut") == [table.name.as_str()];
        let at = ops.iter().position(is_update);
        let (room, counts) = match self.ranks() {
            1 => (None, at.and_then(|at| self.count(table, &kind, &found, at))),
            _ => {
                let Exchanged { room, counts } = self.exchange(table, &kind, &found, update)?;
                (Some(room), counts)
            }
        };
        let mut described = plan
            .remote(Op::new("pass_table"))
            .input("W", [table.name.as_str()])
            .input("States", &states)
            .input("Index", [index.as_str()])
            .input("Ids", feeds)
            .input("Room", room)
            .attr("endpoints", plan.endpoints.clone())
            .attr("shard_num", plan.config.shard_num)
            .attr("padding_idx", padded);
        if let (Kind::Accessor(accessor, entry), Some(update), Some(at)) = (&kind, update, at) {
            let counted = (counts.clone(), at);
            described = self.accessor(table, (accessor, entry), update, counted, described);
        } else if let Some(update) = update {
            described = self.update(update, described);
        }
        if let Kind::Entry(entry) = &kind {
            described = self.entry(table, entry, counts, at, described);
        }
        self.rows.insert(table.name.clone());
        self.rows.extend(states);
        let mut keys = Var::tensor(index, DType::I64, [16, 2]);
        (keys.persistable, keys.stop_gradient) = (true, true);
        self.vars.push(keys);
        self.descriptions.push(described);
        Ok(())
    }

    /// Has the lookups of a table, and their gradients, go by row.
    fn by_rows(&mut self, table: &Table, kind: &Kind, found: &BTreeMap<String, Rows>, padded: i64) {
        for at in table.lookups.iter().chain(&table.grads) {
            let op = self.edit.op_mut(*at);
            for ids in op.inputs.get_mut("Ids").into_iter().flatten() {
                if let Some(rows) = found.get(ids) {
                    let is_grad = table.grads.contains(at);
                    ids.clone_from(if is_grad { &rows.trained } else { &rows.read });
                }
            }
            // Row 0 reads as zeros: it is what padding has, and keys that are not admitted. Of several
            // trainers' rows, the first place is nobody's.
            let has_zeros =
                padded != -1 || self.plan.trainers > 1 || matches!(kind, Kind::Entry(_));
            let own = [
                ("is_sparse", Attr::Bool(true)),
                ("is_distributed", Attr::Bool(false)),
                ("padding_idx", Attr::Long(if has_zeros { 0 } else { -1 })),
            ];
            own.into_iter().for_each(|(name, value)| drop(op.attrs.insert(name.to_owned(), value)));
            let of_servers = ["remote_prefetch", "table_class", "entry", "entry_config"];
            of_servers.iter().for_each(|name| drop(op.attrs.remove(*name)));
        }
    }

    /// Keeps rows that a step does not name as they are, and says what counts the steps of a rule.
    fn update(&mut self, update: &Update, described: Op) -> Op {
        let ops = &self.plan.program.global().ops;
        let is_update = |op: &Op| op.outputs_of("ParamOut") == [update.param.name.as_str()];
        let at = ops.iter().position(is_update);
        let rule = update.op();
        if !matches!(rule.kind.as_str(), "adam" | "adamw") {
            return described;
        }
        if let Some(at) = at {
            self.edit.op_mut(at).attrs.insert("lazy_mode".to_owned(), Attr::Bool(true));
        }
        let beta = |name: &str, default: f32| match rule.attrs.get(name) {
            Some(Attr::Float(beta)) => *beta,
            _ => default,
        };
        let powers = ["Beta1Pow", "Beta2Pow"].map(|slot| rule.inputs_of(slot).to_vec());
        described
            .input("Powers", powers.concat())
            .attr("betas", vec![beta("beta1", 0.9), beta("beta2", 0.999)])
    }

    /// Puts in what turns the ids of a table into rows; returns which variable has them, by ids.
    fn find(
        &mut self,
        table: &Table,
        kind: &Kind,
        index: &str,
        padded: i64,
    ) -> BTreeMap<String, Rows> {
        let ops = &self.plan.program.global().ops;
        // Several ranks ask each other for all rows; whoever has one knows whether it is admitted.
        let kind = if self.ranks() > 1 { &Kind::Plain } else { kind };
        let mut found = BTreeMap::new();
        // As few ops as possible: one for all ids that are there when the first is looked up.
        let mut by_place: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for at in &table.lookups {
            for ids in ops[*at].inputs_of("Ids") {
                if found.contains_key(ids) {
                    continue;
                }
                let writer = ops.iter().rposition(|op| op.output_vars().any(|out| out == ids));
                let ready = writer.map_or(0, |writer| writer + 1);
                let is_ready = self.ranks() > 1 || ready <= table.lookups[0];
                let place = if is_ready { table.lookups[0] } else { *at };
                by_place.entry(place).or_default().push(ids.clone());
                let rows = format!("{ids}@ROWS@{}", table.name);
                found.insert(ids.clone(), Rows::of(rows, kind));
            }
        }
        for (place, ids) in by_place {
            let rows: Vec<&Rows> = ids.iter().map(|ids| &found[ids]).collect();
            let op = Op::new("find_rows")
                .input("Ids", &ids)
                .input("Index", [index])
                .output("Out", rows.iter().map(|rows| &rows.all))
                .attr("padding_idx", padded)
                .role(OpRole::FORWARD);
            self.edit.before(place, op);
            if let Some(op) = records::admit(table, kind, &rows) {
                self.edit.before(place, op);
            }
            for (ids, rows) in ids.iter().zip(rows) {
                let like = self.plan.program.global().var(ids);
                for name in rows.names() {
                    let mut var =
                        like.cloned().unwrap_or_else(|| Var::tensor(name, DType::I64, [-1]));
                    name.clone_into(&mut var.name);
                    (var.need_check_feed, var.stop_gradient) = (false, true);
                    self.vars.push(var);
                }
            }
        }
        found
    }

    /// Parameters that are no tables, with their state: the trainer's own, and the servers' to save.
    fn dense(&mut self) {
        let (mut names, mut servers) = (Vec::new(), Vec::new());
        for placed in &self.plan.placed {
            let update = &placed.update;
            for var in [&update.param].into_iter().chain(&update.states) {
                names.push(var.name.clone());
                servers.push(self.plan.endpoint(&placed.pieces[0]));
            }
        }
        let op = self
            .plan
            .remote(Op::new("pass_dense"))
            .input("X", names)
            .attr("epmap", servers)
            .attr("endpoints", self.plan.endpoints.clone())
            .attr("fingerprint", self.plan.fingerprint());
        self.descriptions.push(op);
    }
}

/// The accumulators of a table's rows.
fn states_of(kind: &Kind, update: Option<&Update>) -> std::result::Result<Vec<String>, String> {
    let slots = match (update, kind) {
        (Some(update), Kind::Plain | Kind::Entry(_)) => state_slots(update.op())?,
        (None, Kind::Accessor(..)) => {
            let why = "its accessor counts what is trained, and the program does not train it";
            return Err(why.to_owned());
        }
        _ => &[],
    };
    Ok(slots.iter().flat_map(|slot| update_inputs(update, slot)).collect())
}

/// The slots of an update's state, in the order in which a server's record has them.
fn state_slots(op: &Op) -> std::result::Result<&'static [&'static str], String> {
    Ok(match op.kind.as_str() {
        "sgd" => &[],
        "adagrad" => &["Moment"],
        "adam" | "adamw" => &["Moment1", "Moment2"],
        "ftrl" => &["SquaredAccumulator", "LinearAccumulator"],
        other => {
            return Err(format!(
                "`{other}` changes rows that a batch does not name, too, and a table's rule does not: \
                 train it in GPUBox with sgd, adagrad, adam, adamw or ftrl"
            ));
        }
    })
}

fn update_inputs(update: Option<&Update>, slot: &str) -> Vec<String> {
    update.map_or_else(Vec::new, |update| update.op().inputs_of(slot).to_vec())
}

/// Adds the feeds that variable `ids`, which op `before` reads, is made of.
fn feeds_of(
    ops: &[Op],
    before: usize,
    ids: &str,
    feeds: &mut BTreeSet<String>,
) -> std::result::Result<(), String> {
    let writer = ops[..before].iter().rposition(|op| op.output_vars().any(|out| out == ids));
    let Some(writer) = writer else {
        feeds.insert(ids.to_owned());
        return Ok(());
    };
    let op = &ops[writer];
    if !PASSED_THROUGH.contains(&op.kind.as_str()) {
        return Err(format!(
            "its keys come from op `{}`, and a pass must know them before it runs: feed them as they \
             are",
            op.kind
        ));
    }
    passed_through(op).try_for_each(|ids| feeds_of(ops, writer, ids, feeds))
}

/// What an op of [`PASSED_THROUGH`] passes on: of these ops, one slot has the data.
pub(crate) fn passed_through(op: &Op) -> impl Iterator<Item = &String> {
    ["X", "Input"].iter().flat_map(|slot| op.inputs_of(slot))
}
