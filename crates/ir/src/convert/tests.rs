//! The protobuf form against bytes written by hand; real programs are in `tests/it`.

use super::{MAX_BLOCKS, MAX_PARTS};
use crate::{Attr, Block, DType, Op, Program, Scalar, Var, VarKind};

/// `ProgramDesc { blocks: [BlockDesc { idx: 0, parent_idx: -1, ..}] }` around `fields`.
fn with_block(fields: &[u8]) -> Vec<u8> {
    let mut block = vec![0x08, 0, 0x10];
    block.extend([0xff; 9]);
    block.push(0x01);
    block.extend(fields);
    let mut program = vec![0x0a, u8::try_from(block.len()).unwrap()];
    program.extend(block);
    program
}

fn error(bytes: &[u8]) -> String {
    Program::from_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn round_trips_what_paddle_stores() {
    let mut program = Program::new();
    program.version = 2_006_002;
    program.op_versions = [("mul".to_owned(), 1)].into();
    let global = program.global_mut();
    global.add_var(Var::parameter("w", DType::F32, [3, 1]));
    let x = global.add_var(Var::tensor("x", DType::I64, [-1, 3]));
    x.need_check_feed = true;
    x.lod_level = 2;
    global.add_var(Var::tensor("w@GRAD", DType::F32, [3, 1])).kind = VarKind::SelectedRows;
    global.add_var(Var::tensor("array", DType::F16, [2])).kind = VarKind::LodTensorArray;
    let mut op = Op::new("mul").input("X", ["x"]).input("Seed", [""; 0]).output("Out", ["y"]);
    op.attrs.insert("scalars".into(), Attr::Scalars(vec![Scalar::Complex(1.0, 2.0)]));
    op.attrs.insert("sub_block".into(), Attr::Block(1));
    op.is_target = true;
    op.site = Some("fit.py:3".into());
    global.ops.push(op);
    let mut block = Block::new(1, Some(0));
    block.forward = Some(0);
    program.blocks.push(block);

    let read = Program::from_bytes(&program.to_bytes()).unwrap();
    assert_eq!(read, program);
    assert_eq!(read.global().ops[0].site.as_deref(), Some("fit.py:3"));
}

#[test]
fn numbers_are_read_packed_too() {
    // TensorDesc { data_type: FP32, dims: [2, 3] } with the dims packed.
    let tensor = [0x08, 5, 0x12, 2, 2, 3];
    let lod = [&[0x0a, 6], &tensor[..]].concat();
    let kind = [&[0x08, 7, 0x1a, 8], &lod[..]].concat();
    let var = [&[0x0a, 1, b'x', 0x12, 12], &kind[..]].concat();
    let bytes = with_block(&[&[0x1a, 17], &var[..]].concat());
    assert_eq!(Program::from_bytes(&bytes).unwrap().global().var("x").unwrap().shape, [2, 3]);
}

#[test]
fn errors_name_the_place() {
    assert_eq!(error(&[]), "not a readable program: program: it has no blocks");
    assert!(error(b"\x0a\x7fshort").contains("complete?"));
    assert!(error(&with_block(&[0x22, 0])).contains("op 0 of block 0: it has no type"));
    assert!(error(&with_block(&[0x1a, 0])).contains("variable 0 of block 0: it has no name"));
    // A variable of type STRING (25).
    let var = [0x1a, 7, 0x0a, 1, b's', 0x12, 2, 0x08, 25];
    assert!(error(&with_block(&var)).contains("variable `s`: variables of type number 25"));
    // Op `f` with attribute `a` of type FLOAT and no value.
    let op = [0x22, 10, 0x1a, 1, b'f', 0x22, 5, 0x0a, 1, b'a', 0x10, 1];
    assert!(error(&with_block(&op)).contains("attribute `a` of op 0 of block 0 (`f`): it has no"));
}

#[test]
fn blocks_must_be_in_order() {
    let mut program = Program::new();
    program.blocks[0].idx = 3;
    assert!(error(&program.to_bytes()).contains("block 0: it calls itself block 3"));
    let mut program = Program::new();
    program.blocks[0].parent = Some(0);
    assert!(error(&program.to_bytes()).contains("does not come before it"));
}

#[test]
fn floods_of_tiny_parts_are_refused() {
    // Field 1, length 0: an empty block.
    let error = Program::from_bytes(&[0x0a, 0].repeat(MAX_BLOCKS + 1)).unwrap_err().to_string();
    assert!(error.ends_with("10001 blocks are more than 10000"), "{error}");
    let error = Program::from_bytes(&[0x0a, 0].repeat(MAX_PARTS + 1)).unwrap_err().to_string();
    assert!(error.ends_with("it has more than 1000000 parts"), "{error}");
    // One block with as many empty ops (field 4).
    let ops = [0x22, 0].repeat(MAX_PARTS + 1);
    let mut program = vec![0x0a];
    prost::encoding::encode_varint(ops.len() as u64, &mut program);
    program.extend(ops);
    let error = Program::from_bytes(&program).unwrap_err().to_string();
    assert!(error.ends_with("block 0: it has more than 1000000 parts"), "{error}");
}
