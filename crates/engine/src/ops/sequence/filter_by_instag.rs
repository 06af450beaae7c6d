//! `filter_by_instag`: the samples that have one of the tags in `Filter_tag`.
//!
//! A row of `IndexMap` is a sample that stays: its first row in `Out`, its first row in `Ins`, and
//! how many rows it has. Where none stays, `Out` is one row of `out_val_if_empty`, whose
//! `LossWeight` is 0.

use std::ops::Range;

use super::offsets::{check_gradient, innermost, only_level, row_bytes, set_lengths};
use crate::ops::prelude::*;
use crate::ops::shape::given::extend_integers;

pub(super) const DEF: OpDef = OpDef::new("filter_by_instag", kernel)
    .inputs(&[Slot::one("Ins"), Slot::one("Ins_tag"), Slot::one("Filter_tag")])
    .outputs(&[Slot::one("Out"), Slot::one("LossWeight"), Slot::one("IndexMap")])
    .attrs(&[attr::bool("is_lod", true), attr::long("out_val_if_empty", 0)])
    .infer(infer)
    .gradient(
        Gradient::new(&["Ins"], grad_kernel)
            .reads(&["Ins", "IndexMap", "LossWeight"])
            .accepts(&["Ins_tag", "Filter_tag"])
            .lod_from("Ins"),
    );

/// How many samples stay is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let ins = cx.input("Ins")?;
    let [_, width] = ins.dims[..] else {
        return Err(Error::kernel(format!("`Ins` must have rank 2, not shape {:?}", ins.dims)));
    };
    let ragged = |meta: Meta| Meta { lod_level: 1, ..meta };
    let out = ragged(ins.with_dims([-1, width]));
    cx.set("Out", out);
    cx.set("LossWeight", ragged(Meta::new(DType::F32, [-1, 1])));
    cx.set("IndexMap", ragged(Meta::new(DType::I64, [-1, 3])));
    Ok(())
}

/// The rows of each sample of `Ins`.
fn samples(rows: &mut Vec<Range<usize>>, ins: &Tensor, is_lod: bool) -> Result<()> {
    rows.clear();
    if is_lod && !ins.lod().is_empty() {
        rows.extend(only_level(ins, "Ins")?.windows(2).map(|pair| pair[0]..pair[1]));
    } else {
        rows.extend((0..ins.rows()).map(|row| row..row + 1));
    }
    Ok(())
}

/// Keeps those of `rows` whose tags are among `wanted`.
fn filter(rows: &mut Vec<Range<usize>>, tags: &Tensor, wanted: &[i64]) -> Result<()> {
    let tag = tags.as_slice::<i64>()?;
    let width = tags.dims().tail(1);
    let ragged = !tags.lod().is_empty();
    let offsets = if ragged { innermost(tags, "Ins_tag")? } else { &[] };
    let count = if ragged { offsets.len() - 1 } else { tags.rows() };
    if count != rows.len() {
        let samples = rows.len();
        return Err(Error::kernel(format!("`Ins_tag` has tags of {count} samples, not {samples}")));
    }
    let mut sample = 0;
    rows.retain(|_| {
        let own = if ragged { offsets[sample]..offsets[sample + 1] } else { sample..sample + 1 };
        sample += 1;
        tag[own.start * width..own.end * width].iter().any(|tag| wanted.contains(tag))
    });
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (ins, tags, wanted) = (op.input("Ins")?, op.input("Ins_tag")?, op.input("Filter_tag")?);
    let (mut out, mut weight) = (op.output("Out")?, op.output("LossWeight")?);
    let (mut map, is_lod) = (op.output("IndexMap")?, op.bool("is_lod")?);
    let if_empty = op.i64("out_val_if_empty")?;
    let (mut kept, mut wanted_tags, mut lod) = (Vec::new(), Vec::new(), [Vec::new()]);
    Ok(Box::new(move |run| {
        let (ins, out) = (run.tensor(ins)?, run.out(&mut out)?);
        wanted_tags.clear();
        extend_integers(&mut wanted_tags, run.tensor(wanted)?)?;
        samples(&mut kept, ins, is_lod)?;
        filter(&mut kept, run.tensor(tags)?, &wanted_tags)?;
        let empty = kept.is_empty();
        let count = kept.len().max(1);
        let rows = if empty { 1 } else { kept.iter().map(|rows| rows.len()).sum() };
        out.resize(ins.dtype(), ins.dims().with_rows(rows));
        let lengths = kept.iter().map(|rows| rows.len());
        set_lengths(out, &mut lod, lengths.chain(empty.then_some(1)));
        if empty {
            fill(out, if_empty)?;
        } else {
            copy(ins, out, &kept);
        }
        let starts = out.lod()[0].clone();
        let (weight, map) = (run.out(&mut weight)?, run.out(&mut map)?);
        weight.resize(DType::F32, [count, 1]);
        weight.as_mut_slice::<f32>()?.fill(if empty { 0.0 } else { 1.0 });
        map.resize(DType::I64, [count, 3]);
        let places = map.as_mut_slice::<i64>()?;
        // What Paddle writes where nothing stays.
        places.copy_from_slice(&[0, 1, 1].repeat(count));
        for ((place, start), rows) in places.chunks_exact_mut(3).zip(starts).zip(&kept) {
            place.copy_from_slice(&[start as i64, rows.start as i64, rows.len() as i64]);
        }
        for each in [weight, map] {
            set_lengths(each, &mut lod, std::iter::repeat_n(1, count));
        }
        Ok(())
    }))
}

fn fill(out: &mut Tensor, value: i64) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, i32, i64] => {
        out.as_mut_slice::<T>()?.fill(value as T);
        Ok(())
    }, else => Err(Error::kernel(format!("`Ins` cannot be of {} elements", out.dtype()))))
}

fn copy(ins: &Tensor, out: &mut Tensor, kept: &[Range<usize>]) {
    let (bytes, ins, mut rest) = (row_bytes(ins), ins.as_bytes(), out.as_mut_bytes());
    for rows in kept {
        let (head, tail) = rest.split_at_mut(rows.len() * bytes);
        head.copy_from_slice(&ins[rows.start * bytes..rows.end * bytes]);
        rest = tail;
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (ins, map, weight) = (op.input("Ins")?, op.input("IndexMap")?, op.input("LossWeight")?);
    let (dout, mut dins) = (op.input("Out@GRAD")?, op.output("Ins@GRAD")?);
    Ok(Box::new(move |run| {
        let (ins, dout, dins) = (run.tensor(ins)?, run.tensor(dout)?, run.out(&mut dins)?);
        let (map, weight) = (run.get::<i64>(map)?, run.get::<f32>(weight)?);
        dins.resize(dout.dtype(), ins.dims());
        dins.as_mut_bytes().fill(0);
        if weight == [0.0] {
            return Ok(());
        }
        let rows = map.chunks_exact(3).map(|row| row[2]).sum::<i64>();
        check_gradient(dout, "Out@GRAD", rows.max(0) as usize * ins.dims().tail(1))?;
        let bytes = ins.dims().tail(1) * dout.dtype().size();
        let (dout, dins) = (dout.as_bytes(), dins.as_mut_bytes());
        for row in map.chunks_exact(3) {
            let [from, to, count] = [row[0], row[1], row[2]].map(|at| at as usize * bytes);
            let source = dout.get(from..from.saturating_add(count));
            let target = dins.get_mut(to..to.saturating_add(count));
            let (Some(source), Some(target)) = (source, target) else {
                return Err(Error::kernel("`IndexMap` names rows that are not there"));
            };
            target.copy_from_slice(source);
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn op() -> Op {
        let op = Op::new("filter_by_instag").input("Ins", ["ins"]).input("Ins_tag", ["tags"]);
        let op = op.input("Filter_tag", ["wanted"]).output("Out", ["out"]);
        op.output("LossWeight", ["weight"]).output("IndexMap", ["map"]).attr("is_lod", true)
    }

    /// Three samples of two, one and two rows; the second and the third have tag 2.
    fn values(wanted: i64) -> HashMap<String, Value> {
        let ins: Vec<f64> = (0..10).map(f64::from).collect();
        let ins = Tensor::from_slice([5, 2], &ins).unwrap().with_lod(&[vec![0, 2, 3, 5]]).unwrap();
        let tags = Tensor::from_slice([5, 1], &[1i64, 2, 3, 5, 2]).unwrap();
        HashMap::from([
            ("ins".to_owned(), ins.into()),
            ("tags".to_owned(), tags.with_lod(&[vec![0, 1, 3, 5]]).unwrap().into()),
            ("wanted".to_owned(), Tensor::from_slice([1], &[wanted]).unwrap().into()),
        ])
    }

    #[test]
    fn samples_with_a_wanted_tag_stay() {
        let mut values = values(2);
        run_once(&op(), &mut values).unwrap();
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
        assert_eq!(of("out"), [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(values["out"].tensor().unwrap().lod().as_slice(), [vec![0, 1, 3]]);
        assert_eq!(of("map"), [0.0, 2.0, 1.0, 1.0, 3.0, 2.0]);
        assert_eq!(of("weight"), [1.0, 1.0]);
        let dout = Tensor::from_slice([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        values.insert("out@GRAD".to_owned(), dout.into());
        gradients_agree_with_differences(&op(), &values, &["ins"]);
    }

    #[test]
    fn where_none_stays_there_is_one_row_that_counts_nothing() {
        let mut values = values(9);
        run_once(&op().attr("out_val_if_empty", 7i64), &mut values).unwrap();
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
        assert_eq!((of("out"), of("weight")), (vec![7.0, 7.0], vec![0.0]));
        assert_eq!(of("map"), [0.0, 1.0, 1.0]);
        let dout = Tensor::from_slice([1, 2], &[1.0, 2.0]).unwrap();
        values.insert("out@GRAD".to_owned(), dout.into());
        run_gradient(&op(), &mut values);
        assert_eq!(values["ins@GRAD"].tensor().unwrap().to_f64_vec(), [0.0; 10]);
    }
}
