//! The program of one of several GPUBox trainers, each with a card and with a part of every table's rows.
//!
//! A batch's rows are asked of the ranks that have them, each once (`spread_rows`), and come back by
//! `alltoall`; the program's own lookups read what came. Gradients go the other way: added up by row, sent to
//! the rank that has it, and applied there by the program's own update. Dense gradients are averaged. What
//! servers do with gradients of several trainers in sync is done here, at the same place: after clipping,
//! before regularisation, as the mean over trainers.

use std::collections::{BTreeMap, BTreeSet};

use bireme_ir::{DType, Op, OpRole, Var, VarKind};

use super::Build;
use super::records::Rows;
use crate::analysis::Update;
use crate::collective::reduced;
use crate::sparse::Table;
use crate::{Error, Result};

/// The ring of all ranks.
const RING: i32 = 0;

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

    /// Has the rows of a table come from the ranks that have them; `found` are the variables with the rows of
    /// its ids. Returns the variable that says how many fit.
    pub(super) fn exchange(
        &mut self,
        table: &Table,
        found: &BTreeMap<String, Rows>,
        update: Option<&Update>,
    ) -> Result<String> {
        let name = |what: &str| format!("{}@{what}", table.name);
        let [room, wanted, asked, given, fetched] =
            ["ROOM", "WANTED", "ASKED", "GIVEN", "FETCHED"].map(name);
        let first = table.lookups[0];
        let rows: Vec<&str> = found.values().map(|rows| rows.all.as_str()).collect();
        let places: Vec<String> = rows.iter().map(|rows| place_of(rows)).collect();
        let spread = Op::new("spread_rows")
            .input("Rows", rows.clone())
            .input("W", [table.name.as_str()])
            .input("Room", [room.as_str()])
            .output("Places", &places)
            .output("Wanted", [wanted.as_str()])
            .attr("ranks", self.ranks() as i32);
        let look_up = Op::new("lookup_table_v2")
            .input("W", [table.name.as_str()])
            .input("Ids", [asked.as_str()])
            .output("Out", [given.as_str()])
            .attr("is_sparse", true)
            .attr("padding_idx", 0i64);
        let forward = [spread, all_to_all(&wanted, &asked), look_up, all_to_all(&given, &fetched)];
        forward.into_iter().for_each(|op| self.edit.before(first, op.role(OpRole::FORWARD)));
        for at in table.lookups.iter().chain(&table.grads) {
            let op = self.edit.op_mut(*at);
            op.inputs.insert("W".to_owned(), vec![fetched.clone()]);
            for ids in op.inputs.get_mut("Ids").into_iter().flatten() {
                *ids = place_of(ids);
            }
        }
        for (rows, place) in rows.iter().zip(&places) {
            let like = self.vars.iter().find(|var| var.name == *rows);
            let mut var = like.cloned().unwrap_or_else(|| Var::tensor(*rows, DType::I64, [-1]));
            var.name.clone_from(place);
            self.vars.push(var);
        }
        let width = self.plan.program.global().var(&table.name).map_or(-1, |var| var.shape[1]);
        let mut has_room = Var::tensor(room.as_str(), DType::I32, [1]);
        has_room.persistable = true;
        let numbers = [&wanted, &asked].map(|name| Var::tensor(name.as_str(), DType::I32, [-1]));
        let values =
            [&given, &fetched].map(|name| Var::tensor(name.as_str(), DType::F32, [-1, width]));
        self.vars.extend([has_room].into_iter().chain(numbers).chain(values));
        if let Some(update) = update {
            self.give_back(table, update, [&asked, &fetched], width)?;
        }
        Ok(room)
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

/// The variable with the places of the rows in variable `rows`.
fn place_of(rows: &str) -> String {
    format!("{rows}@PLACES")
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
