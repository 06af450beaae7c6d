//! Feeds that lie in one piece of page-locked memory: one copy brings all of them, and what is fed is what arrives.

use std::sync::Arc;

use bireme_engine::DType;
use bireme_engine::device::{Device, FeedBlock, FeedMemory, LockedTensor};
use bireme_engine::tensor::{Dims, Tensor};

use crate::card::{alone, device};

/// A float matrix, whose rows have room behind them, and ids of two kinds.
fn shapes(rows: usize) -> [(DType, Dims); 3] {
    [
        (DType::F32, Dims::new(&[rows, 13])),
        (DType::I64, Dims::new(&[rows, 1])),
        (DType::I32, Dims::new(&[rows, 1])),
    ]
}

fn fill(tensors: &mut [Tensor], seed: u8) {
    for tensor in tensors {
        for (at, byte) in tensor.as_mut_bytes().iter_mut().enumerate() {
            *byte = (at as u8).wrapping_mul(7).wrapping_add(seed);
        }
    }
}

fn bytes(tensors: &[Tensor]) -> Vec<Option<&[u8]>> {
    tensors.iter().map(|tensor| Some(tensor.as_bytes())).collect()
}

#[test]
fn what_was_laid_out_arrives() {
    let Some((_machine, device)) = device() else { return };
    let most: Vec<usize> = shapes(40).iter().map(|(_, dims)| dims.numel() * 8 + 4096).collect();
    let mut uploads = device.uploads(&most).unwrap();
    let memory = FeedMemory::new(&device);
    let mut blocks = [FeedBlock::default(), FeedBlock::default()];
    let mut tensors: [Vec<Tensor>; 2] =
        std::array::from_fn(|_| (0..3).map(|_| Tensor::empty(DType::F32)).collect());
    for (step, rows) in [5, 40, 40, 1, 17, 40].into_iter().enumerate() {
        let (block, tensors) = (&mut blocks[step % 2], &mut tensors[step % 2]);
        block.lay_out(&memory, tensors, &shapes(rows));
        assert!(block.is_page_locked());
        assert!(
            tensors.iter().all(|tensor| (tensor.start().as_ptr() as usize).is_multiple_of(256))
        );
        fill(tensors, step as u8);
        let mut places = vec![None; 3];
        uploads.send(&bytes(tensors), &mut places).unwrap();
        uploads.finish().unwrap();
        for (tensor, place) in tensors.iter().zip(places) {
            let mut back = vec![0; tensor.as_bytes().len()];
            device.download(place.unwrap(), &mut back).unwrap();
            assert_eq!(back, tensor.as_bytes(), "step {step}");
        }
    }
    assert_eq!(memory.problem(), None);
}

#[test]
fn one_copy_brings_all() {
    let Some(machine) = alone() else { return };
    let device: Arc<dyn Device> = bireme_cuda::open(0).unwrap();
    // Enough for feeds to go straight to the card.
    let rows = 1 << 16;
    let most: Vec<usize> = shapes(rows).iter().map(|(_, dims)| dims.numel() * 8).collect();
    let mut uploads = device.uploads(&most).unwrap();
    let (memory, mut block) = (FeedMemory::new(&device), FeedBlock::default());
    let mut together: Vec<Tensor> = (0..3).map(|_| Tensor::empty(DType::F32)).collect();
    block.lay_out(&memory, &mut together, &shapes(rows));
    fill(&mut together, 3);
    let alone: Vec<LockedTensor> =
        together.iter().map(|tensor| LockedTensor::new(device.as_ref(), tensor).unwrap()).collect();
    let mut calls = |feeds: &[Option<&[u8]>]| {
        let before = machine.control.calls();
        uploads.send(feeds, &mut [None; 3]).unwrap();
        uploads.finish().unwrap();
        machine.control.calls() - before
    };
    let apart: Vec<Option<&[u8]>> = alone.iter().map(|tensor| Some(tensor.as_bytes())).collect();
    // Both slots have been used before it counts.
    let _ = (calls(&apart), calls(&apart));
    let (apart, together) = (calls(&apart), calls(&bytes(&together)));
    assert!(together + 2 <= apart, "{together} calls for feeds together, {apart} for feeds apart");
}

#[test]
fn a_tensor_that_somebody_kept_stays_as_it_is() {
    let Some((_machine, device)) = device() else { return };
    let (memory, mut block) = (FeedMemory::new(&device), FeedBlock::default());
    let mut tensors: Vec<Tensor> = (0..3).map(|_| Tensor::empty(DType::F32)).collect();
    block.lay_out(&memory, &mut tensors, &shapes(9));
    fill(&mut tensors, 1);
    let kept = std::mem::replace(&mut tensors[1], Tensor::empty(DType::I64));
    let before = kept.as_bytes().to_vec();
    block.lay_out(&memory, &mut tensors, &shapes(9));
    fill(&mut tensors, 2);
    assert_eq!(kept.as_bytes(), before);
}
