//! Metrics: `accuracy`, and `auc` from histograms that stay on the card.

use bireme_ir::DType;

use super::lowering::{Launch, THREADS};
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[("accuracy", accuracy), ("auc", auc)];

/// Threads of the one block that computes an area.
const AREA_THREADS: u32 = 1024;

fn accuracy(cx: &mut Lowering<'_>) -> Outcome {
    let (indices, label) = (cx.input("Indices")?.dense()?, cx.input("Label")?.dense()?);
    let [share, hits, total] = [cx.output("Accuracy")?, cx.output("Correct")?, cx.output("Total")?];
    let samples = indices.dims.first().copied().unwrap_or(1);
    let Ok(count) = i32::try_from(samples) else { return host() };
    let width = indices.numel().checked_div(samples).unwrap_or(1).max(1);
    let suffix = match share.dtype {
        DType::F32 | DType::F64 => share.suffix()?,
        _ => return host(),
    };
    if label.numel() != samples || hits.dtype != DType::I32 || total.dtype != DType::I32 {
        return host();
    }
    let kinds = [whole_suffix(&indices)?, whole_suffix(&label)?];
    cx.clear(hits.at, hits.bytes());
    // Rows of no indices have no hits.
    if indices.numel() > 0 {
        cx.over(format!("accuracy_hits_{}_{}", kinds[0], kinds[1]), samples)
            .var(&indices)
            .var(&label)
            .size(samples)
            .value(width as u32)
            .var(&hits)
            .launch();
    }
    cx.kernel(format!("accuracy_share_{suffix}"), [1, 1, 1], 32)
        .var(&hits)
        .value(count)
        .var(&share)
        .var(&total)
        .launch();
    Ok(())
}

/// What names of kernels for labels or indices of this type end in.
fn whole_suffix(var: &Var) -> Outcome<&'static str> {
    if matches!(var.dtype, DType::I64 | DType::I32) { var.suffix() } else { host() }
}

/// The histograms: what all kernels of an area are given.
struct Histograms {
    positive: Ref,
    negative: Ref,
    weight: Ref,
    buckets: u32,
    steps: u32,
}

impl Histograms {
    fn give<'l>(&self, launch: Launch<'l>) -> Launch<'l> {
        let launch = launch.at(self.positive).at(self.negative).at(self.weight);
        launch.value(self.buckets).value(self.steps)
    }
}

fn auc(cx: &mut Lowering<'_>) -> Outcome {
    let (predict, label) = (cx.input("Predict")?.dense()?, cx.input("Label")?.dense()?);
    let suffix = match predict.dtype {
        DType::F32 | DType::F64 => predict.suffix()?,
        _ => return host(),
    };
    let labels = whole_suffix(&label)?;
    let samples = predict.dims.first().copied().unwrap_or(1);
    let width = predict.width().max(1);
    if label.numel() != samples || predict.numel() != samples * width || samples >= 1 << 31 {
        return host();
    }
    let at = histograms(cx)?;
    let area = cx.output("AUC")?;
    if area.dtype != DType::F64 {
        return host();
    }
    if at.steps > 0 {
        let launch = cx.over("auc_open", at.buckets as usize);
        at.give(launch).launch();
    }
    let blocks = samples.div_ceil(THREADS as usize) as u32;
    let launch = cx
        .kernel(format!("auc_count_{suffix}_{labels}"), [blocks, 1, 1], THREADS)
        .var(&predict)
        .var(&label)
        .value(samples as u32)
        .value(width as u32);
    at.give(launch).complaint().launch();
    let launch = cx.kernel("auc_area", [1, 1, 1], AREA_THREADS);
    at.give(launch).var(&area).launch();
    Ok(())
}

/// The op's histograms, carried over to where they go on.
fn histograms(cx: &mut Lowering<'_>) -> Outcome<Histograms> {
    let (thresholds, steps) = (cx.op.i64("num_thresholds")?, cx.op.i64("slide_steps")?);
    let (Ok(thresholds), Ok(steps)) = (u32::try_from(thresholds), u32::try_from(steps)) else {
        return host();
    };
    if thresholds == 0 || thresholds >= 1 << 30 || cx.op.string("curve")? != "ROC" {
        return host();
    }
    let buckets = thresholds + 1;
    let len = (steps as usize + 1) * buckets as usize + usize::from(steps > 0);
    let mut places = [Ref::NULL; 2];
    for (place, slot) in places.iter_mut().zip(["StatPos", "StatNeg"]) {
        let (from, to) = (cx.input(slot)?.dense()?, cx.output(&format!("{slot}Out"))?.dense()?);
        if from.dtype != DType::I64 || from.numel() != len {
            return host();
        }
        cx.carry_over(&from, &to);
        *place = to.at;
    }
    let weight = match cx.maybe_input("InsTagWeight") {
        None => Ref::NULL,
        Some(weight) if weight.dtype == DType::F32 && weight.numel() > 0 => weight.dense()?.at,
        Some(_) => return host(),
    };
    Ok(Histograms { positive: places[0], negative: places[1], weight, buckets, steps })
}
