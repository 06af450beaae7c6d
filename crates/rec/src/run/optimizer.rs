//! The optimizer that a configuration names.

use bireme_engine::optimizer::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, DecayedAdagrad, Ftrl, Lamb, Momentum, Optimizer,
    RmsProp, Sgd,
};

use crate::Result;
use crate::config::Config;

const CLASS: &str = "hyper_parameters.optimizer.class";
const RATE: &str = "hyper_parameters.optimizer.learning_rate";
const DECAY: &str = "hyper_parameters.optimizer.weight_decay";

/// The name of a configuration's optimizer, however it is written.
pub(super) fn name(config: &Config) -> String {
    config.text(CLASS).to_ascii_lowercase().replace('_', "")
}

/// The optimizer of a configuration.
///
/// # Errors
/// When there is none of that name, or the learning rate is no number to learn with.
pub(super) fn of(config: &Config) -> Result<Box<dyn Optimizer>> {
    let rate = config.number(RATE) as f32;
    if !(rate.is_finite() && rate > 0.0) {
        return Err(config.refuse(RATE, format!("must be above 0, not {rate}")));
    }
    let momentum = config.number("hyper_parameters.optimizer.momentum") as f32;
    let lazy = config.switch("hyper_parameters.optimizer.lazy_mode");
    let decay = config.number(DECAY) as f32;
    if !(decay.is_finite() && decay >= 0.0) {
        return Err(config.refuse(DECAY, format!("must be at least 0, not {decay}")));
    }
    let class = config.text(CLASS);
    if config.has(DECAY) && !class.eq_ignore_ascii_case("adamw") {
        return Err(config.refuse(DECAY, format!("is of AdamW, and the optimizer is {class}")));
    }
    Ok(match class.to_ascii_lowercase().as_str() {
        "sgd" => Box::new(Sgd::new(rate)),
        "momentum" => Box::new(Momentum::new(rate, momentum)),
        "adagrad" => Box::new(Adagrad::new(rate)),
        "adam" => Box::new(Adam::new(rate).lazy_mode(lazy)),
        "adamw" => Box::new(AdamW::new(rate).lazy_mode(lazy).weight_decay(decay)),
        "adamax" => Box::new(Adamax::new(rate)),
        "adadelta" => Box::new(Adadelta::new(rate)),
        "rmsprop" => Box::new(RmsProp::new(rate)),
        "ftrl" => Box::new(Ftrl::new(rate)),
        "lamb" => Box::new(Lamb::new(rate)),
        "decayedadagrad" | "decayed_adagrad" => Box::new(DecayedAdagrad::new(rate)),
        _ => {
            return Err(config.refuse(
                CLASS,
                format!(
                    "is `{class}`, which is no optimizer: use SGD, Momentum, Adagrad, Adam, AdamW, \
                     Adamax, Adadelta, RMSProp, Ftrl, Lamb or DecayedAdagrad"
                ),
            ));
        }
    })
}
