//! Carries out, on the variables of the trainer, what was decided for a batch: records that leave are
//! read, those of new keys are written, and the index that steps look keys up in becomes another.
//!
//! All of it is small programs that run where steps run, one after the other; so a row is read after
//! the last step that trained it, and written before the first one that does.

use bireme_engine::device::{Device, LockedTensor};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Executor, Scope, Step};
use bireme_ir::{Op, Program, Var};
use bireme_ps::worker::Worker;

use super::super::giving;
use super::super::plan::{PassTable, PassVariable};
use super::super::resident::{leave_out_unmade, putting_index};
use super::leaving::Block;
use super::rows::{Change, Resized};
use crate::{Error, Result};

/// Records that are moved at a time.
const AT_ONCE: usize = 1 << 16;
/// A card prepares a step for each size of what it is fed; so there are few sizes, from here on.
const FEWEST: usize = 64;

/// The rows of one table, as the trainer has them.
pub(super) struct Moves {
    read: Step,
    put: Step,
    put_index: Step,
    /// The key of each row, for those that have one.
    keys: Vec<u64>,
    /// Which rows were trained since the servers were given them.
    is_trained: Vec<bool>,
    /// The rows of the batch that was handed to training last.
    in_hand: Vec<u32>,
}

/// Records for some rows, ready to be written.
pub(super) struct Put {
    rows: Tensor,
    records: Records,
}

/// Records, on the way to a card by themselves where it can be.
enum Records {
    Plain(Tensor),
    Locked(LockedTensor),
}

impl Put {
    /// Puts `records` into `rows`, in parts; in page-locked memory for a card. What pulls of them give stands
    /// beside them, where the table has a variable for it.
    pub(super) fn all(
        table: &PassTable,
        rows: &[u32],
        records: &[f32],
        device: Option<&dyn Device>,
    ) -> Result<Vec<Put>> {
        let width = table.record_width();
        let parts = rows.chunks(AT_ONCE).zip(records.chunks(AT_ONCE * width));
        let put = |(rows, records): (&[u32], &[f32])| {
            let size = size_for(rows.len());
            // Row 0 is nobody's and stays zero, so it takes what is too many.
            let mut values = Tensor::zeros(DType::F32, [size, table.row_width()]);
            let to = values.as_mut_slice::<f32>()?.chunks_exact_mut(table.row_width());
            for (mut to, record) in to.zip(records.chunks_exact(width)) {
                for variable in &table.variables {
                    let (own, rest) = to.split_at_mut(variable.width);
                    table.fill(variable, record, own);
                    to = rest;
                }
            }
            // Where no more memory can be locked, it goes the longer way.
            let locked = device.and_then(|device| LockedTensor::new(device, &values).ok());
            let records = locked.map_or(Records::Plain(values), Records::Locked);
            Ok(Put { rows: row_numbers(rows, size)?, records })
        };
        parts.map(put).collect()
    }
}

impl Moves {
    pub(super) fn new(table: &PassTable, executor: &Executor) -> Result<Moves> {
        Ok(Moves {
            read: executor.prepare(&reading(table), &["rows"], &["records"])?,
            put: executor.prepare(&putting(table), &["rows", "records"], &[])?,
            put_index: executor.prepare(&putting_index(table), &["rows", "values_0"], &[])?,
            keys: Vec::new(),
            is_trained: Vec::new(),
            in_hand: Vec::new(),
        })
    }

    /// Bytes of its variables.
    pub(super) fn bytes(&self, table: &PassTable) -> u64 {
        (self.keys.len() * table.bytes_of_row()) as u64
    }

    /// Carries out a change; `left` is told what has left. Afterwards the rows of the batch are there.
    pub(super) fn carry_out(
        &mut self,
        table: &PassTable,
        scope: &Scope,
        change: &Change,
        left: Option<(&Block, u64)>,
    ) -> Result<()> {
        if let Some((block, step)) = left {
            let mut is_trained = Vec::with_capacity(change.leaving.len());
            for row in &change.leaving {
                is_trained.push(std::mem::take(&mut self.is_trained[*row as usize]));
            }
            block.set(self.read(table, &change.leaving)?, is_trained, step);
        }
        if let Some(resized) = &change.resized {
            self.resize(table, scope, resized)?;
        }
        for (row, key) in change.entering.iter().zip(&change.entering_keys) {
            self.keys[*row as usize] = *key;
        }
        if let Some(index) = &change.index {
            scope.take_over([(table.index.as_str(), index.clone())])?;
        }
        if let (Some(name), Some(room)) = (&table.room, change.room) {
            scope.take_over([(name.as_str(), Tensor::zeros(DType::I32, [room as usize]))])?;
        }
        for (slots, words) in change.slots.chunks(AT_ONCE).zip(change.words.chunks(2 * AT_ONCE)) {
            self.write_index(slots, words)?;
        }
        Ok(())
    }

    /// Writes records.
    pub(super) fn put(&mut self, put: &Put) -> Result<()> {
        let records = match &put.records {
            Records::Plain(tensor) => tensor,
            Records::Locked(tensor) => tensor,
        };
        Ok(self.put.run(&[&put.rows, records])?)
    }

    /// A batch with these rows is trained now.
    pub(super) fn hand_over(&mut self, named: Vec<u32>, is_trained: bool) {
        self.in_hand = named;
        if is_trained {
            self.mark_in_hand();
        }
    }

    /// Whether the servers lack something.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_trained.contains(&true)
    }

    /// Gives servers what they do not have; the rows that a step works on stay marked.
    pub(super) fn push(
        &mut self,
        table: &PassTable,
        worker: &Worker,
        step: u64,
        is_running: bool,
    ) -> Result<()> {
        let rows: Vec<u32> =
            (1..self.keys.len() as u32).filter(|row| self.is_trained[*row as usize]).collect();
        for rows in rows.chunks(AT_ONCE) {
            let mut records = self.read(table, rows)?;
            let mut keys: Vec<u64> = rows.iter().map(|row| self.keys[*row as usize]).collect();
            leave_out_unmade(table, &mut keys, &mut records);
            giving::push(table, worker, &keys, &records, step)?;
        }
        let is_in_hand =
            is_running && self.in_hand.iter().any(|row| self.is_trained[*row as usize]);
        self.is_trained.fill(false);
        if is_in_hand {
            self.mark_in_hand();
        }
        Ok(())
    }

    fn mark_in_hand(&mut self) {
        self.in_hand.iter().for_each(|row| self.is_trained[*row as usize] = true);
    }

    /// The records of some rows, in one copy for each part.
    fn read(&mut self, table: &PassTable, rows: &[u32]) -> Result<Vec<f32>> {
        let width = table.record_width();
        let mut records = Vec::with_capacity(rows.len() * width);
        for rows in rows.chunks(AT_ONCE) {
            self.read.run(&[&row_numbers(rows, size_for(rows.len()))?])?;
            let read = self.read.fetched(0).as_slice::<f32>()?;
            records.extend_from_slice(&read[..rows.len() * width]);
        }
        Ok(records)
    }

    fn write_index(&mut self, slots: &[i64], words: &[i64]) -> Result<()> {
        let size = size_for(slots.len());
        let (mut slots, mut words) = (slots.to_vec(), words.to_vec());
        // What is too many writes the last one again.
        let last = words[words.len() - 2..].to_vec();
        slots.resize(size, slots[slots.len() - 1]);
        while words.len() < 2 * size {
            words.extend_from_slice(&last);
        }
        let (slots, words) =
            (Tensor::from_slice([size], &slots)?, Tensor::from_slice([size, 2], &words)?);
        Ok(self.put_index.run(&[&slots, &words])?)
    }

    /// Makes variables of another size, with what stays.
    fn resize(&mut self, table: &PassTable, scope: &Scope, resized: &Resized) -> Result<()> {
        let old = self.keys.len();
        // Where each row comes from, by its number less 1.
        let all: Vec<u32>;
        let from = match &resized.from {
            Some(from) => from,
            None => {
                all = (1..old as u32).collect();
                &all
            }
        };
        let mut made = Vec::new();
        for PassVariable { name, width, .. } in &table.variables {
            let width = *width;
            let mut tensor = Tensor::zeros(DType::F32, [resized.capacity, width]);
            if old > 0 {
                let to = tensor.as_mut_slice::<f32>()?;
                scope.read(name, |value| -> bireme_engine::Result<()> {
                    let values = value.tensor()?.as_slice::<f32>()?;
                    for (to, row) in to.chunks_exact_mut(width).skip(1).zip(from) {
                        to.copy_from_slice(&values[*row as usize * width..][..width]);
                    }
                    Ok(())
                })??;
            }
            made.push((name.as_str(), tensor));
        }
        scope.take_over(made)?;
        let (mut keys, mut is_trained) = (vec![0; resized.capacity], vec![false; resized.capacity]);
        for (at, row) in from.iter().enumerate() {
            keys[at + 1] = self.keys[*row as usize];
            is_trained[at + 1] = self.is_trained[*row as usize];
        }
        (self.keys, self.is_trained) = (keys, is_trained);
        Ok(())
    }
}

/// Writes the records of keys that have come back before the servers had them.
pub(super) fn returned(
    table: &PassTable,
    places: &[(u32, std::sync::Arc<Block>, usize)],
) -> Result<Vec<Put>> {
    let width = table.record_width();
    let rows: Vec<u32> = places.iter().map(|(row, ..)| *row).collect();
    let mut records = Vec::with_capacity(rows.len() * width);
    for (_, block, place) in places {
        let record = block.record(*place, width).ok_or_else(|| {
            Error::Config("a record was asked for before it was read: please report it".to_owned())
        })?;
        records.extend_from_slice(record);
    }
    Put::all(table, &rows, &records, None)
}

fn size_for(rows: usize) -> usize {
    rows.next_power_of_two().max(FEWEST)
}

/// Row numbers, with 0 for what is too many.
fn row_numbers(rows: &[u32], size: usize) -> Result<Tensor> {
    let mut numbers: Vec<i64> = rows.iter().map(|row| i64::from(*row)).collect();
    numbers.resize(size, 0);
    Ok(Tensor::from_slice([size], &numbers)?)
}

/// The program that reads records: the rows of all variables of a table that have a part of one, side by side.
fn reading(table: &PassTable) -> Program {
    let mut program = of_table(table);
    let global = program.global_mut();
    global.add_var(Var::tensor("records", DType::F32, [-1, table.record_width() as i64]));
    let mut parts = Vec::new();
    for variable in table.variables.iter().filter(|variable| variable.first.is_some()) {
        let part = part_name(variable);
        global.add_var(Var::tensor(part.as_str(), DType::F32, [-1, variable.width as i64]));
        let op = Op::new("lookup_table_v2").input("W", [variable.name.as_str()]);
        let op = op.input("Ids", ["rows"]).output("Out", [part.as_str()]);
        global.ops.push(op.attr("padding_idx", -1i64));
        parts.push(part);
    }
    global.ops.push(Op::new("concat").input("X", parts).output("Out", ["records"]).attr("axis", 1));
    program
}

/// The program that writes rows of all variables, side by side.
fn putting(table: &PassTable) -> Program {
    let mut program = of_table(table);
    let global = program.global_mut();
    let mut records = Var::tensor("records", DType::F32, [-1, table.row_width() as i64]);
    records.need_check_feed = true;
    global.add_var(records);
    let parts: Vec<String> = table.variables.iter().map(part_name).collect();
    for (part, variable) in parts.iter().zip(&table.variables) {
        global.add_var(Var::tensor(part.as_str(), DType::F32, [-1, variable.width as i64]));
    }
    let sections: Vec<i32> = table.variables.iter().map(|own| own.width as i32).collect();
    let split = Op::new("split").input("X", ["records"]).output("Out", parts.clone());
    global.ops.push(split.attr("axis", 1).attr("sections", sections));
    for (variable, part) in table.variables.iter().zip(&parts) {
        let name = variable.name.as_str();
        let op = Op::new("put_rows").input("Param", [name]).input("Rows", ["rows"]);
        global.ops.push(op.input("Values", [part.as_str()]).output("ParamOut", [name]));
    }
    program
}

/// A program with the variables of a table, and row numbers to feed.
fn of_table(table: &PassTable) -> Program {
    let mut program = Program::new();
    let global = program.global_mut();
    let mut rows = Var::tensor("rows", DType::I64, [-1]);
    rows.need_check_feed = true;
    global.add_var(rows);
    for variable in &table.variables {
        let mut var = Var::tensor(variable.name.as_str(), DType::F32, [-1, variable.width as i64]);
        var.persistable = true;
        global.add_var(var);
    }
    program
}

fn part_name(variable: &PassVariable) -> String {
    format!("{}@PART", variable.name)
}
