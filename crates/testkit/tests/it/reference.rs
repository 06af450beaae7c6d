//! `docs/ops.md` is written from the definitions; `UPDATE_EXPECT=1 cargo test` renews it.

use std::collections::HashSet;
use std::fmt::Write;

use bireme_engine::op::{GradRule, OpDef, SplitRule};
use bireme_engine::ops;
use bireme_ir::{AttrDefault, Slot};
use expect_test::expect_file;

const HEADER: &str = "\
# Ops

Every op of the engine, with Paddle's names: written from the definitions, not by hand.
`?` marks a slot that may be empty, `*` one that may hold several variables.
Attributes show their defaults; one without must be given, or may be absent (`?`).
*rows* says that a step split over threads runs the op on each thread's rows (where its inputs allow it); other ops run once on the whole batch.
*card* says that the op runs on a GPU, of the types and attributes that its kernels there know, and its gradient op too unless it says `forward`; the host runs the others inside the same step.
*gradient* says `twice` where the gradient has a gradient, too; a loss that depends on the gradient of another op's gradient is refused.
Gradient ops (`…_grad`) follow the same rules and are left out, as are the ops that the plan puts in (`fused_fc` and its kin).

| op | inputs | outputs | attributes | gradient | rows | card |
|---|---|---|---|---|---|---|
";

#[test]
fn the_reference_of_ops_is_current() {
    let mut defs: Vec<&OpDef> = ops::all()
        .filter(|def| !def.name.contains("_grad") && !ops::is_planned(def.name))
        .collect();
    defs.sort_by_key(|def| def.name);
    let on_card: HashSet<&str> = bireme_cuda::ops().collect();
    let mut page = HEADER.to_owned();
    for def in defs {
        let attrs: Vec<String> = def
            .signature
            .attrs
            .iter()
            .map(|spec| format!("{}{}", spec.name, default(spec.default)))
            .collect();
        let rows = if matches!(def.split, SplitRule::Whole) { "" } else { "yes" };
        let row = [
            format!("`{}`", def.name),
            slots(def.signature.inputs),
            slots(def.signature.outputs),
            attrs.join(", "),
            gradient(def).to_owned(),
            rows.to_owned(),
            card(def, &on_card).to_owned(),
        ];
        writeln!(page, "| {} |", row.join(" | ")).unwrap();
    }
    expect_file!["../../../../docs/ops.md"].assert_eq(&page);
}

/// Whether an op has a gradient, and that one, too. Rules without an op of their own are written in ops that have.
fn gradient(def: &OpDef) -> &'static str {
    let own = ops::find(&format!("{}_grad", def.name));
    match def.grad {
        GradRule::None if def.flow.is_some_and(|flow| flow.gradient.is_some()) => "yes",
        GradRule::None => "",
        _ if own.is_ok_and(|own| matches!(own.grad, GradRule::None)) => "yes",
        _ => "twice",
    }
}

/// Where an op and its gradient op, if it has one of its own, run.
fn card(def: &OpDef, on_card: &HashSet<&str>) -> &'static str {
    let gradient = format!("{}_grad", def.name);
    let is_on_host = ops::find(&gradient).is_ok() && !on_card.contains(gradient.as_str());
    match (on_card.contains(def.name), is_on_host) {
        (false, _) => "",
        (true, false) => "yes",
        (true, true) => "forward",
    }
}

fn slots(slots: &[Slot]) -> String {
    let mark = |slot: &Slot| match (slot.required, slot.many) {
        (true, false) => "",
        (false, false) => "?",
        (_, true) => "*",
    };
    slots.iter().map(|slot| format!("{}{}", slot.name, mark(slot))).collect::<Vec<_>>().join(", ")
}

fn default(default: AttrDefault) -> String {
    match default {
        AttrDefault::Required(_) => String::new(),
        AttrDefault::Absent(_) => "?".to_owned(),
        AttrDefault::Int(value) => format!(" = {value}"),
        AttrDefault::Long(value) => format!(" = {value}"),
        AttrDefault::Float(value) => format!(" = {value:?}"),
        AttrDefault::Float64(value) => format!(" = {value:?}"),
        AttrDefault::Bool(value) => format!(" = {value}"),
        AttrDefault::Str(value) => format!(" = {value:?}"),
        AttrDefault::Ints(value) => format!(" = {value:?}"),
        AttrDefault::Longs(value) => format!(" = {value:?}"),
        AttrDefault::Floats(value) => format!(" = {value:?}"),
        AttrDefault::Strings(value) => format!(" = {value:?}"),
    }
}
