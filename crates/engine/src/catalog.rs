//! The engine's op types as `ir` sees them, so that programs can be checked before they run.

use bireme_ir::{Catalog, Op, Program, Signature, Var, verify};

use crate::op::{Infer, Meta, OpView};
use crate::{Error, Result, ops};

/// Every op of the engine; a value of this type is what `verify` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ops;

impl Catalog for Ops {
    fn signature(&self, kind: &str) -> Option<Signature> {
        // Fused ops are the plan's own and trust it; a program may not name them.
        ops::find(kind).ok().filter(|_| !kind.starts_with("fused_")).map(|def| def.signature)
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

fn infer<'v>(op: &Op, find: &dyn Fn(&str) -> Option<&'v Var>) -> Result<Vec<Var>> {
    let view = OpView::new(op)?;
    let mut inputs = Vec::new();
    for name in view.flat_inputs() {
        let var = find(name).ok_or_else(|| {
            Error::kernel(format!("input `{name}` is not declared in the program"))
        })?;
        inputs.push(Meta::of(var));
    }
    let outputs = view.flat_outputs().zip(Infer::run(&view, &inputs)?);
    Ok(outputs.map(|(name, meta)| declaration(name, meta)).collect())
}

fn declaration(name: &str, meta: Meta) -> Var {
    let mut var = Var::tensor(name, meta.dtype, meta.dims);
    (var.kind, var.lod_level) = (meta.kind, meta.lod_level);
    var
}

/// That the engine knows every op and attribute of `program`, that its shapes agree, and that every
/// variable comes from somewhere: an op, the scope, or one of `feeds`.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(program: &Program, feeds: &[&str]) -> bireme_ir::Result<()> {
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
