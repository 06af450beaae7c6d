//! A table's settings as a server program writes them: a block with the table's initialiser, the
//! lookup, and the optimizer.

use bireme_engine::accessor::{CtrConfig, Entry, SparseRule, wants_disk};
use bireme_engine::op::OpView;
use bireme_engine::random::RowInit;
use bireme_ir::{Attr, Block, DType, Op, Var};

use super::accessor::AccessorConfig;
use super::config::TableConfig;
use super::rule::OptimizerRule;
use crate::{Error, Result};

/// The op that says how a table is looked up.
const LOOKUP: &str = "lookup_sparse_table";
const INITIALIZERS: &str =
    "uniform_random, gaussian_random, truncated_gaussian_random and fill_constant";

impl TableConfig {
    /// Reads the block of table `var`: an initialiser whose `Out` is the table, a
    /// `lookup_sparse_table`, and the optimizer's op, if it has one. The seed is 0 when the
    /// initialiser has none of its own: the program's should then take its place.
    ///
    /// # Errors
    /// When the block lacks one of these, or one of them cannot be followed.
    pub fn from_block(var: &Var, block: &Block) -> Result<TableConfig> {
        read(var, block).map_err(|error| match error {
            Error::Config(problem) => Error::Config(format!(
                "table `{}` (block {} of the server program): {problem}",
                var.name, block.idx
            )),
            other => other,
        })
    }
}

fn read(var: &Var, block: &Block) -> Result<TableConfig> {
    let width = var.shape.last().copied().filter(|_| var.shape.len() == 2);
    let width = width.and_then(|width| usize::try_from(width).ok()).ok_or_else(|| {
        Error::Config(format!("its shape {:?} is not [rows, columns]", var.shape))
    })?;
    if var.dtype != DType::F32 {
        return Err(Error::Config("its values must be float32".to_owned()));
    }
    let writes = |op: &&Op| op.outputs_of("Out") == [var.name.as_str()];
    let init = block.ops.iter().find(|op| op.kind != LOOKUP && writes(op));
    let init =
        init.ok_or_else(|| Error::Config(format!("no op initialises it; give it {INITIALIZERS}")))?;
    let lookup = block.ops.iter().find(|op| op.kind == LOOKUP);
    let lookup = lookup.ok_or_else(|| Error::Config(format!("no `{LOOKUP}`")))?;
    let optimizer = block.ops.iter().find(|op| op.outputs_of("ParamOut") == [var.name.as_str()]);
    let (init_name, seed) = drawn_as(var, init)?;
    let rule = optimizer
        .map_or(Ok(OptimizerRule::None), |op| OptimizerRule::from_op(op, state_values(block)));
    let initializer = initializer(init)?;
    let (accessor, create_on_pull) = match text(lookup, "accessor")? {
        "" => (AccessorConfig::Plain(rule?), true),
        json => {
            if wants_disk(json) {
                tracing::warn!("`ssd_unseenday_threshold` has no effect: all rows stay in memory");
            }
            let config = CtrConfig::from_json(json, width, default_rule(rule.ok(), initializer));
            (AccessorConfig::Ctr(config.map_err(Error::Config)?), false)
        }
    };
    check_class(var, text(lookup, "table_class")?)?;
    Ok(TableConfig {
        initializer,
        init_name,
        seed,
        accessor,
        entry: Entry::parse(text(lookup, "entry")?).map_err(Error::Config)?,
        shards: shard_num(lookup)?,
        rate_factor: match lookup.attrs.get("learning_rate_factor") {
            Some(Attr::Float(factor)) => *factor,
            _ => 1.0,
        },
        create_on_pull,
        ..TableConfig::new(&var.name, width)
    })
}

fn text<'a>(op: &'a Op, name: &str) -> Result<&'a str> {
    match op.attrs.get(name) {
        None => Ok(""),
        Some(Attr::String(text)) => Ok(text),
        Some(other) => {
            let kind = other.kind();
            Err(Error::Config(format!("attribute `{name}` of `{LOOKUP}` is {kind}, not a string")))
        }
    }
}

fn shard_num(lookup: &Op) -> Result<u64> {
    let number = match lookup.attrs.get("shard_num") {
        None => return Ok(1000),
        Some(Attr::Int(number)) => i64::from(*number),
        Some(Attr::Long(number)) => *number,
        Some(_) => 0,
    };
    u64::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| {
        Error::Config(format!("attribute `shard_num` of `{LOOKUP}` must be a number from 1 on"))
    })
}

fn check_class(var: &Var, class: &str) -> Result<()> {
    match class {
        "" | "none" | "CommonSparseTable" | "MemorySparseTable" => Ok(()),
        "SSDSparseTable" => {
            tracing::warn!("table `{}` keeps its rows in memory, not on a disk", var.name);
            Ok(())
        }
        other => Err(Error::Config(format!(
            "there is no table class `{other}`: use MemorySparseTable, CommonSparseTable or \
             SSDSparseTable"
        ))),
    }
}

/// Under which name and seed initial values are drawn.
fn drawn_as(var: &Var, init: &Op) -> Result<(String, u64)> {
    let seed = match init.attrs.get("seed") {
        Some(Attr::Int(seed)) => i64::from(*seed),
        Some(Attr::Long(seed)) => *seed,
        _ => 0,
    };
    let name = match init.attrs.get("init_name") {
        Some(Attr::String(name)) if !name.is_empty() => name,
        _ => &var.name,
    };
    if let Some(Attr::Int(1..) | Attr::Long(1..)) = init.attrs.get("init_offset") {
        return Err(Error::Config(
            "`init_offset` must be 0: rows of a keyed table are drawn by their keys".to_owned(),
        ));
    }
    Ok((name.clone(), seed as u64))
}

fn initializer(op: &Op) -> Result<RowInit> {
    let view = OpView::new(op)?;
    Ok(match op.kind.as_str() {
        "uniform_random" if view.i64("diag_num")? > 0 => {
            return Err(Error::Config("`uniform_random` with `diag_num` has no keys".to_owned()));
        }
        "uniform_random" => RowInit::Uniform { min: view.f32("min")?, max: view.f32("max")? },
        "gaussian_random" => RowInit::Gaussian { mean: view.f64("mean")?, std: view.f64("std")? },
        "truncated_gaussian_random" => {
            RowInit::TruncatedGaussian { mean: view.f64("mean")?, std: view.f64("std")? }
        }
        "fill_constant" => RowInit::Constant(constant(op)?),
        other => {
            return Err(Error::Config(format!(
                "op `{other}` cannot initialise a keyed table; {INITIALIZERS} can"
            )));
        }
    })
}

fn constant(op: &Op) -> Result<f32> {
    if let Some(Attr::String(text)) = op.attrs.get("str_value")
        && !text.is_empty()
    {
        return text.parse().map_err(|_| {
            Error::Config(format!("`str_value` of `fill_constant` is no number: `{text}`"))
        });
    }
    Ok(OpView::new(op)?.f32("value")?)
}

/// The values that accumulators start with, by name.
fn state_values(block: &Block) -> impl Fn(&str) -> Option<f32> {
    move |wanted: &str| {
        let fills = |op: &&Op| op.kind == "fill_constant" && op.outputs_of("Out") == [wanted];
        block.ops.iter().find(fills).and_then(|op| constant(op).ok())
    }
}

/// The sparse rule of parts for which the settings name none.
fn default_rule(optimizer: Option<OptimizerRule>, init: RowInit) -> SparseRule {
    let initial_range = match init {
        RowInit::Uniform { min, max } => min.abs().max(max.abs()),
        _ => 1e-4,
    };
    let (kind, adam) = match optimizer {
        Some(OptimizerRule::Sgd) => ("sgd", [0.0; 3]),
        Some(OptimizerRule::Adam { beta1, beta2, epsilon, .. }) => {
            ("adam", [beta1, beta2, epsilon].map(|number| number as f32))
        }
        _ => ("", [0.0; 3]),
    };
    SparseRule::for_optimizer(kind, adam, initial_range)
}

#[cfg(test)]
mod tests;
