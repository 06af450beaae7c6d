//! Optimizers of the engine from what Python says: a kind and a dictionary.

use bireme_engine::clip::GradClip;
use bireme_engine::ir::Regularizer;
use bireme_engine::lr::{Lr, Schedule};
use bireme_engine::optimizer::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, DecayedAdagrad, Ftrl, Lamb, Lars, Momentum, Optimizer,
    RmsProp, Sgd,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::kwargs::Kwargs;
use crate::parameter::{Penalty, penalty_of};
use crate::variable::Variable;

/// An optimizer of the engine, whichever it is.
pub(crate) type AnyOptimizer = Box<dyn Optimizer + Send + Sync>;

/// What only one call of an optimizer says.
#[derive(Default)]
pub(crate) struct Chosen {
    /// The parameters to train; all trainable ones when not given.
    pub(crate) parameter_list: Option<Vec<String>>,
    /// Variables that no gradient passes through.
    pub(crate) no_grad: Vec<String>,
    /// The variable that holds the learning rate already, from an earlier call.
    pub(crate) learning_rate: Option<String>,
}

/// Sets what all optimizers share, then each of the optimizer's own numbers that is given.
macro_rules! configured {
    ($make:expr, $common:expr, $given:expr; $($name:ident)*) => {{
        let Common { clip, penalty, chosen, multi_precision } = $common;
        let mut made = $make.multi_precision(multi_precision);
        $(if let Some(value) = $given.maybe(stringify!($name))? {
            made = made.$name(value);
        })*
        if let Some(clip) = clip {
            made = made.grad_clip(clip);
        }
        if let Some(penalty) = penalty {
            made = made.regularization(penalty);
        }
        if let Some(names) = chosen.parameter_list {
            made = made.parameter_list(names);
        }
        made.no_grad(chosen.no_grad)
    }};
}

/// The settings that all optimizers have.
struct Common {
    clip: Option<GradClip>,
    penalty: Option<Regularizer>,
    chosen: Chosen,
    multi_precision: bool,
}

/// The optimizer that `kind` and `config` stand for.
pub(crate) fn optimizer_of(
    kind: &str,
    config: &Bound<'_, PyDict>,
    chosen: Chosen,
) -> PyResult<AnyOptimizer> {
    let mut given = Kwargs::new(format!("optimizer `{kind}`"), config)?;
    let lr = rate_of(&given.take("learning_rate")?)?;
    let lr = chosen.learning_rate.clone().map_or(lr, Lr::Variable);
    let clip = given.object("grad_clip")?.map(|clip| clip_of(&clip)).transpose()?;
    let penalty: Option<Penalty> = given.maybe("regularization")?;
    // Read by `static_optimizer`: the optimizer itself is the same.
    given.object("amp")?;
    let multi_precision = given.or("multi_precision", false)?;
    let penalty = penalty.map(penalty_of).transpose()?;
    let common = Common { clip, penalty, chosen, multi_precision };
    let made = make(kind, lr, common, &mut given)?;
    given.end()?;
    Ok(made)
}

fn make(kind: &str, lr: Lr, common: Common, given: &mut Kwargs<'_>) -> PyResult<AnyOptimizer> {
    Ok(match kind {
        "sgd" => Box::new(configured!(Sgd::new(lr), common, given;)),
        "momentum" => {
            let momentum = given.or("momentum", 0.9)?;
            let made = Momentum::new(lr, momentum);
            Box::new(configured!(made, common, given; use_nesterov rescale_grad))
        }
        "adam" => {
            Box::new(configured!(Adam::new(lr), common, given; beta1 beta2 epsilon lazy_mode))
        }
        "adamw" => {
            let names: Vec<String> = given.or("without_decay", Vec::new())?;
            let made = AdamW::new(lr).without_decay(names);
            Box::new(
                configured!(made, common, given; beta1 beta2 epsilon weight_decay lr_ratio lazy_mode),
            )
        }
        "adamax" => Box::new(configured!(Adamax::new(lr), common, given; beta1 beta2 epsilon)),
        "adagrad" => {
            let made = Adagrad::new(lr);
            Box::new(configured!(made, common, given; epsilon initial_accumulator_value))
        }
        "decayed_adagrad" => {
            Box::new(configured!(DecayedAdagrad::new(lr), common, given; decay epsilon))
        }
        "adadelta" => Box::new(configured!(Adadelta::new(lr), common, given; rho epsilon)),
        "rmsprop" => {
            let made = RmsProp::new(lr);
            Box::new(configured!(made, common, given; rho epsilon momentum centered))
        }
        "ftrl" => Box::new(configured!(Ftrl::new(lr), common, given; l1 l2 lr_power)),
        "lamb" => {
            let names: Vec<String> = given.or("without_decay", Vec::new())?;
            let made = Lamb::new(lr).without_decay(names);
            Box::new(
                configured!(made, common, given; beta1 beta2 epsilon lamb_weight_decay always_adapt),
            )
        }
        "lars" => {
            let momentum = given.or("momentum", 0.9)?;
            let names: Vec<String> = given.or("without_decay", Vec::new())?;
            let made = Lars::new(lr, momentum).without_decay(names);
            Box::new(
                configured!(made, common, given; lars_coeff lars_weight_decay epsilon rescale_grad),
            )
        }
        other => {
            return Err(PyValueError::new_err(format!(
                "no optimizer `{other}`: there are sgd, momentum, adam, adamw, adamax, adagrad, \
                 decayed_adagrad, adadelta, rmsprop, ftrl, lamb, lars"
            )));
        }
    })
}

/// The clipping that `("value", min, max)`, `("norm", c)` or `("global_norm", c)` stands for.
fn clip_of(clip: &Bound<'_, PyAny>) -> PyResult<GradClip> {
    let kind: String = clip.get_item(0)?.extract()?;
    let number = |at: usize| -> PyResult<f32> { clip.get_item(at)?.extract() };
    match kind.as_str() {
        "value" => Ok(GradClip::Value { min: number(1)?, max: number(2)? }),
        "norm" => Ok(GradClip::Norm(number(1)?)),
        "global_norm" => Ok(GradClip::GlobalNorm(number(1)?)),
        other => Err(PyValueError::new_err(format!(
            "no clipping `{other}`: there are value, norm, global_norm"
        ))),
    }
}

/// The learning rate that a number, a schedule `(kind, numbers)` or a variable stands for.
pub(crate) fn rate_of(rate: &Bound<'_, PyAny>) -> PyResult<Lr> {
    if let Ok(variable) = rate.cast::<Variable>() {
        return Ok(Lr::Variable(variable.get().name.clone()));
    }
    if let Ok(rate) = rate.extract::<f32>() {
        return Ok(Lr::Constant(rate));
    }
    let Ok((kind, numbers)) = rate.extract::<(String, Bound<'_, PyDict>)>() else {
        return Err(PyTypeError::new_err(format!(
            "`learning_rate` is a number, a schedule (kind, settings) or a variable, not {}",
            rate.repr()?
        )));
    };
    Ok(Lr::Schedule(schedule_of(&kind, &numbers)?))
}

fn schedule_of(kind: &str, numbers: &Bound<'_, PyDict>) -> PyResult<Schedule> {
    let mut given = Kwargs::new(format!("schedule `{kind}`"), numbers)?;
    let schedule = match kind {
        "noam" => Schedule::Noam {
            d_model: given.need("d_model")?,
            warmup_steps: given.need("warmup_steps")?,
            rate: given.or("rate", 1.0)?,
        },
        "exponential" | "natural_exp" | "inverse_time" => {
            let (rate, decay_steps) = (given.need("rate")?, given.need("decay_steps")?);
            let (decay_rate, staircase) =
                (given.need("decay_rate")?, given.or("staircase", false)?);
            match kind {
                "exponential" => Schedule::Exponential { rate, decay_steps, decay_rate, staircase },
                "natural_exp" => Schedule::NaturalExp { rate, decay_steps, decay_rate, staircase },
                _ => Schedule::InverseTime { rate, decay_steps, decay_rate, staircase },
            }
        }
        "polynomial" => Schedule::Polynomial {
            rate: given.need("rate")?,
            decay_steps: given.need("decay_steps")?,
            end: given.or("end", 0.0001)?,
            power: given.or("power", 1.0)?,
            cycle: given.or("cycle", false)?,
        },
        "piecewise" => Schedule::Piecewise {
            boundaries: given.need("boundaries")?,
            values: given.need("values")?,
        },
        "cosine" => Schedule::Cosine {
            rate: given.need("rate")?,
            step_each_epoch: given.need("step_each_epoch")?,
            epochs: given.need("epochs")?,
        },
        "linear_warmup" => Schedule::LinearWarmup {
            warmup_steps: given.need("warmup_steps")?,
            start: given.need("start")?,
            end: given.need("end")?,
            then: Box::new(rate_of(&given.take("then")?)?),
        },
        other => {
            return Err(PyValueError::new_err(format!(
                "no schedule `{other}`: there are noam, exponential, natural_exp, inverse_time, \
                 polynomial, piecewise, cosine, linear_warmup"
            )));
        }
    };
    given.end()?;
    Ok(schedule)
}
