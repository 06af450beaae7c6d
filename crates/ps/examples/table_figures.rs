//! Prints the figures of sparse tables at ten million rows; or at as many as the first argument
//! says. A second argument repeats the growth so many times and measures nothing else.

#![expect(clippy::print_stdout, reason = "an example that prints")]

use bireme_ps::table::OptimizerRule;
use bireme_ps::table::bench::{Bench, CASES, Growth, ROWS, longest_pull_beside_growth};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows = std::env::args().nth(1).map_or(Ok(ROWS), |rows| rows.parse())?;
    if let Some(times) = std::env::args().nth(2) {
        for _ in 0..times.parse::<usize>()? {
            print_growth("adagrad", Bench::new(rows)?.growth());
            println!("beside it: {:?}", longest_pull_beside_growth(rows)?);
        }
        return Ok(());
    }
    {
        let bench = Bench::new(rows)?;
        print_growth("adagrad", bench.growth());
        for case in CASES {
            let figures = bench.measure(case, 4.0)?;
            println!("{:32} {:6.2} M rows/s", case.name, figures.rows_per_second / 1e6);
        }
    }
    let adam =
        OptimizerRule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, use_global_beta_pow: false };
    print_growth("adam", Bench::with_rule(rows, adam)?.growth());
    Ok(())
}

fn print_growth(rule: &str, growth: Growth) {
    println!(
        "{rule}: {} rows made at {:.2} M/s, {:?}, {:.1} bytes a row, {:.1} resident",
        growth.rows,
        growth.rows_per_second / 1e6,
        growth.longest,
        growth.bytes_per_row,
        growth.resident_per_row.unwrap_or(f64::NAN),
    );
}
