//! Local SGD: every rank updates parameters of its own, and now and then all take the mean.

use bireme_ir::{DType, OpRole, Program, Var};

use super::buckets::Buckets;
use super::merge::{add_counter, binary, constant, every, run_if};
use super::{CollectiveStrategy, LocalSgd, in_place};
use crate::analysis::is_update;

/// The step, from 1.
pub(super) const STEP: &str = "localsgd_step";

impl LocalSgd {
    /// Rewrites a program for one of several ranks.
    pub(super) fn rewrite(
        self,
        program: &mut Program,
        ranks: usize,
        strategy: &CollectiveStrategy,
    ) {
        let global = program.global();
        let updates = global.ops.iter().filter(|op| is_update(op));
        let updated = updates.flat_map(|op| op.inputs_of("Param"));
        let params: Vec<Var> = updated.filter_map(|name| global.var(name)).cloned().collect();
        let vars = params.iter().map(|param| (param.name.clone(), param, false));
        let buckets = Buckets::of_vars(vars, strategy);
        let mean = buckets.dense.iter().map(|bucket| bucket.wait(1.0 / ranks as f32));
        let mean = mean.map(|op| op.role(OpRole::OPTIMIZE)).collect();
        let condition = self.condition(program);
        run_if(program, &condition, mean);
    }

    /// Adds what says whether this step is one of the first, or the k-th after the last mean.
    fn condition(self, program: &mut Program) -> String {
        add_counter(program, STEP);
        let mut ops = vec![in_place("increment", STEP).attr("step", 1.0f32).role(OpRole::OPTIMIZE)];
        let (begin, later, early, now) =
            ("localsgd_begin", "localsgd_later", "localsgd_early", "localsgd_now");
        let global = program.global_mut();
        for var in [begin, later] {
            global.add_var(Var::tensor(var, DType::I64, [1]));
        }
        for var in [early, now] {
            global.add_var(Var::tensor(var, DType::Bool, [1]));
        }
        ops.push(constant(begin, self.begin_step));
        ops.push(binary("less_equal", STEP, begin, early));
        ops.push(binary("elementwise_sub", STEP, begin, later));
        let due = every(program, &mut ops, later, self.k_steps, "localsgd");
        let mut either = binary("logical_or", early, &due, now);
        either.attrs.remove("axis");
        ops.push(either);
        program.global_mut().ops.extend(ops);
        now.to_owned()
    }
}
