//! Linear regression on the UCI housing table: the smallest whole program.
//!
//! `housing.data` is the original file of the UCI repository, byte for byte the one that Paddle
//! downloads (MD5 d4accdce7a25600298819f8e28e8d593): 506 rows of 13 features and a price.
//! `--save FOLDER` keeps the model, for `bireme predict` or for Paddle.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::path::PathBuf;

use anyhow::{Result, bail};
use bireme::prelude::*;
use bireme::random::Philox;

const FEATURES: usize = 13;
const BATCH: usize = 20;
const PASSES: u64 = 1000;

fn main() -> Result<()> {
    fit(save_folder()?)?;
    Ok(())
}

/// Trains, saves where that is asked for, and returns the mean squared error of the training rows.
fn fit(save: Option<PathBuf>) -> Result<f32> {
    let table = scaled(include_str!("housing.data"));
    // Paddle's split: the first 80 % of the rows are for training.
    let (train, test) = table.split_at(table.len() * 4 / 5);

    let graph = Graph::new();
    let x = layers::data(&graph, "x", [FEATURES as i64], DType::F32);
    let y = layers::data(&graph, "y", [1], DType::F32);
    let predicted = layers::fc(&x, 1, Act::None)?;
    let loss = layers::mean(&layers::square_error_cost(&predicted, &y)?)?;
    let forward = graph.main();
    Sgd::new(0.01).minimize(&loss)?;
    let main = graph.main();

    let mut executor = Executor::new(Place::Cpu)?;
    executor.run(&graph.startup(), &[], &[])?;
    let mut fitted = f32::NAN;
    for pass in 0..PASSES {
        for batch in shuffled(train, pass).chunks(BATCH) {
            let (features, prices) = tensors(batch)?;
            executor.run(&main, &[("x", &features), ("y", &prices)], &[loss.name()])?;
        }
        if pass % 100 == 0 || pass + 1 == PASSES {
            let mut error = |rows: &[Row]| -> Result<f32> {
                let (features, prices) = tensors(rows)?;
                let feeds = [("x", &features), ("y", &prices)];
                Ok(executor.run(&forward, &feeds, &[loss.name()])?[0].as_slice::<f32>()?[0])
            };
            fitted = error(train)?;
            println!("pass {pass:>3}  train MSE {fitted:.4}  test MSE {:.4}", error(test)?);
        }
    }
    if let Some(folder) = save {
        let prefix = folder.join("model");
        save_inference_model(&prefix, &["x"], &[predicted.name()], &forward, executor.scope())?;
        println!("saved as `{}`", prefix.display());
    }
    Ok(fitted)
}

/// What `--save` names.
fn save_folder() -> Result<Option<PathBuf>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [] => Ok(None),
        [flag, folder] if flag == "--save" => Ok(Some(folder.into())),
        _ => bail!("usage: fit_a_line [--save FOLDER]"),
    }
}

/// Features and price of one house.
type Row = [f32; FEATURES + 1];

/// The table with Paddle's scaling: each feature minus its mean, over its range.
fn scaled(text: &str) -> Vec<Row> {
    let number = |word: &str| word.parse::<f32>().expect("the table holds numbers");
    let numbers: Vec<f32> = text.split_whitespace().map(number).collect();
    let mut rows: Vec<Row> = numbers.as_chunks().0.to_vec();
    for column in 0..FEATURES {
        let values = || rows.iter().map(|row| row[column]);
        let mean = values().map(f64::from).sum::<f64>() / rows.len() as f64;
        let range = values().fold(f32::MIN, f32::max) - values().fold(f32::MAX, f32::min);
        for row in &mut rows {
            row[column] = ((f64::from(row[column]) - mean) / f64::from(range)) as f32;
        }
    }
    rows
}

/// The rows in an order that differs from pass to pass.
fn shuffled(rows: &[Row], pass: u64) -> Vec<Row> {
    let random = Philox::new(1, "shuffle").stream(pass);
    let mut numbered: Vec<(u64, Row)> =
        rows.iter().enumerate().map(|(i, row)| (random.u64(i as u64), *row)).collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, row)| row).collect()
}

fn tensors(rows: &[Row]) -> Result<(Tensor, Tensor)> {
    let features: Vec<f32> = rows.iter().flat_map(|row| &row[..FEATURES]).copied().collect();
    let prices: Vec<f32> = rows.iter().map(|row| row[FEATURES]).collect();
    let features = Tensor::from_slice([rows.len(), FEATURES], &features)?;
    Ok((features, Tensor::from_slice([rows.len(), 1], &prices)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact least squares gives 22.7784.
    #[test]
    fn comes_close_to_least_squares() {
        let error = fit(None).unwrap();
        assert!((22.77..23.2).contains(&error), "{error}");
    }

    #[test]
    fn the_table_is_scaled_as_paddle_does() {
        let table = scaled(include_str!("housing.data"));
        assert_eq!(table.len(), 506);
        for column in 0..FEATURES {
            let values = || table.iter().map(|row| row[column]);
            assert!((values().sum::<f32>() / 506.0).abs() < 1e-5);
            let range = values().fold(f32::MIN, f32::max) - values().fold(f32::MAX, f32::min);
            assert!((range - 1.0).abs() < 1e-5);
        }
    }
}
