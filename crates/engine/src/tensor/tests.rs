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

#[test]
fn sizes_that_overflow_are_refused() {
    let huge = (1 << 62) + 1;
    // The products wrap around to 4 and 0.
    for dims in [[4, huge], [1 << 32, 1 << 32], [0, usize::MAX]] {
        let error = Tensor::from_slice(dims, &[1.0f32; 4]).unwrap_err().to_string();
        assert!(error.ends_with("is too large"), "{error}");
        assert_eq!(Dims::from(dims).bytes(DType::F32), None);
        let mut empty = Tensor::empty(DType::F32);
        assert!(empty.reshape(dims).is_err());
        let resized = std::panic::catch_unwind(move || empty.resize(DType::F32, dims));
        assert!(resized.is_err(), "{dims:?}");
    }
    assert_eq!(Dims::from([4, huge]).numel(), usize::MAX);
    assert_eq!(Dims::from([huge, huge, 0]).numel(), 0);
    assert_eq!(Dims::from([0, 8]).bytes(DType::F32), Some(0));
    assert_eq!(Dims::from([3, 8]).bytes(DType::F32), Some(96));
}

#[test]
#[cfg_attr(miri, ignore = "Miri itself ends where memory does")]
fn a_tensor_that_does_not_fit_into_memory_unwinds_with_an_error() {
    // More than any address space has, less than what is refused for its size alone.
    let panic = std::panic::catch_unwind(|| Tensor::zeros(DType::F32, [1 << 60])).unwrap_err();
    let error = Error::caught(panic);
    assert!(matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 1 << 62), "{error}");
    let panic = std::panic::catch_unwind(|| Tensor::zeros(DType::F32, [1 << 62])).unwrap_err();
    assert_eq!(
        Error::caught(panic).to_string(),
        "a tensor of shape [4611686018427387904] is too large"
    );
    let panic = std::panic::catch_unwind(|| panic!("oh {}", 1)).unwrap_err();
    assert!(Error::caught(panic).to_string().starts_with("internal error of the engine (oh 1)"));
}

#[test]
#[expect(unsafe_code, reason = "windows of several threads onto one tensor")]
fn shared_memory_has_no_slices_but_whole_elements() {
    let tensor = Tensor::from_slice([4, 2], &[1.5f32; 8]).unwrap();
    // SAFETY: `tensor` outlives the windows, and is not used while there are any.
    let window = || unsafe { tensor.shared_window() };
    assert!(window().as_slice::<f32>().is_err() && window().as_mut_slice::<f32>().is_err());
    assert!(std::panic::catch_unwind(|| window().as_bytes().len()).is_err());
    assert!(std::panic::catch_unwind(|| window().resize(DType::F32, [2])).is_err());
    let rounds = if cfg!(miri) { 3 } else { 1000 };
    let other = Tensor::from_slice([4, 2], &[-2.25f32; 8]).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..2 {
            let (mut mine, other) = (window(), &other);
            threads.spawn(move || {
                let mut row = [0f32; 2];
                for at in 0..rounds {
                    match thread {
                        0 => mine.store(2 * (at % 4), &[-2.25f32, 1.5]).unwrap(),
                        _ => mine.copy_from(other),
                    }
                    mine.load(2 * (at % 4), &mut row).unwrap();
                    let is_whole = |value: &f32| *value == 1.5 || *value == -2.25;
                    assert!(row.iter().all(is_whole), "{row:?}");
                    assert!(mine.clone().as_slice::<f32>().unwrap().iter().all(is_whole));
                }
            });
        }
    });
    let mut window = window();
    window.store_bytes(1, &3.0f32.to_le_bytes()).unwrap();
    assert!(window.store(7, &[0f32; 2]).is_err() && window.load(9, &mut [0f32; 0]).is_err());
    assert!(window.load(0, &mut [0f64; 1]).is_err());
    drop(window);
    assert_eq!(tensor.as_slice::<f32>().unwrap()[1], 3.0);
}
