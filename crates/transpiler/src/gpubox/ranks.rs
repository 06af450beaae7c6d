//! The program of one of several GPUBox trainers, each with a card and with a part of every table's rows.
//!
//! A batch's rows are asked of the ranks that have them, each once (`spread_rows`), and come back by
//! `alltoall`; the program's own lookups read what came. Gradients go the other way: added up by row, sent to
//! the rank that has it, and applied there by the program's own update. Dense gradients are averaged. What
//! servers do with gradients of several trainers in sync is done here, at the same place: after clipping,
//! before regularisation, as the mean over trainers. Shows and clicks go the way of gradients, and are
//! added up: who has a row admits and counts it.

use std::collections::{BTreeMap, BTreeSet};

use bireme_ir::{DType, Op, OpRole, Var, VarKind};

use super::Build;
use super::records::{self, Kind, Rows};
use crate::analysis::Update;
use crate::collective::reduced;
use crate::sparse::Table;
use crate::{Error, Result};

/// The ring of all ranks.
const RING: i32 = 0;

/// What the names of variables end in that are about the rows that a batch reads, and where they are not the
/// same, about those that it trains.
const READ: &str = "";
const PUSHED: &str = "@PUSHED";

/// What is exchanged of a table.
pub(super) struct Exchanged {
    /// The variable that says how many rows fit that one rank asks of another.
    pub(super) room: String,
    /// The variable with the shows and clicks of the rows that all ranks push, where they are counted.
    pub(super) counts: Option<String>,
}

impl Build<'_> {
    /// How many ranks train together.
    pub(super) fn ranks(&self) -> usize {
        self.plan.trainers
    }

    /// Moves what makes ids of what is fed before the first lookup: all rows of a table are asked for at
    /// once.
    pub(super) fn make_ids_first(&mut self) -> Result<()> {
        let plan = self.plan;
        let ops = &plan.program.global().ops;
        let lookups = || plan.keyed().flat_map(|(table, _)| table.lookups.iter().copied());
        let Some(first) = lookups().min() else { return Ok(()) };
        let mut makers = BTreeSet::new();
        for at in lookups() {
            ops[at].inputs_of("Ids").iter().for_each(|ids| makers_of(ops, at, ids, &mut makers));
        }
        for at in makers.into_iter().filter(|at| *at > first) {
            let is_computed = |name: &&String| ops[..at].iter().any(|op| writes(op, name));
            let beside = ops[at].inputs.iter().filter(|(slot, _)| !is_data(slot));
            if let Some(name) = beside.flat_map(|(_, names)| names).find(is_computed) {
                return Err(Error::Program(format!(
                    "op `{}` makes ids by `{name}`, which is computed: with several cards, ids must be \
                     known before the first lookup",
                    ops[at].kind
                )));
            }
            self.edit.remove(at);
            self.edit.before(first, ops[at].clone());
        }
        Ok(())
    }

    /// Has the rows of a table come from the ranks that have them, and what is trained go back to them;
    /// `found` are the variables with the rows of its ids.
    pub(super) fn exchange(
        &mut self,
        table: &Table,
        kind: &Kind,
        found: &BTreeMap<String, Rows>,
        update: Option<&Update>,
    ) -> Result<Exchanged> {
        let name = |what: &str| format!("{}@{what}", table.name);
        let [room, given, fetched] = ["ROOM", "GIVEN", "FETCHED"].map(name);
        let mut has_room = Var::tensor(room.as_str(), DType::I32, [1]);
        has_room.persistable = true;
        self.vars.push(has_room);
        let (first, rows) = (table.lookups[0], found.values().collect::<Vec<&Rows>>());
        let mut asked = vec![self.ask(table, kind, &rows, READ)];
        let of_grads = self.rows_of_grads(table, found);
        // Owners take what they are asked for to be trained.
        let all_are_trained = of_grads.len() == rows.len() || update.is_none();
        if !all_are_trained {
            asked.push(self.ask(table, kind, &of_grads, PUSHED));
        }
        if let Some(op) = records::admit(table, kind, &asked.iter().collect::<Vec<&Rows>>()) {
            self.edit.before(first, op);
        }
        let look_up = Op::new("lookup_table_v2")
            .input("W", [table.name.as_str()])
            .input("Ids", [asked[0].read.as_str()])
            .output("Out", [given.as_str()])
            .attr("is_sparse", true)
            .attr("padding_idx", 0i64);
        for op in [look_up, all_to_all(&given, &fetched)] {
            self.edit.before(first, op.role(OpRole::FORWARD));
        }
        let pushed = if all_are_trained { READ } else { PUSHED };
        let of_lookups = table.lookups.iter().map(|at| (at, READ));
        for (at, which) in of_lookups.chain(table.grads.iter().map(|at| (at, pushed))) {
            let op = self.edit.op_mut(*at);
            op.inputs.insert("W".to_owned(), vec![fetched.clone()]);
            for ids in op.inputs.get_mut("Ids").into_iter().flatten() {
                *ids = place_of(ids, which);
            }
        }
        let width = self.plan.program.global().var(&table.name).map_or(-1, |var| var.shape[1]);
        let values = [&given, &fetched];
        self.vars.extend(values.map(|name| Var::tensor(name.as_str(), DType::F32, [-1, width])));
        let mut counts = None;
        if let (Some(update), Some(asked)) = (update, asked.last()) {
            self.give_back(table, update, [&asked.trained, &fetched], width)?;
            let place = |ids: &String| Some(place_of(&found.get(ids)?.all, pushed));
            counts = self.count_of_ranks(table, kind, update, (place, &asked.all, &fetched))?;
        }
        Ok(Exchanged { room, counts })
    }

    /// Asks the ranks that have them for some rows, each once; returns what others ask of this one.
    fn ask(&mut self, table: &Table, kind: &Kind, rows: &[&Rows], which: &str) -> Rows {
        let name = |what: &str| format!("{}@{what}{which}", table.name);
        let [wanted, asked, numbers] = ["WANTED", "ASKED", "ASKED@ROWS"].map(name);
        let places: Vec<String> = rows.iter().map(|rows| place_of(&rows.all, which)).collect();
        let spread = Op::new("spread_rows")
            .input("Rows", rows.iter().map(|rows| rows.all.as_str()))
            .input("W", [table.name.as_str()])
            .input("Room", [format!("{}@ROOM", table.name)])
            .output("Places", &places)
            .output("Wanted", [wanted.as_str()])
            .attr("ranks", self.ranks() as i32);
        let mut ops = vec![spread, all_to_all(&wanted, &asked)];
        for (rows, place) in rows.iter().zip(&places) {
            let like = self.vars.iter().find(|var| var.name == rows.all);
            let mut var = like.cloned().unwrap_or_else(|| Var::tensor(place, DType::I64, [-1]));
            var.name.clone_from(place);
            self.vars.push(var);
        }
        self.vars.extend([wanted, asked.clone()].map(|name| Var::tensor(name, DType::I32, [-1])));
        let rows = match kind {
            Kind::Plain => Rows::of(asked, kind),
            Kind::Entry(_) | Kind::Accessor(..) => {
                let cast = Op::new("cast").input("X", [asked]).output("Out", [numbers.as_str()]);
                ops.push(
                    cast.attr("in_dtype", DType::I32.code()).attr("out_dtype", DType::I64.code()),
                );
                let rows = Rows::of(numbers, kind);
                let names = rows.names().into_iter();
                self.vars.extend(names.map(|name| Var::tensor(name, DType::I64, [-1])));
                rows
            }
        };
        let first = table.lookups[0];
        ops.into_iter().for_each(|op| self.edit.before(first, op.role(OpRole::FORWARD)));
        rows
    }

    /// The rows of ids whose lookups are trained.
    fn rows_of_grads<'a>(&self, table: &Table, found: &'a BTreeMap<String, Rows>) -> Vec<&'a Rows> {
        let ops = &self.plan.program.global().ops;
        let grads = || table.grads.iter().flat_map(|grad| ops[*grad].inputs_of("Ids"));
        let trained = found.iter().filter(|(ids, _)| grads().any(|own| own == *ids));
        trained.map(|(_, rows)| rows).collect()
    }

    /// Sends the gradient of a table's rows to the ranks that have them.
    fn give_back(
        &mut self,
        table: &Table,
        update: &Update,
        [asked, fetched]: [&String; 2],
        width: i64,
    ) -> Result<()> {
        let name = |what: &str| format!("{}@{what}@GRAD", table.name);
        let [none, summed, sent, own] = ["NONE", "FETCHED", "GIVEN", "OWN"].map(name);
        let local = &update.grad.name;
        let zeros = Op::new("fill_zeros_like")
            .input("X", [fetched.as_str()])
            .output("Out", [none.as_str()]);
        let sum = Op::new("sum").input("X", [&none, local]).output("Out", [summed.as_str()]);
        let mean = Op::new("scale")
            .input("X", [summed.as_str()])
            .output("Out", [summed.as_str()])
            .attr("scale", 1.0 / self.ranks() as f32);
        let select = Op::new("lookup_table_v2_grad")
            .input("W", [table.name.as_str()])
            .input("Ids", [asked.as_str()])
            .input("Out@GRAD", [sent.as_str()])
            .output("W@GRAD", [own.as_str()])
            .attr("is_sparse", true)
            .attr("padding_idx", 0i64);
        let at = self.first_use(local)?;
        for op in [zeros, sum, mean, all_to_all(&summed, &sent), select] {
            self.edit.before(at, op.role(OpRole::BACKWARD));
        }
        for index in self.after_exchange() {
            let op = self.edit.op_mut(index);
            for names in op.inputs.values_mut() {
                names
                    .iter_mut()
                    .filter(|name| *name == local)
                    .for_each(|name| name.clone_from(&own));
            }
        }
        let mut rows = Var::tensor(own, DType::F32, update.param.shape.clone());
        rows.kind = VarKind::SelectedRows;
        let dense = [none, summed, sent].map(|name| Var::tensor(name, DType::F32, [-1, width]));
        self.vars.extend(dense.into_iter().chain([rows]));
        Ok(())
    }

    /// Sends the shows and clicks of the rows that this rank's samples push to the ranks that have these
    /// rows. Returns the variable with those that all ranks push, of the rows in variable `asked`, unless
    /// nothing is counted; `place` says where the rows of some ids stand in variable `fetched`.
    fn count_of_ranks(
        &mut self,
        table: &Table,
        kind: &Kind,
        update: &Update,
        (place, asked, fetched): (impl Fn(&String) -> Option<String>, &str, &str),
    ) -> Result<Option<String>> {
        let Some(local) = self.counted(table, kind, place, fetched) else { return Ok(None) };
        let name = |what: &str| format!("{}@COUNTS@{what}", table.name);
        let [none, summed, sent, shows, clicks, own] =
            ["NONE", "FETCHED", "GIVEN", "SHOWS", "CLICKS", "OWN"].map(name);
        let (mut ops, mut given) = (Vec::new(), None);
        // Otherwise each row that is pushed counts one show, by however many ranks it is.
        if self.counts_are_given(table) {
            let zeros = Op::new("fill_constant_batch_size_like")
                .input("Input", [fetched])
                .output("Out", [none.as_str()])
                .attr("shape", vec![-1, 2]);
            let sum = Op::new("sum").input("X", [&none, &local.out]);
            let split = Op::new("split").input("X", [sent.as_str()]).attr("axis", 1);
            ops = local.ops;
            ops.extend([
                zeros,
                sum.output("Out", [summed.as_str()]),
                all_to_all(&summed, &sent),
                split.attr("num", 2).output("Out", [&shows, &clicks]),
            ]);
            self.vars.extend(local.vars);
            let pairs = [none, summed, sent].map(|name| Var::tensor(name, DType::F32, [-1, 2]));
            let single = [&shows, &clicks].map(|name| Var::tensor(name, DType::F32, [-1, 1]));
            self.vars.extend(pairs.into_iter().chain(single));
            given = Some([shows, clicks]);
        }
        let count = records::counts_of_rows(&[asked.to_owned()], &table.name, given, &own);
        ops.push(count.attr("padding_idx", 0i64));
        let at = self.first_use(&update.grad.name)?;
        ops.into_iter().for_each(|op| self.edit.before(at, op.role(OpRole::BACKWARD)));
        self.vars.push(records::counts_var(own.clone()));
        Ok(Some(own))
    }

    /// Averages the gradients of parameters that are no tables.
    pub(super) fn average_dense(&mut self) -> Result<()> {
        let plan = self.plan;
        let ops = &plan.program.global().ops;
        let after: BTreeSet<usize> = self.after_exchange().into_iter().collect();
        let mut grads = Vec::new();
        for placed in &plan.placed {
            let name = &placed.update.grad.name;
            let at = self.first_use(name)?;
            let made = (0..at).rfind(|index| !after.contains(index) && writes(&ops[*index], name));
            grads.push((name.clone(), &placed.update.param, made.unwrap_or(0)));
        }
        let uses = grads.iter().filter_map(|(name, ..)| self.first_use(name).ok());
        let Some(before) = uses.min() else { return Ok(()) };
        if let Some((late, ..)) = grads.iter().find(|(_, _, made)| *made >= before) {
            return Err(Error::Program(format!(
                "gradient `{late}` is computed after other parameters are updated: with several cards, all \
                 gradients must be there before the first update"
            )));
        }
        let mean = 1.0 / self.ranks() as f32;
        self.vars.extend(reduced(&mut self.edit, grads, before, mean));
        Ok(())
    }

    /// Ops that read gradients of all ranks: what servers would do.
    fn after_exchange(&self) -> Vec<usize> {
        let analysis = &self.plan.analysis;
        analysis.on_server.difference(&analysis.clip_ops).copied().collect()
    }

    /// The first op that reads gradient `name` of all ranks.
    fn first_use(&self, name: &String) -> Result<usize> {
        let ops = &self.plan.program.global().ops;
        let reads = |index: &usize| ops[*index].input_vars().any(|input| input == name);
        self.after_exchange()
            .into_iter()
            .find(reads)
            .ok_or_else(|| Error::Program(format!("gradient `{name}` is used by no update")))
    }
}

/// The variable with the places of the rows in variable `rows`, among those that are asked for to be read,
/// or to be trained.
fn place_of(rows: &str, which: &str) -> String {
    format!("{rows}@PLACES{which}")
}

fn all_to_all(from: &str, to: &str) -> Op {
    let op = Op::new("alltoall").input("X", [from]).output("Out", [to]);
    op.attr("ring_id", RING).attr("use_calc_stream", true)
}

fn writes(op: &Op, name: &str) -> bool {
    op.output_vars().any(|out| out == name)
}

/// Whether a slot of an op through which ids go has the ids.
fn is_data(slot: &str) -> bool {
    matches!(slot, "X" | "Input")
}

/// Adds the ops that make variable `ids`, which op `before` reads, of what is fed.
fn makers_of(ops: &[Op], before: usize, ids: &str, makers: &mut BTreeSet<usize>) {
    let Some(writer) = ops[..before].iter().rposition(|op| writes(op, ids)) else { return };
    makers.insert(writer);
    for ids in ops[writer].inputs.iter().filter(|(slot, _)| is_data(slot)).flat_map(|(_, ids)| ids)
    {
        makers_of(ops, writer, ids, makers);
    }
}
