//! `bireme inspect --memory`: what a step takes of a card's memory, before it is taken.

use anyhow::{Context, Result};
use bireme_engine::Executor;
use bireme_engine::device::{DeviceMemory, MemoryPlan};
use bireme_ir::Program;

use crate::table::{Align, Table};
use crate::terminal::printable;
use crate::units::{bytes, plural};

/// The plan of a program for batches of so many rows: on the first card, or on paper where there is none.
pub(super) fn plan(program: &Program, batch: usize) -> Result<String> {
    let card = match bireme_cuda::count() {
        Ok(cards) if cards > 0 => bireme_cuda::open(0)?,
        _ => bireme_cuda::on_paper(),
    };
    let (mut feeds, fetches) = (program.feed_names(), program.fetch_names());
    if feeds.is_empty() {
        // A program for training names no feeds, but declares what is checked when it is fed.
        let vars = program.global().vars.values();
        feeds = vars.filter(|var| var.need_check_feed).map(|var| var.name.clone()).collect();
    }
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    let fetches: Vec<&str> = fetches.iter().map(String::as_str).collect();
    let plan = Executor::on(card).memory_plan(program, &feeds, &fetches, batch);
    Ok(show(&plan.context("the program cannot be planned")?, batch))
}

fn show(plan: &MemoryPlan, batch: usize) -> String {
    let mut table = Table::new(&[("memory for", Align::Left), ("size", Align::Right)]);
    let mut row = |name: &str, size: usize| table.row([name.to_owned(), bytes(size as u64)]);
    row("parameters", plan.parameters);
    row("optimizer state", plan.state);
    row("feeds", plan.feeds);
    row("activations", plan.activations);
    row("scratch of kernels", plan.scratch);
    // What lives at different times shares memory, but not always without gaps.
    let parts = plan.feeds + plan.activations + plan.scratch;
    row("gaps", plan.arena.saturating_sub(parts));
    row("sum", plan.total());
    let mut text = format!("On {}, with a batch of {batch}\n\n{table}", printable(&plan.device));
    if plan.segments.is_empty() {
        text += "\nNo op of this program runs on a card: the host runs all.\n";
    } else {
        text += &format!("\nSegments\n{}", segments(plan));
    }
    if let Some(DeviceMemory { free, total }) = plan.memory {
        let (free, total) = (bytes(free as u64), bytes(total as u64));
        text += &format!("\n{free} of {total} are free\n");
    }
    if let Some(line) = plan.says_at_home() {
        text += &format!("{}\n", printable(&line));
    }
    text
}

fn segments(plan: &MemoryPlan) -> Table {
    let mut table = Table::new(&[
        ("ops", Align::Left),
        ("from", Align::Left),
        ("to", Align::Left),
        ("at most", Align::Right),
    ]);
    for segment in &plan.segments {
        table.row([
            plural(segment.ops, "op"),
            segment.first.clone(),
            segment.last.clone(),
            bytes(segment.bytes as u64),
        ]);
    }
    table
}
