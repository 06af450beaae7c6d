//! The learning rate that a configuration asks for: a number, or a schedule by steps with the names
//! and keys of Paddle's classes, perhaps after a warm-up.

use bireme_engine::lr::{Lr, Schedule};

use crate::Result;
use crate::config::Config;

const RATE: &str = "hyper_parameters.optimizer.learning_rate";
const GROUP: &str = "hyper_parameters.optimizer.lr_scheduler.";
const CLASS: &str = "hyper_parameters.optimizer.lr_scheduler.class";
const WARMUP: &str = "hyper_parameters.optimizer.warmup.";

/// The classes, with the keys that each must have and may have.
const CLASSES: &[(&str, &[&str], &[&str])] = &[
    ("StepDecay", &["step_size"], &["gamma"]),
    ("MultiStepDecay", &["milestones"], &["gamma"]),
    ("ExponentialDecay", &["gamma"], &["decay_steps", "staircase"]),
    ("NaturalExpDecay", &["gamma"], &["decay_steps", "staircase"]),
    ("InverseTimeDecay", &["gamma"], &["decay_steps", "staircase"]),
    ("PolynomialDecay", &["decay_steps"], &["end_lr", "power", "cycle"]),
    ("PiecewiseDecay", &["boundaries", "values"], &[]),
    ("CosineAnnealingDecay", &["T_max"], &[]),
    ("NoamDecay", &["d_model", "warmup_steps"], &[]),
];

/// The learning rate of a configuration, which is `rate` at first.
///
/// # Errors
/// When there is no such schedule, or its keys do not make one.
pub(super) fn learning_rate(config: &Config, rate: f32) -> Result<Lr> {
    let then = match config.text(CLASS).as_str() {
        "" => constant(config, rate)?,
        name => Lr::Schedule(named(config, name, rate)?),
    };
    let keys = [format!("{WARMUP}warmup_steps"), format!("{WARMUP}start_lr")];
    let (steps, start) = (config.count(&keys[0]), config.number(&keys[1]) as f32);
    if steps == 0 {
        if config.has(&keys[1]) {
            return Err(config.refuse(&keys[1], format!("has no effect: set `{}`", keys[0])));
        }
        return Ok(then);
    }
    if !(start.is_finite() && start >= 0.0) {
        return Err(config.refuse(&keys[1], format!("must be at least 0, not {start}")));
    }
    let warmup_steps = steps as f32;
    Ok(Schedule::LinearWarmup { warmup_steps, start, end: rate, then: Box::new(then) }.into())
}

/// The rate without a schedule, of which no key may stand there.
fn constant(config: &Config, rate: f32) -> Result<Lr> {
    match config.values().find(|(key, _)| key.starts_with(GROUP) && config.has(key)) {
        Some((key, _)) => Err(config.refuse(key, format!("has no effect: set `{CLASS}`"))),
        None => Ok(Lr::Constant(rate)),
    }
}

fn named(config: &Config, name: &str, rate: f32) -> Result<Schedule> {
    let class = CLASSES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
    let Some((class, needed, allowed)) = class else {
        let names: Vec<&str> = CLASSES.iter().map(|(name, ..)| *name).collect();
        let problem = format!("is `{name}`, which is no schedule: use {}", names.join(", "));
        return Err(config.refuse(CLASS, problem));
    };
    if let Some(missing) = needed.iter().find(|key| !config.has(&format!("{GROUP}{key}"))) {
        let problem = format!("is {class}, which needs `{GROUP}{missing}`");
        return Err(config.refuse(CLASS, problem));
    }
    for (key, _) in config.values().filter(|(key, _)| config.has(key)) {
        let own = key.strip_prefix(GROUP).filter(|own| *own != "class");
        if own.is_some_and(|own| !needed.contains(&own) && !allowed.contains(&own)) {
            let keys = [*needed, *allowed].concat().join("`, `");
            return Err(config.refuse(key, format!("is not of {class}, which has `{keys}`")));
        }
    }
    let schedule = Keys(config).schedule(class, rate)?;
    if matches!(schedule, Schedule::Piecewise { .. })
        && *class == "PiecewiseDecay"
        && config.has(RATE)
    {
        let problem =
            format!("has no effect with {class}, whose `values` are the rates: remove it");
        return Err(config.refuse(RATE, problem));
    }
    Ok(schedule)
}

/// The keys of a schedule, which are there where it needs them.
struct Keys<'a>(&'a Config);

impl Keys<'_> {
    fn number(&self, key: &str) -> f32 {
        self.0.number(&format!("{GROUP}{key}")) as f32
    }

    /// A number of steps.
    fn steps(&self, key: &str) -> Result<f32> {
        match self.0.count(&format!("{GROUP}{key}")) {
            0 => Err(self.0.refuse(&format!("{GROUP}{key}"), "must be at least 1")),
            steps => Ok(steps as f32),
        }
    }

    fn switch(&self, key: &str) -> bool {
        self.0.switch(&format!("{GROUP}{key}"))
    }

    /// Steps that rise.
    fn boundaries(&self, key: &str) -> Result<Vec<i64>> {
        let key = format!("{GROUP}{key}");
        let numbers = self.0.numbers(&key);
        let are_steps = numbers.iter().all(|number| *number >= 1.0 && number.fract() == 0.0);
        if numbers.is_empty() || !are_steps || !numbers.is_sorted() {
            return Err(self.0.refuse(&key, "must be numbers of steps, each above the one before"));
        }
        Ok(numbers.into_iter().map(|number| number as i64).collect())
    }

    fn schedule(&self, class: &str, rate: f32) -> Result<Schedule> {
        let (gamma, staircase) = (self.number("gamma"), self.switch("staircase"));
        if !(gamma.is_finite() && gamma > 0.0) {
            return Err(self.0.refuse(&format!("{GROUP}gamma"), "must be above 0"));
        }
        Ok(match class {
            "StepDecay" => {
                let decay_steps = self.steps("step_size")?;
                Schedule::Exponential { rate, decay_steps, decay_rate: gamma, staircase: true }
            }
            "MultiStepDecay" => {
                let boundaries = self.boundaries("milestones")?;
                let values = (0..=boundaries.len()).map(|fall| rate * gamma.powi(fall as i32));
                Schedule::Piecewise { values: values.collect(), boundaries }
            }
            "ExponentialDecay" => {
                let decay_steps = self.steps("decay_steps")?;
                Schedule::Exponential { rate, decay_steps, decay_rate: gamma, staircase }
            }
            "NaturalExpDecay" => {
                let decay_steps = self.steps("decay_steps")?;
                Schedule::NaturalExp { rate, decay_steps, decay_rate: gamma, staircase }
            }
            "InverseTimeDecay" => {
                let decay_steps = self.steps("decay_steps")?;
                Schedule::InverseTime { rate, decay_steps, decay_rate: gamma, staircase }
            }
            "PolynomialDecay" => Schedule::Polynomial {
                rate,
                decay_steps: self.steps("decay_steps")?,
                end: self.number("end_lr"),
                power: self.number("power"),
                cycle: self.switch("cycle"),
            },
            "PiecewiseDecay" => self.pieces()?,
            "CosineAnnealingDecay" => {
                Schedule::Cosine { rate, step_each_epoch: 1.0, epochs: self.steps("T_max")? }
            }
            _ => Schedule::Noam {
                d_model: self.number("d_model"),
                warmup_steps: self.steps("warmup_steps")?,
                rate,
            },
        })
    }

    fn pieces(&self) -> Result<Schedule> {
        let boundaries = self.boundaries("boundaries")?;
        let key = format!("{GROUP}values");
        let values = self.0.numbers(&key);
        if values.len() != boundaries.len() + 1 {
            let wanted = boundaries.len() + 1;
            let problem = format!("must have {wanted} rates, one more than boundaries");
            return Err(self.0.refuse(&key, problem));
        }
        if values.iter().any(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(self.0.refuse(&key, "must be rates above 0"));
        }
        Ok(Schedule::Piecewise {
            boundaries,
            values: values.into_iter().map(|value| value as f32).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rate(keys: &str) -> Result<Lr> {
        let text = format!("hyper_parameters:\n  optimizer:\n    {keys}\n");
        learning_rate(&Config::parse(Path::new("a.yaml"), &text, &[]).unwrap(), 0.5)
    }

    /// The rate at some steps, rounded.
    fn at<const N: usize>(keys: &str, steps: [u64; N]) -> [f64; N] {
        let Lr::Schedule(schedule) = rate(keys).unwrap() else { panic!("a schedule: {keys}") };
        steps.map(|step| (schedule.at(step) * 1e6).round() / 1e6)
    }

    /// Paddle 2.6.2: `s = paddle.optimizer.lr.StepDecay(0.5, step_size=3, gamma=0.1)`, then
    /// `s.step()` and `s()` after each step, and so for the other classes.
    #[test]
    fn schedules_are_paddles() {
        let steps = [0, 1, 3, 6];
        let group = |keys: &str| format!("lr_scheduler: {{{keys}}}");
        for (keys, rates) in [
            ("class: StepDecay, step_size: 3", [0.5, 0.5, 0.05, 0.005]),
            ("class: MultiStepDecay, milestones: [1, 6], gamma: 0.5", [0.5, 0.25, 0.25, 0.125]),
            ("class: ExponentialDecay, gamma: 0.9", [0.5, 0.45, 0.3645, 0.265_721]),
            ("class: NaturalExpDecay, gamma: 0.1", [0.5, 0.452_419, 0.370_409, 0.274_406]),
            ("class: InverseTimeDecay, gamma: 0.1", [0.5, 0.454_545, 0.384_615, 0.3125]),
            ("class: PolynomialDecay, decay_steps: 4", [0.5, 0.375_025, 0.125_075, 0.0001]),
            ("class: CosineAnnealingDecay, T_max: 6", [0.5, 0.466_506, 0.25, 0.0]),
        ] {
            let ours = at(&group(keys), steps);
            let are_close = ours.iter().zip(rates).all(|(one, other)| (one - other).abs() < 2e-6);
            assert!(are_close, "{keys}: {ours:?}");
        }
        let pieces = "class: PiecewiseDecay, boundaries: [2, 4], values: [0.3, 0.2, 0.1]";
        assert_eq!(at(&group(pieces), steps), [0.3, 0.3, 0.2, 0.1]);
        let noam = "class: NoamDecay, d_model: 4, warmup_steps: 2";
        assert_eq!(at(&group(noam), [1, 2, 8]), [0.088_388, 0.176_777, 0.088_388]);
    }

    #[test]
    fn a_warm_up_leads_to_the_rate_or_its_schedule() {
        let warmup = "warmup: {warmup_steps: 4, start_lr: 0.1}";
        assert_eq!(at(warmup, [0, 2, 4, 9]), [0.1, 0.3, 0.5, 0.5]);
        let both = format!("{warmup}\n    lr_scheduler: {{class: StepDecay, step_size: 3}}");
        assert_eq!(at(&both, [2, 4, 7]), [0.3, 0.5, 0.05]);
    }

    #[test]
    fn keys_that_make_no_schedule_are_refused() {
        for (keys, words) in [
            ("lr_scheduler: {class: Stairs}", "which is no schedule: use StepDecay, "),
            (
                "lr_scheduler: {class: StepDecay}",
                "needs `hyper_parameters.optimizer.lr_scheduler.step",
            ),
            ("lr_scheduler: {gamma: 0.1}", "has no effect: set"),
            ("lr_scheduler: {class: CosineAnnealingDecay, T_max: 9, gamma: 1}", "is not of Cosine"),
            ("lr_scheduler: {class: CosineAnnealingDecay, T_max: 0}", "must be at least 1"),
            ("lr_scheduler: {class: MultiStepDecay, milestones: [3, 1]}", "above the one before"),
            (
                "lr_scheduler: {class: PiecewiseDecay, boundaries: [3], values: [1]}",
                "must have 2 rates",
            ),
            ("warmup: {start_lr: 0.1}", "has no effect: set"),
        ] {
            let error = rate(keys).unwrap_err().to_string();
            assert!(error.contains(words), "{keys}: {error}");
        }
    }
}
