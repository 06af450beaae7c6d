//! Tables whose rows live on servers: which parameters they are, and how trainers read and push
//! their rows.
//!
//! A row-sliced table (`is_sparse`) is a parameter that only sparse lookups read: servers hold runs
//! of its rows. A keyed table (`is_distributed`, `sparse_embedding`) takes any 64-bit key: each
//! server holds the keys of its shards. A trainer holds the rows of neither.

use std::collections::{BTreeMap, BTreeSet};

use bireme_ir::{Attr, DType, Op, Program, grad_name};

use crate::analysis::Analysis;
use crate::edit::Edit;
use crate::{Error, Result};

/// How a table is spread over servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Runs of rows.
    Rows,
    /// Keys by shard.
    Keys,
}

/// A parameter that lives on servers row by row.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) spread: Spread,
    /// The forward lookups, by position in the global block.
    pub(crate) lookups: Vec<usize>,
    /// Their gradients.
    pub(crate) grads: Vec<usize>,
    /// The sum of several gradients, if there is one.
    pub(crate) sum: Option<usize>,
}

/// What a table's op tells servers.
pub(crate) struct TableAttrs {
    pub(crate) endpoints: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) sections: Vec<i64>,
    pub(crate) shard_num: i64,
}

/// Finds the tables of `program`.
///
/// # Errors
/// When one is used in a way that needs all its rows on the trainer.
pub(crate) fn find_tables(program: &Program, analysis: &Analysis) -> Result<Vec<Table>> {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, op) in program.global().ops.iter().enumerate().filter(|(_, op)| is_lookup(op)) {
        let Some(table) = op.inputs_of("W").first() else { continue };
        by_name.entry(table).or_default().push(index);
    }
    let mut tables = Vec::new();
    for (name, lookups) in by_name {
        let ops = &program.global().ops;
        let keyed = lookups.iter().any(|index| is_keyed(&ops[*index]));
        if keyed {
            tables.push(keyed_table(program, analysis, name, lookups)?);
        } else if is_row_sliced(program, analysis, name, &lookups) {
            let grads = gradients(program, name);
            tables.push(Table {
                name: name.to_owned(),
                spread: Spread::Rows,
                lookups,
                grads,
                sum: None,
            });
        }
    }
    // In the order of their first lookup, as a reader of the program meets them.
    tables.sort_by_key(|table| table.lookups[0]);
    Ok(tables)
}

pub(crate) fn is_lookup(op: &Op) -> bool {
    matches!(op.kind.as_str(), "lookup_table" | "lookup_table_v2")
}

fn is_lookup_grad(op: &Op) -> bool {
    matches!(op.kind.as_str(), "lookup_table_grad" | "lookup_table_v2_grad")
}

pub(crate) fn is_keyed(op: &Op) -> bool {
    let named = |name: &str| !matches!(string(op, name).as_str(), "" | "none");
    flag(op, "is_distributed") || named("table_class") || named("entry")
}

/// The lookups of `table` in another program, such as one for evaluation.
pub(crate) fn in_program(program: &Program, table: &Table) -> Table {
    let ops = program.global().ops.iter().enumerate();
    let of_table = |op: &Op| op.inputs_of("W").first() == Some(&table.name);
    let lookups = ops.filter(|(_, op)| is_lookup(op) && of_table(op)).map(|(index, _)| index);
    Table { lookups: lookups.collect(), grads: Vec::new(), sum: None, ..table.clone() }
}

fn is_row_sliced(program: &Program, analysis: &Analysis, name: &str, lookups: &[usize]) -> bool {
    let ops = &program.global().ops;
    let Some(update) = analysis.updates.iter().find(|update| update.param.name == name) else {
        return false;
    };
    update.is_sparse()
        // Servers hand out rows as single precision.
        && update.param.dtype == DType::F32
        && lookups.iter().all(|index| flag(&ops[*index], "is_sparse"))
        && other_reader(program, analysis, name).is_none()
}

/// An op of the trainer that reads `table` and is no lookup; in any block.
fn other_reader<'a>(program: &'a Program, analysis: &Analysis, table: &str) -> Option<&'a Op> {
    let blocks = program.blocks.iter();
    let mut ops =
        blocks.flat_map(|block| block.ops.iter().enumerate().map(move |op| (block.idx, op)));
    let reads = |op: &Op| op.input_vars().any(|var| var == table);
    ops.find(|(block, (index, op))| {
        let global = *block == 0;
        let served = global && analysis.on_server.contains(index);
        let lookup = global && (is_lookup(op) || is_lookup_grad(op));
        reads(op) && !served && !lookup
    })
    .map(|(_, (_, op))| op)
}

fn gradients(program: &Program, table: &str) -> Vec<usize> {
    let ops = program.global().ops.iter().enumerate();
    let of_table = |op: &Op| op.inputs_of("W").first().is_some_and(|w| w == table);
    ops.filter(|(_, op)| is_lookup_grad(op) && of_table(op)).map(|(index, _)| index).collect()
}

fn keyed_table(
    program: &Program,
    analysis: &Analysis,
    name: &str,
    lookups: Vec<usize>,
) -> Result<Table> {
    let problem = |problem: String| Err(Error::Program(format!("table `{name}`: {problem}")));
    let var = program.global().var(name);
    if let Some(var) = var.filter(|var| var.dtype != DType::F32) {
        return problem(format!("rows on servers are float32, not {}", var.dtype));
    }
    if let Some(op) = other_reader(program, analysis, name) {
        return problem(format!(
            "its rows live on servers, but op `{}` reads all of it: look rows up by \
             `embedding(is_distributed=False)` instead",
            op.kind
        ));
    }
    let ops = &program.global().ops;
    for name in lookups.iter().filter_map(|index| counters(&ops[*index])).flatten() {
        if program.global().var(&name).is_none() {
            return problem(format!("its entry counts `{name}`, which the program does not have"));
        }
    }
    let grads = gradients(program, name);
    let update = analysis.updates.iter().find(|update| update.param.name == name);
    let parts: BTreeSet<&String> =
        grads.iter().flat_map(|index| ops[*index].output_vars()).collect();
    let sum = ops
        .iter()
        .position(|op| op.kind == "sum" && op.inputs_of("X").iter().any(|var| parts.contains(var)));
    let sum = sum.filter(|index| !analysis.on_server.contains(index));
    let whole = sum.map_or_else(Vec::new, |index| ops[index].outputs_of("Out").to_vec());
    let pushed = |var: &String| parts.contains(var) || whole.contains(var);
    let changed = update.is_some_and(|update| !pushed(&update.grad.name));
    let read = ops.iter().enumerate().any(|(index, op)| {
        let served = analysis.on_server.contains(&index) || Some(index) == sum;
        !served && op.input_vars().any(pushed)
    });
    if changed || read {
        return problem(
            "its gradient is pushed row by row and cannot be clipped or read: give the parameter \
             `need_clip=False`"
                .to_owned(),
        );
    }
    Ok(Table { name: name.to_owned(), spread: Spread::Keys, lookups, grads, sum })
}

/// Replaces the lookups of `table` and, where it is keyed, their gradients. `common` gives an op
/// the attributes that all ops of a trainer have.
pub(crate) fn rewrite(
    edit: &mut Edit,
    program: &Program,
    table: &Table,
    attrs: &TableAttrs,
    common: impl Fn(Op) -> Op,
) {
    let ops = &program.global().ops;
    let dtype = program.global().var(&table.name).map_or(DType::F32, |var| var.dtype);
    let describe = |op: Op, like: &Op| {
        let version = like.kind.trim_end_matches("_grad").to_owned();
        common(op)
            .attr("table_names", attrs.names.clone())
            .attr("endpoints", attrs.endpoints.clone())
            .attr("height_sections", attrs.sections.clone())
            .attr("shard_num", attrs.shard_num)
            .attr("padding_idx", padding(like))
            .attr("lookup_table_version", version)
            .attr("dtype", dtype.code())
    };
    for group in groups(ops, &table.lookups) {
        let like = &ops[group.lookups[0]];
        let op = Op::new("distributed_lookup_table")
            .input("Ids", group.lookups.iter().flat_map(|index| ops[*index].inputs_of("Ids")))
            .input("W", [table.name.as_str()])
            .output(
                "Outputs",
                group.lookups.iter().flat_map(|index| ops[*index].outputs_of("Out")),
            );
        let mut op = describe(op, like).role(like.op_role());
        op.site.clone_from(&like.site);
        edit.before(group.at, op);
        group.lookups.iter().for_each(|index| edit.remove(*index));
    }
    match table.spread {
        Spread::Rows => {
            for index in &table.grads {
                let op = edit.op_mut(*index);
                op.attrs.insert("remote_prefetch".to_owned(), Attr::Bool(true));
                op.attrs.insert("height_sections".to_owned(), Attr::Longs(attrs.sections.clone()));
            }
        }
        Spread::Keys => push(edit, ops, table, describe),
    }
}

/// Replaces the gradients of a keyed table by pushes, one for each kind of lookup.
fn push(edit: &mut Edit, ops: &[Op], table: &Table, describe: impl Fn(Op, &Op) -> Op) {
    // Each lookup counts by the variables of its own entry.
    let mut kinds: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for index in &table.grads {
        let op = &ops[*index];
        kinds.entry((&op.kind, padding(op), counters(op))).or_default().push(*index);
    }
    for grads in kinds.values() {
        let like = &ops[grads[0]];
        let slot = grad_name("Out");
        let mut op = Op::new("distributed_push_sparse")
            .input("Ids", grads.iter().flat_map(|index| ops[*index].inputs_of("Ids")))
            .input("W", [table.name.as_str()])
            .input("Outputs@GRAD", grads.iter().flat_map(|index| ops[*index].inputs_of(&slot)));
        if let Some([show, click]) = counters(like) {
            op = op.input("Shows", [show]).input("Clicks", [click]);
        }
        let mut op = describe(op, like).role(bireme_ir::OpRole::RPC);
        op.site.clone_from(&like.site);
        // The gradients of all slots exist where the last one was used.
        edit.after(grads[grads.len() - 1], op);
    }
    table.grads.iter().chain(&table.sum).for_each(|index| edit.remove(*index));
}

/// The variables that a lookup's entry counts, if it is one by show and click.
pub(crate) fn counters(lookup: &Op) -> Option<[String; 2]> {
    let entry = string(lookup, "entry");
    let (show, click) = entry.strip_prefix("show_click_entry:")?.split_once(':')?;
    Some([show.to_owned(), click.to_owned()])
}

/// Lookups that one op can do.
struct Group {
    lookups: Vec<usize>,
    /// The op before which their ids are known.
    at: usize,
    /// The first op that reads their rows.
    until: usize,
}

/// As few groups as possible: lookups go together when they are of one kind and the ids of none
/// depend on the rows of another.
fn groups(ops: &[Op], lookups: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for index in lookups {
        let op = &ops[*index];
        let ready = op.inputs_of("Ids").iter().filter_map(|ids| {
            ops[..*index].iter().rposition(|op| op.output_vars().any(|out| out == ids))
        });
        let ready = ready.max().map_or(0, |writer| writer + 1);
        let fits = groups.iter_mut().find(|group| {
            let like = &ops[group.lookups[0]];
            (&like.kind, padding(like)) == (&op.kind, padding(op))
                && group.until >= group.at.max(ready)
        });
        match fits {
            Some(group) => {
                group.at = group.at.max(ready);
                group.until = group.until.min(first_reader(ops, *index));
                group.lookups.push(*index);
            }
            None => {
                let until = first_reader(ops, *index);
                groups.push(Group { lookups: vec![*index], at: *index, until });
            }
        }
    }
    groups
}

/// The first op that reads the rows of the lookup at `index`.
fn first_reader(ops: &[Op], index: usize) -> usize {
    let rows = ops[index].outputs_of("Out");
    let reads = |op: &Op| op.input_vars().any(|var| rows.contains(var));
    ops[index + 1..].iter().position(reads).map_or(ops.len(), |after| index + 1 + after)
}

/// The row of a lookup that reads as zeros; -1 where there is none.
pub(crate) fn padding(op: &Op) -> i64 {
    match op.attrs.get("padding_idx") {
        Some(Attr::Long(id)) => *id,
        Some(Attr::Int(id)) => i64::from(*id),
        _ => -1,
    }
}

pub(crate) fn string(op: &Op, name: &str) -> String {
    match op.attrs.get(name) {
        Some(Attr::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn flag(op: &Op, name: &str) -> bool {
    matches!(op.attrs.get(name), Some(Attr::Bool(true)))
}
