//! The second Deep & Cross: crosses by matrices, or by mixtures of low-rank experts.

use bireme_engine::layers::{self, Linear};

use super::clicks::{Clicks, Sizes, factor_initial};
use super::interaction::{cross_full, cross_mixture};
use super::perceptron::{Hidden, linear};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "dcn_v2",
    area: "rank",
    summary: "Crosses by matrices or mixtures of low-rank experts, under or beside a perceptron",
    paper: "Wang et al., DCN V2 (WWW 2021)",
    when: "When `dcn` gets better with more crosses than its vectors can express.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001), ("sparse_feature_dim", 10), ("low_rank", 32)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let sizes =
        Sizes { rows: ("sparse_feature_number", 1_100_001), width: ("sparse_feature_dim", 40) };
    let clicks = Clicks::read(hyper, sizes)?.padded();
    let widths = hyper.get_sizes("fc_sizes", &[768, 768])?;
    let crosses = hyper.get_size("cross_num", 2)?;
    let stacked = hyper.get_bool("is_Stacked", true)?;
    let mixture = hyper.get_bool("use_low_rank_mixture", true)?;
    let rank = hyper.get_size("low_rank", 256)?;
    let experts = hyper.get_size("num_experts", 4)?;
    let l2 = hyper.get_f32("l2_reg_cross", 3e-5)?;
    let deep = Hidden::read(&widths, hyper, "dnn_use_bn", 0.5)?;

    let slots = clicks.embed(clicks.width, factor_initial(clicks.width).into())?;
    let slots = layers::reshape(&slots, &[-1, (clicks.slots() * clicks.width) as i32])?;
    let inputs = match &clicks.dense {
        None => slots,
        Some(dense) => {
            let dense = Linear::new((clicks.dense_width() * clicks.width) as i64).apply(dense)?;
            layers::concat(&[&slots, &dense], 1)?
        }
    };
    let crossed = if mixture {
        cross_mixture(&inputs, crosses, experts, rank, l2)?
    } else {
        let layer = |x: Result<_>, _| cross_full(&inputs, &x?, l2);
        (0..crosses).fold(Ok(inputs.clone()), layer)?
    };
    let top = if stacked {
        deep.apply(&crossed)?
    } else {
        layers::concat(&[&deep.apply(&inputs)?, &crossed], 1)?
    };
    clicks.finish_logit(&linear(&top, 1)?)
}
