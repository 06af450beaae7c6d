//! Where a command trains: `--device`, and what a configuration says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use bireme_engine::device::{Device, OnMemory};
use bireme_engine::{Executor, Place};
use bireme_fleet::Environment;
use bireme_fleet::environment::variables;
use bireme_rec::Config;

use crate::terminal::say;

/// The key of a configuration that asks for a card.
const KEY: &str = "runner.use_gpu";
/// The key that says which.
const SELECTED: &str = "runner.selected_gpus";

/// What `--device` may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The processors.
    Cpu,
    /// An NVIDIA card: by number, or the one of this process.
    Card(Option<u32>),
}

/// Parses `cpu`, `gpu` or `gpu:1`.
pub(crate) fn parse(text: &str) -> std::result::Result<Choice, String> {
    let wrong = || "write cpu, gpu, or gpu:1 for another than the first".to_owned();
    match (text, text.split_once(':')) {
        ("cpu", _) => Ok(Choice::Cpu),
        ("gpu", _) => Ok(Choice::Card(None)),
        (_, Some(("gpu", number))) => {
            number.parse().map(|number| Choice::Card(Some(number))).map_err(|_| wrong())
        }
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

/// The card that a configuration asks for, opened. Servers take none.
pub(crate) fn card_of(
    config: &Config,
    choice: Option<Choice>,
    environment: &Environment,
) -> Result<Option<Arc<dyn Device>>> {
    if !config.switch(KEY) || environment.is_server() {
        return Ok(None);
    }
    let number = number_of(config, choice, environment)?;
    let allow = config.switch("runner.allow_tf32") || is_set(variables::ALLOW_TF32.name);
    bireme_cuda::allow_tf32(allow);
    let advice = match choice {
        Some(_) => "leave out `--device gpu`",
        None => "add `--device cpu`",
    };
    let card = bireme_cuda::open(number);
    say_emulated(card.is_ok());
    card.map(Some)
        .with_context(|| format!("GPU {number} cannot be used; {advice} to train on the CPU"))
}

/// An executor where `--device` of a command without a configuration says.
pub(crate) fn executor(choice: Option<Choice>) -> Result<Executor> {
    match choice {
        Some(Choice::Card(number)) if !is_host_forced() => {
            let number = number.unwrap_or(0);
            bireme_cuda::allow_tf32(is_set(variables::ALLOW_TF32.name));
            let card = bireme_cuda::open(number).with_context(|| {
                format!("GPU {number} cannot be used; leave out `--device gpu`")
            })?;
            say_emulated(true);
            Ok(Executor::on(card).on_memory(on_memory(true)))
        }
        _ => Ok(Executor::new(Place::Cpu)?),
    }
}

/// The number of this process's card: that of `--device`, of the launcher, or of the configuration.
fn number_of(config: &Config, choice: Option<Choice>, environment: &Environment) -> Result<u32> {
    if let Some(Choice::Card(Some(number))) = choice {
        return Ok(number);
    }
    if let Some(number) = environment.selected_gpu()? {
        return Ok(number);
    }
    match selected(config)?.first() {
        Some(number) => Ok(*number),
        None => Ok(0),
    }
}

/// The cards that a configuration names.
pub(crate) fn selected(config: &Config) -> Result<Vec<u32>> {
    let number = |text: &String| {
        text.parse().map_err(|_| {
            let problem = format!("has `{text}`: write numbers of GPUs, as in `0,1`");
            anyhow::Error::from(config.refuse(SELECTED, problem))
        })
    };
    config.texts(SELECTED).iter().map(number).collect()
}

/// Says once that a card is emulated, where it is.
fn say_emulated(is_open: bool) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if is_open && bireme_cuda::is_emulated() && !SAID.swap(true, Ordering::Relaxed) {
        let name = variables::DEVICE.name;
        say(&format!(
            "{name}=emulated: GPUs are emulated by the processor, which is slow: for trying a configuration"
        ));
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
        assert_eq!(parse("gpu"), Ok(Choice::Card(None)));
        assert_eq!(parse("gpu:3"), Ok(Choice::Card(Some(3))));
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
        let alone = Environment::default();
        assert!(!asks.switch(KEY) && card_of(&asks, Some(Choice::Cpu), &alone).unwrap().is_none());
        let mut silent = config("runner: {epochs: 1}");
        choose(&mut silent, None);
        assert!(!silent.switch(KEY));
    }

    #[test]
    fn the_launcher_chooses_before_the_file() {
        let path = std::path::Path::new("a.yaml");
        let config = |text: &str| Config::parse(path, text, &[]).unwrap();
        let environment = |gpus| Environment::of([("FLAGS_selected_gpus", gpus)]).unwrap();
        let file = config("runner: {use_gpu: True, selected_gpus: \"2,3\"}");
        let number =
            |choice, environment: Environment| number_of(&file, choice, &environment).unwrap();
        assert_eq!(selected(&file).unwrap(), [2, 3]);
        assert_eq!(number(None, Environment::default()), 2);
        assert_eq!(number(Some(Choice::Card(None)), environment("1,4")), 1);
        assert_eq!(number(Some(Choice::Card(Some(5))), environment("1")), 5);
        let one = config("runner: {use_gpu: True, selected_gpus: 3}");
        assert_eq!(number_of(&one, None, &Environment::default()).unwrap(), 3);
        let wrong = selected(&config("runner: {selected_gpus: first}")).unwrap_err();
        assert!(wrong.to_string().contains("`runner.selected_gpus` has `first`"), "{wrong}");
        let wrong = number_of(&one, None, &environment("first")).unwrap_err().to_string();
        assert!(wrong.contains("FLAGS_selected_gpus"), "{wrong}");
        let server = Environment::of([("TRAINING_ROLE", "PSERVER")]).unwrap();
        assert!(card_of(&file, None, &server).unwrap().is_none());
    }
}
