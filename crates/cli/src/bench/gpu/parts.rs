//! The step of the CTR-DNN by part: each piece of its recording timed alone, and added up by what it is for.

use anyhow::{Context, Result};
use bireme_cuda::{Piece, PieceWork};

use super::steps::Model;
use super::{Figure, Precision, Run, Source};

/// The parts, in the order of the table.
const PARTS: [&str; 10] = [
    "sort",
    "lookup",
    "forward",
    "loss",
    "dx",
    "dw",
    "other_gradients",
    "dense_update",
    "row_update",
    "other",
];

impl Run {
    /// Microseconds of each part; the ratio is to all of them. The sum is more than the step takes, as some of it runs
    /// side by side.
    pub(super) fn parts(&self, batch: usize, precision: Precision) -> Result<Vec<Figure>> {
        let batch = self.small_batch(batch);
        let mut workload = self.workload(Model::CtrDnn, batch, precision, Source::Card)?;
        let (ran, profiles) = bireme_cuda::profiled(self.number, || workload.warm_up())?;
        ran?;
        let longest = profiles.iter().max_by_key(|profile| profile.pieces.len());
        let profile = longest.context("the step was not recorded")?;
        let total = f64::from(profile.total_us());
        let figures = PARTS.into_iter().map(|part| {
            let own = profile.pieces.iter().filter(|piece| part_of(piece) == part);
            let (us, count) = own.fold((0.0, 0), |(us, count), piece| (us + piece.us, count + 1));
            let us = f64::from(us);
            let mut figure = Figure::new(us, "us", Some(us / total.max(1e-9)));
            (figure.part, figure.more) = (Some(part), vec![("pieces", f64::from(count))]);
            figure
        });
        Ok(figures.collect())
    }
}

/// The part of the step that a piece belongs to, by its op and by what it does.
pub(super) fn part_of(piece: &Piece) -> &'static str {
    const OPTIMIZERS: [&str; 3] = ["adagrad", "adam", "sgd"];
    const PRODUCTS: [&str; 6] =
        ["fused_fc", "fused_logit", "mul", "matmul", "matmul_v2", "elementwise_add"];
    let is_grad = piece.op.ends_with("_grad");
    let op = piece.op.trim_end_matches("_grad");
    let kernel = match &piece.work {
        PieceWork::Kernel { name, .. } => name,
        _ => "",
    };
    let is_update = OPTIMIZERS.iter().any(|optimizer| op.contains(optimizer));
    match &piece.work {
        _ if kernel.starts_with("sort_") => "sort",
        // What a sort counts with.
        PieceWork::Clear(_) if is_update => "sort",
        _ if is_update && kernel.contains("row") => "row_update",
        _ if is_update => "dense_update",
        _ if op.contains("embedding") || op.contains("lookup") => {
            if is_grad {
                "other_gradients"
            } else {
                "lookup"
            }
        }
        _ if op.contains("cross_entropy") || op == "fused_softmax_loss" || op == "mean" => "loss",
        // Products of our own with what comes behind them.
        _ if kernel.contains("_slopes_") => "dx",
        PieceWork::Product { transposed: [true, _], .. } if is_grad => "dw",
        PieceWork::Product { .. } if is_grad => "dx",
        _ if PRODUCTS.contains(&op) => {
            if is_grad {
                "other_gradients"
            } else {
                "forward"
            }
        }
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_apart() {
        let part = |op, work| part_of(&Piece { op, work, us: 1.0 });
        let kernel =
            |name: &str| PieceWork::Kernel { name: name.into(), blocks: [1; 3], threads: 1 };
        let product = |transposed| PieceWork::Product { size: [1; 3], transposed };
        assert_eq!(part("adagrad", kernel("sort_pass_8")), "sort");
        assert_eq!(part("adagrad", kernel("update_rows_adagrad_wide_f32")), "row_update");
        assert_eq!(part("adagrad", kernel("update_many_adagrad_f32")), "dense_update");
        assert_eq!(part("fused_embedding_concat", kernel("join_parts_4")), "lookup");
        assert_eq!(part("fused_fc", product([false, false])), "forward");
        assert_eq!(part("fused_fc_grad", product([true, false])), "dw");
        assert_eq!(part("fused_fc_grad", product([false, true])), "dx");
        assert_eq!(part("sigmoid_cross_entropy_with_logits_grad", kernel("loss")), "loss");
        assert_eq!(part("fused_fc_grad", kernel("fc_slopes_bf16")), "dx");
        assert_eq!(part("fused_logit_grad", kernel("logit_slopes_bf16")), "dx");
        assert_eq!(part("fused_logit", kernel("logit_bf16")), "forward");
        assert_eq!(part("fused_fc_grad", kernel("mask")), "other_gradients");
        assert_eq!(part("reshape2", PieceWork::Copy(8)), "other");
    }
}
