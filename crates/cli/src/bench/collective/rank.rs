//! One of our own ranks: a process that makes calls on command, as the peers' programs do.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use bireme_collective::{Config, Group, Reduce};
use bireme_fleet::comm::{Network, Path, Transport};

/// Serve as a rank of `bireme bench collective`
#[derive(Debug, clap::Args)]
pub(crate) struct RankArgs {
    /// Number of this rank
    #[arg(long)]
    rank: usize,
    /// Where all ranks listen
    #[arg(long, value_delimiter = ',')]
    endpoints: Vec<String>,
    /// Use TCP and nothing else
    #[arg(long)]
    tcp: bool,
}

/// Reads lines `BYTES CALLS` from standard input until it ends. Rank 0 answers each with the seconds
/// of one call on the slowest rank, and the bytes that all ranks sent for it.
///
/// # Errors
/// When a rank is lost.
pub(crate) fn serve(args: &RankArgs) -> Result<()> {
    let mut config = Config::new(args.rank, args.endpoints.clone());
    config.shared_memory = !args.tcp;
    let path = if args.tcp { Path::Tcp } else { Path::Auto };
    let transport: Arc<dyn Transport> = Arc::new(Network::new(path));
    let group = Group::connect(&config, &transport)?;
    let mut out = io::stdout().lock();
    if args.rank == 0 {
        writeln!(out, "ready")?;
        out.flush()?;
    }
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (bytes, calls) = line.split_once(' ').context("a command is `BYTES CALLS`")?;
        let (seconds, sent) = measure(&group, bytes.parse()?, calls.parse()?)?;
        if args.rank == 0 {
            writeln!(out, "{seconds:e} {sent}")?;
            out.flush()?;
        }
    }
    Ok(())
}

fn measure(group: &Group, bytes: usize, calls: u64) -> Result<(f64, f64)> {
    let mut data = vec![1.0f32; bytes / 4];
    group.barrier()?;
    group.all_reduce(&mut data, Reduce::Sum)?;
    group.barrier()?;
    let (start, sent) = (Instant::now(), group.bytes_sent());
    for _ in 0..calls {
        group.all_reduce(&mut data, Reduce::Sum)?;
    }
    let mut slowest = [start.elapsed().as_secs_f64() / calls as f64];
    let mut sent = [(group.bytes_sent() - sent) as f64 / calls as f64];
    group.all_reduce(&mut slowest, Reduce::Max)?;
    group.all_reduce(&mut sent, Reduce::Sum)?;
    Ok((slowest[0], sent[0]))
}
