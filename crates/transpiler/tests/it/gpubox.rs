//! GPUBox: the trainer's program for one trainer, and for one of several.

use bireme_engine::clip::GradClip;
use bireme_engine::graph::Graph;
use bireme_engine::layers::*;
use bireme_engine::optimizer::{Adagrad, Optimizer as _, Sgd};
use bireme_ir::{Attr, DType};
use bireme_transpiler::{Config, Transpiled, Transpiler, by_rows};
use expect_test::expect_file;

use crate::catalog::check;
use crate::models::{Model, TableKind, ctr, kinds, servers};

fn of_rank(model: &Model, rank: usize, ranks: usize) -> Transpiled {
    let transpiler = Transpiler::new(Config::new()).unwrap();
    let (main, startup) = (&model.main, &model.startup);
    transpiler.transpile_gpubox((rank, ranks), main, startup, &servers(1)).unwrap()
}

#[test]
fn one_trainer_exchanges_nothing() {
    let split = of_rank(&ctr(TableKind::Keyed, &Adagrad::new(0.1)), 0, 1);
    check(split.trainer_program());
    for kind in kinds(split.trainer_program(), 0) {
        assert!(!matches!(kind, "spread_rows" | "alltoall") && !kind.starts_with("c_"), "{kind}");
    }
}

#[test]
fn rows_and_gradients_go_between_trainers() {
    let model = ctr(TableKind::Keyed, &Adagrad::new(0.1));
    let split = of_rank(&model, 0, 2);
    check(split.trainer_program());
    check(split.trainer_startup());
    expect_file!["golden/gpubox_of_two.txt"].assert_eq(&split.trainer_program().to_string());
    // All ranks make the same calls in the same order.
    let other = of_rank(&model, 1, 2);
    assert_eq!(kinds(split.trainer_program(), 0), kinds(other.trainer_program(), 0));
}

/// The rows that are found go to other trainers, so keys stay keys.
#[test]
fn several_trainers_are_fed_keys() {
    let model = ctr(TableKind::Keyed, &Adagrad::new(0.1));
    assert!(by_rows(of_rank(&model, 0, 1).trainer_program(), &[]).is_some());
    assert!(by_rows(of_rank(&model, 0, 2).trainer_program(), &[]).is_none());
}

/// The model with an entry and an accessor, either of which may be empty.
fn counted(entry: &str, accessor: &str) -> Model {
    let mut model = ctr(TableKind::Keyed, &Adagrad::new(0.1));
    let ops = model.main.global_mut().ops.iter_mut();
    for op in ops.filter(|op| op.kind.starts_with("lookup_table")) {
        op.attrs.insert("entry".to_owned(), Attr::String(entry.to_owned()));
        op.attrs.insert("entry_config".to_owned(), Attr::String(accessor.to_owned()));
    }
    model
}

/// Shows and clicks go to the trainer that has the row, as gradients do; the rest it knows itself.
#[test]
fn who_has_a_row_admits_and_counts_it() {
    let accessor = r#"{"accessor_class": "CtrCommonAccessor"}"#;
    let shows = "show_click_entry:label:label";
    for (entry, accessor, calls) in [
        ("count_filter_entry:3", "", 3),
        ("probability_entry:0.5", "", 3),
        ("", accessor, 3),
        (shows, "", 4),
        (shows, accessor, 4),
    ] {
        let split = of_rank(&counted(entry, accessor), 0, 2);
        check(split.trainer_program());
        let kinds = kinds(split.trainer_program(), 0);
        let exchanges = kinds.iter().filter(|kind| **kind == "alltoall").count();
        assert_eq!(exchanges, calls, "{entry} {accessor}");
        let asked = kinds.iter().position(|kind| *kind == "alltoall").unwrap();
        let admits = kinds.iter().position(|kind| *kind == "admit_rows");
        let admits_itself = !entry.is_empty() && accessor.is_empty();
        assert_eq!(admits.is_some_and(|admits| admits > asked), admits_itself, "{kinds:?}");
    }
    let split = of_rank(&counted(shows, accessor), 1, 2);
    let program = split.trainer_program().to_string();
    expect_file!["golden/gpubox_records_of_two.txt"].assert_eq(&program);
}

/// What ids are made of comes first, wherever the model makes them.
#[test]
fn all_ids_are_there_before_the_first_lookup() {
    let graph = Graph::new();
    let label = data(&graph, "y", [1], DType::F32);
    let looked_up = ["a", "b"].map(|name| {
        let ids = reshape(&data(&graph, name, [1], DType::I64), &[-1, 1]).unwrap();
        let attr = ParamAttr { need_clip: false, ..ParamAttr::named("table") };
        let rows = Embedding::new([100, 4]).sparse(true).param_attr(attr);
        rows.apply(&ids).unwrap()
    });
    let joined = concat(&[&looked_up[0], &looked_up[1]], -1).unwrap();
    let joined = reshape(&joined, &[-1, 8]).unwrap();
    let out = Fc::new(1).apply(&joined).unwrap();
    let loss = mean(&square_error_cost(&out, &label).unwrap()).unwrap();
    Sgd::new(0.1).grad_clip(GradClip::GlobalNorm(1.0)).minimize(&loss).unwrap();
    let split = of_rank(&Model::new(&graph), 1, 2);
    check(split.trainer_program());
    let kinds = kinds(split.trainer_program(), 0);
    let first = kinds.iter().position(|kind| kind.starts_with("lookup_table")).unwrap();
    let made = |kind: &&&str| kind.starts_with("reshape");
    assert_eq!(kinds[..first].iter().filter(made).count(), 2, "{kinds:?}");
    // Each clips its own gradients, as trainers with servers do.
    let clipped = kinds.iter().position(|kind| *kind == "squared_l2_norm").unwrap();
    let reduced = kinds.iter().position(|kind| *kind == "c_bucket_wait").unwrap();
    assert!(clipped < reduced, "{kinds:?}");
}
