//! What a configuration says about its optimizer: numbers of its class, a penalty, clipping. A key
//! that the class does not have is refused.

use bireme_engine::clip::GradClip;
use bireme_engine::regularizer::Regularizer;

use crate::Result;
use crate::config::Config;

const GROUP: &str = "hyper_parameters.optimizer.";
const CLASS: &str = "hyper_parameters.optimizer.class";
const DECAY: &str = "hyper_parameters.optimizer.weight_decay";
const PENALTY: &str = "hyper_parameters.optimizer.regularizer.class";
const COEFF: &str = "hyper_parameters.optimizer.regularizer.coeff";
pub(super) const CLIP: &str = "hyper_parameters.optimizer.grad_clip.class";
const CLIP_KEYS: [&str; 3] = [
    "hyper_parameters.optimizer.grad_clip.clip_norm",
    "hyper_parameters.optimizer.grad_clip.max",
    "hyper_parameters.optimizer.grad_clip.min",
];

/// Keys that only some optimizers have, and which.
const OWN: &[(&str, &[&str])] = &[
    ("beta1", &["adam", "adamw", "adamax", "lamb"]),
    ("beta2", &["adam", "adamw", "adamax", "lamb"]),
    (
        "epsilon",
        &["adam", "adamw", "adamax", "lamb", "adagrad", "adadelta", "rmsprop", "decayedadagrad"],
    ),
    ("lazy_mode", &["adam", "adamw"]),
    ("rho", &["adadelta", "rmsprop"]),
    ("decay", &["decayedadagrad"]),
    ("momentum", &["momentum", "rmsprop"]),
    ("use_nesterov", &["momentum"]),
    ("centered", &["rmsprop"]),
    ("initial_accumulator_value", &["adagrad"]),
    ("lamb_weight_decay", &["lamb"]),
    ("l1", &["ftrl"]),
    ("l2", &["ftrl"]),
    ("lr_power", &["ftrl"]),
];

/// Keys that are shares: at least 0, and below 1.
const SHARES: [&str; 5] = ["beta1", "beta2", "rho", "decay", "momentum"];

/// The key of the penalty on parameters, where a configuration has one.
pub(super) fn penalty_key(config: &Config) -> Option<&'static str> {
    let is_decay = config.has(DECAY) && !config.text(CLASS).eq_ignore_ascii_case("adamw");
    if config.has(PENALTY) { Some(PENALTY) } else { is_decay.then_some(DECAY) }
}

/// What a configuration says about its optimizer.
pub(super) struct Options<'a> {
    config: &'a Config,
}

impl<'a> Options<'a> {
    /// The keys of the optimizer `class`, a name in small letters.
    ///
    /// # Errors
    /// When one of them is of another optimizer, or no number to train with.
    pub(super) fn of(config: &'a Config, class: &str) -> Result<Options<'a>> {
        for (key, classes) in OWN {
            let full = format!("{GROUP}{key}");
            if config.has(&full) && !classes.contains(&class) {
                let name = config.text(CLASS);
                let problem = format!("is of {}, and the optimizer is {name}", classes.join(", "));
                return Err(config.refuse(&full, problem));
            }
        }
        let options = Options { config };
        for key in SHARES {
            let share = options.number(key).unwrap_or_default();
            if !(0.0..1.0).contains(&share) {
                let problem = format!("must be at least 0 and below 1, not {share}");
                return Err(config.refuse(&format!("{GROUP}{key}"), problem));
            }
        }
        for key in ["epsilon", "initial_accumulator_value", "lamb_weight_decay", "l1", "l2"] {
            let full = format!("{GROUP}{key}");
            if config.has(&full) {
                options.at_least_zero(&full)?;
            }
        }
        Ok(options)
    }

    /// A number, where it is set.
    pub(super) fn number(&self, key: &str) -> Option<f32> {
        let key = format!("{GROUP}{key}");
        self.config.has(&key).then(|| self.config.number(&key) as f32)
    }

    /// A switch, where it is set.
    pub(super) fn switch(&self, key: &str) -> Option<bool> {
        let key = format!("{GROUP}{key}");
        self.config.has(&key).then(|| self.config.switch(&key))
    }

    /// A number by its whole name.
    fn at_least_zero(&self, key: &str) -> Result<f32> {
        let number = self.config.number(key) as f32;
        match number.is_finite() && number >= 0.0 {
            true => Ok(number),
            false => Err(self.config.refuse(key, format!("must be at least 0, not {number}"))),
        }
    }

    /// The penalty on parameters, in whichever of two ways it is written. The decay of AdamW is none.
    ///
    /// # Errors
    /// When it is written both ways, there is no such penalty, or the optimizer has a decay of its own.
    pub(super) fn penalty(&self, class: &str) -> Result<Option<Regularizer>> {
        let config = self.config;
        let decay = match config.has(DECAY) {
            true => Some(self.at_least_zero(DECAY)?),
            false => None,
        };
        let key = if config.has(PENALTY) { PENALTY } else { DECAY };
        match class {
            "adamw" if config.has(PENALTY) => {
                let problem = "is of other optimizers: AdamW has `weight_decay`";
                return Err(config.refuse(PENALTY, problem));
            }
            "adamw" => return Ok(None),
            "lamb" if config.has(key) => {
                let problem = "is of other optimizers: Lamb has `lamb_weight_decay`";
                return Err(config.refuse(key, problem));
            }
            _ => {}
        }
        if !config.has(PENALTY) {
            if config.has(COEFF) {
                return Err(config.refuse(COEFF, format!("has no effect: set `{PENALTY}`")));
            }
            return Ok(decay.filter(|decay| *decay > 0.0).map(Regularizer::L2));
        }
        if decay.is_some() {
            let problem = format!("is a penalty too, besides `{DECAY}`: remove one of them");
            return Err(config.refuse(PENALTY, problem));
        }
        let coeff = self.at_least_zero(COEFF)?;
        let penalty = match config.text(PENALTY).to_ascii_lowercase().as_str() {
            "l2decay" => Regularizer::L2(coeff),
            "l1decay" => Regularizer::L1(coeff),
            _ => return Err(config.refuse(PENALTY, "must be L2Decay or L1Decay")),
        };
        if coeff == 0.0 {
            return Err(config.refuse(PENALTY, format!("has no effect: set `{COEFF}` above 0")));
        }
        Ok(Some(penalty))
    }

    /// How gradients are clipped.
    ///
    /// # Errors
    /// When there is no such way, or its bounds are none.
    pub(super) fn clip(&self) -> Result<Option<GradClip>> {
        let config = self.config;
        let [norm, max, min] = CLIP_KEYS;
        let class = config.text(CLIP).to_ascii_lowercase();
        let of_others: &[&str] = match class.as_str() {
            "" => &CLIP_KEYS,
            "clipgradbyvalue" => &[norm],
            "clipgradbynorm" | "clipgradbyglobalnorm" => &[max, min],
            _ => {
                let problem = "must be ClipGradByValue, ClipGradByNorm or ClipGradByGlobalNorm";
                return Err(config.refuse(CLIP, problem));
            }
        };
        if let Some(key) = of_others.iter().find(|key| config.has(key)) {
            let problem = match class.as_str() {
                "" => format!("has no effect: set `{CLIP}`"),
                _ => format!("is not of {}", config.text(CLIP)),
            };
            return Err(config.refuse(key, problem));
        }
        let above_zero = |key: &str| match self.at_least_zero(key)? {
            0.0 => Err(config.refuse(key, "must be above 0")),
            number => Ok(number),
        };
        Ok(match class.as_str() {
            "" => None,
            "clipgradbynorm" => Some(GradClip::Norm(above_zero(norm)?)),
            "clipgradbyglobalnorm" => Some(GradClip::GlobalNorm(above_zero(norm)?)),
            _ => {
                let largest = config.number(max) as f32;
                let smallest = match config.has(min) {
                    true => config.number(min) as f32,
                    false => -largest,
                };
                if !(largest.is_finite() && smallest.is_finite() && smallest < largest) {
                    let problem = format!("must be above `{min}`, {smallest}, not {largest}");
                    return Err(config.refuse(max, problem));
                }
                Some(GradClip::Value { min: smallest, max: largest })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(keys: &str) -> Config {
        let text = format!("hyper_parameters:\n  optimizer: {{{keys}}}\n");
        Config::parse(Path::new("a.yaml"), &text, &[]).unwrap()
    }

    #[test]
    fn penalties_and_clipping_are_what_the_keys_say() {
        let penalty = |class: &str, keys: &str| {
            let config = config(&format!("class: {class}, {keys}"));
            Options::of(&config, &class.to_ascii_lowercase())
                .and_then(|options| options.penalty(&class.to_ascii_lowercase()))
        };
        assert_eq!(penalty("Adam", "beta1: 0.5").unwrap(), None);
        assert_eq!(penalty("Adam", "weight_decay: 0.5").unwrap(), Some(Regularizer::L2(0.5)));
        assert_eq!(penalty("AdamW", "weight_decay: 0.5").unwrap(), None);
        let l1 = penalty("SGD", "regularizer: {class: L1Decay, coeff: 0.25}").unwrap();
        assert_eq!(l1, Some(Regularizer::L1(0.25)));
        for (class, keys, words) in [
            ("SGD", "beta1: 0.5", "is of adam, adamw, adamax, lamb, and the optimizer is SGD"),
            ("Adam", "beta1: 1.0", "must be at least 0 and below 1, not 1"),
            ("Adam", "weight_decay: -1.0", "must be at least 0, not -1"),
            ("Lamb", "weight_decay: 1.0", "Lamb has `lamb_weight_decay`"),
            ("Adam", "regularizer: {class: L3}", "must be L2Decay or L1Decay"),
            ("Adam", "regularizer: {class: L2Decay}", "coeff` above 0"),
            ("Adam", "regularizer: {coeff: 0.1}", "has no effect: set"),
            ("Adam", "weight_decay: 1.0, regularizer: {class: L2Decay}", "remove one of them"),
            ("AdamW", "regularizer: {class: L2Decay}", "AdamW has `weight_decay`"),
        ] {
            let error = penalty(class, keys).unwrap_err().to_string();
            assert!(error.contains(words), "{keys}: {error}");
        }
        let clip = |keys: &str| {
            let config = config(&format!("grad_clip: {{{keys}}}"));
            Options::of(&config, "adam").and_then(|options| options.clip())
        };
        assert_eq!(clip("").unwrap(), None);
        let value = clip("class: ClipGradByValue, max: 2.0").unwrap();
        assert_eq!(value, Some(GradClip::value(2.0)));
        let norm = clip("class: ClipGradByGlobalNorm, clip_norm: 5").unwrap();
        assert_eq!(norm, Some(GradClip::GlobalNorm(5.0)));
        assert_eq!(clip("class: ClipGradByNorm").unwrap(), Some(GradClip::Norm(1.0)));
        for (keys, words) in [
            ("class: Clip", "must be ClipGradByValue, "),
            ("clip_norm: 1.0", "has no effect: set"),
            ("class: ClipGradByNorm, max: 1.0", "is not of ClipGradByNorm"),
            ("class: ClipGradByNorm, clip_norm: 0.0", "must be above 0"),
            ("class: ClipGradByValue, max: 1.0, min: 2.0", "must be above"),
        ] {
            let error = clip(keys).unwrap_err().to_string();
            assert!(error.contains(words), "{keys}: {error}");
        }
    }
}
