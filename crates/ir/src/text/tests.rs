//! Golden text, and what the parser says about text that is wrong. Round trips of arbitrary
//! programs are in `tests/it`.

use expect_test::{Expect, expect};

use crate::{Attr, Block, DType, Op, OpRole, Param, Program, Regularizer, Scalar, Var, VarKind};

fn fit_a_line() -> Program {
    let mut program = Program::new();
    program.random_seed = 90;
    let global = program.global_mut();
    let x = global.add_var(Var::tensor("x", DType::F32, [-1, 13]));
    x.stop_gradient = true;
    x.need_check_feed = true;
    let ids = global.add_var(Var::tensor("ids", DType::I64, [-1, 1]));
    ids.lod_level = 1;
    global.add_var(Var::parameter("fc_0.w_0", DType::F32, [13, 1])).param = Some(Param {
        trainable: true,
        learning_rate: 0.5,
        regularizer: Some(Regularizer::L2(1e-4)),
        need_clip: false,
    });
    let mean = global.add_var(Var::parameter("mean", DType::F32, [4]));
    mean.stop_gradient = true;
    mean.param = Some(Param { trainable: false, ..Param::default() });
    global.add_var(Var::tensor("fc_0.tmp_0", DType::F32, [-1, 1]));
    let feed = global.add_var(Var::tensor("feed", DType::F32, []));
    feed.kind = VarKind::FeedMinibatch;
    feed.persistable = true;
    let mut op = Op::new("mul")
        .input("X", ["x"])
        .input("Y", ["fc_0.w_0"])
        .output("Out", ["fc_0.tmp_0"])
        .attr("x_num_col_dims", 1)
        .role(OpRole::FORWARD);
    op.site = Some("fit.py:7".into());
    global.ops.push(op);
    program
}

#[test]
fn prints_like_paddle() {
    expect![[r#"
        random_seed 90
        { // block 0
            var x : LOD_TENSOR.shape(-1, 13).dtype(float32).stop_gradient(True).need_check_feed(True)
            var ids : LOD_TENSOR.shape(-1, 1).dtype(int64).stop_gradient(False).lod_level(1)
            persist trainable param fc_0.w_0 : LOD_TENSOR.shape(13, 1).dtype(float32).stop_gradient(False).learning_rate(0.5).regularizer(L2, 0.0001).need_clip(False)
            persist param mean : LOD_TENSOR.shape(4).dtype(float32).stop_gradient(True)
            var fc_0.tmp_0 : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)
            persist var feed : FEED_MINIBATCH

            {Out=['fc_0.tmp_0']} = mul(inputs={X=['x'], Y=['fc_0.w_0']}, op_role = 0, x_num_col_dims = 1)  # at fit.py:7
        }
    "#]]
    .assert_eq(&fit_a_line().to_string());
}

#[test]
fn parses_what_it_prints() {
    let program = fit_a_line();
    let parsed = Program::parse(&program.to_string()).unwrap();
    assert_eq!(parsed, program);
    assert_eq!(parsed.global().ops[0].site.as_deref(), Some("fit.py:7"));
}

#[test]
fn every_attribute_type_has_its_spelling() {
    let op = Op::new("all")
        .attr("a_int", -3)
        .attr("b_long", -3_i64)
        .attr("c_float", 1.0_f32)
        .attr("d_float64", 1e-5_f64)
        .attr("e_bool", true)
        .attr("f_string", "it's\n\u{1}é")
        .attr("g_ints", vec![1, 2])
        .attr("h_longs", vec![1_i64])
        .attr("i_floats", vec![f32::INFINITY, -0.1])
        .attr("j_float64s", vec![f64::NEG_INFINITY])
        .attr("k_bools", vec![true, false])
        .attr("l_strings", vec!["a".to_owned()])
        .attr("m_empty", Vec::<String>::new());
    let mut op = op.attr("n_ints", Vec::<i32>::new());
    let scalars =
        vec![Scalar::Bool(true), Scalar::Long(3), Scalar::Float64(3.0), Scalar::Complex(1.0, -2.0)];
    for (name, value) in [
        ("o_block", Attr::Block(1)),
        ("p_blocks", Attr::Blocks(vec![1, 2])),
        ("q_var", Attr::Var("x".into())),
        ("r_vars", Attr::Vars(vec!["x".into(), "y".into()])),
        ("s_scalar", Attr::Scalar(Scalar::Long(3))),
        ("t_scalars", Attr::Scalars(scalars)),
        ("u odd", Attr::Int(1)),
    ] {
        op.attrs.insert(name.into(), value);
    }
    expect![[r#"{} = all(inputs={}, a_int = -3, b_long = -3L, c_float = 1.0, d_float64 = 1e-5D, e_bool = True, f_string = 'it\'s\n\u{1}é', g_ints = [1, 2], h_longs = [1L], i_floats = [inf, -0.1], j_float64s = [-infD], k_bools = [True, False], l_strings = ['a'], m_empty = strings[], n_ints = ints[], o_block = block[1], p_blocks = blocks[1, 2], q_var = var['x'], r_vars = vars['x', 'y'], s_scalar = scalar(3), t_scalars = scalars[True, 3, 3.0, complex(1.0, -2.0)], 'u odd' = 1)"#]]
    .assert_eq(&op.to_string());
    let mut program = Program::new();
    program.global_mut().ops.push(op);
    assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
}

#[test]
fn header_and_sub_blocks_round_trip() {
    let mut program = Program::new();
    program.version = 2_006_002;
    program.op_versions = [("mul".to_owned(), 1), ("auc".to_owned(), 2)].into();
    let mut block = Block::new(1, Some(0));
    block.forward = Some(0);
    block.ops.push(Op { is_target: true, ..Op::new("fetch").input("X", ["a", "b"]) });
    program.blocks.push(block);
    expect![[r#"
        version 2006002
        op_versions {auc: 2, mul: 1}
        { // block 0
        }
        { // block 1, parent 0, forward 0
            target {} = fetch(inputs={X=['a', 'b']})
        }
    "#]]
    .assert_eq(&program.to_string());
    assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
}

#[test]
fn reads_comments_and_paddles_tuples() {
    let text = "# a program\n{ // block 0\n  # data\n  var x : LOD_TENSOR.shape(4,)\n\n}\n";
    let program = Program::parse(text).unwrap();
    assert_eq!(program.global().var("x").unwrap().shape, [4]);
}

fn check_error(line: &str, expected: Expect) {
    let text = format!("{{ // block 0\n    {line}\n}}\n");
    expected.assert_eq(&Program::parse(&text).unwrap_err().to_string());
}

#[test]
fn errors_say_where_and_what_was_expected() {
    check_error(
        "vra x : LOD_TENSOR",
        expect![
            "line 2, column 5: expected a declaration (`var`, `param`), an op (`{Out=…} = …`) or `}`, found `vra x : LOD_TENSOR`"
        ],
    );
    check_error("var x LOD_TENSOR", expect!["line 2, column 11: expected `:`, found `LOD_TENSOR`"]);
    check_error(
        "var x : TENSOR",
        expect![
            "line 2, column 13: expected a kind of variable such as `LOD_TENSOR`, found `TENSOR`"
        ],
    );
    check_error(
        "var x : LOD_TENSOR.dtype(f32)",
        expect!["line 2, column 30: expected an element type, found `f32)`"],
    );
    check_error(
        "var x : LOD_TENSOR.need_clip(True)",
        expect!["line 2, column 34: only a `param` has `need_clip`"],
    );
    check_error(
        "{Out=['y']} = mul(inputs={X=['x'}, a = 1)",
        expect!["line 2, column 37: expected `,` or `]`, found `}, a = 1)`"],
    );
    check_error(
        "{} = mul(inputs={}, a = [])",
        expect![
            "line 2, column 31: an empty list must say of what: write `ints[]`, `longs[]`, `floats[]`, `float64s[]`, `strings[]` or `bools[]`"
        ],
    );
    check_error(
        "{} = mul(inputs={}, a = [1, 2.0])",
        expect!["line 2, column 36: a list of ints cannot hold a float"],
    );
    check_error(
        "{} = mul(inputs={}, a = 99999999999)",
        expect![
            "line 2, column 29: expected a value such as `3`, `3L`, `0.5`, `True`, `'text'` or `[1, 2]`, found `99999999999)`"
        ],
    );
    check_error(
        r"{} = mul(inputs={}, a = 'x\q')",
        expect![[r"line 2, column 31: unknown escape: use \\, \', \n, \r, \t or \u{...}"]],
    );
    check_error(
        "{} = mul(inputs={}, a = 'x)",
        expect!["line 2, column 30: the string is not closed: expected `'`"],
    );
}

#[test]
fn whole_programs_that_are_wrong() {
    let check = |text: &str, expected: Expect| {
        expected.assert_eq(&Program::parse(text).unwrap_err().to_string());
    };
    check("", expect!["line 1, column 1: expected `{ // block 0`: there is no block"]);
    check("{ // block 0\n", expect!["line 1, column 1: block 0 is not closed: expected `}`"]);
    check(
        "{ // block 1\n}",
        expect!["line 1, column 13: expected block 0: blocks are numbered in order"],
    );
    check(
        "{ // block 0, parent 0\n}",
        expect!["line 1, column 23: block 0 does not come before block 0"],
    );
    check(
        "{ // block 0\nvar x : RAW\nvar x : RAW\n}",
        expect!["line 3, column 12: variable `x` is declared twice"],
    );
    check(
        "versions 1\n",
        expect![
            "line 1, column 1: expected `{ // block`, `version`, `op_versions` or `random_seed`, found `versions 1`"
        ],
    );
}
