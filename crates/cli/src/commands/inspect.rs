//! `bireme inspect`: what is in a saved model or a checkpoint.

mod checkpoint;
mod memory;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bireme_engine::Scope;
use bireme_engine::io::{ModelFiles, load_inference_model};
use bireme_engine::tensor::Tensor;
use bireme_ir::{Program, Var, VarKind};

use super::{Outcome, models, up_to};
use crate::rows::MAX_ROWS;
use crate::table::{Align, Table};
use crate::terminal::printable;
use crate::units::{bytes, grouped, plural};

/// Show what is in a saved model or a checkpoint
///
/// Of a model it prints a summary: what goes in and out, the parameters with their shapes and
/// sizes, and how often each op occurs. With a flag it prints the program, a graph, statistics
/// of the parameters' values, or what a step takes of a GPU's memory instead. Of a checkpoint of parameter servers it prints the tables,
/// the keys that matter most, the dense variables and the files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder that holds one model or a checkpoint, the path of a `.pdmodel` file with or without its ending, or
    /// any file that holds a program (binary or text)
    model: PathBuf,
    /// Print the program as text
    #[arg(long, group = "view")]
    text: bool,
    /// Print the program as a graph for Graphviz
    #[arg(long, group = "view")]
    dot: bool,
    /// Print statistics of the parameters' values
    #[arg(long, group = "view")]
    params: bool,
    /// Print what a step takes of a GPU's memory, and what is free where there is one
    #[arg(long, group = "view")]
    memory: bool,
    /// Rows of the batch that `--memory` plans for
    #[arg(long, value_name = "ROWS", default_value = "512", requires = "memory",
          value_parser = up_to::<MAX_ROWS>)]
    batch: usize,
    /// Compare every file of a checkpoint with its checksum
    #[arg(long, conflicts_with = "view")]
    verify: bool,
    /// Keys to show of each table of a checkpoint
    #[arg(long, value_name = "KEYS", conflicts_with = "view",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    top: Option<u32>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    if let Some(folder) = checkpoint::find(&args.model)? {
        if args.text || args.dot || args.params || args.memory {
            bail!(
                "`{}` is a checkpoint, which has no program: leave out the flag",
                folder.display()
            );
        }
        return checkpoint::run(&folder, args.verify, args.top.unwrap_or(10) as usize);
    }
    if args.verify || args.top.is_some() {
        let path = args.model.display();
        bail!("`{path}` is no checkpoint: `--verify` and `--top` are for checkpoints only");
    }
    let files = models::find(&args.model)?;
    let program = read_program(&files)?;
    let text = if args.text {
        program.to_string()
    } else if args.dot {
        program.to_dot().lines().map(|line| printable(line).into_owned() + "\n").collect()
    } else if args.memory {
        memory::plan(&program, args.batch)?
    } else if args.params {
        let scope = Scope::new();
        let model = load_inference_model(&args.model, &scope)?;
        statistics(&model.program, &scope)?
    } else {
        summary(&program, &files.program)
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(Outcome::Done)
}

/// Reads a program in either form.
fn read_program(files: &ModelFiles) -> Result<Program> {
    let shown = || format!("`{}`", files.program.display());
    let bytes = files.program_bytes()?;
    // A printed program is text throughout; the binary form has control characters from the start.
    let text = std::str::from_utf8(&bytes).ok();
    let text = text.filter(|text| !text.chars().any(|c| c.is_control() && !c.is_whitespace()));
    match text {
        Some(text) => Program::parse(text).with_context(shown),
        None => Program::from_bytes(&bytes).with_context(shown),
    }
}

fn summary(program: &Program, path: &Path) -> String {
    let (feeds, fetches) = (program.feed_names(), program.fetch_names());
    let ops: usize = program.blocks.iter().map(|block| block.ops.len()).sum();
    let vars: usize = program.blocks.iter().map(|block| block.vars.len()).sum();
    let mut text = format!(
        "{}: {} in {}, {vars} variables\n",
        printable(&path.to_string_lossy()),
        plural(ops, "op"),
        plural(program.blocks.len(), "block")
    );
    for (title, names) in [("Feeds", &feeds), ("Fetches", &fetches)] {
        if !names.is_empty() {
            let declared = names.iter().filter_map(|name| program.global().var(name));
            text.push_str(&format!("\n{title}\n{}", declarations(declared)));
        }
    }
    text.push_str(&format!("\nParameters\n{}\nOps\n{}", parameters(program), histogram(program)));
    text
}

fn declarations<'a>(vars: impl Iterator<Item = &'a Var>) -> Table {
    let mut table =
        Table::new(&[("name", Align::Left), ("type", Align::Left), ("shape", Align::Left)]);
    for var in vars {
        table.row([var.name.clone(), var.dtype.to_string(), format!("{:?}", var.shape)]);
    }
    table
}

/// What the model keeps between runs. A saved program does not tell parameters from the rest, so
/// these are all its persistable tensors.
fn persistable(program: &Program) -> impl Iterator<Item = &Var> {
    let vars = program.global().vars.values();
    vars.filter(|var| var.persistable && var.kind == VarKind::LodTensor)
}

fn parameters(program: &Program) -> Table {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("type", Align::Left),
        ("shape", Align::Left),
        ("values", Align::Right),
        ("size", Align::Right),
    ]);
    let (mut all_values, mut all_bytes) = (0, 0);
    for var in persistable(program) {
        let sizes = var.shape.iter().map(|dim| u64::try_from(*dim).unwrap_or(0));
        // A damaged file may declare any shape; it must not stop us from showing it.
        let values = sizes.fold(1u64, u64::saturating_mul);
        let size = values.saturating_mul(var.dtype.size() as u64);
        table.row([
            var.name.clone(),
            var.dtype.to_string(),
            format!("{:?}", var.shape),
            grouped(values),
            bytes(size),
        ]);
        all_values = values.saturating_add(all_values);
        all_bytes = size.saturating_add(all_bytes);
    }
    let blank = String::new;
    table.row(["total".to_owned(), blank(), blank(), grouped(all_values), bytes(all_bytes)]);
    table
}

fn histogram(program: &Program) -> Table {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for op in program.blocks.iter().flat_map(|block| &block.ops) {
        *counts.entry(&op.kind).or_default() += 1;
    }
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    // By name where counts are equal: the sort is stable.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut table = Table::new(&[("op", Align::Left), ("count", Align::Right)]);
    for (kind, count) in counts {
        table.row([kind.to_owned(), grouped(count)]);
    }
    table
}

fn statistics(program: &Program, scope: &Scope) -> Result<String> {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("shape", Align::Left),
        ("min", Align::Right),
        ("max", Align::Right),
        ("mean", Align::Right),
        ("std", Align::Right),
        ("non-finite", Align::Right),
    ]);
    for var in persistable(program) {
        let (dims, stats) = scope
            .read(&var.name, |value| value.tensor().map(|t| (t.dims(), Statistics::of(t))))??;
        let number = |x: f64| format!("{x:.6}");
        table.row([
            var.name.clone(),
            dims.to_string(),
            number(stats.min),
            number(stats.max),
            number(stats.mean),
            number(stats.std),
            grouped(stats.non_finite),
        ]);
    }
    Ok(table.to_string())
}

/// Of the finite values.
#[derive(Debug, PartialEq)]
struct Statistics {
    min: f64,
    max: f64,
    mean: f64,
    std: f64,
    non_finite: u64,
}

impl Statistics {
    fn of(tensor: &Tensor) -> Statistics {
        let all = tensor.to_f64_vec();
        let finite: Vec<f64> = all.iter().copied().filter(|x| x.is_finite()).collect();
        let count = finite.len() as f64;
        let mean = finite.iter().sum::<f64>() / count;
        let variance = finite.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        Statistics {
            min: finite.iter().copied().fold(f64::NAN, f64::min),
            max: finite.iter().copied().fold(f64::NAN, f64::max),
            mean,
            std: variance.sqrt(),
            non_finite: (all.len() - finite.len()) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_leave_out_what_is_not_finite() {
        let tensor = Tensor::from_slice([4], &[1.0f32, f32::NAN, 3.0, f32::INFINITY]).unwrap();
        let expected = Statistics { min: 1.0, max: 3.0, mean: 2.0, std: 1.0, non_finite: 2 };
        assert_eq!(Statistics::of(&tensor), expected);
    }
}
