//! `sample_logits`: of each row of logits those of its own classes and of others that are drawn at
//! random, one set for the whole batch, corrected by how probable it was to draw them.
//!
//! A softmax over the result learns what one over all classes would. With
//! `remove_accidental_hits`, a drawn class that is the sample's own counts nothing.

use std::collections::HashSet;

use super::sampler::{Sampler, check_class};
use crate::ops::prelude::*;
use crate::ops::random::Draw;

pub(super) const DEF: OpDef = OpDef::new("sample_logits", kernel)
    .inputs(&[
        Slot::one("Logits"),
        Slot::one("Labels"),
        Slot::maybe("CustomizedSamples"),
        Slot::maybe("CustomizedProbabilities"),
    ])
    .outputs(&[
        Slot::one("Samples"),
        Slot::one("Probabilities"),
        Slot::maybe("LogitsDim"),
        Slot::maybe("LabelsDim"),
        Slot::one("SampledLogits"),
        Slot::one("SampledLabels"),
    ])
    .attrs(&[
        attr::bool("use_customized_samples", false),
        attr::bool("uniq", true),
        attr::bool("remove_accidental_hits", true),
        attr::required("num_samples", AttrKind::Int),
        attr::int("seed", 0),
    ])
    .infer(infer)
    .inplace(&[("CustomizedSamples", "Samples"), ("CustomizedProbabilities", "Probabilities")])
    .gradient(
        Gradient::new(&["Logits"], grad_kernel)
            .reads(&["Logits", "Samples"])
            .accepts(&["LogitsDim", "LabelsDim"])
            .from(&["SampledLogits"]),
    );

/// What takes a class out of a softmax.
const OUT_OF_THE_QUESTION: f64 = 1e20;

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (logits, labels) = (cx.input("Logits")?, cx.input("Labels")?);
    let count = count_of(cx.op())? as i64;
    let ([rows, classes], [label_rows, own]) = (&logits.dims[..], &labels.dims[..]) else {
        return Err(Error::kernel(format!(
            "`Logits` and `Labels` must be matrices, but their shapes are {:?} and {:?}",
            logits.dims, labels.dims
        )));
    };
    if same_dim(*rows, *label_rows).is_err() || (*classes >= 0 && count > *classes) {
        return Err(Error::kernel(format!(
            "`num_samples` {count}, `Logits` {:?} and `Labels` {:?} do not fit",
            logits.dims, labels.dims
        )));
    }
    let taken = logits.with_dims([*rows, if *own < 0 { -1 } else { own + count }]);
    cx.set("Samples", taken.with_dtype(DType::I64));
    cx.set("Probabilities", taken.clone());
    cx.set("SampledLogits", taken);
    let (logits, labels) = (logits.clone(), labels.clone());
    cx.set("LogitsDim", logits);
    cx.set("LabelsDim", labels.clone());
    cx.set("SampledLabels", labels.with_dtype(DType::I64));
    Ok(())
}

fn count_of(op: &OpView<'_>) -> Result<usize> {
    let count = op.i64("num_samples")?;
    if !op.bool("uniq")? {
        return Err(Error::kernel("`uniq` must be true: samples are drawn without repeats"));
    }
    let possible = usize::try_from(count).ok().filter(|count| *count >= 1);
    possible.ok_or_else(|| Error::kernel(format!("`num_samples` must be 1 or more, not {count}")))
}

/// The classes of a batch and their probabilities, drawn or given.
#[derive(Default)]
struct Samples {
    drawn: Vec<i64>,
    met: HashSet<i64>,
}

impl Samples {
    /// Draws `count` different classes; returns how many draws that took.
    fn draw(&mut self, sampler: Sampler<'_>, count: usize, random: crate::random::Philox) -> u64 {
        self.drawn.clear();
        self.met.clear();
        let mut tries = 0;
        while self.drawn.len() < count {
            let class = sampler.draw(random, tries);
            tries += 1;
            if self.met.insert(class) {
                self.drawn.push(class);
            }
        }
        tries
    }
}

/// How probable it is that a class of this probability is among `count` that took `tries`.
fn adjusted(probability: f64, count: usize, tries: u64) -> f64 {
    if count as u64 == tries {
        probability * count as f64
    } else {
        -(tries as f64 * (-probability).ln_1p()).exp_m1()
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (logits, labels, count) = (op.input("Logits")?, op.input("Labels")?, count_of(op)?);
    let customized = op.bool("use_customized_samples")?;
    let given = [("CustomizedSamples", "Samples"), ("CustomizedProbabilities", "Probabilities")];
    let [mut given_samples, mut given_chances] =
        given.map(|(from, to)| if customized { op.maybe_in_out(from, to) } else { None });
    if customized && (given_samples.is_none() || given_chances.is_none()) {
        return Err(Error::kernel(
            "`use_customized_samples` needs `CustomizedSamples` and `CustomizedProbabilities`",
        ));
    }
    let fresh = |slot: &str| if customized { Ok(None) } else { op.output(slot).map(Some) };
    let (mut samples, mut chances) = (fresh("Samples")?, fresh("Probabilities")?);
    let (mut out, mut out_labels) = (op.output("SampledLogits")?, op.output("SampledLabels")?);
    let (hits, draw) = (op.bool("remove_accidental_hits")?, Draw::named(op, "SampledLogits")?);
    let mut state = Samples::default();
    float_kernel!(op, "Logits", |run, T| {
        let (classes, own) = (run.dims(logits)?[1], run.dims(labels)?[1]);
        let labels = run.get::<i64>(labels)?;
        labels.iter().try_for_each(|class| check_class(*class, classes, "Labels"))?;
        let all = own + count;
        let (samples, chances) = match (&mut given_samples, &mut given_chances) {
            (Some(samples), Some(chances)) => {
                (run.continued(samples)?.as_slice::<i64>()?, run.continued(chances)?.as_slice()?)
            }
            _ => {
                let sampler = Sampler::LogUniform { range: classes };
                let tries = state.draw(sampler, count, draw.step(run.step));
                let (Some(samples), Some(chances)) = (&mut samples, &mut chances) else {
                    return Err(Error::kernel("`Samples` and `Probabilities` must be given"));
                };
                let (samples, chances) = (run.set::<i64>(samples)?, run.set::<T>(chances)?);
                for (row, samples) in samples.chunks_exact_mut(all).enumerate() {
                    samples[..own].copy_from_slice(&labels[row * own..][..own]);
                    samples[own..].copy_from_slice(&state.drawn);
                }
                for (chance, class) in chances.iter_mut().zip(&*samples) {
                    *chance = adjusted(sampler.probability(*class), count, tries) as T;
                }
                (&*samples, &*chances)
            }
        };
        samples.iter().try_for_each(|class| check_class(*class, classes, "Samples"))?;
        let (logits, out) = (run.get::<T>(logits)?, run.set::<T>(&mut out)?);
        if samples.len() != out.len() || chances.len() != out.len() {
            return Err(Error::kernel(format!(
                "`Samples` and `Probabilities` must have {all} columns, of own and of other classes"
            )));
        }
        for (at, out) in out.iter_mut().enumerate() {
            let (row, class, chance) = (at / all, samples[at], chances[at]);
            let hit = hits && at % all >= own && labels[row * own..][..own].contains(&class);
            let logit = logits[row * classes + class as usize];
            let logit = if hit { logit - OUT_OF_THE_QUESTION as T } else { logit };
            let bound = OUT_OF_THE_QUESTION as T;
            *out = (logit - chance.ln()).clamp(-bound, bound);
        }
        let places = run.set::<i64>(&mut out_labels)?.chunks_exact_mut(own.max(1));
        places.for_each(|row| (0..).zip(row).for_each(|(at, place)| *place = at));
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (logits, samples) = (op.input("Logits")?, op.input("Samples")?);
    let (dout, mut dlogits) = (op.input("SampledLogits@GRAD")?, op.output("Logits@GRAD")?);
    float_kernel!(op, "Logits", |run, T| {
        let (classes, all) = (run.dims(logits)?[1], run.dims(samples)?[1].max(1));
        let (samples, dout) = (run.get::<i64>(samples)?, run.get::<T>(dout)?);
        let dlogits = run.set::<T>(&mut dlogits)?;
        samples.iter().try_for_each(|class| check_class(*class, classes, "Samples"))?;
        if dout.len() != samples.len() || samples.len() / all * classes != dlogits.len() {
            return Err(Error::kernel("`SampledLogits@GRAD` has not the shape of `Samples`"));
        }
        dlogits.fill(0.0);
        for (at, (class, dout)) in samples.iter().zip(dout).enumerate() {
            dlogits[at / all * classes + *class as usize] += *dout;
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn op() -> Op {
        let op = Op::new("sample_logits").input("Logits", ["logits"]).input("Labels", ["labels"]);
        let op = op.output("Samples", ["samples"]).output("Probabilities", ["chances"]);
        let op = op.output("SampledLogits", ["out"]).output("SampledLabels", ["places"]);
        op.attr("num_samples", 4).attr("seed", 9)
    }

    fn values() -> HashMap<String, Value> {
        let logits: Vec<f64> = (0..20).map(|i| f64::from(i).sin()).collect();
        HashMap::from([
            ("logits".to_owned(), Tensor::from_slice([2, 10], &logits).unwrap().into()),
            ("labels".to_owned(), Tensor::from_slice([2, 1], &[3i64, 0]).unwrap().into()),
        ])
    }

    #[test]
    fn logits_of_own_and_drawn_classes_are_corrected() {
        let mut values = values();
        run_once(&op(), &mut values).unwrap();
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
        let (logits, samples, chances, out) =
            (of("logits"), of("samples"), of("chances"), of("out"));
        assert_eq!((samples[0], samples[5]), (3.0, 0.0));
        assert_eq!(samples[1..5], samples[6..]);
        let different: std::collections::HashSet<_> =
            samples[1..5].iter().map(|class| *class as i64).collect();
        assert_eq!(different.len(), 4);
        for at in 0..10 {
            let (row, class) = (at / 5, samples[at] as usize);
            let hit = at % 5 > 0 && class == [3, 0][row];
            let expected = logits[row * 10 + class] - chances[at].ln();
            let expected = if hit { -1e20 } else { expected };
            assert!((out[at] - expected).abs() < 1e-9, "{at}: {} {expected}", out[at]);
            assert!(chances[at] > 0.0, "{}", chances[at]);
        }
        assert_eq!(of("places"), [0.0, 0.0]);
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        let mut values = values();
        let weights: Vec<f64> = (0..10).map(|i| f64::from(i).cos()).collect();
        values.insert("out@GRAD".to_owned(), Tensor::from_slice([2, 5], &weights).unwrap().into());
        let op = op().attr("remove_accidental_hits", false);
        gradients_agree_with_differences(&op, &values, &["logits"]);
    }

    #[test]
    fn given_samples_are_taken() {
        let mut values = values();
        let samples = Tensor::from_slice([2, 3], &[3i64, 1, 2, 0, 1, 2]).unwrap();
        values.insert("given".to_owned(), samples.into());
        let chances = Tensor::from_slice([2, 3], &[0.5; 6]).unwrap();
        values.insert("chance".to_owned(), chances.into());
        let op = Op::new("sample_logits").input("Logits", ["logits"]).input("Labels", ["labels"]);
        let op = op.input("CustomizedSamples", ["given"]).output("Samples", ["given"]);
        let op =
            op.input("CustomizedProbabilities", ["chance"]).output("Probabilities", ["chance"]);
        let op = op.output("SampledLogits", ["out"]).output("SampledLabels", ["places"]);
        let op = op.attr("num_samples", 2).attr("use_customized_samples", true);
        run_once(&op, &mut values).unwrap();
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
        let (logits, out) = (of("logits"), of("out"));
        assert!((out[1] - (logits[1] - 0.5f64.ln())).abs() < 1e-12);
        assert!((out[3] - (logits[10] - 0.5f64.ln())).abs() < 1e-12);
    }
}
