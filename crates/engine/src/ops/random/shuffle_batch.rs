//! `shuffle_batch`: the rows of a batch in random order. Row `i` of `X` becomes row
//! `ShuffleIdx[i]` of `Out`; a row is all of the last axis, as in Paddle.

use super::integers::below;
use crate::ops::prelude::*;
use crate::random::Philox;

pub(super) const DEF: OpDef = OpDef::new("shuffle_batch", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("Seed")])
    .outputs(&[Slot::one("Out"), Slot::one("ShuffleIdx"), Slot::maybe("SeedOut")])
    .attrs(&[attr::int("startup_seed", 0)])
    .infer(infer)
    .inplace(&[("Seed", "SeedOut")])
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["ShuffleIdx"]).like("Out@GRAD"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let [outer @ .., _] = x.dims.as_slice() else {
        return Err(Error::kernel("`X` must have rows, but is a scalar"));
    };
    let rows = if outer.contains(&-1) { -1 } else { outer.iter().product() };
    cx.set("Out", x.clone());
    cx.set("ShuffleIdx", Meta::new(DType::I64, [rows]));
    cx.set("SeedOut", Meta::new(DType::I64, [1]));
    Ok(())
}

/// What the standard library of C++ makes of a seed: the next seed, so that steps differ.
fn next_seed(seed: i64) -> i64 {
    const MODULUS: i64 = (1 << 31) - 1;
    let seed = seed.rem_euclid(MODULUS);
    16807 * seed.max(1) % MODULUS
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut index) = (op.input("X")?, op.output("Out")?, op.output("ShuffleIdx")?);
    let mut both_seeds = op.maybe_in_out("Seed", "SeedOut");
    let (seed, mut seed_out) = match both_seeds {
        Some(_) => (None, None),
        None => (op.maybe_input("Seed"), op.maybe_output("SeedOut")),
    };
    let (startup, name) = (op.i64("startup_seed")?, op.output_key("Out"));
    Ok(Box::new(move |run| {
        // A seed without an element is one that is not there yet, as in Paddle.
        let seed = match &both_seeds {
            Some(seeds) => Some(run.before(seeds)?),
            None => seed.map(|seed| run.tensor(seed)).transpose()?,
        };
        let given = match seed {
            Some(seed) if seed.numel() > 0 && seed.dtype() != DType::I64 => {
                let problem = format!("`Seed` must be int64, not {}", seed.dtype());
                return Err(Error::kernel(problem));
            }
            Some(seed) if seed.numel() > 0 => Some(seed.as_slice::<i64>()?[0]),
            _ => None,
        };
        let key = given.unwrap_or(startup);
        let draw = Philox::new(key.cast_unsigned(), &name);
        let draw = if given.is_some() { draw } else { draw.stream(run.step) };
        let (x, index) = (run.tensor(x)?, run.out(&mut index)?);
        let rows: usize = x.dims().iter().rev().skip(1).product();
        index.resize(DType::I64, [rows]);
        let index = index.as_mut_slice::<i64>()?;
        (0..).zip(index.iter_mut()).for_each(|(i, index)| *index = i);
        // Fisher and Yates.
        for last in (1..rows).rev() {
            index.swap(last, below(draw.u64(last as u64), last as u64 + 1) as usize);
        }
        let out = run.out(&mut out)?;
        out.resize(x.dtype(), x.dims());
        move_rows(x, out, index, Direction::To)?;
        if let Some(seed_out) =
            both_seeds.as_mut().map(|seeds| &mut seeds.out).or(seed_out.as_mut())
        {
            let seed_out = run.out(seed_out)?;
            seed_out.resize(DType::I64, [1]);
            seed_out.as_mut_slice::<i64>()?[0] = next_seed(key);
        }
        Ok(())
    }))
}

/// Whether an index says where its row goes, or where it comes from.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    To,
    From,
}

fn move_rows(from: &Tensor, to: &mut Tensor, index: &[i64], direction: Direction) -> Result<()> {
    let width = from.as_bytes().len() / index.len().max(1);
    let row = |at: usize| at * width..(at + 1) * width;
    let (from, to) = (from.as_bytes(), to.as_mut_bytes());
    for (i, at) in index.iter().enumerate() {
        let at = usize::try_from(*at).ok().filter(|at| *at < index.len()).ok_or_else(|| {
            Error::kernel(format!("`ShuffleIdx` {at} lies outside 0..{}", index.len()))
        })?;
        let (source, target) = if direction == Direction::To { (i, at) } else { (at, i) };
        to[row(target)].copy_from_slice(&from[row(source)]);
    }
    Ok(())
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (index, dout) = (op.input("ShuffleIdx")?, op.input("Out@GRAD")?);
    let mut dx = op.output("X@GRAD")?;
    Ok(Box::new(move |run| {
        let (index, dout, dx) = (run.get::<i64>(index)?, run.tensor(dout)?, run.out(&mut dx)?);
        if !index.is_empty() && !dout.numel().is_multiple_of(index.len()) {
            let problem = format!("{} indices do not fit `Out@GRAD` {}", index.len(), dout.dims());
            return Err(Error::kernel(problem));
        }
        dx.resize(dout.dtype(), dout.dims());
        move_rows(dout, dx, index, Direction::From)
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn rows_are_moved_and_their_gradients_moved_back() {
        let op = Op::new("shuffle_batch").input("X", ["x"]).input("Seed", ["seed"]);
        let op = op.output("Out", ["out"]).output("ShuffleIdx", ["index"]);
        let op = op.output("SeedOut", ["seed"]);
        let rows: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let x = Tensor::from_slice([8, 4, 2], &rows).unwrap();
        let mut values = HashMap::new();
        values.insert("x".to_owned(), x.clone().into());
        values.insert("seed".to_owned(), Tensor::from_slice([1], &[7i64]).unwrap().into());
        run_once(&op, &mut values).unwrap();
        let index = values["index"].tensor().unwrap().as_slice::<i64>().unwrap().to_vec();
        let out = values["out"].tensor().unwrap().clone();
        for (row, to) in index.iter().enumerate() {
            let to = *to as usize;
            assert_eq!(out.as_slice::<f32>().unwrap()[2 * to], (2 * row) as f32);
        }
        let mut sorted = index.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..32).collect::<Vec<_>>());
        assert_ne!(sorted, index);
        assert_eq!(values["seed"].tensor().unwrap().as_slice::<i64>().unwrap(), [117_649]);
        values.insert("out@GRAD".to_owned(), out.into());
        run_gradient(&op, &mut values);
        assert!(*values["x@GRAD"].tensor().unwrap() == x);
    }

    #[test]
    fn a_seed_of_another_type_is_refused() {
        let op = Op::new("shuffle_batch").input("X", ["x"]).input("Seed", ["seed"]);
        let op = op.output("Out", ["out"]).output("ShuffleIdx", ["index"]);
        let mut values = HashMap::new();
        values.insert("x".to_owned(), Tensor::from_slice([4, 1], &[0f32; 4]).unwrap().into());
        values.insert("seed".to_owned(), Tensor::from_slice([1], &[7i32]).unwrap().into());
        let error = run_once(&op, &mut values).unwrap_err().to_string();
        assert!(error.contains("`Seed` must be int64, not int32"), "{error}");
    }
}
