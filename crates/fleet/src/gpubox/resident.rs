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
use crate::environment::variables;
use crate::{Error, Result};

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
}

impl Resident {
    pub(super) fn index(&self) -> &Arc<PassIndex> {
        &self.index
    }

    /// Bytes of its variables.
    pub(super) fn bytes(&self, table: &PassTable) -> u64 {
        (self.capacity * table.record_width() * size_of::<f32>()
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
        let (width, record) = (table.reference.width, table.record_width());
        let (program, slots) = (putting(table), self.index.tensor().rows());
        let mut entered = Vec::with_capacity(new.keys.len());
        for (part, values) in new.keys.chunks(AT_ONCE).zip(new.values.chunks(AT_ONCE * record)) {
            let first = self.keys.len() as i64 + 1;
            let rows: Vec<i64> = (first..first + part.len() as i64).collect();
            let rows = Tensor::from_slice([part.len()], &rows)?;
            let mut feeds = vec![("rows".to_owned(), rows)];
            for at in 0..table.variables.len() {
                let records = values.chunks_exact(record);
                let column = records.flat_map(|record| &record[at * width..][..width]);
                let column: Vec<f32> = column.copied().collect();
                feeds.push((feed_name(at), Tensor::from_slice([part.len(), width], &column)?));
            }
            let feeds: Vec<(&str, &Tensor)> =
                feeds.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
            executor.run(&program, &feeds, &[])?;
            self.active.extend((first as u32)..(first as u32 + part.len() as u32));
            self.enter(part, &mut entered);
        }
        if self.index.tensor().rows() != slots {
            return self.set_index(table, executor.scope());
        }
        self.put_index(table, executor, &entered)
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

    /// Makes the variables anew, for the keys of a pass: those that have rows keep their records, and
    /// so do others where there is room.
    pub(super) fn rebuild(
        &mut self,
        table: &PassTable,
        scope: &Scope,
        keys: &[u64],
        new: &Records,
        budget: Option<usize>,
    ) -> Result<()> {
        let (width, record) = (table.reference.width, table.record_width());
        let loses = self.loses_rows(table, keys, new.keys.len(), budget);
        let old = std::mem::take(self);
        let kept: Vec<(usize, u64)> = match loses {
            true => {
                let row = |key: &u64| Some((old.index.row(*key)? as usize, *key));
                keys.iter().filter_map(row).collect()
            }
            false => old.keys.iter().enumerate().map(|(at, key)| (at + 1, *key)).collect(),
        };
        let rows = kept.len() + new.keys.len() + 1;
        let roomy = (rows + rows / 4).next_multiple_of(ROUND);
        let fits = budget.is_none_or(|budget| roomy * table.bytes_of_row() <= budget);
        self.capacity = if fits { roomy } else { rows.next_multiple_of(2) };
        let mut made = Vec::new();
        for (at, name) in table.variables.iter().enumerate() {
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
                to.copy_from_slice(&record[at * width..][..width]);
            }
            made.push((name.as_str(), tensor));
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
        self.set_index(table, scope)
    }

    /// Gives servers the records that were trained.
    pub(super) fn push(
        &mut self,
        table: &PassTable,
        scope: &Scope,
        worker: &Worker,
        step: u64,
    ) -> Result<()> {
        let (width, record) = (table.reference.width, table.record_width());
        let trained = |row: &usize| self.is_trained.get(*row).copied().unwrap_or(false);
        let rows: Vec<usize> = (1..=self.keys.len()).filter(trained).collect();
        // A part at a time, so that records do not lie in memory three times.
        for rows in rows.chunks(AT_ONCE) {
            let mut records = vec![0.0f32; rows.len() * record];
            for (at, name) in table.variables.iter().enumerate() {
                scope.read(name, |value| -> bireme_engine::Result<()> {
                    let from = value.tensor()?.as_slice::<f32>()?;
                    for (to, row) in records.chunks_exact_mut(record).zip(rows) {
                        to[at * width..][..width].copy_from_slice(&from[row * width..][..width]);
                    }
                    Ok(())
                })??;
            }
            let keys: Vec<u64> = rows.iter().map(|row| self.keys[row - 1]).collect();
            if worker.config().communicator.check_finite {
                check_finite(table, &keys, &records, step)?;
            }
            worker.push_records(&table.reference, record, &keys, &records, step)?;
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

/// Refuses records that no training could go on from.
fn check_finite(table: &PassTable, keys: &[u64], records: &[f32], step: u64) -> Result<()> {
    match records.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::Config(format!(
            "the row of key {} of table `{}` has NaN or infinity after step {step}, and is not given to \
             the servers: begin again from the last checkpoint, with a lower learning rate or clean data \
             (`--check-finite` names the op that makes the first; `{}=0` pushes it all the same)",
            keys[at / table.record_width()],
            table.reference.name,
            variables::CHECK_FINITE.name
        ))),
    }
}

/// The program that writes rows of all variables of a table.
fn putting(table: &PassTable) -> Program {
    let width = table.reference.width as i64;
    putting_into(&table.variables, DType::F32, width)
}

/// The program that writes slots of a table's index.
fn putting_index(table: &PassTable) -> Program {
    putting_into(std::slice::from_ref(&table.index), DType::I64, 2)
}

fn putting_into(variables: &[String], dtype: DType, width: i64) -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    let feed = |name: String, dtype, shape: &[i64]| {
        let mut var = Var::tensor(name, dtype, shape);
        var.need_check_feed = true;
        var
    };
    global.add_var(feed("rows".to_owned(), DType::I64, &[-1]));
    for (at, name) in variables.iter().enumerate() {
        let mut var = Var::tensor(name.as_str(), dtype, [-1, width]);
        var.persistable = true;
        global.add_var(var);
        global.add_var(feed(feed_name(at), dtype, &[-1, width]));
        let op = Op::new("put_rows").input("Param", [name.as_str()]).input("Rows", ["rows"]);
        let op = op.input("Values", [feed_name(at)]).output("ParamOut", [name.as_str()]);
        global.ops.push(op);
    }
    program
}

fn feed_name(at: usize) -> String {
    format!("values_{at}")
}
