//! `mul` (or `matmul_v2`), `elementwise_add` of a bias, and an activation, as one `fused_fc`.
//!
//! The last layer of a net in mixed precision has one column, the logit, which is widened for the loss; its gradient is
//! narrowed again. Both casts are taken in: a number a sample is little work, but a launch of its own on a card.

use bireme_ir::{DType, Op};

use super::pattern::{Edits, Uses};
use crate::op::{ROUND_FACTORS, is_half};
use crate::plan::select::{SelectedOp, VarId};

/// Activations whose gradient needs only their output.
const ACTIVATIONS: [&str; 3] = ["relu", "sigmoid", "tanh"];

/// Takes every fully connected layer as one piece.
pub(super) fn fuse(uses: &Uses<'_>, edits: &mut Edits) {
    for at in 0..uses.ops.len() {
        if let Some(layer) = Layer::find(uses, at) {
            layer.replace(uses, edits);
        }
    }
}

/// The ops of one layer, by position.
struct Layer {
    product: usize,
    bias: usize,
    act: Option<usize>,
    /// Gradients of the product, the bias and the activation, in a training step.
    backward: Option<(usize, usize, Option<usize>)>,
    columns_from: i32,
    /// The cast of the only column to 32 bits, and that of its gradient to 16.
    widened: Option<usize>,
    narrowed: Option<usize>,
}

impl Layer {
    fn find(uses: &Uses<'_>, at: usize) -> Option<Layer> {
        let ops = uses.ops;
        let (x, w, columns_from) = product(&ops[at], uses)?;
        let product_out = ops[at].output("Out")?;
        let bias = uses.reader_of_kind(product_out, "elementwise_add", "X")?;
        let bias_var = ops[bias].input("Y")?;
        if !is_row(uses, bias_var, w) || !bias_axis_fits(&ops[bias], columns_from) {
            return None;
        }
        let sum = ops[bias].output("Out")?;
        let act = ACTIVATIONS
            .iter()
            .find_map(|act| uses.reader_of_kind(sum, act, "X"))
            .filter(|act| uses.inner(sum, &[*act]));
        let mut layer = Layer {
            product: at,
            bias,
            act,
            backward: None,
            columns_from,
            widened: None,
            narrowed: None,
        };
        let is_logit = act.is_none() && matches!(uses.var(w).shape(), [_, 1]);
        layer.widened = widening(uses, sum).filter(|_| is_logit);
        let last = layer.last();
        // The layer reads everything where its last op stands.
        let changes = |var: VarId, from: usize| uses.written_between(var, from, last);
        if changes(x, at) || changes(w, at) || changes(bias_var, bias) {
            return None;
        }
        let out = ops[act.unwrap_or(bias)].output("Out")?;
        let grads = |kind: &str| uses.reader_of_kind(product_out, kind, "X");
        let Some(bias_grad) = grads("elementwise_add_grad") else {
            // Inference, or a layer that gradients do not reach.
            return uses.inner(product_out, &[bias]).then_some(layer);
        };
        let kind = format!("{}_grad", ops[at].op.kind);
        let product_grad =
            uses.reader_of_kind(ops[bias_grad].output("X@GRAD")?, &kind, "Out@GRAD")?;
        if !uses.inner(product_out, &[bias, bias_grad]) {
            return None;
        }
        let act_grad = match act {
            None => None,
            Some(act) => {
                let grad = format!("{}_grad", ops[act].op.kind);
                Some(uses.reader_of_kind(out, &grad, "Out")?)
            }
        };
        layer.backward = Some((product_grad, bias_grad, act_grad));
        layer.narrowed =
            narrowing(uses, ops[bias_grad].input("Out@GRAD")?, bias_grad).filter(|_| is_logit);
        (layer.gradients_are_inner(uses) && ops[product_grad].input("X")? == x).then_some(layer)
    }

    /// The last of its ops before the gradients.
    fn last(&self) -> usize {
        self.widened.or(self.act).unwrap_or(self.bias)
    }

    /// Whether the gradients between the layer's ops stay between them.
    fn gradients_are_inner(&self, uses: &Uses<'_>) -> bool {
        let ops = uses.ops;
        let Some((product_grad, bias_grad, act_grad)) = self.backward else { return true };
        let Some(dproduct) = ops[bias_grad].output("X@GRAD") else { return false };
        let dsum = ops[bias_grad].input("Out@GRAD");
        let act_fits = act_grad.is_none_or(|act_grad| {
            ops[act_grad].output("X@GRAD") == dsum
                && dsum.is_some_and(|dsum| uses.inner(dsum, &[bias_grad]))
        });
        act_fits && uses.inner(dproduct, &[product_grad])
    }

    fn replace(&self, uses: &Uses<'_>, edits: &mut Edits) {
        let ops = uses.ops;
        let forward = [Some(self.product), Some(self.bias), self.act, self.widened];
        let forward: Vec<usize> = forward.into_iter().flatten().collect();
        if forward.iter().any(|at| edits.taken(*at)) {
            return;
        }
        let (product, bias) = (&ops[self.product], &ops[self.bias]);
        let out = ops[self.last()].outputs_of("Out");
        let act = self.act.map_or("", |act| ops[act].op.kind.as_str());
        let layer = |kind: &str| {
            let op = Op::new(kind).attr("x_num_col_dims", self.columns_from).attr("act", act);
            match product.op.attrs.contains_key(ROUND_FACTORS) {
                true => op.attr(ROUND_FACTORS, true),
                false => op,
            }
        };
        let mut read = vec![
            ("X", product.inputs_of("X")),
            ("W", product.inputs_of("Y")),
            ("Bias", bias.inputs_of("Y")),
        ];
        let out_dtype = self.widened.map_or(-1, |_| DType::F32.code());
        let op = layer("fused_fc").attr("out_dtype", out_dtype);
        let fused = uses.selection.op(op, product, &read, &[("Out", out)]);
        if let Some((product_grad, bias_grad, act_grad)) = self.backward {
            let first = act_grad.unwrap_or(bias_grad);
            read.push(match self.narrowed {
                Some(cast) => ("Out@GRAD", ops[cast].inputs_of("X")),
                None => ("Out@GRAD", ops[first].inputs_of("Out@GRAD")),
            });
            if self.act.is_some() {
                read.push(("Out", out));
            }
            let params = ParamGrads::of(
                uses,
                ops[product_grad].outputs_of("Y@GRAD"),
                ops[bias_grad].outputs_of("Y@GRAD"),
            );
            let written = [
                ("X@GRAD", ops[product_grad].outputs_of("X@GRAD")),
                ("W@GRAD", &params.weight[..]),
                ("Bias@GRAD", &params.bias[..]),
            ];
            let op = layer("fused_fc_grad").attr("param_grad_dtype", params.dtype);
            let grad = uses.selection.op(op, product, &read, &written);
            let mut backward: Vec<usize> =
                [Some(product_grad), Some(bias_grad), act_grad].into_iter().flatten().collect();
            backward.extend(params.casts);
            backward.extend(self.narrowed);
            // All it reads is there when the first of the three runs.
            edits.replace(&backward, first, grad);
        }
        edits.replace(&forward, self.last(), fused);
    }
}

/// Where the gradients of weight and bias go: in 32 bits at once, where all that is done with 16 bits is to widen them.
struct ParamGrads {
    weight: Vec<VarId>,
    bias: Vec<VarId>,
    casts: Vec<usize>,
    /// Their type, -1 for that of weight and bias.
    dtype: i32,
}

impl ParamGrads {
    fn of(uses: &Uses<'_>, weight: &[VarId], bias: &[VarId]) -> ParamGrads {
        let both: Vec<VarId> = weight.iter().chain(bias).copied().collect();
        let casts: Option<Vec<usize>> = both.iter().map(|var| widening(uses, *var)).collect();
        let Some(casts) = casts.filter(|casts| !casts.is_empty()) else {
            return ParamGrads {
                weight: weight.to_vec(),
                bias: bias.to_vec(),
                casts: Vec::new(),
                dtype: -1,
            };
        };
        let wide: Vec<VarId> =
            casts.iter().flat_map(|at| uses.ops[*at].outputs_of("Out")).copied().collect();
        let (weight, bias) = wide.split_at(weight.len());
        let dtype = DType::F32.code();
        ParamGrads { weight: weight.to_vec(), bias: bias.to_vec(), casts, dtype }
    }
}

/// The cast to 32 bits that is all that reads `var`, of 16 bits.
fn widening(uses: &Uses<'_>, var: VarId) -> Option<usize> {
    if !is_half(uses.var(var).declared.as_ref()?.dtype) {
        return None;
    }
    let cast = uses.reader_of_kind(var, "cast", "X")?;
    let is_wide = uses.ops[cast].view().dtype("out_dtype").ok()? == DType::F32;
    (is_wide && uses.inner(var, &[cast])).then_some(cast)
}

/// The cast from 32 bits that makes `var`, of 16 bits, for `reader` alone.
fn narrowing(uses: &Uses<'_>, var: VarId, reader: usize) -> Option<usize> {
    let cast = uses.writer(var).filter(|at| uses.ops[*at].op.kind == "cast")?;
    let wide = uses.var(uses.ops[cast].input("X")?).declared.as_ref()?;
    let narrow = uses.var(var).declared.as_ref()?;
    let fits = wide.dtype == DType::F32 && is_half(narrow.dtype) && uses.inner(var, &[reader]);
    let is_as_it_was = !uses.written_between(uses.ops[cast].input("X")?, cast, reader);
    (fits && is_as_it_was).then_some(cast)
}

/// Input, weight and column split of an op that multiplies rows by a weight matrix.
fn product(op: &SelectedOp, uses: &Uses<'_>) -> Option<(VarId, VarId, i32)> {
    let view = op.view();
    let (x, w) = (op.input("X")?, op.input("Y")?);
    let (x_var, w_var) = (uses.var(x).declared.as_ref()?, uses.var(w).declared.as_ref()?);
    let is_float = w_var.dtype == DType::F32 || is_half(w_var.dtype);
    if w_var.shape.len() != 2 || !is_float || x_var.dtype != w_var.dtype || !is_weight(uses, w) {
        return None;
    }
    match op.op.kind.as_str() {
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

/// Whether `var` outlives the step, or is such a variable in another type.
fn is_weight(uses: &Uses<'_>, var: VarId) -> bool {
    let cast_from = |at: usize| {
        let op = &uses.ops[at];
        (op.op.kind == "cast").then(|| op.input("X")).flatten()
    };
    let persists = |var: VarId| uses.var(var).persists();
    persists(var) || uses.writer(var).and_then(cast_from).is_some_and(persists)
}

/// Whether `bias` is one number for each column of weight `w`.
fn is_row(uses: &Uses<'_>, bias: VarId, w: VarId) -> bool {
    let dtype = |var: VarId| uses.var(var).declared.as_ref().map(|var| var.dtype);
    dtype(bias) == dtype(w)
        && matches!((uses.var(bias).shape(), uses.var(w).shape()), ([columns], [_, n]) if columns == n)
}

fn bias_axis_fits(op: &SelectedOp, columns_from: i32) -> bool {
    let axis = op.view().i64("axis").unwrap_or(-1);
    axis == -1 || axis == i64::from(columns_from)
}
