//! The engine's optimizers as rules of a table: the row's weights are followed by one accumulator
//! after another, each as wide as the weights.
//!
//! Only rows that a push names change: every optimizer is lazy here. A row that was not pushed in a
//! step neither decays its accumulators nor moves.

use bireme_engine::op::OpView;
use bireme_engine::optimizer::{
    AdadeltaRule, AdagradRule, AdamConfig, AdamWRule, AdamaxRule, DecayedAdagradRule, FtrlConfig,
    FtrlRule, Loops, MomentumConfig, MomentumRule, RmsPropConfig, RmsPropRule, SgdRule,
};
use bireme_ir::Op;
use serde::{Deserialize, Serialize};

use super::Powers;
use crate::{Error, Result};

/// An optimizer with its settings; the learning rate comes with each push.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are the attributes of the optimizer op of that name")]
pub enum OptimizerRule {
    /// None: rows are set and added to (geo), never pushed.
    None,
    Sgd,
    Momentum {
        mu: f64,
        use_nesterov: bool,
        l2_decay: f64,
        rescale_grad: f64,
    },
    Adam {
        beta1: f64,
        beta2: f64,
        epsilon: f64,
        use_global_beta_pow: bool,
    },
    AdamW {
        beta1: f64,
        beta2: f64,
        epsilon: f64,
        coeff: f64,
        lr_ratio: f64,
    },
    Adamax {
        beta1: f64,
        beta2: f64,
        epsilon: f64,
    },
    Adagrad {
        epsilon: f64,
        initial: f32,
    },
    DecayedAdagrad {
        decay: f64,
        epsilon: f64,
        initial: f32,
    },
    Adadelta {
        rho: f64,
        epsilon: f64,
    },
    RmsProp {
        decay: f64,
        epsilon: f64,
        momentum: f64,
        centered: bool,
    },
    Ftrl {
        l1: f64,
        l2: f64,
        lr_power: f64,
        initial: f32,
    },
}

/// An accumulator of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct StateColumn {
    /// Its name.
    pub(in super::super) name: &'static str,
    /// Where it starts.
    pub(in super::super) initial: f32,
}

/// What is done with a rule once its type is known.
pub(in super::super) trait RowRule {
    /// Applies `rule`, which has `N` accumulators.
    fn run<R: Loops<f32, N>, const N: usize>(self, rule: R) -> Result<()>;
}

impl OptimizerRule {
    /// The rule of an optimizer op. `initial` tells the value that a variable starts with, for
    /// accumulators that do not start at zero.
    ///
    /// # Errors
    /// When a table cannot follow the op.
    pub fn from_op(op: &Op, initial: impl Fn(&str) -> Option<f32>) -> Result<OptimizerRule> {
        let view = OpView::new(op)?;
        let starts = |slot: &str| {
            let var = op.inputs_of(slot).first();
            var.and_then(|var| initial(var)).unwrap_or(0.0)
        };
        let f64 = |name| view.f64(name);
        Ok(match op.kind.as_str() {
            "sgd" => OptimizerRule::Sgd,
            "momentum" => OptimizerRule::Momentum {
                mu: f64("mu")?,
                use_nesterov: view.bool("use_nesterov")?,
                l2_decay: match view.string("regularization_method")?.as_str() {
                    "" => 0.0,
                    "l2_decay" => f64("regularization_coeff")?,
                    other => return Err(refused(op, &format!("it regularises by `{other}`"))),
                },
                rescale_grad: f64("rescale_grad")?,
            },
            "adam" => OptimizerRule::Adam {
                beta1: f64("beta1")?,
                beta2: f64("beta2")?,
                epsilon: f64("epsilon")?,
                use_global_beta_pow: view.bool("use_global_beta_pow")?,
            },
            "adamw" => OptimizerRule::AdamW {
                beta1: f64("beta1")?,
                beta2: f64("beta2")?,
                epsilon: f64("epsilon")?,
                coeff: if view.bool("with_decay")? { f64("coeff")? } else { 0.0 },
                lr_ratio: f64("lr_ratio")?,
            },
            "adamax" => OptimizerRule::Adamax {
                beta1: f64("beta1")?,
                beta2: f64("beta2")?,
                epsilon: f64("epsilon")?,
            },
            "adagrad" => {
                OptimizerRule::Adagrad { epsilon: f64("epsilon")?, initial: starts("Moment") }
            }
            "decayed_adagrad" => OptimizerRule::DecayedAdagrad {
                decay: f64("decay")?,
                epsilon: f64("epsilon")?,
                initial: starts("Moment"),
            },
            "adadelta" => OptimizerRule::Adadelta { rho: f64("rho")?, epsilon: f64("epsilon")? },
            "rmsprop" => OptimizerRule::RmsProp {
                decay: f64("decay")?,
                epsilon: f64("epsilon")?,
                momentum: f64("momentum")?,
                centered: view.bool("centered")?,
            },
            "ftrl" => OptimizerRule::Ftrl {
                l1: f64("l1")?,
                l2: f64("l2")?,
                lr_power: f64("lr_power")?,
                initial: starts("SquaredAccumulator"),
            },
            "lamb" | "lars_momentum" => {
                return Err(refused(op, "it needs the norm of the whole parameter"));
            }
            _ => return Err(refused(op, "it is no optimizer that a table knows")),
        })
    }

    /// Its accumulators, in the order in which they lie in a record.
    pub(in super::super) fn states(&self) -> Vec<StateColumn> {
        let zero = |name| StateColumn { name, initial: 0.0 };
        match self {
            OptimizerRule::None | OptimizerRule::Sgd => vec![],
            OptimizerRule::Momentum { .. } => vec![zero("velocity")],
            OptimizerRule::Adam { .. } | OptimizerRule::AdamW { .. } => {
                vec![zero("moment1"), zero("moment2")]
            }
            OptimizerRule::Adamax { .. } => vec![zero("moment"), zero("inf_norm")],
            OptimizerRule::Adagrad { initial, .. }
            | OptimizerRule::DecayedAdagrad { initial, .. } => {
                vec![StateColumn { name: "moment", initial: *initial }]
            }
            OptimizerRule::Adadelta { .. } => {
                vec![zero("avg_squared_grad"), zero("avg_squared_update")]
            }
            OptimizerRule::RmsProp { centered: false, .. } => {
                vec![zero("mean_square"), zero("momentum")]
            }
            OptimizerRule::RmsProp { centered: true, .. } => {
                vec![zero("mean_square"), zero("momentum"), zero("mean_grad")]
            }
            OptimizerRule::Ftrl { initial, .. } => {
                vec![StateColumn { name: "squared", initial: *initial }, zero("linear")]
            }
        }
    }

    /// Makes the rule of step `count` (from 1) and gives it to `run`: the type of the rule is
    /// settled once for a whole push.
    pub(in super::super) fn with(
        &self,
        rate: f32,
        count: u64,
        powers: &Powers,
        run: impl RowRule,
    ) -> Result<()> {
        let rate = f64::from(rate);
        match *self {
            OptimizerRule::None => Err(Error::Request(
                "the table has no optimizer: its rows can be set and added to, not pushed"
                    .to_owned(),
            )),
            OptimizerRule::Sgd => run.run(SgdRule::new(rate)),
            OptimizerRule::Momentum { mu, use_nesterov, l2_decay, rescale_grad } => {
                let config = MomentumConfig { mu, use_nesterov, l2_decay, rescale_grad };
                run.run(MomentumRule::new(&config, rate))
            }
            OptimizerRule::Adam { beta1, beta2, epsilon, use_global_beta_pow } => {
                let [mut power1, mut power2] = powers.at([beta1, beta2], count);
                if !use_global_beta_pow {
                    // As the engine's sparse Adam, which follows Paddle's: it corrects with the
                    // powers of the next step.
                    (power1, power2) = (power1 * beta1, power2 * beta2);
                }
                run.run(AdamConfig { beta1, beta2, epsilon }.rule(rate, power1, power2))
            }
            OptimizerRule::AdamW { beta1, beta2, epsilon, coeff, lr_ratio } => {
                let rate = rate * lr_ratio;
                let [power1, power2] = powers.at([beta1, beta2], count);
                let adam = AdamConfig { beta1, beta2, epsilon }.rule(rate, power1, power2);
                run.run(AdamWRule::new(adam, rate * coeff))
            }
            OptimizerRule::Adamax { beta1, beta2, epsilon } => {
                let [power1, _] = powers.at([beta1, beta2], count);
                run.run(AdamaxRule::new(beta1, beta2, epsilon, rate, power1))
            }
            OptimizerRule::Adagrad { epsilon, .. } => run.run(AdagradRule::new(epsilon, rate)),
            OptimizerRule::DecayedAdagrad { decay, epsilon, .. } => {
                run.run(DecayedAdagradRule::new(decay, epsilon, rate))
            }
            OptimizerRule::Adadelta { rho, epsilon } => {
                run.run(AdadeltaRule::new(rho, epsilon, rate))
            }
            OptimizerRule::RmsProp { decay, epsilon, momentum, centered } => {
                let rule = RmsPropRule::new(&RmsPropConfig { decay, epsilon, momentum }, rate);
                if centered { run.run::<_, 3>(rule) } else { run.run::<_, 2>(rule) }
            }
            OptimizerRule::Ftrl { l1, l2, lr_power, .. } => {
                let config = FtrlConfig { l1, l2, lr_power };
                if lr_power == -0.5 {
                    run.run(FtrlRule::<f32, true>::new(&config, rate))
                } else {
                    run.run(FtrlRule::<f32, false>::new(&config, rate))
                }
            }
        }
    }
}

fn refused(op: &Op, why: &str) -> Error {
    Error::Config(format!(
        "a sparse table cannot be trained by op `{}`: {why}; use sgd, momentum, adam, adamw, \
         adamax, adagrad, decayed_adagrad, adadelta, rmsprop or ftrl, or make the embedding dense",
        op.kind
    ))
}
