//! Accessor settings as they are written: the JSON form of Paddle's `TableAccessorParameter`.

use serde::Deserialize;

use super::{CtrClass, CtrConfig, SparseRule, SparseRuleKind};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    accessor_class: CtrClass,
    fea_dim: Option<usize>,
    embedx_dim: Option<usize>,
    embedx_threshold: Option<f32>,
    ctr_accessor_param: Option<RawCtr>,
    embed_sgd_param: Option<RawRule>,
    embedx_sgd_param: Option<RawRule>,
}

/// The defaults are what Paddle's Python front fills in, field by field: rows are neither admitted
/// late nor forgotten. Those of Paddle's message differ, and never count.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawCtr {
    nonclk_coeff: f32,
    click_coeff: f32,
    base_threshold: f32,
    delta_threshold: f32,
    delta_keep_days: f32,
    show_click_decay_rate: f32,
    delete_threshold: f32,
    delete_after_unseen_days: f32,
    ssd_unseenday_threshold: i32,
    show_scale: bool,
    zero_init: bool,
}

impl Default for RawCtr {
    fn default() -> RawCtr {
        RawCtr {
            nonclk_coeff: 0.1,
            click_coeff: 1.0,
            base_threshold: 0.0,
            delta_threshold: 0.0,
            delta_keep_days: 16.0,
            show_click_decay_rate: 1.0,
            delete_threshold: 0.0,
            delete_after_unseen_days: 30.0,
            ssd_unseenday_threshold: 1,
            show_scale: true,
            zero_init: true,
        }
    }
}

/// A rule: its name, and settings under the name of its family.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    name: String,
    naive: Option<RawSettings>,
    adagrad: Option<RawSettings>,
    adam: Option<RawSettings>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSettings {
    learning_rate: Option<f32>,
    initial_range: Option<f32>,
    initial_g2sum: Option<f32>,
    beta1_decay_rate: Option<f32>,
    beta2_decay_rate: Option<f32>,
    ada_epsilon: Option<f32>,
    weight_bounds: Option<Vec<f32>>,
}

/// Whether the settings want rows on a disk when they were not seen for some days.
pub fn wants_disk(text: &str) -> bool {
    let raw = serde_json::from_str::<Raw>(text).ok().and_then(|raw| raw.ctr_accessor_param);
    raw.is_some_and(|ctr| ctr.ssd_unseenday_threshold != 1)
}

pub(super) fn read(text: &str, width: usize, rule: SparseRule) -> Result<CtrConfig, String> {
    let wrong = |problem: String| format!("accessor settings: {problem}");
    let raw: Raw = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    check_widths(&raw, width).map_err(wrong)?;
    let rule_of = |given: Option<RawRule>| given.map_or(Ok(rule), RawRule::finish);
    let ctr = raw.ctr_accessor_param.unwrap_or_default();
    Ok(CtrConfig {
        class: raw.accessor_class,
        embedx_threshold: raw.embedx_threshold.unwrap_or(0.0),
        nonclk_coeff: ctr.nonclk_coeff,
        click_coeff: ctr.click_coeff,
        base_threshold: ctr.base_threshold,
        delta_threshold: ctr.delta_threshold,
        delta_keep_days: ctr.delta_keep_days,
        show_click_decay_rate: ctr.show_click_decay_rate,
        delete_threshold: ctr.delete_threshold,
        delete_after_unseen_days: ctr.delete_after_unseen_days,
        show_scale: ctr.show_scale,
        zero_init: ctr.zero_init,
        embed: rule_of(raw.embed_sgd_param).map_err(wrong)?,
        embedx: rule_of(raw.embedx_sgd_param).map_err(wrong)?,
    })
}

/// The sizes say nothing that the width of the embedding does not; they must agree with it.
fn check_widths(raw: &Raw, width: usize) -> Result<(), String> {
    let (feature, embedx) = match raw.accessor_class {
        CtrClass::SparseAccessor => (("+2", width + 2), ("-1", width as i64 - 1)),
        _ => (("", width), ("-3", width as i64 - 3)),
    };
    if let Some(given) = raw.fea_dim.filter(|given| *given != feature.1) {
        let (sign, wanted) = feature;
        return Err(format!(
            "The fea_dim is wrong, it will be sparse_embedding_dim{sign}: {wanted}, but got {given}"
        ));
    }
    if let Some(given) = raw.embedx_dim.filter(|given| *given as i64 != embedx.1) {
        let (sign, wanted) = embedx;
        return Err(format!(
            "The embedx_dim is wrong, it will be sparse_embedding_dim{sign}: {wanted}, \
             but got {given}"
        ));
    }
    Ok(())
}

impl RawRule {
    fn finish(self) -> Result<SparseRule, String> {
        let Some(mut rule) = SparseRule::named(&self.name) else {
            return Err(format!(
                "no sparse rule is called `{}`: there are SparseNaiveSGDRule, \
                 SparseAdaGradSGDRule, StdAdaGradSGDRule, SparseAdamSGDRule and \
                 SparseSharedAdamSGDRule",
                self.name
            ));
        };
        // Paddle's front fills in the settings of every family; those of the rule's count.
        let settings = match rule.kind {
            SparseRuleKind::Naive => self.naive,
            SparseRuleKind::AdaGrad { .. } | SparseRuleKind::StdAdaGrad { .. } => self.adagrad,
            SparseRuleKind::Adam { .. } | SparseRuleKind::SharedAdam { .. } => self.adam,
        };
        let Some(settings) = settings else { return Ok(rule) };
        settings.apply(&mut rule)?;
        Ok(rule)
    }
}

impl RawSettings {
    fn apply(self, rule: &mut SparseRule) -> Result<(), String> {
        let put = |place: &mut f32, given: Option<f32>| *place = given.unwrap_or(*place);
        put(&mut rule.learning_rate, self.learning_rate);
        put(&mut rule.initial_range, self.initial_range);
        match &mut rule.kind {
            SparseRuleKind::Naive => {}
            SparseRuleKind::AdaGrad { initial_g2sum }
            | SparseRuleKind::StdAdaGrad { initial_g2sum } => {
                put(initial_g2sum, self.initial_g2sum);
            }
            SparseRuleKind::Adam { beta1, beta2, epsilon }
            | SparseRuleKind::SharedAdam { beta1, beta2, epsilon } => {
                put(beta1, self.beta1_decay_rate);
                put(beta2, self.beta2_decay_rate);
                put(epsilon, self.ada_epsilon);
            }
        }
        rule.bounds = match self.weight_bounds.as_deref() {
            None => rule.bounds,
            Some([]) => [f32::NEG_INFINITY, f32::INFINITY],
            Some([low, high]) if low <= high => [*low, *high],
            Some(other) => {
                return Err(format!("`weight_bounds` must be [least, greatest], not {other:?}"));
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive() -> SparseRule {
        SparseRule::named("naive").unwrap()
    }

    #[test]
    fn a_full_configuration_is_read() {
        let text = r#"{
            "accessor_class": "CtrCommonAccessor", "fea_dim": 11, "embedx_dim": 8,
            "embedx_threshold": 5,
            "ctr_accessor_param": {"nonclk_coeff": 0.2, "delete_threshold": 0.5, "zero_init": false},
            "embed_sgd_param": {"name": "SparseAdaGradSGDRule",
                "adagrad": {"learning_rate": 0.1, "initial_g2sum": 1.0, "weight_bounds": [-1, 1]},
                "naive": {"learning_rate": 7}},
            "embedx_sgd_param": {"name": "SparseAdamSGDRule",
                "adam": {"beta1_decay_rate": 0.5, "weight_bounds": []}}
        }"#;
        let config = CtrConfig::from_json(text, 11, naive()).unwrap();
        assert_eq!((config.embedx_threshold, config.nonclk_coeff), (5.0, 0.2));
        // What is not said is not what Paddle's message would have (1.5, 0.98), but its front.
        assert_eq!((config.base_threshold, config.zero_init), (0.0, false));
        assert_eq!((config.show_click_decay_rate, config.delete_threshold), (1.0, 0.5));
        assert_eq!(config.embed.kind, SparseRuleKind::AdaGrad { initial_g2sum: 1.0 });
        assert_eq!((config.embed.learning_rate, config.embed.bounds), (0.1, [-1.0, 1.0]));
        let adam = SparseRuleKind::Adam { beta1: 0.5, beta2: 0.999, epsilon: 1e-8 };
        assert_eq!(config.embedx.kind, adam);
        assert_eq!(config.embedx.bounds[1], f32::INFINITY);
    }

    #[test]
    fn without_settings_nothing_is_filtered() {
        let config =
            CtrConfig::from_json(r#"{"accessor_class": "SparseAccessor"}"#, 9, naive()).unwrap();
        assert_eq!(config, CtrConfig::unconfigured(CtrClass::SparseAccessor, naive()));
        assert_eq!((config.embedx_threshold, config.show_click_decay_rate), (0.0, 1.0));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = |text: &str| CtrConfig::from_json(text, 9, naive()).unwrap_err();
        let message = error(r#"{"accessor_class": "SparseAccessor", "fea_dim": 9}"#);
        assert!(message.contains("it will be sparse_embedding_dim+2: 11, but got 9"), "{message}");
        let message = error(r#"{"accessor_class": "CtrCommonAccessor", "embedx_dim": 8}"#);
        assert!(message.contains("sparse_embedding_dim-3: 6, but got 8"), "{message}");
        assert!(error(r#"{"accessor_class": "OtherAccessor"}"#).contains("OtherAccessor"));
        let message =
            error(r#"{"accessor_class": "SparseAccessor", "embed_sgd_param": {"name": "Sgd"}}"#);
        assert!(message.contains("no sparse rule is called `Sgd`"), "{message}");
        assert!(error(r#"{"accessor_class": "SparseAccessor", "x": 1}"#).contains('x'));
        assert!(error("{").contains("accessor settings"));
    }
}
