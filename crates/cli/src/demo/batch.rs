//! Batches of samples as the tensors that the CTR-DNN is fed.
//!
//! The order of feeds is fixed: the label, the slots `1` to `26`, the dense features.

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;

use super::data::{DENSE, SLOTS, Samples};

/// The feed that holds labels.
pub const LABEL_FEED: &str = "label";
/// The feed that holds dense features.
pub const DENSE_FEED: &str = "dense_input";

/// One batch; its memory is used again by the next.
#[derive(Debug)]
pub struct Batch {
    tensors: Vec<Tensor>,
}

/// The names of all feeds, in the order of [`Batch::tensors`].
pub fn feed_names() -> Vec<String> {
    let slots = (1..=SLOTS).map(|slot| slot.to_string());
    [LABEL_FEED.to_owned()].into_iter().chain(slots).chain([DENSE_FEED.to_owned()]).collect()
}

impl Default for Batch {
    fn default() -> Batch {
        let integers = (0..=SLOTS).map(|_| Tensor::empty(DType::I64));
        Batch { tensors: integers.chain([Tensor::empty(DType::F32)]).collect() }
    }
}

impl Batch {
    /// A batch of the samples `first .. first + rows`.
    pub fn of(samples: &Samples, first: usize, rows: usize) -> Batch {
        let mut batch = Batch::default();
        batch.fill(samples, first, rows);
        batch
    }

    /// Makes this the batch of the samples `first .. first + rows`.
    ///
    /// # Panics
    /// When there are fewer samples.
    pub fn fill(&mut self, samples: &Samples, first: usize, rows: usize) {
        let (dense, integers) = self.tensors.split_last_mut().expect("a batch has 28 tensors");
        let (label, slots) = integers.split_first_mut().expect("a batch has 28 tensors");
        let labels = samples.labels[first..first + rows].iter().map(|label| i64::from(*label));
        write(label, rows, labels);
        let ids = &samples.ids[first * SLOTS..(first + rows) * SLOTS];
        for (slot, tensor) in slots.iter_mut().enumerate() {
            write(tensor, rows, ids.iter().skip(slot).step_by(SLOTS).map(|id| i64::from(*id)));
        }
        dense.resize(DType::F32, [rows, DENSE]);
        let values = dense.as_mut_slice::<f32>().expect("the tensor was made for this type");
        values.copy_from_slice(&samples.dense[first * DENSE..(first + rows) * DENSE]);
    }

    /// The feeds themselves.
    pub fn into_tensors(self) -> Vec<Tensor> {
        self.tensors
    }

    /// All feeds, in the order of [`feed_names`].
    pub fn tensors(&self) -> Vec<&Tensor> {
        self.tensors.iter().collect()
    }
}

fn write(tensor: &mut Tensor, rows: usize, values: impl Iterator<Item = i64>) {
    tensor.resize(DType::I64, [rows, 1]);
    let out = tensor.as_mut_slice::<i64>().expect("the tensor was made for this type");
    out.iter_mut().zip(values).for_each(|(out, value)| *out = value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::data::Source;

    #[test]
    fn a_batch_holds_its_samples_feed_by_feed() {
        let samples = Source::new(3, 100, 1).unwrap().samples(0..10, 1);
        let mut batch = Batch::of(&samples, 0, 10);
        batch.fill(&samples, 4, 3);
        let tensors = batch.tensors();
        assert_eq!(tensors.len(), feed_names().len());
        assert_eq!((&*tensors[2].dims(), &*tensors[27].dims()), (&[3, 1][..], &[3, DENSE][..]));
        let second_slot = tensors[2].as_slice::<i64>().unwrap();
        assert_eq!(second_slot[2], i64::from(samples.ids[6 * SLOTS + 1]));
        assert_eq!(tensors[27].as_slice::<f32>().unwrap()[0], samples.dense[4 * DENSE]);
    }
}
