//! The engine's op types as `ir` sees them, so that programs can be checked before they run.

use bireme_ir::{Catalog, Op, Program, Signature, Slot, Var, verify};

use crate::op::{Infer, Meta, OpView};
use crate::{Error, Result, ops};

/// Every op of the engine; a value of this type is what `verify` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ops;

impl Catalog for Ops {
    fn signature(&self, kind: &str) -> Option<Signature> {
        // Fused ops are the plan's own and trust it; a program may not name them.
        ops::find(kind).ok().filter(|_| !ops::is_planned(kind)).map(|def| def.signature)
    }

    fn kinds(&self) -> Vec<&'static str> {
        ops::all().map(|def| def.name).collect()
    }

    fn infer<'v>(
        &self,
        op: &Op,
        find: &dyn Fn(&str) -> Option<&'v Var>,
    ) -> bireme_ir::Result<Vec<Var>> {
        infer(op, find).map_err(|error| bireme_ir::Error::BadOp {
            op: op.kind.clone(),
            site: op.site.clone(),
            problem: error.to_string(),
        })
    }
}

/// Gives every op all the input slots of its signature, empty where it uses none: Paddle looks slots up
/// without asking whether they are there.
pub fn name_all_inputs(program: &mut Program) {
    for op in program.blocks.iter_mut().flat_map(|block| &mut block.ops) {
        let Ok(def) = ops::find(&op.kind) else { continue };
        for slot in def.signature.inputs {
            op.inputs.entry(slot.name.to_owned()).or_default();
        }
    }
}

fn infer<'v>(op: &Op, find: &dyn Fn(&str) -> Option<&'v Var>) -> Result<Vec<Var>> {
    let view = OpView::new(op)?;
    // What a block makes of its variables is found when it is laid out.
    if view.def.flow.is_some() {
        return Ok(Vec::new());
    }
    let mut inputs = Vec::new();
    for name in view.flat_inputs() {
        let var = find(name).ok_or_else(|| {
            Error::kernel(format!("input `{name}` is not declared in the program"))
        })?;
        inputs.push(Meta::of(var));
    }
    // Paddle leaves by-products that only its kernels understand (`Reserve`, `InnerCache`) without
    // a shape, and sometimes with another type: nothing to compare.
    let opaque = |slot: &Slot, name: &String| {
        !slot.required && find(name).is_some_and(|var| var.shape.is_empty())
    };
    let slots = view.def.signature.outputs.iter();
    let names =
        slots.flat_map(|slot| op.outputs_of(slot.name).iter().map(move |name| (slot, name)));
    let outputs = names.zip(Infer::run(&view, &inputs)?);
    let outputs = outputs.filter(|((slot, name), _)| !opaque(slot, name));
    Ok(outputs.map(|((_, name), meta)| declaration(name, meta)).collect())
}

fn declaration(name: &str, meta: Meta) -> Var {
    let mut var = Var::tensor(name, meta.dtype, meta.declared_dims());
    (var.kind, var.lod_level) = (meta.kind, meta.lod_level);
    var
}

/// That the engine knows every op and attribute of `program`, that its shapes are possible and
/// agree, and that every variable comes from somewhere: an op, the scope, or one of `feeds`.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(program: &Program, feeds: &[&str]) -> bireme_ir::Result<()> {
    // Before any shape rule multiplies dimensions.
    for var in program.list_vars().filter(|var| var.kind.is_tensor()) {
        let bad = |problem| bireme_ir::Error::BadVar { var: var.name.clone(), problem };
        Meta::of(var).check_size().map_err(bad)?;
    }
    let mut inner = program.clone();
    let global = inner.global_mut();
    // They only say what goes in and out; the executor does their work.
    global.ops.retain(|op| op.kind != "feed" && op.kind != "fetch");
    for feed in feeds {
        if let Some(var) = global.vars.get_mut(*feed) {
            var.need_check_feed = true;
        }
    }
    verify(&inner, &Ops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bireme_ir::DType;

    /// The error of `bmm` on feeds of these shapes, or of building it.
    fn bmm_error(x: Vec<i64>, y: Vec<i64>) -> String {
        let mut program = Program::new();
        let global = program.global_mut();
        global.add_var(Var::tensor("x", DType::F32, x));
        global.add_var(Var::tensor("y", DType::F32, y));
        global.add_var(Var::tensor("out", DType::F32, [-1, 4, 4]));
        global.ops.push(Op::new("bmm").input("X", ["x"]).input("Y", ["y"]).output("Out", ["out"]));
        check(&program, &["x", "y"]).unwrap_err().to_string()
    }

    #[test]
    fn by_products_that_paddle_leaves_without_a_shape_are_not_compared() {
        let mut program = Program::new();
        let global = program.global_mut();
        let vars: [(&str, &[i64]); 8] = [
            ("x", &[3, -1, 2]),
            ("h", &[1, -1, 4]),
            ("w", &[4, 2]),
            ("u", &[4, 4]),
            ("b", &[4]),
            ("c", &[4]),
            ("out", &[3, -1, 4]),
            ("state", &[1, -1, 4]),
        ];
        for (name, shape) in vars {
            global.add_var(Var::tensor(name, DType::F32, shape));
        }
        for name in ["reserve", "masks"] {
            global.add_var(Var::tensor(name, DType::U8, []));
        }
        let op = Op::new("rnn").input("Input", ["x"]).input("PreState", ["h"]);
        let op = op.input("WeightList", ["w", "u", "b", "c"]).output("Out", ["out"]);
        let op = op.output("State", ["state"]).output("Reserve", ["reserve"]);
        let op = op.output("DropoutState", ["masks"]).attr("input_size", 2).attr("hidden_size", 4);
        global.ops.push(op);
        check(&program, &["x", "h", "w", "u", "b", "c"]).unwrap();
    }

    #[test]
    fn shapes_that_no_tensor_can_have_are_refused() {
        let huge = (1 << 62) + 1;
        assert_eq!(
            bmm_error(vec![-1, 4, huge], vec![-1, huge, 4]),
            "variable `x` has the shape [-1, 4, 4611686018427387905], which is too large for any \
             memory"
        );
        assert_eq!(
            bmm_error(vec![-1, 4, 4], vec![1; 10]),
            "variable `y` has 10 dimensions, which is more than 9"
        );
    }

    #[test]
    fn shapes_that_ops_compute_are_checked() {
        let x = Var::tensor("x", DType::F32, [1 << 40, 1]);
        let y = Var::parameter("y", DType::F32, [1, 1 << 40]);
        let op = Op::new("mul").input("X", ["x"]).input("Y", ["y"]).output("Out", ["out"]);
        let find = |name: &str| Some(if name == "x" { &x } else { &y });
        let error = Ops.infer(&op, &find).unwrap_err().to_string();
        assert!(error.contains("output `out` has the shape"), "{error}");
        for (dims, possible) in [
            (vec![1; 9], true),
            (vec![1; 10], false),
            (vec![-1, 1 << 60], true),
            (vec![-1, 1 << 61], false),
            (vec![0, 1 << 61], false),
            (vec![-2], false),
        ] {
            assert_eq!(
                Meta::new(DType::F32, dims.clone()).check_size().is_ok(),
                possible,
                "{dims:?}"
            );
        }
    }

    #[test]
    fn infers_declarations_and_names_the_call_site() {
        let x = Var::tensor("x", DType::F32, [-1, 3]);
        let w = Var::parameter("w", DType::F32, [3, 2]);
        let find = |name: &str| match name {
            "x" => Some(&x),
            "w" => Some(&w),
            _ => None,
        };
        let mut op = Op::new("mul").input("X", ["x"]).input("Y", ["w"]).output("Out", ["out"]);
        assert_eq!(Ops.infer(&op, &find).unwrap(), [Var::tensor("out", DType::F32, [-1, 2])]);
        op.site = Some("model.rs:7".to_owned());
        let error = Ops.infer(&op.input("Y", ["v"]), &find).unwrap_err().to_string();
        assert_eq!(
            error,
            "op `mul` (created at model.rs:7): input `v` is not declared in the program"
        );
        assert!(Ops.signature("mul").is_some() && Ops.signature("mull").is_none());
        assert!(Ops.kinds().contains(&"relu"));
    }
}
