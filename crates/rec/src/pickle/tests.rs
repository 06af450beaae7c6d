//! Pickles of arrays, ours and Python's.

use super::*;

/// `pickle.dumps({"w": np.array([[1.5, -2], [0, 4]], "f4"), "n": np.array([7], "i8")}, protocol=4)`
const PYTHON_4: &str = "800495ef000000000000007d94288c0177948c166e756d70792e5f636f72652e6d756c74696172726179948c\
    0c5f7265636f6e7374727563749493948c056e756d7079948c076e6461727261799493944b00859443016294\
    87945294284b014b024b02869468058c0564747970659493948c02663494898887945294284b038c013c944e\
    4e4e4affffffff4affffffff4b007494628943100000c03f000000c00000000000008040947494628c016e94\
    680468074b008594680987945294284b014b018594680e8c02693894898887945294284b0368124e4e4e4aff\
    ffffff4affffffff4b00749462894308070000000000000094749462752e";
/// The first of them in protocol 2.
const PYTHON_2: &str = "80027d71005801000000777101636e756d70792e5f636f72652e6d756c746961727261790a5f7265636f6e73\
    74727563740a7102636e756d70790a6e6461727261790a71034b00857104635f636f646563730a656e636f64\
    650a7105580100000062710658060000006c6174696e31710786710852710987710a52710b284b014b024b02\
    86710c636e756d70790a64747970650a710d58020000006634710e898887710f527110284b0358010000003c\
    71114e4e4e4affffffff4affffffff4b007471126289680558130000000000c3803f000000c3800000000000\
    00c280407113680786711452711574711662732e";

#[test]
fn arrays_come_back() {
    let values = [
        ("fc_0.w_0", Tensor::from_slice([2, 3], &[1.0_f32, -2.5, 0.0, 1e-30, 5.0, 6.0]).unwrap()),
        ("step", Tensor::from_slice([1], &[-7_i64]).unwrap()),
        ("none", Tensor::from_slice([0, 4], &[] as &[f32]).unwrap()),
        ("scalar", Tensor::scalar(2.5_f64)),
    ];
    let mut bytes = Vec::new();
    let get = |name: &str| {
        let found = values.iter().find(|(known, _)| *known == name);
        Ok(found.unwrap().1.clone())
    };
    write(&mut bytes, values.iter().map(|(name, _)| *name), get).unwrap();
    let read = read(&bytes).unwrap();
    assert_eq!(read.len(), values.len());
    for (name, tensor) in values {
        assert_eq!(read[name].dtype(), tensor.dtype(), "{name}");
        assert_eq!(read[name].dims().to_vec(), tensor.dims().to_vec(), "{name}");
        assert_eq!(read[name].as_bytes(), tensor.as_bytes(), "{name}");
    }
    for end in 0..bytes.len() {
        assert!(super::read(&bytes[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn pythons_pickles_are_read() {
    for hex in [PYTHON_4, PYTHON_2] {
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len() / 2).map(byte).collect();
        let values = read(&bytes).unwrap();
        assert_eq!(values["w"].as_slice::<f32>().unwrap(), [1.5, -2.0, 0.0, 4.0]);
        assert_eq!(values["w"].dims().to_vec(), [2, 2]);
        if let Some(count) = values.get("n") {
            assert_eq!(count.as_slice::<i64>().unwrap(), [7]);
        }
    }
}

#[test]
fn an_array_of_too_many_axes_is_an_error() {
    // 32 axes of 1: NumPy has such arrays, tensors do not.
    let ones = "4b01".repeat(32);
    let text = PYTHON_4.replacen("4b024b028694", &format!("28{ones}7494"), 1);
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..text.len() / 2).map(byte).collect();
    let error = read(&bytes).unwrap_err();
    assert!(error.contains("32 axes"), "{error}");
    // What holds no numbers may have any sizes, but not more than memory has.
    let huge = "8a08ffffffffffffff3f".repeat(3) + "4b00";
    let text =
        text.replacen(&ones, &huge, 1).replacen("43100000c03f000000c00000000000008040", "4300", 1);
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..text.len() / 2).map(byte).collect();
    assert!(read(&bytes).unwrap_err().contains("too large"), "{:?}", read(&bytes).unwrap_err());
}

#[test]
fn code_is_not_run() {
    let error = read(b"\x80\x04cposix\nsystem\nX\x02\0\0\0ls\x85R.").unwrap_err();
    assert!(error.contains("it asks for `posix.system`"), "{error}");
    for wrong in [&b""[..], b"\x80\x04.", b"}\x85R.", b"(u.", b"\x8c\xff", b"h\0."] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn values_are_not_copied_again_and_again() {
    // Arrays of one large value: each call would copy it.
    let mut bytes = b"\x80\x04cbuiltins\ntuple\nq\x000(".to_vec();
    bytes.extend(b"N".repeat(100_000));
    bytes.extend(b"tq\x010");
    bytes.extend(b"h\x00h\x01\x85R0".repeat(10_000));
    bytes.extend(b"}.");
    let error = read(&bytes).unwrap_err();
    assert!(error.contains("again and again"), "{error}");
}
