//! `mul` (or `matmul_v2`), `elementwise_add` of a bias, and an activation, as one `fused_fc`.

use std::collections::HashSet;

use bireme_ir::{DType, Op, Program};

use super::pattern::{Edits, Uses, input, output};
use crate::op::OpView;

/// Activations whose gradient needs only their output.
const ACTIVATIONS: [&str; 3] = ["relu", "sigmoid", "tanh"];

/// The ops with every fully connected layer in one piece.
pub(super) fn fuse(ops: Vec<Op>, program: &Program, kept: &HashSet<&str>) -> Vec<Op> {
    let uses = Uses::new(&ops, program, kept);
    let mut edits = Edits::default();
    for at in 0..ops.len() {
        if let Some(layer) = Layer::find(&ops, &uses, program, at) {
            layer.replace(&ops, &mut edits);
        }
    }
    edits.apply(ops)
}

/// The ops of one layer, by position.
struct Layer {
    product: usize,
    bias: usize,
    act: Option<usize>,
    /// Gradients of the product, the bias and the activation, in a training step.
    backward: Option<(usize, usize, Option<usize>)>,
    columns_from: i32,
}

impl Layer {
    fn find(ops: &[Op], uses: &Uses<'_>, program: &Program, at: usize) -> Option<Layer> {
        let (x, w, columns_from) = product(&ops[at], program)?;
        let product_out = output(&ops[at], "Out")?;
        let bias = uses.reader_of_kind(product_out, "elementwise_add", "X")?;
        let bias_var = input(&ops[bias], "Y")?;
        if !is_row(program, bias_var, w) || !bias_axis_fits(&ops[bias], columns_from) {
            return None;
        }
        let sum = output(&ops[bias], "Out")?;
        let act = ACTIVATIONS
            .iter()
            .find_map(|act| uses.reader_of_kind(sum, act, "X"))
            .filter(|act| uses.inner(sum, &[*act]));
        let mut layer = Layer { product: at, bias, act, backward: None, columns_from };
        let last = act.unwrap_or(bias);
        if [x, w, bias_var].iter().any(|var| uses.written_between(var, at, last)) {
            return None;
        }
        let out = output(&ops[last], "Out")?;
        let grads = |kind: &str| uses.reader_of_kind(product_out, kind, "X");
        let Some(bias_grad) = grads("elementwise_add_grad") else {
            // Inference, or a layer that gradients do not reach.
            return uses.inner(product_out, &[bias]).then_some(layer);
        };
        let kind = format!("{}_grad", ops[at].kind);
        let product_grad =
            uses.reader_of_kind(output(&ops[bias_grad], "X@GRAD")?, &kind, "Out@GRAD")?;
        if !uses.inner(product_out, &[bias, bias_grad]) {
            return None;
        }
        let act_grad = match act {
            None => None,
            Some(act) => {
                let grad = format!("{}_grad", ops[act].kind);
                Some(uses.reader_of_kind(out, &grad, "Out")?)
            }
        };
        layer.backward = Some((product_grad, bias_grad, act_grad));
        (layer.gradients_are_inner(ops, uses) && input(&ops[product_grad], "X")? == x)
            .then_some(layer)
    }

    /// Whether the gradients between the layer's ops stay between them.
    fn gradients_are_inner(&self, ops: &[Op], uses: &Uses<'_>) -> bool {
        let Some((product_grad, bias_grad, act_grad)) = self.backward else { return true };
        let Some(dproduct) = output(&ops[bias_grad], "X@GRAD") else { return false };
        let dsum = input(&ops[bias_grad], "Out@GRAD");
        let act_fits = act_grad.is_none_or(|act_grad| {
            output(&ops[act_grad], "X@GRAD") == dsum
                && dsum.is_some_and(|dsum| uses.inner(dsum, &[bias_grad]))
        });
        act_fits && uses.inner(dproduct, &[product_grad])
    }

    fn replace(&self, ops: &[Op], edits: &mut Edits) {
        let forward: Vec<usize> =
            [Some(self.product), Some(self.bias), self.act].into_iter().flatten().collect();
        if forward.iter().any(|at| edits.taken(*at)) {
            return;
        }
        let last = &ops[self.act.unwrap_or(self.bias)];
        let act = self.act.map_or("", |act| ops[act].kind.as_str());
        let slot = |op: usize, slot: &str| ops[op].inputs_of(slot).to_vec();
        let mut fused = Op::new("fused_fc")
            .input("X", slot(self.product, "X"))
            .input("W", slot(self.product, "Y"))
            .input("Bias", slot(self.bias, "Y"))
            .output("Out", last.outputs_of("Out").to_vec())
            .attr("x_num_col_dims", self.columns_from)
            .attr("act", act);
        fused.site.clone_from(&ops[self.product].site);
        if let Some((product_grad, bias_grad, act_grad)) = self.backward {
            let first = act_grad.unwrap_or(bias_grad);
            let mut grad = Op::new("fused_fc_grad")
                .input("X", slot(self.product, "X"))
                .input("W", slot(self.product, "Y"))
                .input("Bias", slot(self.bias, "Y"))
                .input("Out@GRAD", slot(first, "Out@GRAD"))
                .output("X@GRAD", ops[product_grad].outputs_of("X@GRAD").to_vec())
                .output("W@GRAD", ops[product_grad].outputs_of("Y@GRAD").to_vec())
                .output("Bias@GRAD", ops[bias_grad].outputs_of("Y@GRAD").to_vec())
                .attr("x_num_col_dims", self.columns_from)
                .attr("act", act);
            if self.act.is_some() {
                grad = grad.input("Out", last.outputs_of("Out").to_vec());
            }
            grad.site.clone_from(&ops[self.product].site);
            let backward: Vec<usize> =
                [Some(product_grad), Some(bias_grad), act_grad].into_iter().flatten().collect();
            // All it reads is there when the first of the three runs.
            edits.replace(&backward, first, grad);
        }
        edits.replace(&forward, self.act.unwrap_or(self.bias), fused);
    }
}

/// Input, weight and column split of an op that multiplies rows by a weight matrix.
fn product<'o>(op: &'o Op, program: &Program) -> Option<(&'o str, &'o str, i32)> {
    let view = OpView::new(op).ok()?;
    let (x, w) = (input(op, "X")?, input(op, "Y")?);
    let (x_var, w_var) = (program.global().var(x)?, program.global().var(w)?);
    if w_var.shape.len() != 2 || w_var.dtype != DType::F32 || !w_var.persistable {
        return None;
    }
    match op.kind.as_str() {
        "mul" if view.i64("y_num_col_dims").ok()? == 1 => {
            Some((x, w, i32::try_from(view.i64("x_num_col_dims").ok()?).ok()?))
        }
        "matmul_v2" if !view.bool("trans_x").ok()? && !view.bool("trans_y").ok()? => {
            let rank = i32::try_from(x_var.shape.len()).ok()?;
            (rank >= 2).then_some((x, w, rank - 1))
        }
        _ => None,
    }
}

/// Whether `bias` is one number for each column of weight `w`.
fn is_row(program: &Program, bias: &str, w: &str) -> bool {
    let shape = |var: &str| program.global().var(var).map(|var| var.shape.clone());
    match (shape(bias).as_deref(), shape(w).as_deref()) {
        (Some([columns]), Some([_, n])) => columns == n,
        _ => false,
    }
}

fn bias_axis_fits(op: &Op, columns_from: i32) -> bool {
    let axis = OpView::new(op).and_then(|view| view.i64("axis")).unwrap_or(-1);
    axis == -1 || axis == i64::from(columns_from)
}
