//! What the program of a GPUBox trainer says of its tables and parameters.

use bireme_engine::op::OpView;
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
    /// The variables of a record: weights, then state.
    pub variables: Vec<String>,
    /// The variable with the rows of keys.
    pub index: String,
    /// Variables that count its steps: powers of these numbers.
    pub powers: Vec<(String, f32)>,
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
            table.index == variable || table.variables.iter().any(|own| own == variable)
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
    /// Numbers in a record.
    pub fn record_width(&self) -> usize {
        self.reference.width * self.variables.len()
    }

    /// Bytes that a row takes, its key among them.
    pub fn bytes_of_row(&self) -> usize {
        self.record_width() * size_of::<f32>() + INDEX_BYTES
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
        variables: [name].into_iter().chain(op.inputs_of("States")).cloned().collect(),
        index: index.clone(),
        powers: op.inputs_of("Powers").iter().cloned().zip(betas).collect(),
    })
}

fn wrong(op: &Op, problem: &str) -> Error {
    Error::Config(format!(
        "op `{}` {problem}: was the program written by `transpile_gpubox`?",
        op.kind
    ))
}
