//! A multilayer perceptron on MNIST, the model of Paddle's `fleetrun` guide.
//!
//! Reads the four IDX files (gzipped or not) from `--data FOLDER`, `$BIREME_DATA`,
//! `~/.cache/bireme/mnist` or Paddle's own `~/.cache/paddle/dataset/mnist`; downloads nothing.
//! `--save FOLDER` keeps the model, for `bireme predict` or for Paddle.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

mod idx;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bireme::prelude::*;
use bireme::random::Philox;

use idx::{Images, PIXELS};

const BATCH: usize = 64;
const EPOCHS: u64 = 10;

fn main() -> Result<()> {
    let args = Args::parse()?;
    let folder = args.data.map_or_else(data_folder, Ok)?;
    let train = Images::read(&folder, "train")?;
    let test = Images::read(&folder, "t10k")?;
    println!("{} images to train on, {} to test with", train.len(), test.len());
    run(&train, &test, EPOCHS, args.save.as_deref())?;
    Ok(())
}

/// Trains, and saves the model if asked to; returns the accuracy on `test` after the last epoch.
fn run(train: &Images, test: &Images, epochs: u64, save: Option<&Path>) -> Result<f32> {
    ensure!(
        train.len() >= BATCH && test.len() > 0,
        "{} images to train on and {} to test with are too few: one batch has {BATCH}",
        train.len(),
        test.len()
    );
    let graph = Graph::new();
    graph.set_random_seed(1);
    let x = layers::data(&graph, "x", [PIXELS as i64], DType::F32);
    let y = layers::data(&graph, "y", [1], DType::I64);
    let hidden = layers::fc(&x, 128, Act::Tanh)?;
    let hidden = layers::fc(&hidden, 128, Act::Tanh)?;
    let prediction = layers::fc(&hidden, 10, Act::Softmax)?;
    let cost = layers::mean(&layers::cross_entropy(&prediction, &y, Label::Hard)?)?;
    let accuracy = layers::accuracy(&prediction, &y, 1)?;
    let forward = graph.main();
    Adam::new(0.001).minimize(&cost)?;

    let mut executor = Executor::new(Place::Cpu)?;
    executor.run(&graph.startup(), &[], &[])?;
    let mut step = executor.prepare(&graph.main(), &["x", "y"], &[cost.name()])?;
    let mut accurate = 0.0;
    for epoch in 0..epochs {
        let mut loss = 0.0;
        let order = shuffled(train.len(), epoch);
        let batches = order.chunks_exact(BATCH);
        let steps = batches.len();
        for chosen in batches {
            let (images, labels) = tensors(train, chosen)?;
            step.run(&[&images, &labels])?;
            loss += step.fetched(0).as_slice::<f32>()?[0];
        }
        let all: Vec<usize> = (0..test.len()).collect();
        let (images, labels) = tensors(test, &all)?;
        let feeds = [("x", &images), ("y", &labels)];
        let tested = executor.run(&forward, &feeds, &[accuracy.name()])?;
        accurate = tested[0].as_slice::<f32>()?[0];
        let loss = loss / steps as f32;
        println!("epoch {epoch}  train loss {loss:.4}  test accuracy {accurate:.4}");
    }
    if let Some(folder) = save {
        let prefix = folder.join("model");
        save_inference_model(&prefix, &["x"], &[prediction.name()], &forward, executor.scope())?;
        println!("saved as `{}`", prefix.display());
    }
    Ok(accurate)
}

#[derive(Default)]
struct Args {
    data: Option<PathBuf>,
    save: Option<PathBuf>,
}

impl Args {
    fn parse() -> Result<Args> {
        let mut parsed = Args::default();
        let mut args = env::args().skip(1);
        while let Some(flag) = args.next() {
            match (flag.as_str(), args.next()) {
                ("--data", Some(folder)) => parsed.data = Some(folder.into()),
                ("--save", Some(folder)) => parsed.save = Some(folder.into()),
                _ => bail!("usage: mnist_mlp [--data FOLDER] [--save FOLDER]"),
            }
        }
        Ok(parsed)
    }
}

/// The folder that is named, or the first known one that holds the four files.
fn data_folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("BIREME_DATA") {
        return Ok(folder.into());
    }
    let home = PathBuf::from(env::var_os("HOME").context("HOME is not set: use --data FOLDER")?);
    let known = ["bireme/mnist", "paddle/dataset/mnist"].map(|at| home.join(".cache").join(at));
    match known.iter().find(|folder| Images::are_in(folder)) {
        Some(folder) => Ok(folder.clone()),
        None => bail!(
            "MNIST is neither in `{}` nor in `{}`: put its four IDX files into one of them, or \
             name their folder with `--data FOLDER`",
            known[0].display(),
            known[1].display()
        ),
    }
}

/// The numbers below `count`, in an order that differs from epoch to epoch.
fn shuffled(count: usize, epoch: u64) -> Vec<usize> {
    let random = Philox::new(1, "shuffle").stream(epoch);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_cached_key(|index| random.u64(*index as u64));
    order
}

fn tensors(images: &Images, chosen: &[usize]) -> Result<(Tensor, Tensor)> {
    let pixels = |i: &usize| &images.pixels[i * PIXELS..(i + 1) * PIXELS];
    let pixels: Vec<f32> = chosen.iter().flat_map(pixels).copied().collect();
    let labels: Vec<i64> = chosen.iter().map(|i| images.labels[*i]).collect();
    let pixels = Tensor::from_slice([chosen.len(), PIXELS], &pixels)?;
    Ok((pixels, Tensor::from_slice([chosen.len(), 1], &labels)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` pictures in which the rows of a digit are bright, with a little noise.
    fn made_up(count: usize, seed: u64) -> Images {
        let random = Philox::new(seed, "digits").stream(0);
        let labels: Vec<i64> = (0..count).map(|at| (random.u64(at as u64) % 10) as i64).collect();
        let pixel = |at: usize| {
            let bright = (at % PIXELS) / 28 / 3 == labels[at / PIXELS] as usize % 10;
            let noise = (random.u64((count + at) as u64) % 100) as f32 / 200.0;
            if bright { 1.0 - noise } else { noise - 1.0 }
        };
        Images { pixels: (0..count * PIXELS).map(pixel).collect(), labels }
    }

    #[test]
    fn made_up_digits_are_told_apart() {
        let (train, test) = (made_up(640, 1), made_up(100, 2));
        let accuracy = run(&train, &test, 2, None).unwrap();
        assert!(accuracy > 0.95, "{accuracy}");
    }

    #[test]
    #[ignore = "needs a folder with MNIST's four files in BIREME_DATA"]
    fn accuracy_on_the_real_images() {
        let folder = env::var_os("BIREME_DATA").map(PathBuf::from).expect("BIREME_DATA is set");
        assert!(Images::are_in(&folder), "`{}` has not MNIST's four files", folder.display());
        let [train, test] = ["train", "t10k"].map(|part| Images::read(&folder, part).unwrap());
        let accuracy = run(&train, &test, 1, None).unwrap();
        assert!(accuracy > 0.9, "{accuracy}");
    }

    #[test]
    fn less_than_a_batch_is_refused() {
        let images = |count| Images { pixels: vec![0.0; count * PIXELS], labels: vec![0; count] };
        let error = run(&images(BATCH - 1), &images(1), 1, None).unwrap_err().to_string();
        assert!(error.contains("63 images to train on and 1 to test with are too few"), "{error}");
        assert!(run(&images(BATCH), &images(1), 1, None).is_ok());
    }
}
