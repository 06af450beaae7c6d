//! `bireme data`: for people who prepare data; a file for each subcommand.

mod convert;
mod distinct;
mod generate;
mod guess;
mod head;
mod input;
mod lines;
mod stat;

use anyhow::Result;
use clap::Subcommand;

use super::Outcome;

/// Look at training data, convert, split and generate it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Head(head::Args),
    #[command(visible_alias = "stats")]
    Stat(stat::Args),
    Convert(convert::Args),
    Split(lines::SplitArgs),
    Shuffle(lines::ShuffleArgs),
    Guess(guess::Args),
    Generate(generate::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    match &args.what {
        What::Head(args) => head::run(args),
        What::Stat(args) => stat::run(args),
        What::Convert(args) => convert::run(args),
        What::Split(args) => lines::split(args),
        What::Shuffle(args) => lines::shuffle(args),
        What::Guess(args) => guess::run(args),
        What::Generate(args) => generate::run(args),
    }
}
