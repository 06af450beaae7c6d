//! The settings of Paddle's accessors, with Paddle's defaults.

use serde::{Deserialize, Serialize};

use super::{SparseRule, SparseRuleKind, raw};

/// Paddle's accessors. They store the same; pulls, precision and text differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CtrClass {
    /// Pulls `[show, click, embed_w, embedx…]`.
    CtrCommonAccessor,
    /// As [`CtrClass::CtrCommonAccessor`], with shows and clicks in double precision.
    CtrDoubleAccessor,
    /// Pulls `[embed_w, embedx…]`.
    SparseAccessor,
    /// As [`CtrClass::CtrCommonAccessor`]; its text says how long the long part is.
    CtrDymfAccessor,
}

impl CtrClass {
    /// Columns of a pull before the long part.
    pub fn head(self) -> usize {
        if self == CtrClass::SparseAccessor { 1 } else { 3 }
    }
}

/// The settings of one of Paddle's accessors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CtrConfig {
    /// Which accessor.
    pub class: CtrClass,
    /// The score from which a row has its long part.
    pub embedx_threshold: f32,
    /// What a show without a click adds to the score.
    pub nonclk_coeff: f32,
    /// What a click adds to the score.
    pub click_coeff: f32,
    /// The least score of rows in base and delta saves.
    pub base_threshold: f32,
    /// The least score since the last save of rows in delta saves.
    pub delta_threshold: f32,
    /// The most days without a push of rows in base and delta saves.
    pub delta_keep_days: f32,
    /// What a day leaves of shows and clicks.
    pub show_click_decay_rate: f32,
    /// Rows with a lower score are dropped by a shrink.
    pub delete_threshold: f32,
    /// Rows that were not pushed for more days are dropped by a shrink.
    pub delete_after_unseen_days: f32,
    /// Whether gradients are divided by the shows of their push.
    pub show_scale: bool,
    /// Whether the first weight starts at zero.
    pub zero_init: bool,
    /// The rule of the first weight.
    pub embed: SparseRule,
    /// The rule of the long part.
    pub embedx: SparseRule,
}

impl CtrConfig {
    /// What Paddle takes for a table whose accessor the user did not configure: every row is saved
    /// and has its long part, nothing decays, both parts follow `rule`.
    pub fn unconfigured(class: CtrClass, rule: SparseRule) -> CtrConfig {
        CtrConfig {
            class,
            embedx_threshold: 0.0,
            nonclk_coeff: 0.1,
            click_coeff: 1.0,
            base_threshold: 0.0,
            delta_threshold: 0.0,
            delta_keep_days: 16.0,
            show_click_decay_rate: 1.0,
            delete_threshold: 0.0,
            delete_after_unseen_days: 30.0,
            show_scale: true,
            zero_init: true,
            embed: rule,
            embedx: rule,
        }
    }

    /// Reads the JSON form of Paddle's `TableAccessorParameter`; rules that it does not give are
    /// `rule`. `width` is the number of columns that a pull gives.
    ///
    /// # Errors
    /// When it is no such JSON, has names that Paddle does not know, or its sizes do not fit.
    pub fn from_json(text: &str, width: usize, rule: SparseRule) -> Result<CtrConfig, String> {
        raw::read(text, width, rule)
    }
}

impl SparseRule {
    /// The sparse rule that Paddle takes for a network's optimizer where the settings name none:
    /// Adam, except that SGD stays SGD (which an `if` without `else` keeps Paddle from doing).
    /// `adam` has the decay rates and the epsilon of an `adam`.
    pub fn for_optimizer(kind: &str, adam: [f32; 3], initial_range: f32) -> SparseRule {
        let [beta1, beta2, epsilon] = if kind == "adam" { adam } else { [0.9, 0.999, 1e-8] };
        let (learning_rate, kind) = match kind {
            "sgd" => (0.05, SparseRuleKind::Naive),
            _ => (0.001, SparseRuleKind::Adam { beta1, beta2, epsilon }),
        };
        SparseRule { kind, learning_rate, initial_range, bounds: [-10.0, 10.0] }
    }

    /// Paddle's defaults for the rule of this name.
    pub(super) fn named(name: &str) -> Option<SparseRule> {
        let rule = |kind, learning_rate| SparseRule {
            kind,
            learning_rate,
            initial_range: 1e-4,
            bounds: [-10.0, 10.0],
        };
        let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
        Some(match name {
            "SparseNaiveSGDRule" | "naive" => rule(SparseRuleKind::Naive, 0.05),
            "SparseAdaGradSGDRule" | "adagrad" => {
                rule(SparseRuleKind::AdaGrad { initial_g2sum: 3.0 }, 0.05)
            }
            "StdAdaGradSGDRule" | "std_adagrad" => {
                rule(SparseRuleKind::StdAdaGrad { initial_g2sum: 3.0 }, 0.05)
            }
            "SparseAdamSGDRule" | "adam" => {
                rule(SparseRuleKind::Adam { beta1, beta2, epsilon }, 0.001)
            }
            "SparseSharedAdamSGDRule" | "shared_adam" => {
                rule(SparseRuleKind::SharedAdam { beta1, beta2, epsilon }, 0.001)
            }
            _ => return None,
        })
    }
}
