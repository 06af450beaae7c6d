//! All-reduce among processes of this host beside Gloo and Open MPI, and what a ring sends.

mod contender;
mod rank;

use std::path::PathBuf;

use anyhow::{Context, Result};

pub(crate) use self::rank::{RankArgs, serve};

use self::contender::Contender;

/// Rounds in which the contenders take turns; the best of each counts.
const ROUNDS: u32 = 12;

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    what: What,
    ranks: usize,
    bytes: usize,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum What {
    /// Through shared memory, for time.
    AllReduce,
    /// Over TCP, for bytes.
    Wire,
}

const fn case(name: &'static str, what: What, ranks: usize, bytes: usize) -> Case {
    Case { name, what, ranks, bytes }
}

/// Every case, in the order of reports.
pub(crate) const CASES: &[Case] = &[
    case("allreduce_4k_r2", What::AllReduce, 2, 4 << 10),
    case("allreduce_1m_r2", What::AllReduce, 2, 1 << 20),
    case("allreduce_64m_r2", What::AllReduce, 2, 64 << 20),
    case("allreduce_4k_r4", What::AllReduce, 4, 4 << 10),
    case("allreduce_1m_r4", What::AllReduce, 4, 1 << 20),
    case("allreduce_64m_r4", What::AllReduce, 4, 64 << 20),
    case("wire_1m_r2", What::Wire, 2, 1 << 20),
    case("wire_64m_r2", What::Wire, 2, 64 << 20),
    case("wire_1m_r4", What::Wire, 4, 1 << 20),
    case("wire_64m_r4", What::Wire, 4, 64 << 20),
];

/// What a case found.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The faster peer's time over ours; or the bytes sent over the fewest possible.
    pub(crate) ratio: Option<f64>,
    /// Each peer's name and value.
    pub(crate) peers: Vec<(&'static str, f64)>,
}

/// Where the peers are.
#[derive(Debug)]
pub(crate) struct Peers {
    /// Measure without them.
    pub(crate) none: bool,
    /// The folder with `torch/bin/python`; none is the usual place.
    pub(crate) folder: Option<PathBuf>,
}

/// What the cases of one run share.
pub(crate) struct Run {
    peers: Peers,
    /// The processes of the last case, which serve the next one of as many ranks too.
    running: Vec<Contender>,
    running_for: Option<(What, usize)>,
}

impl Run {
    pub(crate) fn new(peers: Peers) -> Run {
        Run { peers, running: Vec::new(), running_for: None }
    }

    /// Measures `case` for about `seconds`, after the processes have started.
    ///
    /// # Errors
    /// When a process cannot start or fails.
    pub(crate) fn measure(&mut self, case: &Case, seconds: f64) -> Result<Figure> {
        self.start(case)?;
        if case.what == What::Wire {
            return self.measure_wire(case);
        }
        let turn = seconds / f64::from(ROUNDS) / self.running.len() as f64;
        let mut best = vec![f64::INFINITY; self.running.len()];
        // The first calls tell how many fit into a turn.
        let mut calls = Vec::new();
        for contender in &mut self.running {
            let one = contender.measure(case.bytes, 2)?.seconds;
            let again = contender.measure(case.bytes, ((turn / 4.0 / one) as u64).clamp(2, 200))?;
            calls.push(((turn / again.seconds) as u64).clamp(2, 100_000));
        }
        for _ in 0..ROUNDS {
            for ((contender, best), calls) in self.running.iter_mut().zip(&mut best).zip(&calls) {
                *best = best.min(contender.measure(case.bytes, *calls)?.seconds);
            }
        }
        let peers: Vec<_> = self
            .running
            .iter()
            .zip(&best)
            .skip(1)
            .map(|(contender, seconds)| (contender.name, seconds * 1e6))
            .collect();
        let value = best[0] * 1e6;
        let fastest = peers.iter().map(|(_, value)| *value).reduce(f64::min);
        Ok(Figure { value, unit: "us", ratio: fastest.map(|peer| peer / value), peers })
    }

    fn measure_wire(&mut self, case: &Case) -> Result<Figure> {
        let contender = self.running.first_mut().context("the ranks have started")?;
        let sent = contender.measure(case.bytes, 3)?.sent;
        // Every rank sends its data twice but for its own share: no algorithm can do with less.
        let least = (2 * (case.ranks - 1) * case.bytes) as f64;
        Ok(Figure { value: sent / 1e6, unit: "MB", ratio: Some(sent / least), peers: Vec::new() })
    }

    /// Starts the processes of a case, unless they run already; ours are the first.
    fn start(&mut self, case: &Case) -> Result<()> {
        let wanted = Some((case.what, case.ranks));
        if self.running_for == wanted {
            return Ok(());
        }
        self.running_for = None;
        self.running.clear();
        self.running.push(Contender::ours(case.ranks, case.what == What::Wire)?);
        if case.what == What::AllReduce && !self.peers.none {
            let folder = self.peers.folder.as_deref();
            self.running.extend(Contender::gloo(case.ranks, folder)?);
            self.running.extend(Contender::open_mpi(case.ranks)?);
        }
        self.running_for = wanted;
        Ok(())
    }
}
