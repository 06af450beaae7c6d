//! `nce`: noise-contrastive estimation. Each sample's own classes are told from others that are
//! drawn at random, so that only some rows of `Weight` are read.
//!
//! `SampleLabels` has the sample's own classes first, then the drawn ones, and `SampleLogits` how
//! probable each is.

use bireme_ir::VarKind;

use super::sampler::{Sampler, check_class};
use crate::ops::prelude::*;
use crate::ops::random::Draw;

pub(super) const DEF: OpDef = OpDef::new("nce", kernel)
    .inputs(&[
        Slot::one("Input"),
        Slot::one("Label"),
        Slot::one("Weight"),
        Slot::maybe("Bias"),
        Slot::maybe("SampleWeight"),
        Slot::maybe("CustomDistProbs"),
        Slot::maybe("CustomDistAlias"),
        Slot::maybe("CustomDistAliasProbs"),
    ])
    .outputs(&[Slot::one("Cost"), Slot::maybe("SampleLogits"), Slot::maybe("SampleLabels")])
    .attrs(&[
        attr::required("num_total_classes", AttrKind::Int),
        attr::int("num_neg_samples", 10),
        attr::int("sampler", 0),
        attr::int("seed", 0),
        attr::bool("is_sparse", false),
        attr::bool("remote_prefetch", false),
        attr::bool("is_test", false),
        attr::ints("custom_neg_classes", &[]),
    ])
    .infer(infer)
    .gradient(
        Gradient::new(&["Input", "Weight", "Bias"], grad_kernel)
            .reads(&[
                "Input",
                "Label",
                "Weight",
                "Bias",
                "SampleWeight",
                "CustomDistProbs",
                "CustomDistAlias",
                "CustomDistAliasProbs",
                "SampleLogits",
                "SampleLabels",
            ])
            .infer(infer_grad),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, label, weight) = (cx.input("Input")?, cx.input("Label")?, cx.input("Weight")?);
    let plan = Plan::of(cx.op())?;
    let ([rows, width], [classes, depth]) = (&input.dims[..], &weight.dims[..]) else {
        return Err(Error::kernel(format!(
            "`Input` and `Weight` must be matrices, but their shapes are {:?} and {:?}",
            input.dims, weight.dims
        )));
    };
    let fits = same_dim(*width, *depth).is_ok()
        && same_dim(*classes, plan.classes as i64).is_ok()
        && matches!(label.dims.len(), 1 | 2)
        && same_dim(label.dims[0], *rows).is_ok();
    let bias = cx.maybe_input("Bias").and_then(|bias| bias.dims.first().copied());
    if !fits || bias.is_some_and(|bias| same_dim(bias, *classes).is_err()) {
        return Err(Error::kernel(format!(
            "`Input` {:?}, `Label` {:?} and `Weight` {:?} of {} classes do not fit",
            input.dims, label.dims, weight.dims, plan.classes
        )));
    }
    let own = label.dims.get(1).copied().unwrap_or(1);
    let all = if own < 0 { -1 } else { own + plan.negatives as i64 };
    let samples = input.with_dims([*rows, all]);
    let cost = input.with_dims([*rows, 1]);
    cx.set("Cost", cost);
    cx.set("SampleLabels", samples.with_dtype(DType::I64));
    cx.set("SampleLogits", samples);
    Ok(())
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let mut weight = cx.input("Weight")?.clone();
    if cx.op().bool("is_sparse")? {
        weight.kind = VarKind::SelectedRows;
    }
    cx.set("Weight@GRAD", weight);
    cx.like(&[("Input@GRAD", "Input")])?;
    if cx.maybe_input("Bias").is_some() {
        cx.like(&[("Bias@GRAD", "Bias")])?;
    }
    Ok(())
}

/// What the attributes say.
struct Plan {
    classes: usize,
    negatives: usize,
    sampler: i64,
    /// Classes to take in place of drawn ones.
    fixed: Vec<i64>,
}

impl Plan {
    fn of(op: &OpView<'_>) -> Result<Plan> {
        let (classes, negatives) = (op.i64("num_total_classes")?, op.i64("num_neg_samples")?);
        let (sampler, fixed) = (op.i64("sampler")?, op.longs("custom_neg_classes")?);
        let refuse = |what: String| Err(Error::kernel(what));
        if classes < 2 || negatives < 0 {
            return refuse(format!(
                "`num_total_classes` must be 2 or more and `num_neg_samples` 0 or more, not \
                 {classes} and {negatives}"
            ));
        }
        if !(0..=2).contains(&sampler) {
            return refuse(format!(
                "`sampler` must be 0 (uniform), 1 (log uniform) or 2 (custom), not {sampler}"
            ));
        }
        if !fixed.is_empty() && fixed.len() as i64 != negatives {
            return refuse(format!(
                "`custom_neg_classes` has {} classes, but `num_neg_samples` is {negatives}",
                fixed.len()
            ));
        }
        let (classes, negatives) = (classes as usize, negatives as usize);
        Ok(Plan { classes, negatives, sampler, fixed })
    }

    /// The distribution that classes are drawn from.
    fn sampler<'a>(&self, run: &Run<'a>, custom: [Option<In>; 3]) -> Result<Sampler<'a>> {
        let last = self.classes - 1;
        let [probabilities, alias, alias_probabilities] = match self.sampler {
            0 => return Ok(Sampler::Uniform { last }),
            1 => return Ok(Sampler::LogUniform { range: last }),
            _ => custom,
        };
        let missing = || Error::kernel("`sampler` 2 needs `CustomDistProbs` and both aliases");
        let probabilities = run.get::<f32>(probabilities.ok_or_else(missing)?)?;
        let alias = run.get::<i32>(alias.ok_or_else(missing)?)?;
        let alias_probabilities = run.get::<f32>(alias_probabilities.ok_or_else(missing)?)?;
        let lengths = [probabilities.len(), alias.len(), alias_probabilities.len()];
        if lengths != [self.classes; 3] || alias.iter().any(|class| *class > last as i32) {
            return Err(Error::kernel(format!(
                "`CustomDistProbs` and its aliases must have an element for each of {} classes, \
                 and name no others, but have {lengths:?}",
                self.classes
            )));
        }
        Ok(Sampler::Custom { probabilities, alias, alias_probabilities })
    }
}

fn custom(op: &OpView<'_>) -> [Option<In>; 3] {
    ["CustomDistProbs", "CustomDistAlias", "CustomDistAliasProbs"].map(|slot| op.maybe_input(slot))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, label, weight) = (op.input("Input")?, op.input("Label")?, op.input("Weight")?);
    let (bias, importance, custom) =
        (op.maybe_input("Bias"), op.maybe_input("SampleWeight"), custom(op));
    let (mut cost, plan) = (op.output("Cost")?, Plan::of(op)?);
    let (mut out, mut labels) = (op.maybe_output("SampleLogits"), op.maybe_output("SampleLabels"));
    let (draw, mut classes) = (Draw::named(op, "Cost")?, Vec::new());
    float_kernel!(op, "Input", |run, T| {
        let (rows, width) = (run.tensor(input)?.rows(), run.dims(input)?[1]);
        let own = run.tensor(label)?.numel() / rows.max(1);
        let sampler = plan.sampler(run, custom)?;
        classes.clear();
        let mut turn = 0;
        for own in run.get::<i64>(label)?.chunks_exact(own.max(1)) {
            classes.extend_from_slice(own);
            classes.extend_from_slice(&plan.fixed);
            let drawn = if plan.fixed.is_empty() { plan.negatives } else { 0 };
            classes.extend((turn..).take(drawn).map(|at| sampler.draw(draw.step(run.step), at)));
            turn += drawn as u64;
        }
        let all = own + plan.negatives;
        classes.iter().try_for_each(|class| check_class(*class, plan.classes, "Label"))?;
        let (input, weight) = (run.get::<T>(input)?, run.get::<T>(weight)?);
        let bias = bias.map(|bias| run.get::<T>(bias)).transpose()?;
        let importance = importances::<T>(run, importance, rows)?;
        let mut out = out.as_mut().map(|out| run.set::<T>(out)).transpose()?;
        for (row, cost) in run.set::<T>(&mut cost)?.iter_mut().enumerate() {
            let x = &input[row * width..][..width];
            *cost = T::ZERO;
            for (at, class) in classes[row * all..][..all].iter().enumerate() {
                let class_weight = &weight[*class as usize * width..][..width];
                let product = sum_of_pairs(x, class_weight, |x, w| x * w);
                let logit = product + bias.map_or(T::ZERO, |bias| bias[*class as usize]);
                let o = logit.sigmoid();
                let b = T::from_f64(sampler.probability(*class) * plan.negatives as f64);
                let part = if at < own { o } else { b };
                *cost += importance.map_or(T::ONE, |all| all[row]) * -(part / (o + b)).ln();
                if let Some(out) = &mut out {
                    out[row * all + at] = o;
                }
            }
        }
        if let Some(labels) = &mut labels {
            run.set::<i64>(labels)?.copy_from_slice(&classes);
        }
    })
}

/// What each sample counts.
fn importances<'a, T: Real>(
    run: &Run<'a>,
    input: Option<In>,
    rows: usize,
) -> Result<Option<&'a [T]>> {
    let given = input.map(|input| run.get::<T>(input)).transpose()?;
    match given.map(<[T]>::len) {
        Some(len) if len != rows => {
            Err(Error::kernel(format!("`SampleWeight` has {len} elements for {rows} samples")))
        }
        _ => Ok(given),
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, label, weight) = (op.input("Input")?, op.input("Label")?, op.input("Weight")?);
    let (out, labels) = (op.input("SampleLogits")?, op.input("SampleLabels")?);
    let (importance, custom) = (op.maybe_input("SampleWeight"), custom(op));
    let (dcost, plan, sparse) = (op.input("Cost@GRAD")?, Plan::of(op)?, op.bool("is_sparse")?);
    let wanted = ["Input@GRAD", "Weight@GRAD", "Bias@GRAD"];
    let [mut dinput, mut dweight, mut dbias] = wanted.map(|slot| op.maybe_output(slot));
    float_kernel!(op, "Input", |run, T| {
        let (rows, width) = (run.tensor(input)?.rows(), run.dims(input)?[1]);
        let own = run.tensor(label)?.numel() / rows.max(1);
        let (sampler, classes) = (plan.sampler(run, custom)?, run.get::<i64>(labels)?);
        let all = own + plan.negatives;
        let (out, dcost) = (run.get::<T>(out)?, run.get::<T>(dcost)?);
        if [out.len(), classes.len(), dcost.len() * all] != [rows * all; 3] {
            return Err(Error::kernel(
                "`SampleLogits` and `SampleLabels` are not those of `Input`",
            ));
        }
        classes.iter().try_for_each(|class| check_class(*class, plan.classes, "SampleLabels"))?;
        let importance = importances::<T>(run, importance, rows)?;
        let slope = |at: usize| {
            let (row, o) = (at / all, out[at]);
            let b = T::from_f64(sampler.probability(classes[at]) * plan.negatives as f64);
            let own = at % all < own;
            let slope = if own { b * (o - T::ONE) } else { o * (T::ONE - o) } / (o + b);
            slope * importance.map_or(T::ONE, |all| all[row]) * dcost[row]
        };
        if let Some(dbias) = &mut dbias {
            let dbias = run.set::<T>(dbias)?;
            dbias.fill(0.0);
            (0..classes.len()).for_each(|at| dbias[classes[at] as usize] += slope(at));
        }
        let x = run.get::<T>(input)?;
        if let Some(dweight) = &mut dweight {
            let row_of = |at: usize| &x[at / all * width..][..width];
            if sparse {
                let dweight = run.out_rows(dweight, T::DTYPE);
                (dweight.height, dweight.rows) = (plan.classes, classes.to_vec());
                dweight.value.resize(T::DTYPE, [classes.len(), width]);
                let rows = dweight.value.as_mut_slice::<T>()?.chunks_exact_mut(width.max(1));
                for (at, row) in rows.enumerate() {
                    let slope = slope(at);
                    row.iter_mut().zip(row_of(at)).for_each(|(d, x)| *d = slope * *x);
                }
            } else {
                let dweight = run.set::<T>(dweight)?;
                dweight.fill(0.0);
                for (at, class) in classes.iter().enumerate() {
                    let (d, slope) = (&mut dweight[*class as usize * width..][..width], slope(at));
                    d.iter_mut().zip(row_of(at)).for_each(|(d, x)| *d += slope * *x);
                }
            }
        }
        if let Some(dinput) = &mut dinput {
            let (dinput, weight) = (run.set::<T>(dinput)?, run.get::<T>(weight)?);
            dinput.fill(0.0);
            for (at, class) in classes.iter().enumerate() {
                let (d, slope) = (&mut dinput[at / all * width..][..width], slope(at));
                let weight = &weight[*class as usize * width..][..width];
                d.iter_mut().zip(weight).for_each(|(d, w)| *d += slope * *w);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn op() -> Op {
        let op = Op::new("nce").input("Input", ["x"]).input("Label", ["label"]);
        let op = op.input("Weight", ["weight"]).output("Cost", ["cost"]);
        let op = op.output("SampleLogits", ["out"]).output("SampleLabels", ["labels"]);
        op.attr("num_total_classes", 50).attr("num_neg_samples", 5).attr("seed", 4)
    }

    fn values(label: i64) -> HashMap<String, Value> {
        HashMap::from([
            ("x".to_owned(), Tensor::from_slice([2, 2], &[0.5f32; 4]).unwrap().into()),
            ("label".to_owned(), Tensor::from_slice([2, 1], &[3, label]).unwrap().into()),
            ("weight".to_owned(), Tensor::from_slice([50, 2], &[0.1f32; 100]).unwrap().into()),
        ])
    }

    #[test]
    fn every_sample_draws_others_of_its_own() {
        let mut values = values(7);
        run_once(&op(), &mut values).unwrap();
        let labels = values["labels"].tensor().unwrap().as_slice::<i64>().unwrap().to_vec();
        assert_eq!((labels[0], labels[6]), (3, 7));
        assert_ne!(labels[1..6], labels[7..]);
        assert!(labels.iter().all(|class| (0..50).contains(class)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = run_once(&op(), &mut values(50)).unwrap_err().to_string();
        assert!(error.contains("class 50, but there are 50"), "{error}");
        let error = run_once(&op().attr("sampler", 2), &mut values(1)).unwrap_err().to_string();
        assert!(error.contains("needs `CustomDistProbs`"), "{error}");
        let error = run_once(&op().attr("sampler", 3), &mut values(1)).unwrap_err().to_string();
        assert!(error.contains("`sampler` must be"), "{error}");
    }
}
