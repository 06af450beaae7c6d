//! Graphviz output: ops are boxes, variables ellipses, parameters filled, sub-blocks clusters.

use std::collections::HashSet;
use std::fmt::Write;

use crate::{Block, Program, Var};

impl Program {
    /// The program as a Graphviz digraph; the same program gives the same text.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph program {\n");
        dot.push_str("  node [fontname=\"sans-serif\", fontsize=10];\n");
        for block in &self.blocks {
            let indent = if block.idx == 0 { "  " } else { "    " };
            if block.idx != 0 {
                line(&mut dot, "  ", &format!("subgraph cluster_{} {{", block.idx));
                line(&mut dot, indent, &format!("label=\"block {}\";", block.idx));
            }
            self.block_dot(&mut dot, block, indent);
            if block.idx != 0 {
                line(&mut dot, "  ", "}");
            }
        }
        dot.push_str("}\n");
        dot
    }

    fn block_dot(&self, dot: &mut String, block: &Block, indent: &str) {
        let touched: HashSet<&str> = block
            .ops
            .iter()
            .flat_map(|op| op.input_vars().chain(op.output_vars()))
            .map(String::as_str)
            .collect();
        for var in block.vars.values().filter(|var| touched.contains(var.name.as_str())) {
            let style = if var.is_parameter() { ", style=filled, fillcolor=lightgrey" } else { "" };
            let id = var_id(block.idx, &var.name);
            line(dot, indent, &format!("{id} [shape=ellipse, label={}{style}];", label(var)));
        }
        for (index, op) in block.ops.iter().enumerate() {
            let id = format!("op_{}_{index}", block.idx);
            line(dot, indent, &format!("{id} [shape=box, label={}];", quoted(&op.kind)));
            for name in op.input_vars() {
                line(
                    dot,
                    indent,
                    &format!("{} -> {id};", var_id(self.owner(block.idx, name), name)),
                );
            }
            for name in op.output_vars() {
                line(
                    dot,
                    indent,
                    &format!("{id} -> {};", var_id(self.owner(block.idx, name), name)),
                );
            }
        }
    }

    /// The block that declares `name`, seen from block `idx`; `idx` itself when none does.
    fn owner(&self, idx: usize, name: &str) -> usize {
        let mut next = Some(idx);
        while let Some(block) = next.and_then(|idx| self.blocks.get(idx)) {
            if block.var(name).is_some() {
                return block.idx;
            }
            next = block.parent.filter(|parent| *parent < block.idx);
        }
        idx
    }
}

fn line(dot: &mut String, indent: &str, text: &str) {
    writeln!(dot, "{indent}{text}").expect("writing to a string does not fail");
}

fn var_id(block: usize, name: &str) -> String {
    quoted(&format!("{block}:{name}"))
}

fn label(var: &Var) -> String {
    let shape: Vec<String> = var.shape.iter().map(i64::to_string).collect();
    quoted(&format!("{}\n{} [{}]", var.name, var.dtype, shape.join(", ")))
}

/// A Graphviz string.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Op};

    #[test]
    fn draws_a_parameter_filled_and_ops_as_boxes() {
        let mut program = Program::new();
        let global = program.global_mut();
        global.add_var(Var::tensor("x", DType::F32, [-1, 2]));
        global.add_var(Var::parameter("w", DType::F32, [2, 1]));
        global.add_var(Var::tensor("y", DType::F32, [-1, 1]));
        global.add_var(Var::tensor("unused", DType::F32, [1]));
        global.ops.push(Op::new("mul").input("X", ["x"]).input("Y", ["w"]).output("Out", ["y"]));
        expect_test::expect![[r#"
            digraph program {
              node [fontname="sans-serif", fontsize=10];
              "0:x" [shape=ellipse, label="x\nfloat32 [-1, 2]"];
              "0:w" [shape=ellipse, label="w\nfloat32 [2, 1]", style=filled, fillcolor=lightgrey];
              "0:y" [shape=ellipse, label="y\nfloat32 [-1, 1]"];
              op_0_0 [shape=box, label="mul"];
              "0:x" -> op_0_0;
              "0:w" -> op_0_0;
              op_0_0 -> "0:y";
            }
        "#]]
        .assert_eq(&program.to_dot());
    }

    #[test]
    fn quotes_what_graphviz_would_misread() {
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
    }
}
