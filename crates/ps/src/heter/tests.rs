//! A stage's program in parts.

use bireme_ir::{Attr, DType, Op, Program, Var};

use super::sections::Sections;
use super::{is_heter_trainer, is_heter_worker};
use crate::Mode;

fn between(op: Op, stage: i32, rank: i32) -> Op {
    op.attr("stage_id", stage)
        .attr("trainer_id", rank)
        .attr("trainers", 3)
        .attr("stage_trainers", vec![1, 2])
        .attr("micro_batches", 4)
        .attr("distributed_mode", 0)
}

fn program(ops: Vec<Op>) -> Program {
    let mut program = Program::new();
    for name in ["x", "y", "y@GRAD", "x@GRAD", "sent", "met"] {
        program.global_mut().add_var(Var::tensor(name, DType::F32, [-1, 2]));
    }
    let mut w = Var::tensor("w", DType::F32, [2]);
    w.persistable = true;
    program.global_mut().add_var(w);
    program.global_mut().ops = ops;
    program
}

pub(super) fn trainer() -> Program {
    program(vec![
        Op::new("relu").input("X", ["x"]).output("Out", ["y"]),
        between(Op::new("send_and_recv"), 1, 0)
            .input("X", ["y"])
            .output("Out", ["y@GRAD"])
            .attr("next_endpoints", vec!["a:1".to_owned(), "b:1".to_owned()]),
        Op::new("relu_grad")
            .input("Out", ["y"])
            .input("Out@GRAD", ["y@GRAD"])
            .output("X@GRAD", ["x@GRAD"]),
        Op::new("send")
            .input("X", ["x@GRAD"])
            .output("Out", ["sent"])
            .attr("use_send_handler", false)
            .attr("send_varnames", vec!["rate".to_owned()]),
        Op::new("send_barrier").input("X", ["sent"]).output("Out", ["met"]),
        Op::new("recv").input("X", ["met"]).output("Out", ["w"]),
    ])
}

#[test]
fn a_trainers_program_is_cut_where_it_asks_and_where_it_waits() {
    let program = trainer();
    assert!(is_heter_trainer(&program) && !is_heter_worker(&program));
    let sections = Sections::of(&program).unwrap();
    let kinds = |section: &super::sections::Section| {
        let kinds = |program: &Program| {
            program.global().ops.iter().map(|op| op.kind.clone()).collect::<Vec<_>>()
        };
        section.program.read(kinds)
    };
    assert_eq!(kinds(&sections.forward), ["relu"]);
    assert_eq!(kinds(sections.backward.as_ref().unwrap()), ["relu_grad", "send"]);
    let tail = sections.tail.as_ref().unwrap();
    assert_eq!(kinds(tail), ["send_barrier", "recv"]);
    // What a tail waits for has happened.
    assert!(tail.program.read(|program| program.global().ops[0].inputs_of("X").is_empty()));
    assert_eq!(sections.saved, ["y", "y@GRAD"]);
    assert!(sections.as_is.contains("rate"));
    assert_eq!((sections.config.mode, sections.config.micro_batches), (Mode::Sync, 4));
    assert_eq!(sections.config.next.len(), 2);
}

#[test]
fn what_is_no_stage_is_refused() {
    let error = Sections::of(&Program::new()).err().unwrap().to_string();
    assert!(error.contains("neither `heter_listen_and_serv` nor `send_and_recv`"), "{error}");
    let mut wrong = trainer();
    wrong.global_mut().ops[1].attrs.insert("trainer_id".to_owned(), Attr::Int(1));
    let error = Sections::of(&wrong).err().unwrap().to_string();
    assert!(error.contains("`trainer_id` of `send_and_recv`"), "{error}");
}
