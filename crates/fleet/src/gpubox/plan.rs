//! What the program of a GPUBox trainer says of its tables and parameters.

use std::ops::Range;

use bireme_engine::accessor::{Ctr, Entry, Mark};
use bireme_engine::op::OpView;
use bireme_engine::ops::accessor_of;
use bireme_engine::remote::{Piece, RowSpread, TableRef};
use bireme_ir::{Op, Program};

use crate::{Error, Result};

/// Bytes that the index of keys takes for each row: it is at most half full, a slot has 16.
const INDEX_BYTES: usize = 64;

/// What a trainer holds during a pass.
#[derive(Clone, Debug)]
pub struct PassPlan {
    /// Tables, in the order of the program.
    pub tables: Vec<PassTable>,
    /// Parameters and state that are no tables, and the server that has each.
    pub dense: Vec<Piece>,
}

/// A table whose rows of a pass are variables of the trainer.
#[derive(Clone, Debug)]
pub struct PassTable {
    /// The table on the servers.
    pub reference: TableRef,
    /// The feeds whose ids are its keys.
    pub feeds: Vec<String>,
    /// The variables that hold its records.
    pub variables: Vec<PassVariable>,
    /// The accessor that its records are for, where it has one.
    pub accessor: Option<Ctr>,
    /// Who is admitted, where not everybody is.
    pub entry: Entry,
    /// The variable with the rows of keys.
    pub index: String,
    /// With several trainers: the variable whose size is how many rows fit that one asks of another.
    pub room: Option<String>,
    /// Variables that count its steps: powers of these numbers.
    pub powers: Vec<(String, f32)>,
}

/// A variable that holds some columns of records, or what pulls of them give.
#[derive(Clone, Debug)]
pub struct PassVariable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub width: usize,
    /// Where they begin in a record; `None` for what pulls give.
    pub first: Option<usize>,
}

impl PassPlan {
    /// What `program` says; `None` when it is no GPUBox trainer's.
    ///
    /// # Errors
    /// When it contradicts itself.
    pub fn of(program: &Program) -> Result<Option<PassPlan>> {
        let ops = || program.global().ops.iter();
        let tables = ops().filter(|op| op.kind == "pass_table");
        let tables = tables.map(|op| table(program, op)).collect::<Result<Vec<_>>>()?;
        if tables.is_empty() {
            return Ok(None);
        }
        let mut dense = Vec::new();
        for op in ops().filter(|op| op.kind == "pass_dense") {
            let endpoints = OpView::new(op)?.strings("epmap")?;
            let names = op.inputs_of("X").iter().cloned();
            dense.extend(names.zip(endpoints).map(|(name, endpoint)| Piece { name, endpoint }));
        }
        Ok(Some(PassPlan { tables, dense }))
    }

    /// Whether a variable holds rows of a pass, or their keys.
    pub fn has(&self, variable: &str) -> bool {
        let of = |table: &PassTable| {
            let named = table.variables.iter().map(|own| &own.name);
            named.chain(&table.room).chain([&table.index]).any(|own| own == variable)
        };
        self.tables.iter().any(of)
    }

    /// The slots whose ids are the keys of each table.
    pub fn groups(&self) -> Vec<Vec<String>> {
        self.tables.iter().map(|table| table.feeds.clone()).collect()
    }

    /// Bytes that a row of each table takes.
    pub fn bytes_of_rows(&self) -> Vec<usize> {
        self.tables.iter().map(PassTable::bytes_of_row).collect()
    }
}

impl PassTable {
    /// Numbers in a record, as servers lend it.
    pub fn record_width(&self) -> usize {
        let columns = self.variables.iter().filter(|variable| variable.first.is_some());
        columns.map(|variable| variable.width).sum()
    }

    /// Numbers in a row of all variables.
    pub fn row_width(&self) -> usize {
        self.variables.iter().map(|variable| variable.width).sum()
    }

    /// Bytes that a row takes, its key among them.
    pub fn bytes_of_row(&self) -> usize {
        self.row_width() * size_of::<f32>() + INDEX_BYTES
    }

    /// What a lookup of a record gives.
    pub fn pull(&self, record: &[f32], out: &mut [f32]) {
        if let Some(accessor) = &self.accessor {
            return accessor.pull_lent(record, out);
        }
        let counters = self.marked_counters();
        let is_admitted =
            self.is_made(record) && (counters.is_empty() || self.entry.admits(&record[1..]));
        if is_admitted {
            out.copy_from_slice(&record[counters.end..][..out.len()]);
        } else {
            out.fill(0.0);
        }
    }

    /// Whether servers have, or get, a row for the key of a record.
    pub(super) fn is_made(&self, record: &[f32]) -> bool {
        let is_marked = self.accessor.is_some() || !self.marked_counters().is_empty();
        !is_marked || Mark::of(record[0]) == Mark::Made
    }

    /// Where a record of a plain table has its mark and the counters of its entry.
    fn marked_counters(&self) -> Range<usize> {
        match self.entry {
            Entry::Every => 0..0,
            _ => 0..1 + self.entry.counters(),
        }
    }

    /// Writes a variable's columns of a record.
    pub(super) fn fill(&self, variable: &PassVariable, record: &[f32], to: &mut [f32]) {
        match variable.first {
            Some(first) => to.copy_from_slice(&record[first..][..variable.width]),
            None => self.pull(record, to),
        }
    }

    /// The keys without the one that stands for nothing.
    pub(super) fn without_padding(&self, keys: &[u64]) -> Vec<u64> {
        let padding = self.reference.padding.map(|padding| padding as u64);
        keys.iter().copied().filter(|key| Some(*key) != padding).collect()
    }
}

fn table(program: &Program, op: &Op) -> Result<PassTable> {
    let view = OpView::new(op)?;
    let [name] = op.inputs_of("W") else { return Err(wrong(op, "has not one table")) };
    let [index] = op.inputs_of("Index") else { return Err(wrong(op, "has not one index")) };
    let width = program.global().var(name).and_then(|var| var.shape.last().copied());
    let width = width.and_then(|width| usize::try_from(width).ok()).filter(|width| *width > 0);
    let width = width.ok_or_else(|| wrong(op, "has a table without columns"))?;
    let endpoints = view.strings("endpoints")?;
    let padding = view.i64("padding_idx")?;
    let betas = view.floats("betas")?.into_iter().map(|beta| beta as f32);
    let shards = u64::try_from(view.i64("shard_num")?).unwrap_or(1).max(1);
    let (accessor, entry, variables) = records(program, op, name, width)?;
    Ok(PassTable {
        reference: TableRef {
            name: name.clone(),
            width,
            padding: (padding != -1).then_some(padding),
            spread: RowSpread::Keys { shards },
            names: vec![name.clone(); endpoints.len()],
            endpoints,
        },
        feeds: op.inputs_of("Ids").to_vec(),
        variables,
        accessor,
        entry,
        index: index.clone(),
        room: op.inputs_of("Room").first().cloned(),
        powers: op.inputs_of("Powers").iter().cloned().zip(betas).collect(),
    })
}

/// What the records of table `name` are, and which variables hold them.
fn records(
    program: &Program,
    op: &Op,
    name: &str,
    width: usize,
) -> Result<(Option<Ctr>, Entry, Vec<PassVariable>)> {
    let of_table = |kind: &str, slot: &str, var: &str| {
        let is_it = |op: &&Op| op.kind == kind && op.inputs_of(slot) == [var];
        program.global().ops.iter().find(is_it)
    };
    let mut variables = Vec::new();
    if let [record] = op.inputs_of("Record") {
        let update = of_table("update_records", "Record", record);
        let update = update.ok_or_else(|| wrong(op, "has records that nothing updates"))?;
        let accessor = accessor_of(&OpView::new(update)?, width)?;
        let (name, record) = (name.to_owned(), record.clone());
        variables.push(PassVariable { name, width, first: None });
        let width = accessor.lent_width();
        variables.push(PassVariable { name: record, width, first: Some(0) });
        return Ok((Some(accessor), Entry::Every, variables));
    }
    let (mut entry, mut first) = (Entry::Every, 0);
    if let [counters] = op.inputs_of("Entry") {
        let admits = of_table("admit_rows", "Entry", counters);
        let admits = admits.ok_or_else(|| wrong(op, "has an entry that nothing asks"))?;
        let text = OpView::new(admits)?.string("entry")?;
        entry = Entry::parse(&text).map_err(|problem| wrong(op, &problem))?;
        let width = 1 + entry.counters();
        variables.push(PassVariable { name: counters.clone(), width, first: Some(0) });
        first = width;
    }
    for name in std::iter::once(name).chain(op.inputs_of("States").iter().map(String::as_str)) {
        variables.push(PassVariable { name: name.to_owned(), width, first: Some(first) });
        first += width;
    }
    Ok((None, entry, variables))
}

fn wrong(op: &Op, problem: &str) -> Error {
    Error::Config(format!(
        "op `{}` {problem}: was the program written by `transpile_gpubox`?",
        op.kind
    ))
}
