//! The optimizer that a configuration names.

mod options;
mod schedule;

use bireme_engine::DType;
use bireme_engine::amp::{Amp, Level, LossScaling, MixedPrecision, rewrite};
use bireme_engine::optimizer::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, DecayedAdagrad, Ftrl, Lamb, Momentum, Optimizer,
    RmsProp, Sgd,
};

use options::Options;

use super::topology::Topology;
use crate::Result;
use crate::config::Config;
use crate::zoo::Model;

const CLASS: &str = "hyper_parameters.optimizer.class";
const RATE: &str = "hyper_parameters.optimizer.learning_rate";
/// The weight decay of AdamW, as Paddle's.
const DECAY_OF_ADAMW: f32 = 0.01;

/// The name of a configuration's optimizer, however it is written.
pub(super) fn name(config: &Config) -> String {
    config.text(CLASS).to_ascii_lowercase().replace('_', "")
}

/// An optimizer with those of its options that are set, and with what every optimizer has.
macro_rules! with_options {
    ($optimizer:expr, $of:expr, $get:ident [$($key:ident),*] $(, switch [$($switch:ident),*])?) => {{
        let mut optimizer = $optimizer;
        $(if let Some(value) = $of.0.$get(stringify!($key)) {
            optimizer = optimizer.$key(value);
        })*
        $($(if let Some(value) = $of.0.switch(stringify!($switch)) {
            optimizer = optimizer.$switch(value);
        })*)?
        if let Some(penalty) = $of.1 {
            optimizer = optimizer.regularization(penalty);
        }
        if let Some(clip) = $of.2 {
            optimizer = optimizer.grad_clip(clip);
        }
        Box::new(optimizer)
    }};
}

/// The optimizer of a configuration.
///
/// # Errors
/// When there is none of that name, or one of its keys is no number to learn with, or not of this
/// optimizer.
pub(super) fn of(config: &Config) -> Result<Box<dyn Optimizer>> {
    let rate = config.number(RATE) as f32;
    if !(rate.is_finite() && rate > 0.0) {
        return Err(config.refuse(RATE, format!("must be above 0, not {rate}")));
    }
    let rate = schedule::learning_rate(config, rate)?;
    let class = name(config);
    let options = Options::of(config, &class)?;
    let with = (&options, options.penalty(&class)?, options.clip()?);
    let decay = options.number("weight_decay").unwrap_or(DECAY_OF_ADAMW);
    let lazy = options.switch("lazy_mode").unwrap_or(true);
    Ok(match class.as_str() {
        "sgd" => with_options!(Sgd::new(rate), with, number []),
        "momentum" => {
            let momentum = options.number("momentum").unwrap_or(0.9);
            with_options!(Momentum::new(rate, momentum), with, number [], switch [use_nesterov])
        }
        "adagrad" => {
            with_options!(Adagrad::new(rate), with, number [epsilon, initial_accumulator_value])
        }
        "adam" => {
            let adam = Adam::new(rate).lazy_mode(lazy);
            with_options!(adam, with, number [beta1, beta2, epsilon])
        }
        "adamw" => {
            let adamw = AdamW::new(rate).lazy_mode(lazy).weight_decay(decay);
            with_options!(adamw, with, number [beta1, beta2, epsilon])
        }
        "adamax" => with_options!(Adamax::new(rate), with, number [beta1, beta2, epsilon]),
        "adadelta" => with_options!(Adadelta::new(rate), with, number [rho, epsilon]),
        "rmsprop" => {
            let rms = RmsProp::new(rate);
            with_options!(rms, with, number [rho, epsilon, momentum], switch [centered])
        }
        "ftrl" => with_options!(Ftrl::new(rate), with, number [l1, l2, lr_power]),
        "lamb" => {
            let lamb = Lamb::new(rate);
            with_options!(lamb, with, number [beta1, beta2, epsilon, lamb_weight_decay])
        }
        "decayedadagrad" => {
            with_options!(DecayedAdagrad::new(rate), with, number [decay, epsilon])
        }
        _ => {
            return Err(config.refuse(
                CLASS,
                format!(
                    "is `{}`, which is no optimizer: use SGD, Momentum, Adagrad, Adam, AdamW, \
                     Adamax, Adadelta, RMSProp, Ftrl, Lamb or DecayedAdagrad",
                    config.text(CLASS)
                ),
            ));
        }
    })
}

/// What `runner.precision` and `runner.use_amp` ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// 32 bits.
    Whole,
    /// Products of `bfloat16`.
    Half,
    /// What the keys of mixed precision say.
    Mixed,
}

fn precision(config: &Config) -> Result<Precision> {
    const PRECISION: &str = "runner.precision";
    match config.text(PRECISION).as_str() {
        "" if config.switch("runner.use_amp") => Ok(Precision::Mixed),
        "" | "float32" => Ok(Precision::Whole),
        "bf16" => Ok(Precision::Half),
        _ => Err(config.refuse(PRECISION, "must be float32 or bf16".to_owned())),
    }
}

/// The mixed precision that a configuration asks for.
///
/// # Errors
/// When a setting of it does not exist, or cannot be had with servers.
pub(super) fn amp(config: &Config, topology: Topology) -> Result<Option<Amp>> {
    const LEVEL: &str = "runner.amp_level";
    const TYPE: &str = "runner.amp_dtype";
    const SCALE: &str = "runner.scale_loss";
    let precision = precision(config)?;
    if precision == Precision::Whole {
        return Ok(None);
    }
    let level = match config.text(LEVEL).to_ascii_uppercase().as_str() {
        "O1" => Level::O1,
        "O2" => Level::O2,
        _ => return Err(config.refuse(LEVEL, "must be O1 or O2".to_owned())),
    };
    let dtype = match config.text(TYPE).as_str() {
        "bfloat16" => DType::BF16,
        "float16" if precision == Precision::Half && config.has(TYPE) => {
            let why =
                "is float16, but `runner.precision` is bf16: remove one of the two".to_owned();
            return Err(config.refuse(TYPE, why));
        }
        _ if precision == Precision::Half => DType::BF16,
        "float16" => DType::F16,
        _ => return Err(config.refuse(TYPE, "must be float16 or bfloat16".to_owned())),
    };
    // Trainers send gradients as they are, and servers would apply them scaled.
    if topology.has_servers() && dtype == DType::F16 {
        let why = "is float16, whose gradients are scaled, and servers do not know by how much: set it to \
                   bfloat16";
        return Err(config.refuse(TYPE, why.to_owned()));
    }
    if topology.has_servers() && level == Level::O2 {
        return Err(config.refuse(
            LEVEL,
            "is O2, but servers keep parameters in 32 bits: set it to O1".to_owned(),
        ));
    }
    let mut amp = Amp::new(dtype)?.level(level);
    if dtype == DType::F16 {
        let initial = config.number(SCALE) as f32;
        if !(initial.is_finite() && initial > 0.0) {
            return Err(config.refuse(SCALE, format!("must be above 0, not {initial}")));
        }
        amp.scaling = LossScaling { initial, ..amp.scaling };
    }
    Ok(Some(amp))
}

/// Gives a model that is not trained the parameters that training with level O2 leaves: files have them in 16 bits.
///
/// # Errors
/// As [`amp`].
pub(super) fn narrow(config: &Config, model: &Model) -> Result<()> {
    let amp = amp(config, Topology::Alone)?;
    if let Some(amp) = amp.filter(|amp| amp.level == Level::O2) {
        let graph = &model.graph;
        graph.edit_main(|main| graph.edit_startup(|startup| rewrite(main, startup, &amp)))?;
    }
    Ok(())
}

/// The optimizer of a configuration, with mixed precision where it asks for that.
///
/// # Errors
/// As [`of`], and when servers cannot clip gradients or penalise parameters.
pub(super) fn with_amp(
    config: &Config,
    topology: Topology,
    amp: Option<Amp>,
) -> Result<Box<dyn Optimizer>> {
    if topology.has_servers() && config.has(options::CLIP) {
        let problem = "clips gradients, and with servers those of tables are pushed row by row, as \
                       they are: train without servers, or leave it out";
        return Err(config.refuse(options::CLIP, problem));
    }
    let distributed = "hyper_parameters.distributed_embedding";
    if topology.has_servers()
        && config.count(distributed) == 1
        && let Some(key) = options::penalty_key(config)
    {
        let problem = format!(
            "is a penalty, and rows of keyed tables (`{distributed}`) are changed by the rule of the \
             optimizer alone: leave it out"
        );
        return Err(config.refuse(key, problem));
    }
    let optimizer = of(config)?;
    Ok(match amp {
        Some(amp) => Box::new(MixedPrecision::new(optimizer, amp)),
        None => optimizer,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bireme_fleet::Mode;

    use super::*;

    fn config(options: &[&str]) -> Config {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let text = "runner:\n  use_amp: True\n";
        Config::parse(Path::new("/nowhere/config.yaml"), text, &options).unwrap()
    }

    #[test]
    fn mixed_precision_is_what_the_keys_say() {
        let asked = |options: &[&str]| amp(&config(options), Topology::Alone);
        let half = asked(&["runner.scale_loss=128.0"]).unwrap().unwrap();
        assert_eq!((half.dtype, half.level, half.scaling.initial), (DType::F16, Level::O1, 128.0));
        assert!(half.scaling.dynamic.is_some());
        let brain = asked(&["runner.amp_dtype=bfloat16", "runner.amp_level=O2"]).unwrap().unwrap();
        assert_eq!((brain.level, brain.scaling.is_none()), (Level::O2, true));
        assert!(asked(&["runner.use_amp=False"]).unwrap().is_none());
        let short = asked(&["runner.precision=bf16", "runner.use_amp=False"]).unwrap().unwrap();
        assert_eq!((short.dtype, short.level), (DType::BF16, Level::O1));
        assert!(asked(&["runner.precision=float32"]).unwrap().is_none());
        let both = ["runner.precision=bf16", "runner.amp_dtype=float16"];
        let error = asked(&both).unwrap_err().to_string();
        assert!(error.contains("`runner.precision` is bf16: remove one"), "{error}");
        let error = asked(&["runner.precision=fp8"]).unwrap_err().to_string();
        assert!(error.contains("`runner.precision` must be float32 or bf16"), "{error}");
        let error = asked(&["runner.amp_level=O3"]).unwrap_err().to_string();
        assert!(error.contains("`runner.amp_level` must be O1 or O2"), "{error}");
        let servers = Topology::Servers(Mode::Sync);
        let error = amp(&config(&[]), servers).unwrap_err().to_string();
        assert!(error.contains("set it to bfloat16"), "{error}");
        assert!(amp(&config(&["runner.amp_dtype=bfloat16"]), servers).unwrap().is_some());
    }
}
