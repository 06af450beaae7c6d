//! Cuts a batch into micro-batches, and joins what was fetched of each.

use bireme_engine::tensor::{Lod, Tensor};
use bireme_ir::Program;

use super::message::Values;
use crate::{Error, Result};

/// A part of a batch.
pub(super) struct Micro {
    /// Its share of the samples; 0 where there are more parts than samples.
    pub(super) weight: f32,
    pub(super) values: Values,
}

/// Cuts `feeds` into `count` parts of almost the same number of samples. What is declared without
/// a dimension for samples goes into every part.
///
/// # Errors
/// When the feeds have different numbers of samples.
pub(super) fn cut(program: &Program, feeds: &[(&str, &Tensor)], count: u32) -> Result<Vec<Micro>> {
    let whole = || feeds.iter().map(|(name, tensor)| ((*name).to_owned(), (*tensor).clone()));
    if count <= 1 {
        return Ok(vec![Micro { weight: 1.0, values: whole().collect() }]);
    }
    let by_sample = |name: &str| {
        let var = program.global().var(name);
        var.is_some_and(|var| var.shape.first() == Some(&-1))
    };
    let mut total: Option<(usize, &str)> = None;
    for (name, tensor) in feeds.iter().filter(|(name, _)| by_sample(name)) {
        let here = samples(tensor);
        match total {
            Some((known, first)) if known != here => {
                return Err(Error::Request(format!(
                    "`{first}` has {known} samples and `{name}` {here}: such a batch cannot be cut \
                     into micro-batches, set `accumulate_steps` to 1"
                )));
            }
            _ => total = Some((here, name)),
        }
    }
    let Some((total, _)) = total.filter(|(total, _)| *total > 0) else {
        return Ok(vec![Micro { weight: 1.0, values: whole().collect() }]);
    };
    let count = count as usize;
    let part = |at: usize| {
        let (start, end) = (total * at / count, total * (at + 1) / count);
        if start == end {
            return Micro { weight: 0.0, values: Values::new() };
        }
        let cut = |(name, tensor): &(&str, &Tensor)| {
            let value = if by_sample(name) { rows(tensor, start, end) } else { (*tensor).clone() };
            ((*name).to_owned(), value)
        };
        let weight = (end - start) as f32 / total as f32;
        Micro { weight, values: feeds.iter().map(cut).collect() }
    };
    Ok((0..count).map(part).collect())
}

/// Samples of a batch: its sequences, or its rows.
fn samples(tensor: &Tensor) -> usize {
    tensor.lod().first().map_or_else(|| tensor.rows(), |level| level.len().saturating_sub(1))
}

/// Samples `start .. end` of a tensor.
fn rows(tensor: &Tensor, mut start: usize, mut end: usize) -> Tensor {
    let mut lod: Lod = Vec::new();
    for level in tensor.lod() {
        let offsets = &level[start..=end];
        lod.push(offsets.iter().map(|offset| offset - offsets[0]).collect());
        (start, end) = (level[start], level[end]);
    }
    let row = tensor.as_bytes().len() / tensor.rows().max(1);
    let mut part = Tensor::zeros(tensor.dtype(), tensor.dims().with_rows(end - start));
    part.as_mut_bytes().copy_from_slice(&tensor.as_bytes()[start * row..end * row]);
    part.set_lod(&lod);
    part
}

/// Joins what was fetched of a step's parts: one below the other where there is a row for every
/// sample; else the mean by weight of numbers with a fraction, and the last of other values.
///
/// # Errors
/// When the parts do not go together.
pub(super) fn join(parts: Vec<(f32, bool, Tensor)>) -> Result<Tensor> {
    let mut parts = parts.into_iter();
    let Some((weight, by_row, mut joined)) = parts.next() else {
        return Err(Error::Request("nothing was fetched of an empty batch".to_owned()));
    };
    let rest: Vec<(f32, bool, Tensor)> = parts.collect();
    if rest.is_empty() {
        return Ok(joined);
    }
    if by_row {
        return below(joined, rest.into_iter().map(|(_, _, tensor)| tensor));
    }
    let mean = |first: f64, more: &dyn Fn(&Tensor) -> Option<f64>| {
        let rest = rest.iter().filter_map(|(w, _, t)| Some(f64::from(*w) * more(t)?));
        f64::from(weight) * first + rest.sum::<f64>()
    };
    if let Ok(values) = joined.as_mut_slice::<f32>() {
        for (at, value) in values.iter_mut().enumerate() {
            let of = |t: &Tensor| t.as_slice::<f32>().ok()?.get(at).map(|v| f64::from(*v));
            *value = mean(f64::from(*value), &of) as f32;
        }
    } else if let Ok(values) = joined.as_mut_slice::<f64>() {
        for (at, value) in values.iter_mut().enumerate() {
            *value = mean(*value, &|t: &Tensor| t.as_slice::<f64>().ok()?.get(at).copied());
        }
    } else if let Some((_, _, last)) = rest.into_iter().next_back() {
        joined = last;
    }
    Ok(joined)
}

fn below(first: Tensor, rest: impl Iterator<Item = Tensor>) -> Result<Tensor> {
    let mut lod = first.lod().clone();
    let mut bytes = first.as_bytes().to_vec();
    let mut rows = first.rows();
    for tensor in rest {
        if tensor.dtype() != first.dtype() || tensor.dims().tail(1) != first.dims().tail(1) {
            return Err(Error::Request(format!(
                "micro-batches gave values of shapes {} and {}, which have no common rows",
                first.dims(),
                tensor.dims()
            )));
        }
        for (level, more) in lod.iter_mut().zip(tensor.lod()) {
            let end = level.last().copied().unwrap_or(0);
            level.extend(more.iter().skip(1).map(|offset| end + offset));
        }
        bytes.extend_from_slice(tensor.as_bytes());
        rows += tensor.rows();
    }
    let mut joined = Tensor::zeros(first.dtype(), first.dims().with_rows(rows));
    joined.as_mut_bytes().copy_from_slice(&bytes);
    Ok(joined.with_lod(&lod)?)
}

#[cfg(test)]
mod tests {
    use bireme_ir::{DType, Var};

    use super::*;

    fn program() -> Program {
        let mut program = Program::new();
        program.global_mut().add_var(Var::tensor("x", DType::F32, [-1, 2]));
        program.global_mut().add_var(Var::tensor("ids", DType::I64, [-1, 1]));
        program.global_mut().add_var(Var::tensor("k", DType::F32, [1]));
        program
    }

    #[test]
    fn parts_have_almost_the_same_size_and_join_again() {
        let x: Vec<f32> = (0..10).map(|at| at as f32).collect();
        let x = Tensor::from_slice([5, 2], &x).unwrap();
        let ids = Tensor::from_slice([7, 1], &[0i64, 1, 2, 3, 4, 5, 6]).unwrap();
        let ids = ids.with_lod(&[vec![0, 2, 3, 3, 6, 7]]).unwrap();
        let k = Tensor::scalar(3f32);
        let feeds = [("x", &x), ("ids", &ids), ("k", &k)];
        let parts = cut(&program(), &feeds, 2).unwrap();
        let weights: Vec<f32> = parts.iter().map(|part| part.weight).collect();
        assert_eq!(weights, [0.4, 0.6]);
        assert_eq!(parts[1].values["ids"].lod(), &vec![vec![0, 0, 3, 4]]);
        assert_eq!(parts[1].values["ids"].to_f64_vec(), [3.0, 4.0, 5.0, 6.0]);
        assert_eq!(parts[0].values["k"].to_f64_vec(), [3.0]);
        let of = |name: &str| {
            parts.iter().map(|part| (part.weight, true, part.values[name].clone())).collect()
        };
        assert_eq!(join(of("x")).unwrap().to_f64_vec(), x.to_f64_vec());
        let joined = join(of("ids")).unwrap();
        assert_eq!((joined.lod(), joined.to_f64_vec()), (ids.lod(), ids.to_f64_vec()));
    }

    #[test]
    fn small_batches_leave_parts_empty_and_odd_ones_are_refused() {
        let x = Tensor::from_slice([1, 2], &[1f32, 2.0]).unwrap();
        let parts = cut(&program(), &[("x", &x)], 4).unwrap();
        assert_eq!(parts.iter().filter(|part| part.values.is_empty()).count(), 3);
        assert_eq!(parts.iter().map(|part| part.weight).sum::<f32>(), 1.0);
        let ids = Tensor::from_slice([2, 1], &[1i64, 2]).unwrap();
        let problem = cut(&program(), &[("x", &x), ("ids", &ids)], 2).err().unwrap().to_string();
        assert!(problem.contains("`x` has 1 samples and `ids` 2"), "{problem}");
    }

    #[test]
    fn means_are_by_weight() {
        let loss = |weight: f32, value: f32| (weight, false, Tensor::scalar(value));
        let joined = join(vec![loss(0.25, 4.0), loss(0.75, 8.0)]).unwrap();
        assert_eq!(joined.to_f64_vec(), [7.0]);
    }
}
