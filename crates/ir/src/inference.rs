//! Programs for inference, as `save_inference_model` stores them: pruned to the targets, with
//! `feed` and `fetch` ops that say which variables go in and out, in which order.

use std::collections::HashSet;

use crate::{Attr, DType, Error, Op, Program, Result, TargetProblem, Var, VarKind};

/// The variable that `feed` ops read, and their type.
const FEED: &str = "feed";
/// The variable that `fetch` ops write, and their type.
const FETCH: &str = "fetch";

/// What stands between a target and its `fetch` op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchStyle {
    /// Nothing: `__model__` files of Paddle 1.x.
    Plain,
    /// A `scale` by one named `save_infer_model/scale_N.tmp_0`: `.pdmodel` files of Paddle 2.x.
    Scaled,
}

impl Program {
    /// The program that computes `targets` from `feeds`, set to testing, with `feed` and `fetch`
    /// ops as Paddle saves them.
    ///
    /// # Errors
    /// [`Error::Target`] for a target that nothing computes, a feed that is not declared, and a
    /// variable that the targets need but that is not among the feeds.
    pub fn inference_program(
        &self,
        feeds: &[&str],
        targets: &[&str],
        style: FetchStyle,
    ) -> Result<Program> {
        let mut program = self.clone();
        for block in &mut program.blocks {
            block.ops.retain(|op| op.kind != FEED && op.kind != FETCH);
            block.ops.iter_mut().for_each(|op| op.is_target = false);
        }
        let global = program.global_mut();
        global.vars.shift_remove(FEED);
        global.vars.shift_remove(FETCH);
        let mut program = program.prune(feeds, targets)?.clone_for_test();
        program.check_fed(feeds)?;
        let fetched: Vec<String> = match style {
            FetchStyle::Plain => targets.iter().map(|target| (*target).to_owned()).collect(),
            FetchStyle::Scaled => {
                let scaled = targets.iter().enumerate();
                scaled.map(|(col, target)| program.append_scale(col, target)).collect()
            }
        };
        program.prepend_feeds(feeds);
        program.append_fetches(&fetched);
        Ok(program)
    }

    /// The variables that `feed` ops write, in the order of their columns.
    pub fn feed_names(&self) -> Vec<String> {
        self.columns(FEED, |op| op.outputs_of("Out"))
    }

    /// The variables that `fetch` ops read, in the order of their columns.
    pub fn fetch_names(&self) -> Vec<String> {
        self.columns(FETCH, |op| op.inputs_of("X"))
    }

    fn columns(&self, kind: &str, vars: impl Fn(&Op) -> &[String]) -> Vec<String> {
        let ops = self.global().ops.iter().filter(|op| op.kind == kind);
        let mut columns: Vec<(i64, &String)> = ops
            .filter_map(|op| {
                let col = match op.attrs.get("col") {
                    Some(Attr::Int(col)) => i64::from(*col),
                    Some(Attr::Long(col)) => *col,
                    _ => 0,
                };
                Some((col, vars(op).first()?))
            })
            .collect();
        columns.sort_by_key(|(col, _)| *col);
        columns.into_iter().map(|(_, var)| var.clone()).collect()
    }

    /// Everything that an op reads is fed, persistable or computed before.
    fn check_fed(&self, feeds: &[&str]) -> Result<()> {
        let global = self.global();
        let mut computed: HashSet<&str> = feeds.iter().copied().collect();
        for op in &global.ops {
            let missing = op.input_vars().find(|name| {
                let var = global.var(name);
                let given = var.is_none_or(|var| var.persistable || !var.kind.is_tensor());
                !given && !computed.contains(name.as_str())
            });
            if let Some(var) = missing {
                let problem = TargetProblem::NotFed { op: op.kind.clone() };
                return Err(Error::Target { var: var.clone(), problem });
            }
            computed.extend(op.output_vars().map(String::as_str));
        }
        Ok(())
    }

    /// Scales `target` by one into a new variable and returns its name; Paddle leaves truth values
    /// as they are, since `scale` does not take them.
    fn append_scale(&mut self, col: usize, target: &str) -> String {
        let global = self.global_mut();
        let Some(var) = global.var(target).filter(|var| var.dtype != DType::Bool) else {
            return target.to_owned();
        };
        let mut out = Var { persistable: false, param: None, ..var.clone() };
        out.need_check_feed = false;
        let name = |n: usize| format!("save_infer_model/scale_{col}.tmp_{n}");
        // A program that was saved before has such names already.
        out.name = (0..).map(name).find(|name| global.var(name).is_none()).expect("some is free");
        let name = out.name.clone();
        global.add_var(out);
        global.ops.push(
            Op::new("scale")
                .input("X", [target])
                .output("Out", [name.as_str()])
                .attr("scale", 1.0_f32)
                .attr("bias", 0.0_f32)
                .attr("bias_after_scale", true),
        );
        name
    }

    fn prepend_feeds(&mut self, feeds: &[&str]) {
        if feeds.is_empty() {
            return;
        }
        self.add_list(FEED, VarKind::FeedMinibatch);
        let op = |(col, feed): (usize, &&str)| {
            Op::new(FEED).input("X", [FEED]).output("Out", [*feed]).attr("col", column(col))
        };
        // Paddle puts each in front of the last, so the columns stand in falling order.
        let ops: Vec<Op> = feeds.iter().enumerate().map(op).rev().collect();
        self.global_mut().ops.splice(0..0, ops);
    }

    fn append_fetches(&mut self, fetched: &[String]) {
        self.add_list(FETCH, VarKind::FetchList);
        let op = |(col, name): (usize, &String)| {
            Op::new(FETCH)
                .input("X", [name.as_str()])
                .output("Out", [FETCH])
                .attr("col", column(col))
        };
        self.global_mut().ops.extend(fetched.iter().enumerate().map(op));
    }

    fn add_list(&mut self, name: &str, kind: VarKind) {
        let list = Var { kind, persistable: true, ..Var::tensor(name, DType::F32, []) };
        self.global_mut().add_var(list);
    }
}

fn column(col: usize) -> i32 {
    i32::try_from(col).expect("a program has fewer than 2**31 feeds")
}

#[cfg(test)]
mod tests;
