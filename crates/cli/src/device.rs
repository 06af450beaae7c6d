//! Where a command trains: `--device`, and what a configuration says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use bireme_engine::device::{Device, OnMemory};
use bireme_engine::{Executor, Place};
use bireme_fleet::environment::variables;
use bireme_rec::Config;

use crate::terminal::say;

/// The key of a configuration that asks for a card.
const KEY: &str = "runner.use_gpu";

/// What `--device` may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The processors.
    Cpu,
    /// An NVIDIA card, by number.
    Card(u32),
}

/// Parses `cpu`, `gpu` or `gpu:1`.
pub(crate) fn parse(text: &str) -> std::result::Result<Choice, String> {
    let wrong = || "write cpu, gpu, or gpu:1 for another than the first".to_owned();
    match text.split_once(':').unwrap_or((text, "0")) {
        ("cpu", "0") if text == "cpu" => Ok(Choice::Cpu),
        ("gpu", number) => number.parse().map(Choice::Card).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

/// Brings `runner.use_gpu` to what `--device` says, which comes first. `BIREME_DEVICE=cpu` sends to the host what
/// asks for a card, and one line tells it.
pub(crate) fn choose(config: &mut Config, choice: Option<Choice>) {
    if let Some(choice) = choice {
        config.set_switch(KEY, matches!(choice, Choice::Card(_)));
    }
    if config.switch(KEY) && is_host_forced() {
        // A command may train and then evaluate: it is said once.
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            say(&format!("{}=cpu: what asks for a GPU runs on the CPU", variables::DEVICE.name));
        }
        config.set_switch(KEY, false);
    }
}

/// The card that a configuration asks for, opened.
pub(crate) fn card_of(config: &Config, choice: Option<Choice>) -> Result<Option<Arc<dyn Device>>> {
    if !config.switch(KEY) {
        return Ok(None);
    }
    let number = match choice {
        Some(Choice::Card(number)) => number,
        _ => 0,
    };
    let allow = config.switch("runner.allow_tf32") || is_set(variables::ALLOW_TF32.name);
    bireme_cuda::allow_tf32(allow);
    let advice = match choice {
        Some(_) => "leave out `--device gpu`",
        None => "add `--device cpu`",
    };
    let card = bireme_cuda::open(number);
    card.map(Some)
        .with_context(|| format!("GPU {number} cannot be used; {advice} to train on the CPU"))
}

/// An executor where `--device` of a command without a configuration says.
pub(crate) fn executor(choice: Option<Choice>) -> Result<Executor> {
    match choice {
        Some(Choice::Card(number)) if !is_host_forced() => {
            bireme_cuda::allow_tf32(is_set(variables::ALLOW_TF32.name));
            let card = bireme_cuda::open(number).with_context(|| {
                format!("GPU {number} cannot be used; leave out `--device gpu`")
            })?;
            Ok(Executor::on(card).on_memory(on_memory(true)))
        }
        _ => Ok(Executor::new(Place::Cpu)?),
    }
}

/// Whether the environment sends what asks for a card to the host.
pub(crate) fn is_host_forced() -> bool {
    std::env::var(variables::DEVICE.name).as_deref() == Ok("cpu")
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| matches!(value.trim(), "1" | "true" | "True"))
}

/// Prints what a step takes of the card, once, when it is taken; and which tables stay on the host, always.
pub(crate) fn on_memory(quiet: bool) -> OnMemory {
    let is_said = AtomicBool::new(quiet);
    Arc::new(move |plan| {
        // A step without feeds only gives variables their first values.
        if plan.batch == 0 || is_said.swap(true, Ordering::Relaxed) && plan.at_home.is_empty() {
            return;
        }
        if !quiet {
            say(&format!("memory of {}: {plan}", plan.device));
        }
        if let Some(line) = plan.says_at_home() {
            say(&line);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        assert_eq!(parse("cpu"), Ok(Choice::Cpu));
        assert_eq!(parse("gpu"), Ok(Choice::Card(0)));
        assert_eq!(parse("gpu:3"), Ok(Choice::Card(3)));
        for wrong in ["", "cpu:0", "gpu:", "gpu:x", "gpu:-1", "tpu", "0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_comes_first() {
        let path = std::path::Path::new("a.yaml");
        let config = |text: &str| Config::parse(path, text, &[]).unwrap();
        let mut asks = config("runner: {use_gpu: True}");
        choose(&mut asks, Some(Choice::Cpu));
        assert!(!asks.switch(KEY) && card_of(&asks, Some(Choice::Cpu)).unwrap().is_none());
        let mut silent = config("runner: {epochs: 1}");
        choose(&mut silent, None);
        assert!(!silent.switch(KEY));
    }
}
