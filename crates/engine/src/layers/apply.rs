//! One op, appended: inputs and attributes by name, outputs as fresh temporaries.

use std::panic::Location;

use bireme_ir::{Attr, Op};

use crate::Result;
use crate::graph::{Graph, Variable};

/// An op about to be appended to a graph; its outputs are asked for last.
#[derive(Clone, Debug)]
#[must_use = "an op is appended when its outputs are asked for"]
pub struct Apply {
    graph: Graph,
    op: Op,
    layer: Layer,
}

#[derive(Clone, Debug)]
enum Layer {
    /// Outputs belong to a fresh layer with this prefix.
    Fresh(String),
    /// Outputs belong to this layer.
    Existing(String),
}

/// Any op by its type:
/// `op(graph, "gelu").input("X", &x).attr("approximate", true).output("Out")?`
#[track_caller]
pub fn op(graph: &Graph, kind: &str) -> Apply {
    let location = Location::caller();
    let mut op = Op::new(kind);
    op.site = Some(format!("{}:{}", location.file(), location.line()));
    Apply { graph: graph.clone(), op, layer: Layer::Fresh(kind.to_owned()) }
}

impl Apply {
    /// Reads `var` through slot `slot`.
    pub fn input(self, slot: &str, var: &Variable) -> Apply {
        self.inputs(slot, &[var])
    }

    /// Reads several variables through slot `slot`.
    pub fn inputs(mut self, slot: &str, vars: &[&Variable]) -> Apply {
        self.op = self.op.input(slot, vars.iter().map(|var| var.name()));
        self
    }

    /// Sets attribute `name`.
    pub fn attr(mut self, name: &str, value: impl Into<Attr>) -> Apply {
        self.op = self.op.attr(name, value);
        self
    }

    /// Writes an existing variable through slot `slot`: running statistics, a counter.
    pub fn writes(mut self, slot: &str, var: &Variable) -> Apply {
        self.op = self.op.output(slot, [var.name()]);
        self
    }

    /// Names outputs after a fresh layer `prefix` instead of the op type.
    pub fn named(mut self, prefix: &str) -> Apply {
        self.layer = Layer::Fresh(prefix.to_owned());
        self
    }

    /// Names outputs after the layer `layer`, such as `fc_0`.
    pub fn of_layer(mut self, layer: &str) -> Apply {
        self.layer = Layer::Existing(layer.to_owned());
        self
    }

    /// Appends the op and returns its output in slot `slot`.
    ///
    /// # Errors
    /// When there is no such op, or the inputs do not fit; so for all that follow.
    pub fn output(self, slot: &str) -> Result<Variable> {
        let [output] = self.outputs([slot])?;
        Ok(output)
    }

    /// Appends the op and returns one output from each of `slots`.
    pub fn outputs<const N: usize>(self, slots: [&str; N]) -> Result<[Variable; N]> {
        let counted = slots.map(|slot| (slot, 1));
        let outputs = self.append(&counted)?;
        Ok(outputs.try_into().expect("one output for each slot"))
    }

    /// Appends the op and returns `count` outputs from slot `slot`.
    pub fn list(self, slot: &str, count: usize) -> Result<Vec<Variable>> {
        self.append(&[(slot, count)])
    }

    /// Appends an op that only writes existing variables, or nothing.
    pub fn run(self) -> Result<()> {
        self.append(&[]).map(drop)
    }

    fn append(self, slots: &[(&str, usize)]) -> Result<Vec<Variable>> {
        let Apply { graph, mut op, layer } = self;
        let layer = match layer {
            Layer::Existing(layer) => layer,
            Layer::Fresh(_) if slots.is_empty() => String::new(),
            Layer::Fresh(prefix) => graph.unique_name(&prefix),
        };
        let mut all = Vec::new();
        for (slot, count) in slots {
            let names: Vec<String> =
                (0..*count).map(|_| graph.unique_name(&format!("{layer}.tmp"))).collect();
            all.extend(names.iter().cloned());
            op = op.output(slot, names);
        }
        graph.append_op(op)?;
        all.iter().map(|name| graph.variable(name)).collect()
    }
}
