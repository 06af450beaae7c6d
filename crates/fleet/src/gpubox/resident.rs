//! The rows of one table that a trainer holds: which keys they have, and their records in variables.
//!
//! Row 0 is nobody's: it is what padding reads. Rows are given in the order of keys and stay until the
//! variables are made anew, so that a pass is the same in every run.

use std::sync::Arc;

use bireme_engine::ops::PassIndex;
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Executor, Scope};
use bireme_ir::{Op, Program, Var};
use bireme_ps::worker::Worker;

use super::ahead::Records;
use super::plan::PassTable;
use crate::Result;

/// Records that are moved at a time: what a step of moving feeds.
const AT_ONCE: usize = 1 << 18;

/// Variables have a multiple of so many rows: a pass that is a little larger needs no new ones.
const ROUND: usize = 256;

/// The rows of one table.
#[derive(Default)]
pub(super) struct Resident {
    index: Arc<PassIndex>,
    /// The key of each row, from row 1 on.
    keys: Vec<u64>,
    /// Rows of the variables.
    capacity: usize,
    /// The rows of this pass.
    active: Vec<u32>,
    /// Which rows were trained since servers were given them.
    is_trained: Vec<bool>,
    /// Whether other ranks have rows of the table, too: the index that programs look keys up in is then not
    /// that of these rows.
    is_part: bool,
}

impl Resident {
    /// Nothing yet, of a whole table or of a part of one.
    pub(super) fn new(is_part: bool) -> Resident {
        Resident { is_part, ..Resident::default() }
    }

    /// Rows of the variables.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn index(&self) -> &Arc<PassIndex> {
        &self.index
    }

    /// Bytes of its variables.
    pub(super) fn bytes(&self, table: &PassTable) -> u64 {
        (self.capacity * table.row_width() * size_of::<f32>()
            + self.index.tensor().as_bytes().len()) as u64
    }

    /// Whether so many keys more have room.
    pub(super) fn has_room(&self, new: usize) -> bool {
        self.keys.len() + new < self.capacity
    }

    /// Whether variables for a pass would not have what is here now: only where there is no memory for
    /// both, or what is here is much more than what is needed.
    pub(super) fn loses_rows(
        &self,
        table: &PassTable,
        keys: &[u64],
        new: usize,
        budget: Option<usize>,
    ) -> bool {
        let all = self.keys.len() + new;
        let fits = budget.is_none_or(|budget| (all + 1) * table.bytes_of_row() <= budget);
        all > keys.len() && (!fits || all > 2 * keys.len())
    }

    /// The pass is being trained.
    pub(super) fn mark_trained(&mut self) {
        self.is_trained.resize(self.capacity, false);
        self.active.iter().for_each(|row| self.is_trained[*row as usize] = true);
    }

    /// Writes records into rows that are free; the pass has them and those that are known.
    pub(super) fn put(
        &mut self,
        table: &PassTable,
        executor: &mut Executor,
        new: &Records,
    ) -> Result<()> {
        self.active.clone_from(&new.known);
        if new.keys.is_empty() {
            return Ok(());
        }
        let record = table.record_width();
        let (program, slots) = (putting(table), self.index.tensor().rows());
        let mut entered = Vec::with_capacity(new.keys.len());
        for (part, values) in new.keys.chunks(AT_ONCE).zip(new.values.chunks(AT_ONCE * record)) {
            let first = self.keys.len() + 1;
            write(table, executor, &program, first, values)?;
            self.active.extend((first as u32)..((first + part.len()) as u32));
            self.enter(part, &mut entered);
        }
        if self.is_part {
            return Ok(());
        }
        if self.index.tensor().rows() != slots {
            return self.set_index(table, executor.scope());
        }
        self.put_index(table, executor, &entered)
    }

    /// Takes over the records of all its keys as the servers have them now.
    pub(super) fn reload(
        &self,
        table: &PassTable,
        executor: &mut Executor,
        worker: &Worker,
    ) -> Result<()> {
        let (width, program) = (table.record_width(), putting(table));
        for (at, keys) in self.keys.chunks(AT_ONCE).enumerate() {
            let mut records = vec![0.0; keys.len() * width];
            worker.pull_records(&table.reference, width, keys, &mut records)?;
            write(table, executor, &program, at * AT_ONCE + 1, &records)?;
        }
        Ok(())
    }

    /// Writes slots of the index, as they are now.
    fn put_index(&self, table: &PassTable, executor: &mut Executor, slots: &[usize]) -> Result<()> {
        let program = putting_index(table);
        let words = self.index.tensor().as_slice::<i64>()?;
        for slots in slots.chunks(AT_ONCE) {
            let rows: Vec<i64> = slots.iter().map(|slot| *slot as i64).collect();
            let values: Vec<i64> =
                slots.iter().flat_map(|slot| [words[2 * slot], words[2 * slot + 1]]).collect();
            let rows = Tensor::from_slice([slots.len()], &rows)?;
            let values = Tensor::from_slice([slots.len(), 2], &values)?;
            executor.run(&program, &[("rows", &rows), (&feed_name(0), &values)], &[])?;
        }
        Ok(())
    }

    /// Rows that variables for a pass would have, if they were made anew.
    pub(super) fn new_capacity(
        &self,
        table: &PassTable,
        keys: &[u64],
        new: usize,
        budget: Option<usize>,
    ) -> usize {
        let rows = match self.loses_rows(table, keys, new, budget) {
            true => keys.len() + 1,
            false => self.keys.len() + new + 1,
        };
        let roomy = (rows + rows / 4).next_multiple_of(ROUND);
        let fits = budget.is_none_or(|budget| roomy * table.bytes_of_row() <= budget);
        if fits { roomy } else { rows.next_multiple_of(2) }
    }

    /// Makes the variables anew with so many rows, for the keys of a pass: those that have rows keep their
    /// records, and so do others where there is room.
    pub(super) fn rebuild(
        &mut self,
        table: &PassTable,
        scope: &Scope,
        keys: &[u64],
        new: &Records,
        (capacity, loses): (usize, bool),
    ) -> Result<()> {
        let record = table.record_width();
        let empty = Resident::new(self.is_part);
        let old = std::mem::replace(self, empty);
        let kept: Vec<(usize, u64)> = match loses {
            true => {
                let row = |key: &u64| Some((old.index.row(*key)? as usize, *key));
                keys.iter().filter_map(row).collect()
            }
            false => old.keys.iter().enumerate().map(|(at, key)| (at + 1, *key)).collect(),
        };
        self.capacity = capacity;
        let mut made = Vec::new();
        for variable in &table.variables {
            let (name, width) = (variable.name.as_str(), variable.width);
            let mut tensor = Tensor::zeros(DType::F32, [self.capacity, width]);
            let to = tensor.as_mut_slice::<f32>()?;
            if !kept.is_empty() {
                scope.read(name, |value| -> bireme_engine::Result<()> {
                    let from = value.tensor()?.as_slice::<f32>()?;
                    for (place, (row, _)) in kept.iter().enumerate() {
                        let from = &from[row * width..][..width];
                        to[(place + 1) * width..][..width].copy_from_slice(from);
                    }
                    Ok(())
                })??;
            }
            let first = (kept.len() + 1) * width;
            let records = new.values.chunks_exact(record);
            for (to, record) in to[first..].chunks_exact_mut(width).zip(records) {
                table.fill(variable, record, to);
            }
            made.push((name, tensor));
        }
        scope.take_over(made)?;
        self.index = Arc::new(PassIndex::with_room(self.capacity));
        self.is_trained = vec![false; self.capacity];
        for (place, (row, _)) in kept.iter().enumerate() {
            self.is_trained[place + 1] = old.is_trained.get(*row).copied().unwrap_or(false);
        }
        let held: Vec<u64> =
            kept.iter().map(|(_, key)| *key).chain(new.keys.iter().copied()).collect();
        self.enter(&held, &mut Vec::new());
        self.active
            .extend(keys.iter().filter_map(|key| self.index.row(*key)).map(|row| row as u32));
        if self.is_part { Ok(()) } else { self.set_index(table, scope) }
    }

    /// Shows the keys and records that were trained, some at a time; they no longer count as such.
    pub(super) fn give(
        &mut self,
        table: &PassTable,
        scope: &Scope,
        mut show: impl FnMut(Vec<u64>, Vec<f32>) -> Result<()>,
    ) -> Result<()> {
        let record = table.record_width();
        let trained = |row: &usize| self.is_trained.get(*row).copied().unwrap_or(false);
        let rows: Vec<usize> = (1..=self.keys.len()).filter(trained).collect();
        // A part at a time, so that records do not lie in memory three times.
        for rows in rows.chunks(AT_ONCE) {
            let mut records = vec![0.0f32; rows.len() * record];
            for variable in &table.variables {
                let (Some(first), width) = (variable.first, variable.width) else { continue };
                scope.read(&variable.name, |value| -> bireme_engine::Result<()> {
                    let from = value.tensor()?.as_slice::<f32>()?;
                    for (to, row) in records.chunks_exact_mut(record).zip(rows) {
                        to[first..][..width].copy_from_slice(&from[row * width..][..width]);
                    }
                    Ok(())
                })??;
            }
            let mut keys: Vec<u64> = rows.iter().map(|row| self.keys[row - 1]).collect();
            leave_out_unmade(table, &mut keys, &mut records);
            show(keys, records)?;
        }
        self.is_trained.fill(false);
        Ok(())
    }

    /// Gives keys the next rows; adds the slots of the index that they took.
    fn enter(&mut self, keys: &[u64], slots: &mut Vec<usize>) {
        let index = Arc::make_mut(&mut self.index);
        for key in keys {
            self.keys.push(*key);
            slots.push(index.insert(*key, self.keys.len() as u64));
        }
    }

    fn set_index(&self, table: &PassTable, scope: &Scope) -> Result<()> {
        Ok(scope.take_over([(table.index.as_str(), self.index.tensor().clone())])?)
    }
}

/// Writes records into the rows from `first` on.
fn write(
    table: &PassTable,
    executor: &mut Executor,
    program: &Program,
    first: usize,
    records: &[f32],
) -> Result<()> {
    let width = table.record_width();
    let count = records.len() / width;
    let rows: Vec<i64> = (first as i64..(first + count) as i64).collect();
    let mut feeds = vec![("rows".to_owned(), Tensor::from_slice([count], &rows)?)];
    for (at, variable) in table.variables.iter().enumerate() {
        let mut rows = Tensor::zeros(DType::F32, [count, variable.width]);
        let to = rows.as_mut_slice::<f32>()?.chunks_exact_mut(variable.width);
        let records = to.zip(records.chunks_exact(width));
        records.for_each(|(to, record)| table.fill(variable, record, to));
        feeds.push((feed_name(at), rows));
    }
    let feeds: Vec<(&str, &Tensor)> =
        feeds.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    executor.run(program, &feeds, &[])?;
    Ok(())
}

/// Leaves out keys that no server has, or gets, a row for.
pub(super) fn leave_out_unmade(table: &PassTable, keys: &mut Vec<u64>, records: &mut Vec<f32>) {
    let width = table.record_width();
    let is_made: Vec<bool> =
        records.chunks_exact(width).map(|record| table.is_made(record)).collect();
    if is_made.iter().all(|is_made| *is_made) {
        return;
    }
    let kept = records.chunks_exact(width).zip(&is_made).filter(|(_, is_made)| **is_made);
    *records = kept.flat_map(|(record, _)| record).copied().collect();
    let mut made = is_made.iter();
    keys.retain(|_| made.next().copied().unwrap_or(false));
}

/// The program that writes rows of all variables of a table.
fn putting(table: &PassTable) -> Program {
    let own = table.variables.iter();
    putting_into(own.map(|own| (own.name.as_str(), own.width)), DType::F32)
}

/// The program that writes slots of a table's index.
pub(super) fn putting_index(table: &PassTable) -> Program {
    putting_into([(table.index.as_str(), 2)].into_iter(), DType::I64)
}

fn putting_into<'a>(variables: impl Iterator<Item = (&'a str, usize)>, dtype: DType) -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    let feed = |name: String, dtype, shape: &[i64]| {
        let mut var = Var::tensor(name, dtype, shape);
        var.need_check_feed = true;
        var
    };
    global.add_var(feed("rows".to_owned(), DType::I64, &[-1]));
    for (at, (name, width)) in variables.enumerate() {
        let width = width as i64;
        let mut var = Var::tensor(name, dtype, [-1, width]);
        var.persistable = true;
        global.add_var(var);
        global.add_var(feed(feed_name(at), dtype, &[-1, width]));
        let op = Op::new("put_rows").input("Param", [name]).input("Rows", ["rows"]);
        let op = op.input("Values", [feed_name(at)]).output("ParamOut", [name]);
        global.ops.push(op);
    }
    program
}

fn feed_name(at: usize) -> String {
    format!("values_{at}")
}
