//! The head of an optimize block in sync mode: the sum of all trainers' gradients, divided by
//! their number. When some trainers have finished, the same ops run over those that sent.

use std::collections::HashMap;

use bireme_ir::{Attr, Op};

/// Where a block's ops add up what trainers sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    /// The `sum`.
    sum: usize,
    /// The `scale` after it, if it divides by the number of trainers.
    scale: Option<usize>,
}

impl Merge {
    /// Finds it in `ops`; `received` are the variables that trainers send.
    pub(super) fn find(ops: &[Op], received: impl Fn(&str) -> bool) -> Option<Merge> {
        let of_trainers = |op: &Op| {
            let inputs = op.inputs_of("X");
            op.kind == "sum" && inputs.len() > 1 && inputs.iter().all(|name| received(name))
        };
        let sum = ops.iter().position(of_trainers)?;
        let divides = |op: &Op| {
            let factor = 1.0 / ops[sum].inputs_of("X").len() as f32;
            op.kind == "scale"
                && op.inputs_of("X") == ops[sum].outputs_of("Out")
                && matches!(op.attrs.get("scale"), Some(Attr::Float(scale))
                    if (scale - factor).abs() <= factor * 1e-5)
        };
        let scale = ops.get(sum + 1).filter(|op| divides(op)).map(|_| sum + 1);
        Some(Merge { sum, scale })
    }

    /// The variables that are added up.
    pub(super) fn inputs<'a>(&self, ops: &'a [Op]) -> &'a [String] {
        ops[self.sum].inputs_of("X")
    }

    /// How many ops it is.
    pub(super) fn head(&self) -> usize {
        1 + usize::from(self.scale.is_some())
    }

    /// The ops for the case that only `names`, some of the inputs in their order, have come.
    pub(super) fn only(&self, ops: &[Op], names: &[String]) -> Vec<Op> {
        let mut ops = ops.to_vec();
        ops[self.sum].inputs.insert("X".to_owned(), names.to_vec());
        if let Some(scale) = self.scale {
            let factor = 1.0 / names.len() as f32;
            ops[scale].attrs.insert("scale".to_owned(), Attr::Float(factor));
        }
        ops
    }
}

/// Lets a `sum` that writes one of its inputs, as Paddle's programs have it, write another variable
/// first: the engine adds up in place nowhere.
pub(super) fn without_aliases(ops: &[Op]) -> Vec<Op> {
    let mut safe = Vec::with_capacity(ops.len());
    let mut made = HashMap::new();
    for op in ops {
        let written = op.outputs_of("Out").first();
        match written {
            Some(out) if op.kind == "sum" && op.inputs_of("X").contains(out) => {
                let count: &mut usize = made.entry(out.clone()).or_default();
                let aside = format!("{out}@SUM_{count}");
                *count += 1;
                safe.push(op.clone().output("Out", [aside.as_str()]));
                safe.push(Op::new("assign").input("X", [aside]).output("Out", [out.as_str()]));
            }
            _ => safe.push(op.clone()),
        }
    }
    safe
}
