//! A server's state from its program and the values of its startup program.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Scope};
use bireme_ir::{Op, Program, Var};

use super::ServerConfig;
use super::tables::Table;
use crate::dense::{Block, BlockSpec, Shared};
use crate::{Error, Result};

/// What a server's program becomes.
pub(super) struct Built {
    pub(super) blocks: Vec<Block>,
    pub(super) rates: Option<Rates>,
    pub(super) tables: Vec<Table>,
    pub(super) shared: Shared,
}

/// The block that computes learning rates.
pub(super) struct Rates {
    pub(super) block: Block,
    /// What it computes for the other blocks and for tables.
    pub(super) exports: Vec<String>,
    /// What of it outlives the job: counters.
    pub(super) kept: Vec<String>,
}

/// Reads the program; takes the values of its parameters out of the scope.
pub(super) fn build(program: &Program, scope: &Scope, config: &ServerConfig) -> Result<Built> {
    let blocks = || config.optimize_blocks.iter().map(|at| &program.blocks[*at]);
    let received: BTreeSet<&String> = config.received.iter().collect();
    let uses: Vec<Uses> = blocks().map(|block| Uses::of(&block.ops)).collect();
    let tables =
        config.tables.iter().map(|(name, at)| Table::new(program, name, &program.blocks[*at]));
    let tables = tables.collect::<Result<Vec<Table>>>()?;
    let mut read: BTreeSet<String> =
        tables.iter().filter_map(|t| t.rate()).map(str::to_owned).collect();
    for uses in &uses {
        let only_read = uses.outside.iter().filter(|name| !uses.written.contains(*name));
        read.extend(only_read.filter(|name| !received.contains(name)).cloned());
    }
    read.extend(config.assigned.iter().cloned());
    let shared = Shared::new();
    let rates = match config.rate_block {
        Some(at) => Some(rates(program, scope, at, &read)?),
        None => None,
    };
    let computed = rates.as_ref().map_or(&[][..], |rates| &rates.exports);
    for name in &read {
        match scope.get(name) {
            Ok(tensor) => shared.set(name, &tensor),
            Err(_) if computed.contains(name) || config.assigned.contains(name) => {}
            Err(_) => return Err(no_value(name)),
        }
    }
    let mut built = Built { blocks: Vec::new(), rates, tables, shared };
    for (block, uses) in blocks().zip(&uses).filter(|(block, _)| !block.ops.is_empty()) {
        let declared = |name: &String| -> Option<(String, &Var)> {
            let var = program.find_var(block.idx, name).or_else(|| program.global().var(name));
            Some((name.clone(), var?))
        };
        let takes = uses.outside.iter().filter(|name| received.contains(name));
        let mut initial = BTreeMap::new();
        for name in uses.outside.iter().filter(|name| uses.written.contains(*name)) {
            initial.insert(name.clone(), take(scope, name)?);
        }
        built.blocks.push(Block::new(BlockSpec {
            ops: &block.ops,
            received: takes.filter_map(declared).collect(),
            shared: read.iter().filter(|name| !initial.contains_key(*name)).cloned().collect(),
            initial,
            seed: program.random_seed,
        })?);
    }
    check_names(&built.blocks)?;
    Ok(built)
}

/// Variables of some ops.
#[derive(Default)]
struct Uses {
    /// Read before an op writes them.
    outside: BTreeSet<String>,
    written: BTreeSet<String>,
}

impl Uses {
    fn of(ops: &[Op]) -> Uses {
        let mut uses = Uses::default();
        for op in ops {
            let read = op.input_vars().filter(|name| *name != bireme_ir::EMPTY_VAR);
            let new = read.filter(|name| !uses.written.contains(*name));
            uses.outside.extend(new.cloned());
            uses.written.extend(op.output_vars().cloned());
        }
        uses
    }
}

fn rates(program: &Program, scope: &Scope, at: usize, read: &BTreeSet<String>) -> Result<Rates> {
    let ops = &program.blocks[at].ops;
    let uses = Uses::of(ops);
    let mut initial = BTreeMap::new();
    for name in &uses.outside {
        initial.insert(name.clone(), scope.get(name).map_err(|_| no_value(name))?);
    }
    let kept: Vec<String> = initial.keys().cloned().collect();
    let exports: Vec<String> =
        uses.written.iter().filter(|name| read.contains(*name)).cloned().collect();
    for name in &exports {
        initial.entry(name.clone()).or_insert_with(|| Tensor::empty(DType::F32));
    }
    let (received, shared, seed) = (BTreeMap::new(), Vec::new(), program.random_seed);
    let block = Block::new(BlockSpec { ops, received, initial, shared, seed })?;
    Ok(Rates { block, exports, kept })
}

/// Moves a value out of the scope: a large table is in memory once.
fn take(scope: &Scope, name: &str) -> Result<Tensor> {
    let tensor = scope.get(name).map_err(|_| no_value(name))?;
    scope.try_remove(name)?;
    Ok(tensor)
}

fn no_value(name: &str) -> Error {
    Error::Config(format!(
        "variable `{name}` of the server's program has no value: run the server's startup program \
         in the same scope first"
    ))
}

/// A parameter that two blocks update would have two values.
fn check_names(blocks: &[Block]) -> Result<()> {
    let mut seen = HashMap::new();
    for (at, block) in blocks.iter().enumerate() {
        for name in block.param().into_iter().chain(block.received()) {
            if let Some(other) = seen.insert(name.to_owned(), at)
                && other != at
            {
                return Err(Error::Config(format!(
                    "two optimize blocks of the server's program use `{name}`"
                )));
            }
        }
    }
    Ok(())
}
