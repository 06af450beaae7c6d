//! Records both ways, and what is done with bytes that are none.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// `paddle.static.save_vars` of a parameter `[[1, 2]]` (Paddle 2.6.2).
const PADDLE: &[u8] = &[
    0, 0, 0, 0, // record version
    0, 0, 0, 0, 0, 0, 0, 0, // LoD levels
    0, 0, 0, 0, // tensor version
    6, 0, 0, 0, 8, 5, 16, 1, 16, 2, // description: float32, 1, 2
    0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, // elements
];

fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_tensor(&mut bytes, tensor).unwrap();
    bytes
}

fn reader(bytes: &[u8]) -> TensorReader<&[u8]> {
    TensorReader::new(bytes, "params", bytes.len() as u64)
}

fn ragged() -> Tensor {
    let rows = Tensor::from_slice([3, 2], &[1i64, 2, 3, 4, 5, 6]).unwrap();
    rows.with_lod(&[vec![0, 1, 2], vec![0, 1, 3]]).unwrap()
}

#[test]
fn writes_and_reads_the_bytes_of_paddle() {
    let tensor = Tensor::from_slice([1, 2], &[1.0f32, 2.0]).unwrap();
    assert_eq!(bytes_of(&tensor), PADDLE);
    assert_eq!(reader(PADDLE).read("w").unwrap(), tensor);
}

#[test]
fn a_truncated_record_is_an_error_at_every_byte() {
    let mut bytes = bytes_of(&Tensor::from_slice([2], &[true, false].map(u8::from)).unwrap());
    let first = bytes.len();
    bytes.extend(bytes_of(&ragged()));
    for len in 0..bytes.len() {
        let mut reader = reader(&bytes[..len]);
        let result = reader.read("a").and_then(|_| reader.read("b"));
        let error = result.expect_err("the end is missing").to_string();
        let var = if len < first { "variable `a`, byte " } else { "variable `b`, byte " };
        assert!(error.starts_with("`params`: ") && error.contains(var), "{len}: {error}");
        assert!(error.contains("truncated"), "{len}: {error}");
    }
    // An input that promises more than it has.
    let mut short = TensorReader::new(&bytes[..first - 1], "params", first as u64);
    assert!(short.read("a").unwrap_err().to_string().contains("cannot read the elements"));
}

/// The record of a tensor with this description, and no elements.
fn with_desc(data_type: i32, dims: &[i64]) -> Vec<u8> {
    let desc = TensorDesc { data_type, dims: dims.to_vec() }.encode_to_vec();
    let mut bytes = vec![0; 16];
    bytes.extend((desc.len() as i32).to_le_bytes());
    bytes.extend(desc);
    bytes
}

/// `PADDLE` with `bytes` from `at` on.
fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut patched = PADDLE.to_vec();
    patched[at..at + bytes.len()].copy_from_slice(bytes);
    patched
}

#[test]
fn damaged_headers_are_named() {
    let mut odd_lod = patched(4, &[1]);
    odd_lod[12] = 7;
    let huge = i64::MAX;
    let mut untrue = bytes_of(&Tensor::zeros(DType::Bool, [2]));
    *untrue.last_mut().unwrap() = 2;
    let mut falling = bytes_of(&ragged());
    falling[20] = 9;
    for (bytes, expected) in [
        (patched(0, &[1]), "byte 0: record version 1 is not supported"),
        (patched(12, &[3]), "byte 12: tensor version 3 is not supported"),
        (patched(4, &[0xff; 8]), "the LoD levels should take 18446744073709551615 bytes"),
        (odd_lod, "byte 12: a LoD level has 25769803783 bytes, not 8 each"),
        (falling, "LoD level 0 must rise from 0 to 2"),
        (patched(16, &[0xff; 4]), "byte 16: the size of the tensor's description is out of range"),
        (patched(20, &[9]), "byte 20: no tensor description: "),
        (with_desc(7, &[1]), "elements of type number 7 are not supported"),
        (with_desc(5, &[-1]), "shape [-1] is not the shape of a stored tensor"),
        (with_desc(5, &[1; 10]), "10 dimensions are more than 9"),
        (with_desc(5, &[huge, huge]), "is too large"),
        (with_desc(5, &[0, huge, huge]), "is too large"),
        (with_desc(5, &[1 << 40]), "the elements should take 4398046511104 bytes, but 0 are left"),
        (untrue, "a truth value is neither 0 nor 1"),
    ] {
        let error = reader(&bytes).read("w").expect_err(expected).to_string();
        assert!(error.starts_with("`params`: variable `w`, byte "), "{error}");
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
    }
}

#[test]
fn missing_files_and_folders_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let message = |path: &Path| TensorReader::open(path).err().unwrap().to_string();
    let missing = dir.path().join("w");
    assert!(message(&missing).contains(missing.to_str().unwrap()));
    assert!(message(dir.path()).contains("is not a file"));
}

/// Any tensor of up to 9 small dimensions, with or without LoD.
fn any_tensor() -> impl Strategy<Value = Tensor> {
    let dtype = proptest::sample::select(&DType::ALL[..]);
    let dims = vec(0usize..4, 0..=5).prop_map(|mut dims| {
        dims.truncate(MAX_RANK);
        dims
    });
    (dtype, dims, any::<u64>(), any::<bool>()).prop_map(|(dtype, dims, seed, ragged)| {
        let mut tensor = Tensor::zeros(dtype, dims);
        let mut state = seed;
        for byte in tensor.as_mut_bytes() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = if dtype == DType::Bool { (state >> 63) as u8 } else { (state >> 56) as u8 };
        }
        let rows = tensor.rows();
        if ragged { tensor.with_lod(&[vec![0, rows / 2, rows]]).unwrap() } else { tensor }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(tensors in vec(any_tensor(), 1..4)) {
        let bytes: Vec<u8> = tensors.iter().flat_map(bytes_of).collect();
        let mut reader = reader(&bytes);
        for tensor in &tensors {
            prop_assert_eq!(&reader.read("w").unwrap(), tensor);
        }
        prop_assert_eq!(reader.remaining(), 0);
    }

    /// The bounded form of the fuzz target `tensor_stream`.
    #[test]
    fn any_bytes_are_a_tensor_or_an_error(bytes in vec(any::<u8>(), 0..96)) {
        let _ = reader(&bytes).read("w");
    }

    #[test]
    fn a_damaged_record_is_a_tensor_or_an_error(
        tensor in any_tensor(),
        damage in vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = bytes_of(&tensor);
        let len = bytes.len();
        for (at, byte) in damage {
            bytes[usize::from(at) % len] = byte;
        }
        if let Ok(read) = reader(&bytes).read("w") {
            let again = bytes_of(&read);
            prop_assert_eq!(reader(&again).read("w").unwrap(), read);
        }
    }
}
