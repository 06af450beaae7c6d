//! Loads a model of either layout and saves it in the layout of Paddle 1.x: `resave MODEL FOLDER`.
//!
//! `FOLDER` gets `__model__` and one file per parameter, for programs that know nothing newer;
//! with `--params NAME` all parameters go into one file. `cargo xtask interop` uses it to show
//! that real Paddle reads that layout from us too.

use std::env;
use std::process::ExitCode;

use bireme_engine::io::{load_inference_model, save_inference_model_dir};
use bireme_engine::{Result, Scope};

#[expect(clippy::print_stderr, reason = "an example tells what went wrong")]
fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        [model, folder] => resave(model, folder, None),
        [model, folder, "--params", name] => resave(model, folder, Some(name)),
        _ => {
            eprintln!("usage: resave MODEL FOLDER [--params NAME]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn resave(model: &str, folder: &str, params: Option<&str>) -> Result<()> {
    let scope = Scope::new();
    let model = load_inference_model(model, &scope)?;
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
    save_inference_model_dir(folder, &feeds, &fetches, &model.program, &scope, None, params)
}
