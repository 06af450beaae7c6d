//! Cuts the trainer's program into those of the stages.

use std::collections::{BTreeSet, HashMap, HashSet};

use bireme_ir::{Attr, DType, Op, OpRole, Program, Var, VarKind};

use super::stages::is_forward;
use crate::plan::{Hetero, Plan};
use crate::{Error, Result, names};

/// The program of one stage, cut out of `whole`, the program of a trainer that does everything.
///
/// # Errors
/// When a value would have to travel against the order of the stages.
pub(crate) fn build(plan: &Plan, hetero: &Hetero, whole: &Program) -> Result<Program> {
    let cut = Cut::new(plan, hetero, whole)?;
    let stage = hetero.place.stage;
    let mut ops = Vec::new();
    let arrives = cut.crossing(stage, Way::Forward);
    if stage > 0 {
        ops.push(cut.listen(stage, &arrives, &cut.crossing(stage, Way::Back)));
    }
    ops.extend(cut.ops_of(stage, Part::Forward).cloned());
    if stage + 1 < hetero.stages.count {
        let (there, back) =
            (cut.crossing(stage + 1, Way::Forward), cut.crossing(stage + 1, Way::Back));
        ops.push(cut.ask(stage, &there, &back));
    }
    ops.extend(cut.ops_of(stage, Part::Backward).cloned());
    ops.extend(cut.tail(stage));
    let mut program = whole.clone();
    program.global_mut().ops = ops;
    declare(&mut program, stage);
    Ok(program)
}

/// The part of a step that an op belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Forward,
    Backward,
    /// Barriers and pulls: once a step, however many micro-batches it has.
    Tail,
}

/// Which way a value crosses from one stage to another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

struct Cut<'a> {
    plan: &'a Plan,
    hetero: &'a Hetero,
    whole: &'a Program,
    /// Part and stage of each op.
    places: Vec<(Part, usize)>,
    /// Variables that cross: who writes each (trainers what nobody does), and who reads it.
    crossing: Vec<Crossing<'a>>,
}

struct Crossing<'a> {
    var: &'a Var,
    from: usize,
    readers: BTreeSet<usize>,
}

impl<'a> Cut<'a> {
    fn new(plan: &'a Plan, hetero: &'a Hetero, whole: &'a Program) -> Result<Cut<'a>> {
        let ops = &whole.global().ops;
        let places = ops.iter().map(|op| place(plan, hetero, op)).collect();
        let mut cut = Cut { plan, hetero, whole, places, crossing: Vec::new() };
        cut.crossing = cut.find_crossing()?;
        Ok(cut)
    }

    fn ops(&self) -> impl Iterator<Item = (&'a Op, Part, usize)> + '_ {
        let places = self.places.iter();
        self.whole.global().ops.iter().zip(places).map(|(op, (part, stage))| (op, *part, *stage))
    }

    fn ops_of(&self, stage: usize, part: Part) -> impl Iterator<Item = &'a Op> + '_ {
        self.ops().filter(move |(_, p, s)| (*p, *s) == (part, stage)).map(|(op, ..)| op)
    }

    fn find_crossing(&self) -> Result<Vec<Crossing<'a>>> {
        let global = self.whole.global();
        let mut writers: HashMap<&str, BTreeSet<(usize, bool)>> = HashMap::new();
        let mut readers: HashMap<&str, BTreeSet<(usize, bool)>> = HashMap::new();
        for (op, part, stage) in self.ops().filter(|(_, part, _)| *part != Part::Tail) {
            let at = (stage, part == Part::Backward);
            for var in op.output_vars() {
                writers.entry(var).or_default().insert(at);
            }
            for var in op.input_vars() {
                readers.entry(var).or_default().insert(at);
            }
        }
        let mut crossing = Vec::new();
        for var in global.vars.values() {
            let Some(read) = readers.get(var.name.as_str()) else { continue };
            let written = writers.get(var.name.as_str());
            let from = written.and_then(BTreeSet::first).map_or(0, |(stage, _)| *stage);
            if read.iter().all(|(stage, _)| *stage == from) {
                continue;
            }
            if var.persistable {
                match written {
                    None => continue,
                    Some(_) => return Err(two_owners(var, from)),
                }
            }
            let backwards = written.is_some_and(|w| w.iter().any(|(_, backward)| *backward));
            let wrong = read.iter().find(|(stage, in_backward)| match stage.cmp(&from) {
                std::cmp::Ordering::Less => !in_backward,
                std::cmp::Ordering::Equal => false,
                std::cmp::Ordering::Greater => backwards,
            });
            if let Some((stage, _)) = wrong {
                return Err(against(var, from, *stage));
            }
            if var.kind != VarKind::LodTensor {
                return Err(Error::Config(format!(
                    "`{}` is rows of a table and would travel from stage {} to another: look the \
                     table up in one stage alone",
                    var.name,
                    from + 1
                )));
            }
            let readers = read.iter().map(|(stage, _)| *stage).collect();
            crossing.push(Crossing { var, from, readers });
        }
        Ok(crossing)
    }

    /// What goes from the stage before `stage` to it, or comes back.
    fn crossing(&self, stage: usize, way: Way) -> Vec<&'a Var> {
        let crosses = |crossing: &&Crossing<'a>| match way {
            Way::Forward => crossing.from < stage && crossing.readers.iter().any(|r| *r >= stage),
            Way::Back => crossing.from >= stage && crossing.readers.iter().any(|r| *r < stage),
        };
        self.crossing.iter().filter(crosses).map(|crossing| crossing.var).collect()
    }

    /// What every op between stages says.
    fn between(&self, op: Op) -> Op {
        let heter = &self.hetero.heter;
        self.plan
            .remote(op)
            .attr("endpoints", self.plan.endpoints.clone())
            .attr("stage_id", self.hetero.place.stage as i32 + 1)
            .attr("stage_trainers", heter.counts(self.plan.trainers))
            .attr("micro_batches", heter.micro_batches as i32)
    }

    fn listen(&self, stage: usize, arrives: &[&Var], answers: &[&Var]) -> Op {
        let heter = &self.hetero.heter;
        let endpoint = heter.stages[stage - 1][self.hetero.place.index].as_str();
        let fanin = heter.counts(self.plan.trainers)[stage - 1];
        let op = self.between(Op::new("heter_listen_and_serv"));
        shaped(op.output("Out", names_of(arrives)), arrives)
            .attr("endpoint", endpoint)
            .attr("fanin", fanin)
            .attr("pserver_id", self.plan.trainer_id as i32)
            .attr("answer_varnames", names_of(answers))
    }

    fn ask(&self, stage: usize, there: &[&Var], back: &[&Var]) -> Op {
        let op = self.between(Op::new("send_and_recv")).input("X", names_of(there));
        shaped(op.output("Out", names_of(back)), back)
            .attr("mode", "forward")
            .attr("send_var_name", names_of(there))
            .attr("recv_var_name", names_of(back))
            .attr("next_endpoints", self.hetero.heter.stages[stage].clone())
    }

    /// The stage's own barriers and pulls.
    fn tail(&self, stage: usize) -> Vec<Op> {
        let global = self.whole.global();
        let reads: HashSet<&String> = [Part::Forward, Part::Backward]
            .into_iter()
            .flat_map(|part| self.ops_of(stage, part))
            .flat_map(Op::input_vars)
            .collect();
        // Here before the tail runs, or made in it.
        let mut known: HashSet<String> =
            self.ops_of(stage, Part::Backward).flat_map(Op::output_vars).cloned().collect();
        let mut tail = Vec::new();
        for (op, ..) in self.ops().filter(|(_, part, _)| *part == Part::Tail) {
            let param = match (op.kind.as_str(), op.attrs.get("varnames")) {
                ("recv", Some(Attr::Strings(names))) => names.first(),
                ("concat", _) => op.outputs_of("Out").first(),
                _ => None,
            };
            if param.is_some_and(|param| !reads.contains(param)) {
                continue;
            }
            let mut op = op.clone();
            if op.kind != "concat"
                && let Some(after) = op.inputs.get_mut("X")
            {
                after.retain(|dummy| known.contains(dummy) || global.var(dummy).is_none());
            }
            known.extend(op.output_vars().cloned());
            tail.push(op);
        }
        tail
    }
}

/// Part and stage of an op of the whole trainer's program.
fn place(plan: &Plan, hetero: &Hetero, op: &Op) -> (Part, usize) {
    let of = |name: &String| {
        let own = names::of_trainer("", plan.trainer_id);
        let stages = &hetero.stages;
        stages.of(name).or_else(|| stages.of(name.strip_suffix(own.as_str())?))
    };
    let is_pull = |op: &Op| op.kind == "concat" && op.op_role() == OpRole::DIST;
    match op.kind.as_str() {
        "send_barrier" | "recv" | "fetch_barrier" => (Part::Tail, 0),
        "concat" if is_pull(op) => (Part::Tail, 0),
        "send" => {
            let pair = match op.attrs.get("op_role_var") {
                Some(Attr::Strings(pair)) if of_gradient(op) => pair.get(1),
                // Counters and learning rates are the trainers'.
                _ => None,
            };
            (Part::Backward, pair.and_then(of).unwrap_or(0))
        }
        "distributed_push_sparse" => (Part::Backward, 0),
        _ => {
            let part = if is_forward(op) { Part::Forward } else { Part::Backward };
            let stage = op.output_vars().find_map(of).or_else(|| op.input_vars().find_map(of));
            (part, stage.unwrap_or(0))
        }
    }
}

/// Whether a `send` carries a gradient.
fn of_gradient(op: &Op) -> bool {
    matches!(op.attrs.get("use_send_handler"), Some(Attr::Bool(true)))
}

fn names_of(vars: &[&Var]) -> Vec<String> {
    vars.iter().map(|var| var.name.clone()).collect()
}

/// Says the types and shapes of an op's outputs, which nothing else in its program would tell.
fn shaped(op: Op, vars: &[&Var]) -> Op {
    let ranks: Vec<i32> = vars.iter().map(|var| var.shape.len() as i32).collect();
    let shapes: Vec<i64> = vars.iter().flat_map(|var| var.shape.clone()).collect();
    let dtypes: Vec<i32> = vars.iter().map(|var| DType::code(var.dtype)).collect();
    let levels: Vec<i32> = vars.iter().map(|var| var.lod_level as i32).collect();
    op.attr("ranks", ranks).attr("shapes", shapes).attr("dtypes", dtypes).attr("levels", levels)
}

/// Leaves the declarations that the ops of a stage need; trainers keep what a script feeds.
fn declare(program: &mut Program, stage: usize) {
    let used: HashSet<String> = program
        .blocks
        .iter()
        .flat_map(|block| &block.ops)
        .flat_map(|op| op.input_vars().chain(op.output_vars()))
        .cloned()
        .collect();
    let fed = |var: &Var| stage == 0 && var.need_check_feed;
    program.global_mut().vars.retain(|name, var| used.contains(name) || fed(var));
    if stage > 0 {
        // Nobody feeds a heter worker: what a script feeds arrives.
        program.global_mut().vars.values_mut().for_each(|var| var.need_check_feed = false);
    }
}

fn two_owners(var: &Var, from: usize) -> Error {
    Error::Config(format!(
        "`{}` outlives a step and is written in stage {}, but read in another: stages share \
         parameters alone",
        var.name,
        from + 1
    ))
}

fn against(var: &Var, from: usize, to: usize) -> Error {
    Error::Config(format!(
        "stage {} computes `{}`, which stage {} reads: values go from a stage to later ones, and \
         gradients back; give the layers to other devices",
        from + 1,
        var.name,
        to + 1
    ))
}
