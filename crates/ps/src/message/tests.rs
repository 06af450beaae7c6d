//! Whatever is encoded is decoded; whatever else arrives is an error.

use bireme_engine::tensor::{Dims, SelectedRows, Tensor};
use bireme_engine::{DType, Value};
use proptest::prelude::*;

use super::*;

/// Bytes at an aligned address, as `comm` delivers them.
fn aligned(parts: &[&[u8]]) -> Vec<u64> {
    let bytes = parts.concat();
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
    words
}

fn check_request(request: &Request<'_>) {
    let encoded = request.encode();
    let parts = encoded.parts();
    assert_eq!(encoded.bytes(), parts.iter().map(|part| part.len()).sum::<usize>());
    let words = aligned(&parts);
    let body = &bytemuck::cast_slice(&words)[..encoded.bytes()];
    assert_eq!(&Request::decode(request.method(), body).unwrap(), request);
    for length in 0..body.len() {
        Request::decode(request.method(), &body[..length]).unwrap_err();
    }
}

fn check_answer(answer: &Answer<'_>) {
    let encoded = answer.encode();
    let words = aligned(&encoded.parts());
    let body = &bytemuck::cast_slice(&words)[..encoded.bytes()];
    assert_eq!(&Answer::decode(body).unwrap(), answer);
    for length in 0..body.len() {
        Answer::decode(&body[..length]).unwrap_err();
    }
}

const LIFE: Life<'_> = Life {
    number: u64::MAX - 1,
    began: true,
    step: 10,
    origin: 7,
    start: "out/1",
    checkpoint: "out/2",
};

#[test]
fn small_requests_come_back() {
    check_request(&Request::Join {
        trainer: 1,
        trainers: 3,
        mode: Mode::Hybrid,
        process: "process 7 on node3",
        program: vec!["`w` = [3, 2] float32", "ops = 4"],
        life: LIFE,
    });
    check_request(&Request::Begin);
    check_request(&Request::Barrier { trainer: 2 });
    check_request(&Request::Get {
        trainer: 0,
        names: vec!["a", "b.block1"],
        start: 7,
        versions: vec![0, 1 << 40],
        ahead: true,
    });
    check_request(&Request::PullGeo { trainer: 0, names: vec![], start: 0 });
    check_request(&Request::Meet {
        group: "trainer",
        name: "barrier 1",
        member: 1,
        members: 2,
        data: &[1, 2, 3],
    });
    check_request(&Request::Save {
        number: 1 << 40,
        directory: "out",
        table: Some("emb"),
        mode: 1,
        format: Format::Text,
    });
    check_request(&Request::Load { directory: "out", table: None, mode: 0 });
    check_request(&Request::Shrink { table: None });
    check_request(&Request::Clear { table: Some("emb") });
    check_request(&Request::Stat);
    check_request(&Request::Commit { number: 7 });
    check_request(&Request::Abandon { number: u64::MAX });
    check_request(&Request::PullRecords { table: "emb", keys: &[3, u64::MAX] });
    check_request(&Request::PushRecords {
        trainer: 0,
        table: "emb",
        step: 12,
        keys: &[3],
        records: &[0.5, 0.25],
    });
    check_request(&Request::Complete { trainer: 9 });
}

#[test]
fn answers_come_back() {
    check_answer(&Answer::Done);
    check_answer(&Answer::Joined { server: 2, life: LIFE });
    check_answer(&Answer::Rows { values: &[1.0, 2.0, 3.0] });
    check_answer(&Answer::Gathered { parts: vec![&[], &[1], &[2, 3, 4, 5, 6, 7, 8, 9, 10]] });
    check_answer(&Answer::Counted { count: u64::MAX });
    check_answer(&Answer::Text { text: "{}" });
    check_answer(&Answer::Updated { nanos: 1_500_000 });
    let tensor = Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    check_answer(&Answer::Values {
        values: vec![("w", Array::of_tensor(&tensor)), ("v", Array::nothing_new(&tensor))],
        versions: vec![7, u64::MAX],
    });
}

#[test]
fn a_large_tensor_comes_in_pieces() {
    let tensor = Tensor::from_slice([3, 2], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let pieces = [Array::of_range(&tensor, 0, 4), Array::of_range(&tensor, 4, 6)];
    assert_eq!((pieces[0].end(), pieces[1].end()), (4, 6));
    let mut copy = Tensor::zeros(DType::F32, [3, 2]);
    for piece in &pieces {
        assert!(!piece.is_whole());
        check_request(&Request::Push { trainer: 0, values: vec![("w", *piece)] });
        piece.store_tensor(&mut copy).unwrap();
    }
    assert_eq!(copy, tensor);
    let mut other = Tensor::zeros(DType::F32, [2, 3]);
    pieces[0].store_tensor(&mut other).unwrap_err();
}

#[test]
fn selected_rows_are_checked() {
    let value = Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let rows = |rows: Vec<i64>| SelectedRows { rows, height: 5, value: value.clone() };
    let good = rows(vec![4, 4]);
    check_request(&Request::Push { trainer: 0, values: vec![("g", Array::of_rows(&good))] });
    let mut copy = Value::Tensor(Tensor::empty(DType::F64));
    Array::of_rows(&good).store(&mut copy).unwrap();
    assert_eq!(copy, Value::Rows(good));
    for bad in [vec![0, 5], vec![-1, 0], vec![0], vec![0, 1, 2]] {
        let bad = rows(bad);
        let request = Request::Push { trainer: 0, values: vec![("g", Array::of_rows(&bad))] };
        let encoded = request.encode();
        let words = aligned(&encoded.parts());
        let body = &bytemuck::cast_slice(&words)[..encoded.bytes()];
        Request::decode(request.method(), body).unwrap_err();
    }
}

#[test]
fn an_unaligned_body_is_refused_and_an_unknown_request_named() {
    let request = Request::PullRows { table: "t", keys: &[1, 2] };
    let encoded = request.encode();
    let mut shifted = vec![0u8];
    shifted.extend(encoded.parts().concat());
    let words = aligned(&[&shifted]);
    let body: &[u8] = bytemuck::cast_slice(&words);
    Request::decode(request.method(), &body[1..shifted.len()]).unwrap_err();
    let error = Request::decode(99, &[8, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
    assert!(error.to_string().contains("no request 99"), "{error}");
}

/// The table as text: a change of a number or a rule is a change of the protocol.
#[test]
fn the_table_of_requests() {
    let line = |(number, name, rules): &(u16, &str, Rules)| {
        let once = if rules.once { "once" } else { "again" };
        format!("{number} {name}: {once}, {:?}, {:?}\n", rules.asker, rules.pace)
    };
    let table: String = Request::TABLE.iter().map(line).collect();
    expect_test::expect![[r#"
        1 Join: again, Anybody, Quick
        21 Begin: once, Member, Quick
        2 Push: once, Member, Quick
        3 Barrier: once, Member, Others
        4 Get: again, Current, Quick
        5 PullRows: again, Current, Quick
        6 PushRows: once, Member, Quick
        7 PushDelta: once, Member, Quick
        8 PullGeo: once, Member, Quick
        9 Set: once, Member, Quick
        10 SetRows: once, Member, Quick
        22 PullRecords: again, Current, Quick
        23 PushRecords: once, Member, Quick
        11 Meet: once, Current, Others
        12 Save: once, Member, Files
        20 Commit: once, Member, Quick
        18 Abandon: once, Member, Quick
        13 Load: once, Member, Files
        14 Shrink: once, Member, Files
        15 Clear: once, Member, Files
        16 Stat: again, Current, Quick
        19 Quit: once, Anybody, Quick
        17 Complete: once, Member, Quick
    "#]]
    .assert_eq(&table);
    let mut numbers: Vec<u16> = Request::TABLE.iter().map(|entry| entry.0).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=23).collect::<Vec<u16>>());
}

/// The bytes of a message, so that a change of the form is noticed.
#[test]
fn a_golden_push_of_rows() {
    let (table, keys, grads) = ("t", &[7][..], &[1.0][..]);
    let request = Request::PushRows { trainer: 2, table, keys, grads, counts: None };
    let bytes = request.encode().parts().concat();
    let lines: Vec<String> = bytes.chunks(8).map(|word| format!("{word:02x?}")).collect();
    expect_test::expect![[r#"
        [20, 00, 00, 00, 02, 00, 00, 00]
        [01, 00, 00, 00, 74, 01, 00, 00]
        [00, 00, 00, 00, 00, 01, 00, 00]
        [00, 00, 00, 00, 00, 00, 00, 00]
        [07, 00, 00, 00, 00, 00, 00, 00]
        [00, 00, 80, 3f, 00, 00, 00, 00]"#]]
    .assert_eq(&lines.join("\n"));
}

fn tensors() -> impl Strategy<Value = Tensor> {
    let dtypes = prop::sample::select(DType::ALL.to_vec());
    (dtypes, prop::collection::vec(0usize..4, 0..4)).prop_map(|(dtype, dims)| {
        let mut tensor = Tensor::zeros(dtype, Dims::from(dims));
        let bytes = tensor.as_mut_bytes();
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
        tensor
    })
}

proptest! {
    #[test]
    fn pushes_come_back(
        trainer: u32,
        values in prop::collection::vec(("[a-z_@.0-9]{0,12}", tensors()), 0..5),
    ) {
        let values = values.iter().map(|(n, t)| (n.as_str(), Array::of_tensor(t)));
        let values: Vec<_> = values.collect();
        check_request(&Request::Push { trainer, values: values.clone() });
        check_request(&Request::PushDelta { trainer, values: values.clone() });
        check_request(&Request::Set { values });
    }

    #[test]
    fn rows_come_back(keys in prop::collection::vec(any::<u64>(), 0..20), width in 0usize..4, counted: bool) {
        let grads: Vec<f32> = (0..keys.len() * width).map(|at| at as f32).collect();
        let counts: Vec<[f32; 2]> = keys.iter().map(|_| [1.0, 0.0]).collect();
        let counts = counted.then_some(counts.as_slice());
        check_request(&Request::PullRows { table: "emb", keys: &keys });
        check_request(&Request::SetRows { table: "emb", keys: &keys, values: &grads });
        let (trainer, table) = (1, "emb");
        check_request(&Request::PushRows { trainer, table, keys: &keys, grads: &grads, counts });
    }

    #[test]
    fn random_bytes_are_errors_or_messages(
        number in 0u16..20,
        head in 0u32..64,
        words in prop::collection::vec(any::<u64>(), 0..16),
        small in prop::collection::vec(0u8..3, 0..128),
    ) {
        let mut body = words;
        let _ = Request::decode(number, bytemuck::cast_slice(&body));
        let _ = Answer::decode(bytemuck::cast_slice(&body));
        if let Some(first) = body.first_mut() {
            *first = (*first & !0xffff_ffff) | u64::from(head * 8);
            let _ = Request::decode(number, bytemuck::cast_slice(&body));
            let _ = Answer::decode(bytemuck::cast_slice(&body));
        }
        // Small bytes make small counts, which get further.
        let body = aligned(&[&(small.len() as u32 / 8 * 8).to_le_bytes(), &small]);
        let _ = Request::decode(number, bytemuck::cast_slice(&body));
        let _ = Answer::decode(bytemuck::cast_slice(&body));
    }
}
