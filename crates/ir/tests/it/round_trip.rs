//! parse ∘ print = id, and from_bytes ∘ to_bytes = id on what Paddle's messages can hold.

use bireme_ir::{Attr, DType, Op, Param, Program, Scalar, VarKind};
use proptest::prelude::*;

use crate::arbitrary;

/// `program` without what the protobuf form does not hold.
fn as_stored(mut program: Program) -> Program {
    program.random_seed = 0;
    for var in program.blocks.iter_mut().flat_map(|block| block.vars.values_mut()) {
        if let Some(param) = &mut var.param {
            *param = Param { trainable: !var.stop_gradient, ..Param::default() };
        }
        if !matches!(var.kind, VarKind::LodTensor | VarKind::LodTensorArray) {
            var.lod_level = 0;
        }
        if !var.kind.is_tensor() && var.kind != VarKind::LodTensorArray {
            var.dtype = DType::F32;
            var.shape.clear();
        }
    }
    program
}

/// The call sites, which equality of ops leaves out.
fn sites(program: &Program) -> Vec<Option<String>> {
    program.blocks.iter().flat_map(|block| &block.ops).map(|op| op.site.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text(program in arbitrary::program()) {
        let text = program.to_string();
        let parsed = Program::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(sites(&parsed), sites(&program));
        prop_assert_eq!(parsed, program);
    }

    #[test]
    fn bytes(program in arbitrary::program()) {
        let read = Program::from_bytes(&program.to_bytes())
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(sites(&read), sites(&program));
        prop_assert_eq!(read, as_stored(program));
    }
}

#[test]
fn not_a_number_stays_one() {
    let mut program = Program::new();
    let mut op = Op::new("fill").attr("a", f32::NAN).attr("b", vec![f64::NAN]);
    op.attrs.insert("c".into(), Attr::Scalar(Scalar::Complex(f64::NAN, f64::INFINITY)));
    program.global_mut().ops.push(op);
    let text = program.to_string();
    assert!(text.contains("a = nan, b = [nanD], c = scalar(complex(nan, inf))"), "{text}");
    assert_eq!(Program::parse(&text).unwrap().to_string(), text);
    assert_eq!(Program::from_bytes(&program.to_bytes()).unwrap().to_string(), text);
}
