//! Figures of a table on one core: rows a second of pulls and pushes, bytes a row, and the longest
//! pull while the table grows, by the thread that makes it grow or by another.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bireme_engine::random::Philox;

use super::{AccessorConfig, OptimizerRule, PushStep, RowInit, RowStore, SparseTable, TableConfig};
use crate::{Error, Result};

/// Keys in a batch: 512 samples of 26 slots.
pub const BATCH: usize = 13_312;
/// Columns of a row.
pub const WIDTH: usize = 9;
/// Rows of the table of the cases.
pub const ROWS: usize = 10_000_000;
/// Batches that are prepared; more than any cache holds of the table.
const BATCHES: usize = 100;
/// Of all batches of a measurement, the one that this share was faster than counts: other processes
/// only ever take time, and the very fastest may have been lucky.
const QUANTILE: f64 = 0.1;
/// Between two pulls beside a growing table.
const PAUSE: Duration = Duration::from_micros(500);
/// How unlike the keys of the zipf cases are.
const EXPONENT: f64 = 1.05;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name in reports.
    pub name: &'static str,
    pushes: bool,
    zipf: bool,
}

/// Every case, in the order of reports. Batches of pulls have repeats where their keys are drawn
/// again, batches of pushes have none.
pub const CASES: &[Case] = &[
    Case { name: "table_pull_10m_uniform", pushes: false, zipf: false },
    Case { name: "table_push_adagrad_10m_uniform", pushes: true, zipf: false },
    Case { name: "table_pull_10m_zipf", pushes: false, zipf: true },
    Case { name: "table_push_adagrad_10m_zipf", pushes: true, zipf: true },
];

/// What a case found.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Rows pulled or pushed in a second, on one core.
    pub rows_per_second: f64,
    /// Keys in a batch.
    pub batch: usize,
    /// What growing the table showed.
    pub growth: Growth,
}

/// What growing a table showed.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Rows made.
    pub rows: usize,
    /// Rows made in a second, their initial values drawn.
    pub rows_per_second: f64,
    /// The longest pull of a batch while the table grew.
    pub longest: Longest,
    /// Bytes a row by the table's own account.
    pub bytes_per_row: f64,
    /// Bytes a row by what the process holds more than before, where the system tells.
    pub resident_per_row: Option<f64>,
}

/// The longest of many pulls, and what happened to its thread meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longest {
    /// How long it took, without the time in which other processes had the processors.
    pub wall: Duration,
    /// The processor time that it took.
    pub cpu: Duration,
    /// How often the thread lost its processor to another one.
    pub preemptions: u64,
    /// How often the system had to make a page for it.
    pub page_faults: u64,
}

/// A full table, ready for every case.
pub struct Bench {
    table: SparseTable,
    growth: Growth,
}

/// Measures one case for about `seconds`, table and all.
///
/// # Errors
/// When there is no such case, or the table fails.
pub fn measure(case: &str, seconds: f64) -> Result<Figures> {
    let case = CASES.iter().find(|known| known.name == case).ok_or_else(|| {
        Error::Request(format!(
            "there is no case `{case}`: there are {}",
            CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ")
        ))
    })?;
    Bench::new(ROWS)?.measure(case, seconds)
}

impl Bench {
    /// Grows a table of `rows` rows with Adagrad.
    ///
    /// # Errors
    /// When the table fails.
    pub fn new(rows: usize) -> Result<Bench> {
        Bench::with_rule(rows, OptimizerRule::Adagrad { epsilon: 1e-6, initial: 0.0 })
    }

    /// Grows a table of `rows` rows with this optimizer.
    ///
    /// # Errors
    /// When the table fails.
    pub fn with_rule(rows: usize, rule: OptimizerRule) -> Result<Bench> {
        let table = empty_table(rule)?;
        let before = resident_bytes();
        let started = Instant::now();
        let longest = grow(&table, rows)?;
        let growth = Growth {
            rows,
            rows_per_second: rows as f64 / started.elapsed().as_secs_f64(),
            longest,
            bytes_per_row: table.bytes() as f64 / rows as f64,
            resident_per_row: resident_bytes()
                .zip(before)
                .map(|(after, before)| after.saturating_sub(before) as f64 / rows as f64),
        };
        Ok(Bench { table, growth })
    }

    /// What growing it showed.
    pub fn growth(&self) -> Growth {
        self.growth
    }

    /// Measures `case` for about `seconds`.
    ///
    /// # Errors
    /// When the table fails.
    pub fn measure(&self, case: &Case, seconds: f64) -> Result<Figures> {
        let batches: Vec<Vec<u64>> =
            (0..BATCHES).map(|number| self.batch(case, number as u64)).collect();
        let mut values = vec![0.001; BATCH * WIDTH];
        let mut times = Vec::new();
        let started = Instant::now();
        for (keys, count) in batches.iter().cycle().zip(1..) {
            let batch = Instant::now();
            if case.pushes {
                self.table.push(keys, &values, None, &PushStep { rate: 0.01, count })?;
            } else {
                self.table.pull(keys, &mut values)?;
            }
            times.push(batch.elapsed());
            if started.elapsed().as_secs_f64() >= seconds {
                break;
            }
        }
        times.sort_unstable();
        let typical = times[(times.len() as f64 * QUANTILE) as usize].as_secs_f64();
        Ok(Figures { rows_per_second: BATCH as f64 / typical, batch: BATCH, growth: self.growth })
    }

    /// The keys of one batch.
    fn batch(&self, case: &Case, number: u64) -> Vec<u64> {
        let draw = Philox::new(2, case.name).stream(number);
        let rows = self.growth.rows as f64;
        let row = |index: u64| {
            let at = draw.u64(index) as f64 / 2f64.powi(64);
            if case.zipf { zipf(at, rows) } else { at * rows }
        };
        let keys = (0..).map(|index| key_of((row(index) as usize).min(self.growth.rows - 1)));
        let mut seen = HashSet::new();
        // A trainer sums the gradients of a key before it pushes them. A table that is smaller
        // than a batch could not give distinct ones.
        let distinct = case.pushes && self.growth.rows > 2 * BATCH;
        keys.filter(|key| !distinct || seen.insert(*key)).take(BATCH).collect()
    }
}

/// The longest pull of rows that are there while another thread made a table grow to `rows` rows.
///
/// # Errors
/// When the table fails.
pub fn longest_pull_beside_growth(rows: usize) -> Result<Longest> {
    let table = empty_table(OptimizerRule::Adagrad { epsilon: 1e-6, initial: 0.0 })?;
    grow(&table, BATCH.min(rows))?;
    let keys: Vec<u64> = (0..BATCH.min(rows)).map(key_of).collect();
    let mut out = vec![0.0; keys.len() * WIDTH];
    let grown = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let growing = scope.spawn(|| {
            // Who waits for this end of the channel is there as long as the scope.
            tell.send(schedule_file()).ok();
            let longest = grow(&table, rows);
            grown.store(true, Ordering::Release);
            longest
        });
        // Where the growing thread loses the processor while it holds a lock, both wait.
        let growing_file = told.recv().unwrap_or_default();
        let files = [schedule_file(), growing_file];
        let mut longest = Longest::default();
        while !grown.load(Ordering::Acquire) {
            longest.watch(&files, || table.pull(&keys, &mut out))?;
            // As a trainer does between two pulls; a lock that is never left alone is no table's.
            std::thread::sleep(PAUSE);
        }
        growing.join().expect("a growing table does not panic")?;
        Ok(longest)
    })
}

fn empty_table(rule: OptimizerRule) -> Result<SparseTable> {
    SparseTable::new(TableConfig {
        initializer: RowInit::Uniform { min: -0.01, max: 0.01 },
        seed: 1,
        accessor: AccessorConfig::Plain(rule),
        ..TableConfig::new("emb", WIDTH)
    })
}

impl Longest {
    /// Does `work`, and keeps what it took if it took longer than all before. Time in which one of
    /// the threads of `files` waits for a processor does not count.
    fn watch<R>(&mut self, files: &[String], work: impl FnOnce() -> R) -> R {
        let (queued, before, cpu, start) =
            (time_queued(files), thread_usage(), thread_time(), Instant::now());
        let result = work();
        let wall = start.elapsed();
        let cpu = thread_time().saturating_sub(cpu);
        let after = thread_usage();
        let wall = wall.saturating_sub(time_queued(files).saturating_sub(queued)).max(cpu);
        if wall > self.wall {
            let [preemptions, page_faults] = [0, 1].map(|i| after[i].saturating_sub(before[i]));
            *self = Longest { wall, cpu, preemptions, page_faults };
        }
        result
    }
}

/// Pulls the first `rows` keys, batch by batch.
fn grow(table: &SparseTable, rows: usize) -> Result<Longest> {
    let mut keys = vec![0; BATCH];
    let mut out = vec![0.0; BATCH * WIDTH];
    let (files, mut longest) = ([schedule_file()], Longest::default());
    for first in (0..rows).step_by(BATCH) {
        let keys = &mut keys[..BATCH.min(rows - first)];
        keys.iter_mut().zip(first..).for_each(|(key, number)| *key = key_of(number));
        longest.watch(&files, || table.pull(keys, &mut out[..keys.len() * WIDTH]))?;
    }
    Ok(longest)
}

/// Keys all over the range of 64 bits.
fn key_of(row: usize) -> u64 {
    (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The row below which this share of the draws falls, if rows are drawn by a power of their rank.
fn zipf(share: f64, rows: f64) -> f64 {
    let power = 1.0 - EXPONENT;
    (share * (rows.powf(power) - 1.0) + 1.0).powf(1.0 / power) - 1.0
}

/// The memory that this process holds now, where the system tells.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The processor time that all threads of this process have taken.
#[cfg(target_os = "linux")]
pub fn process_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The file in which the system tells how this thread was scheduled, if it does.
fn schedule_file() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    format!("/proc/{}/schedstat", link.display())
}

/// How long the threads of these files were ready to run while others had the processors, where
/// the system tells.
fn time_queued(files: &[String]) -> Duration {
    let queued = |file: &String| {
        let status = std::fs::read_to_string(file).unwrap_or_default();
        status.split_whitespace().nth(1).and_then(|nanoseconds| nanoseconds.parse().ok())
    };
    files.iter().map(|file| Duration::from_nanos(queued(file).unwrap_or(0))).sum()
}

/// The processor time that this thread has taken.
#[cfg(target_os = "linux")]
fn thread_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the clocks of processor time are calls of the system")]
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clocks exist, and the pointer is that of a live value.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How often this thread lost its processor, and how many pages the system made for it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "what a thread used is told by a call of the system")]
fn thread_usage() -> [u64; 2] {
    // SAFETY: the struct is plain numbers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is that of a live value.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    [usage.ru_nivcsw, usage.ru_minflt].map(|count| u64::try_from(count).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
fn thread_time() -> Duration {
    Duration::ZERO
}

#[cfg(not(target_os = "linux"))]
fn thread_usage() -> [u64; 2] {
    [0; 2]
}

#[cfg(test)]
mod tests {
    use super::super::Rows;
    use super::*;

    #[test]
    fn every_case_runs() {
        let bench = Bench::new(50_000).unwrap();
        for case in CASES {
            let figures = bench.measure(case, 0.001).unwrap();
            assert!(figures.rows_per_second > 0.0 && figures.growth.rows == 50_000);
            let keys = bench.batch(case, 0);
            let distinct: HashSet<u64> = keys.iter().copied().collect();
            assert_eq!(keys.len(), BATCH);
            assert_eq!(distinct.len() == BATCH, case.pushes);
        }
        assert_eq!(bench.table.len(), 50_000, "all keys were there");
        assert!(longest_pull_beside_growth(50_000).unwrap().wall > Duration::ZERO);
        assert!(measure("other", 1.0).unwrap_err().to_string().contains("table_pull_10m_zipf"));
    }
}
