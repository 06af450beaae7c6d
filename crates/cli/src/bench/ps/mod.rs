//! A parameter server's figures: requests over sockets beside the table's own calls, the table
//! alone, and its memory.

mod requests;

use anyhow::{Context, Result};
use bireme_fleet::comm::Path;
use bireme_fleet::ps::table::OptimizerRule;
use bireme_fleet::ps::table::bench::{self, Bench as Table, ROWS};

use self::requests::Request;

/// Tables that are grown to find the longest pull: other processes only ever lengthen one, so the
/// best table counts.
const GROWTHS: usize = 5;

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    what: What,
}

#[derive(Debug)]
enum What {
    Request(Request),
    /// A case of the table's own benchmark, by the same name.
    Table,
    BytesPerRow,
    AdamResident,
    Growth,
    GrowthBeside,
}

/// What a case found.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// Over the same call without a server, where there is one.
    pub(crate) ratio: Option<f64>,
}

const fn request(name: &'static str, push: bool, keys: usize, width: usize, path: Path) -> Case {
    Case { name, what: What::Request(Request { push, keys, width, path }) }
}

/// Every case, in the order of reports.
pub(crate) const CASES: &[Case] = &[
    request("pull_13312x9_uds", false, 13_312, 9, Path::Unix),
    request("pull_13312x9_tcp", false, 13_312, 9, Path::Tcp),
    request("push_13312x9_uds", true, 13_312, 9, Path::Unix),
    request("push_13312x9_tcp", true, 13_312, 9, Path::Tcp),
    request("pull_50000x16_uds", false, 50_000, 16, Path::Unix),
    request("pull_50000x16_tcp", false, 50_000, 16, Path::Tcp),
    request("push_50000x16_uds", true, 50_000, 16, Path::Unix),
    request("push_50000x16_tcp", true, 50_000, 16, Path::Tcp),
    Case { name: "table_adam_10m_resident", what: What::AdamResident },
    Case { name: "table_growth_10m_longest_pull", what: What::Growth },
    Case { name: "table_growth_10m_longest_pull_beside", what: What::GrowthBeside },
    Case { name: "table_adagrad_10m_bytes_per_row", what: What::BytesPerRow },
    Case { name: "table_pull_10m_uniform", what: What::Table },
    Case { name: "table_push_adagrad_10m_uniform", what: What::Table },
    Case { name: "table_pull_10m_zipf", what: What::Table },
    Case { name: "table_push_adagrad_10m_zipf", what: What::Table },
];

/// What the cases of one run share.
#[derive(Default)]
pub(crate) struct Run {
    /// Ten million rows with Adagrad, which take a while to make.
    full: Option<Table>,
}

impl Run {
    /// Measures `case` for about `seconds`, after what has to be made for it.
    ///
    /// # Errors
    /// When the server or the table fails.
    pub(crate) fn measure(&mut self, case: &Case, seconds: f64) -> Result<Figure> {
        let alone = |value, unit| Figure { value, unit, ratio: None };
        Ok(match &case.what {
            What::Request(request) => {
                let (remote, local) = request.measure(seconds)?;
                Figure { value: remote * 1e6, unit: "us", ratio: Some(remote / local) }
            }
            What::Table => {
                let known = bench::CASES.iter().find(|known| known.name == case.name);
                let known = known.expect("the table knows its cases");
                alone(self.full()?.measure(known, seconds)?.rows_per_second, "rows/s")
            }
            What::BytesPerRow => {
                let growth = self.full()?.growth();
                // By whichever account it is more.
                let resident = growth.resident_per_row.unwrap_or(0.0);
                alone(resident.max(growth.bytes_per_row), "bytes")
            }
            What::AdamResident => {
                self.full = None;
                let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
                let adam =
                    OptimizerRule::Adam { beta1, beta2, epsilon, use_global_beta_pow: false };
                let _table = Table::with_rule(ROWS, adam)?;
                let held = bench::resident_bytes().context("this system tells no resident size")?;
                alone(held as f64 / 1e6, "MB")
            }
            What::Growth => {
                let growths = (0..GROWTHS).map(|_| Ok(Table::new(ROWS)?.growth().longest.wall));
                alone(best_ms(growths)?, "ms")
            }
            What::GrowthBeside => {
                let growths =
                    (0..GROWTHS).map(|_| Ok(bench::longest_pull_beside_growth(ROWS)?.wall));
                alone(best_ms(growths)?, "ms")
            }
        })
    }

    fn full(&mut self) -> Result<&Table> {
        if self.full.is_none() {
            self.full = Some(Table::new(ROWS)?);
        }
        Ok(self.full.as_ref().expect("was just made"))
    }
}

/// The shortest of these times, in milliseconds.
fn best_ms(times: impl Iterator<Item = Result<std::time::Duration>>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for time in times {
        best = best.min(time?.as_secs_f64() * 1e3);
    }
    Ok(best)
}
