//! Blocks as the transpiler writes them.

use bireme_engine::accessor::SparseRuleKind;

use super::*;

fn block(ops: Vec<Op>) -> Block {
    Block { ops, ..Block::new(3, Some(0)) }
}

fn var() -> Var {
    Var::parameter("emb", DType::F32, [1000, 9])
}

fn uniform() -> Op {
    let op = Op::new("uniform_random").output("Out", ["emb"]).attr("shape", vec![1000i64, 9]);
    op.attr("min", -0.1f32).attr("max", 0.2f32).attr("seed", 5)
}

fn lookup() -> Op {
    Op::new("lookup_sparse_table").input("W", ["emb"]).output("Out", ["out"])
}

fn adagrad() -> Op {
    Op::new("adagrad")
        .input("Param", ["emb"])
        .input("Grad", ["emb@GRAD"])
        .input("Moment", ["emb_moment_0"])
        .input("LearningRate", ["lr"])
        .output("ParamOut", ["emb"])
        .output("MomentOut", ["emb_moment_0"])
}

#[test]
fn a_plain_table_follows_the_optimizer_op() {
    let lookup = lookup()
        .attr("entry", "count_filter_entry:3")
        .attr("shard_num", 37i64)
        .attr("table_class", "none")
        .attr("learning_rate_factor", 2.0f32);
    let start = Op::new("fill_constant").output("Out", ["emb_moment_0"]).attr("value", 0.5f32);
    let ops = vec![uniform(), lookup, start.attr("shape", vec![1i64]), adagrad()];
    let config = TableConfig::from_block(&var(), &block(ops)).unwrap();
    let epsilon = f64::from(1e-6f32);
    let rule = OptimizerRule::Adagrad { epsilon, initial: 0.5 };
    let expected = TableConfig {
        initializer: RowInit::Uniform { min: -0.1, max: 0.2 },
        seed: 5,
        accessor: AccessorConfig::Plain(rule),
        entry: Entry::CountFilter(3),
        shards: 37,
        rate_factor: 2.0,
        ..TableConfig::new("emb", 9)
    };
    assert_eq!(config, expected);
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<TableConfig>(&text).unwrap(), config);
}

#[test]
fn an_accessor_takes_the_place_of_the_optimizer() {
    let lookup = lookup().attr("accessor", r#"{"accessor_class": "SparseAccessor"}"#);
    let sgd = Op::new("sgd").input("Param", ["emb"]).output("ParamOut", ["emb"]);
    let config = TableConfig::from_block(&var(), &block(vec![uniform(), lookup, sgd])).unwrap();
    let AccessorConfig::Ctr(ctr) = config.accessor else { panic!("{:?}", config.accessor) };
    assert_eq!(ctr.embed.kind, SparseRuleKind::Naive, "SGD stays SGD");
    assert_eq!((ctr.embed.initial_range, config.create_on_pull), (0.2, false));
}

#[test]
fn names_and_seeds_of_initial_values() {
    let init = uniform().attr("init_name", "whole").attr("seed", 0);
    let config = TableConfig::from_block(&var(), &block(vec![init, lookup()])).unwrap();
    assert_eq!((config.init_name.as_str(), config.seed), ("whole", 0));
    assert_eq!(config.accessor, AccessorConfig::Plain(OptimizerRule::None));
}

#[test]
fn blocks_that_make_no_table_are_refused() {
    let error =
        |ops: Vec<Op>| TableConfig::from_block(&var(), &block(ops)).unwrap_err().to_string();
    let cases = [
        (vec![lookup()], "no op initialises it"),
        (vec![uniform()], "no `lookup_sparse_table`"),
        (vec![uniform(), lookup().attr("entry", "x")], "entry `x`"),
        (vec![uniform(), lookup().attr("entry", 1)], "is int, not a string"),
        (vec![uniform(), lookup().attr("shard_num", 0i64)], "from 1 on"),
        (vec![uniform(), lookup().attr("table_class", "Disk")], "no table class `Disk`"),
        (vec![uniform().attr("init_offset", 9i64), lookup()], "`init_offset` must be 0"),
        (vec![Op::new("range").output("Out", ["emb"]), lookup()], "op `range` cannot initialise"),
        (
            vec![uniform(), lookup(), Op::new("lamb").output("ParamOut", ["emb"])],
            "norm of the whole parameter",
        ),
    ];
    for (ops, expected) in cases {
        let message = error(ops);
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("table `emb` (block 3 of the server program)"), "{message}");
    }
}
