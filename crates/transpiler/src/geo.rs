//! The trainer's program in geo mode: the whole program with its optimizer, and one exchange of
//! differences with the servers at the end of each step.

use bireme_ir::{Op, Program};

use crate::plan::{Placed, Plan};
use crate::sparse::is_lookup;
use crate::trainer::sections;

/// Writes the trainer's program.
pub(crate) fn build(plan: &Plan) -> Program {
    let mut program = plan.program.clone();
    let params: Vec<&String> = plan.placed.iter().map(|placed| &placed.update.param.name).collect();
    let pieces = || plan.placed.iter().flat_map(|placed| &placed.pieces);
    let ids: Vec<Option<Vec<String>>> =
        plan.placed.iter().map(|placed| ids(plan, placed)).collect();
    let count = |ids: &Option<Vec<String>>| ids.as_ref().map_or(-1, |ids| ids.len() as i32);
    let op = plan
        .remote(Op::new("geo_exchange"))
        .input("Param", params.clone())
        .input("Ids", ids.iter().flatten().flatten())
        .output("ParamOut", params)
        .attr("piece_names", pieces().map(|piece| piece.name.clone()).collect::<Vec<_>>())
        .attr("epmap", pieces().map(|piece| plan.endpoint(piece)).collect::<Vec<_>>())
        .attr("sections", plan.placed.iter().flat_map(sections).collect::<Vec<_>>())
        .attr(
            "pieces_per_param",
            plan.placed.iter().map(|placed| placed.pieces.len() as i32).collect::<Vec<_>>(),
        )
        .attr("ids_per_param", ids.iter().map(count).collect::<Vec<_>>())
        .attr("endpoints", plan.endpoints.clone())
        .attr("geo_steps", plan.config.geo_sgd_need_push_nums);
    program.global_mut().ops.push(op);
    program
}

/// The ids by which the step looks rows up in `placed`; `None` for a parameter that is no table.
fn ids(plan: &Plan, placed: &Placed) -> Option<Vec<String>> {
    if !placed.update.is_sparse() {
        return None;
    }
    let ops = plan.program.global().ops.iter();
    let param = &placed.update.param.name;
    let lookups = ops.filter(|op| is_lookup(op) && op.inputs_of("W").first() == Some(param));
    let ids = lookups.flat_map(|op| op.inputs_of("Ids"));
    let mut names: Vec<String> = Vec::new();
    ids.for_each(|name| {
        if !names.contains(name) {
            names.push(name.clone());
        }
    });
    Some(names)
}
