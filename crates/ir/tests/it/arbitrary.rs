//! Arbitrary programs: not ones that run, but every shape of data that a program can hold.

use bireme_ir::{Attr, Block, DType, Op, Param, Program, Regularizer, Scalar, Slots, Var, VarKind};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Names as Paddle's, and names that need quotes.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z_]{1,6}(_[0-9])?(\\.(w|tmp)_[0-9])?(@GRAD)?",
        1 => "\\PC{1,6}",
        1 => "[ '\\\\\n\t\u{1}\u{2028}:=,#\\])}]{1,4}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), name(), any::<String>()]
}

/// Any float but NaN, which does not equal itself; the unit tests have it.
fn float() -> impl Strategy<Value = f32> {
    prop_oneof![
        select(vec![0.0, -0.0, 1.0, -1.0, 1e-5, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY]),
        any::<f32>().prop_filter("NaN is not equal to itself", |value| !value.is_nan()),
    ]
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        select(vec![0.0, 1.0, f64::MAX, f64::NEG_INFINITY]),
        any::<f64>().prop_filter("NaN is not equal to itself", |value| !value.is_nan()),
    ]
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<bool>().prop_map(Scalar::Bool),
        any::<i64>().prop_map(Scalar::Long),
        double().prop_map(Scalar::Float64),
        (double(), double()).prop_map(|(re, im)| Scalar::Complex(re, im)),
    ]
}

fn attr() -> impl Strategy<Value = Attr> {
    prop_oneof![
        any::<i32>().prop_map(Attr::Int),
        any::<i64>().prop_map(Attr::Long),
        float().prop_map(Attr::Float),
        double().prop_map(Attr::Float64),
        text().prop_map(Attr::String),
        any::<bool>().prop_map(Attr::Bool),
        any::<i32>().prop_map(Attr::Block),
        text().prop_map(Attr::Var),
        scalar().prop_map(Attr::Scalar),
        vec(any::<i32>(), 0..4).prop_map(Attr::Ints),
        vec(any::<i64>(), 0..4).prop_map(Attr::Longs),
        vec(float(), 0..4).prop_map(Attr::Floats),
        vec(double(), 0..4).prop_map(Attr::Float64s),
        vec(text(), 0..4).prop_map(Attr::Strings),
        vec(any::<bool>(), 0..4).prop_map(Attr::Bools),
        vec(any::<i32>(), 0..4).prop_map(Attr::Blocks),
        vec(text(), 0..4).prop_map(Attr::Vars),
        vec(scalar(), 0..4).prop_map(Attr::Scalars),
    ]
}

fn param() -> impl Strategy<Value = Param> {
    let regularizer =
        prop_oneof![float().prop_map(Regularizer::L1), float().prop_map(Regularizer::L2),];
    (any::<bool>(), float(), option::of(regularizer), any::<bool>()).prop_map(
        |(trainable, learning_rate, regularizer, need_clip)| Param {
            trainable,
            learning_rate,
            regularizer,
            need_clip,
        },
    )
}

fn var() -> impl Strategy<Value = Var> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let of = (select(VarKind::ALL.to_vec()), select(DType::ALL.to_vec()));
    (name(), of, vec(-1_i64..100, 0..4), 0_u32..3, flags, option::of(param())).prop_map(
        |(name, (kind, dtype), shape, lod_level, flags, param)| Var {
            name,
            kind,
            dtype,
            shape,
            lod_level,
            persistable: flags.0,
            stop_gradient: flags.1,
            need_check_feed: flags.2,
            param,
        },
    )
}

fn slots() -> impl Strategy<Value = Slots> {
    btree_map(name(), vec(text(), 0..3), 0..3)
}

fn op() -> impl Strategy<Value = Op> {
    let site = option::of("[a-z]{1,8}\\.py:[0-9]{1,3}");
    (name(), slots(), slots(), btree_map(name(), attr(), 0..4), any::<bool>(), site).prop_map(
        |(kind, inputs, outputs, attrs, is_target, site)| Op {
            kind,
            inputs,
            outputs,
            attrs,
            is_target,
            site,
        },
    )
}

/// Programs of one to three blocks.
pub(crate) fn program() -> impl Strategy<Value = Program> {
    let block = (vec(var(), 0..5), vec(op(), 0..4), any::<usize>(), option::of(any::<usize>()));
    let versions = btree_map(name(), any::<i32>(), 0..3);
    (vec(block, 1..4), any::<i64>(), versions, any::<u64>()).prop_map(
        |(blocks, version, op_versions, random_seed)| Program {
            blocks: blocks
                .into_iter()
                .enumerate()
                .map(|(idx, parts)| numbered(idx, parts))
                .collect::<Vec<_>>()
                .into(),
            version,
            op_versions,
            random_seed,
        },
    )
}

fn numbered(idx: usize, parts: (Vec<Var>, Vec<Op>, usize, Option<usize>)) -> Block {
    let (vars, ops, parent, forward) = parts;
    let earlier = |number: usize| number.checked_rem(idx);
    let mut block = Block::new(idx, earlier(parent));
    block.forward = forward.and_then(earlier);
    for var in vars {
        block.add_var(var);
    }
    block.ops = ops;
    block
}
