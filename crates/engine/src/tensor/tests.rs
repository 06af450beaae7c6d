//! Tests of tensors and their dimensions.

use super::*;

#[test]
fn slices_are_typed() {
    let tensor = Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert!(matches!(tensor.as_slice::<i64>(), Err(Error::DType { .. })));
    assert!(Tensor::from_slice([3], &[1i64]).is_err());
}

#[test]
fn resize_keeps_memory_that_suffices() {
    let mut tensor = Tensor::zeros(DType::F32, [4, 4]);
    let before = tensor.as_bytes().as_ptr();
    tensor.resize(DType::F32, [2, 3]);
    assert_eq!(tensor.as_bytes().as_ptr(), before);
    assert_eq!(tensor.numel(), 6);
    tensor.resize(DType::F64, [8, 8]);
    assert_eq!(tensor.as_slice::<f64>().unwrap().len(), 64);
}

#[test]
fn lod_is_checked_against_rows() {
    let tensor = || Tensor::zeros(DType::I64, [5, 1]);
    assert!(tensor().with_lod(&[vec![0, 2, 5]]).is_ok());
    assert!(tensor().with_lod(&[vec![0, 2, 4]]).is_err());
    assert!(tensor().with_lod(&[vec![1, 5]]).is_err());
    assert!(tensor().with_lod(&[vec![0, 1, 2], vec![0, 2, 5]]).is_ok());
    assert!(tensor().with_lod(&[vec![0, 1, 3], vec![0, 2, 5]]).is_err());
}

#[test]
fn dims_copy_and_divide() {
    let dims = Dims::from([2, 3, 4]);
    assert_eq!(dims.matrix(1), (2, 12));
    assert_eq!(dims.tail(2), 4);
    assert_eq!(&*dims.strides(), [12, 4, 1]);
    assert_eq!(&*dims.with_rows(7), [7, 3, 4]);
    assert_eq!(Dims::new(&[]).numel(), 1);
}
