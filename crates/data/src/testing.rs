//! Samples for tests that need no files.

use crate::{Batch, Error, Input, Result, Rows, Samples, Slot, Values};

/// Files of numbers; each number is a sample with the slots of [`slots`].
pub(crate) struct Numbers(pub(crate) Vec<Vec<u64>>);

/// The number itself, as many ids as its last digit says and one more, and two numbers.
pub(crate) fn slots() -> Vec<Slot> {
    vec![Slot::id("label"), Slot::ids("ids"), Slot::floats("dense", 2)]
}

/// Appends the sample of a number.
pub(crate) fn push(samples: &mut Samples, number: u64) {
    let [label, ids, dense] = samples.columns_mut() else { panic!("three columns") };
    let (Values::Ids(label), Values::Ids(ids), Values::Floats(dense)) =
        (label.values_mut(), ids.values_mut(), dense.values_mut())
    else {
        panic!("ids, ids and floats")
    };
    label.push(number);
    ids.extend((0..=number % 10).map(|id| number * 1000 + id));
    dense.extend([number as f32, -1.0]);
    samples.end_row();
}

/// A batch of the samples of these numbers.
pub(crate) fn batch_of(numbers: &[u64]) -> Batch {
    let mut samples = Samples::of(&slots());
    numbers.iter().for_each(|&number| push(&mut samples, number));
    let mut batch = Batch::of(&slots());
    batch.fill(&samples, 0..numbers.len());
    batch
}

/// The numbers of a batch, whose samples are checked.
pub(crate) fn labels(batch: &Batch) -> Vec<u64> {
    let tensors = batch.tensors();
    let labels = tensors[0].as_slice::<i64>().unwrap();
    let labels: Vec<u64> = labels.iter().map(|&label| label as u64).collect();
    let right = batch_of(&labels);
    for (tensor, right) in tensors.iter().zip(right.tensors()) {
        assert_eq!(tensor.as_bytes(), right.as_bytes());
        assert_eq!(tensor.dims(), right.dims());
        assert_eq!(tensor.lod().to_vec(), right.lod().to_vec());
    }
    labels
}

impl Input for Numbers {
    fn files(&self) -> usize {
        self.0.len()
    }

    fn open(&self, file: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Open { numbers: self.0[file].clone(), at: 0 }))
    }
}

struct Open {
    numbers: Vec<u64>,
    at: usize,
}

impl Rows for Open {
    fn read(&mut self, out: &mut Samples, at_least_rows: usize) -> Result<bool> {
        // One more than asked for, as a parser of blocks does.
        for _ in 0..=at_least_rows {
            let Some(&number) = self.numbers.get(self.at) else { return Ok(false) };
            if number == BAD {
                return Err(Error::Settings("a bad number".to_owned()));
            }
            push(out, number);
            self.at += 1;
        }
        Ok(true)
    }
}

/// A number that cannot be read.
pub(crate) const BAD: u64 = u64::MAX;
