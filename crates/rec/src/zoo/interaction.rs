//! How models relate features with each other: factorisation, crosses, products, attention.

use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, LayerNorm, Linear, ParamAttr};
use bireme_engine::regularizer::Regularizer;

use super::perceptron::activate;
use crate::Result;

/// Rendle's factorisation machine: the sum of the products of all pairs of fields, `[batch, 1]`,
/// from embeddings `[batch, fields, width]`. Half of the squared sum less the sum of squares.
pub(super) fn factorise(fields: &Variable) -> Result<Variable> {
    let squared_sum = layers::square(&layers::reduce_sum(fields, &[1], false)?)?;
    let sum_of_squares = layers::reduce_sum(&layers::square(fields)?, &[1], false)?;
    let pairs = layers::elementwise_sub(&squared_sum, &sum_of_squares)?;
    Ok(layers::scale(&layers::reduce_sum(&pairs, &[1], true)?, 0.5, 0.0)?)
}

/// The field-aware factorisation machine, `[batch, 1]`: each field has an embedding for every other
/// field, `[batch, fields, fields * width]`; the product of fields i and j is that of what i has
/// for j and what j has for i.
pub(super) fn factorise_by_field(embeddings: &Variable, fields: usize) -> Result<Variable> {
    let width = embeddings.shape()[2] / fields as i64;
    let each = [-1, fields as i32, fields as i32, width as i32];
    let each = layers::reshape(embeddings, &each)?;
    let swapped = layers::transpose(&each, &[0, 2, 1, 3])?;
    let products = layers::reduce_sum(&layers::elementwise_mul(&each, &swapped)?, &[3], false)?;
    let products = layers::reshape(&products, &[-1, (fields * fields) as i32])?;
    // Every pair stands there twice, and every field with itself: count those with i < j.
    let above = |at: usize| f32::from(u8::from(at / fields < at % fields));
    let counted: Vec<f32> = (0..fields * fields).map(above).collect();
    let counted = constant(embeddings.graph(), [(fields * fields) as i64, 1], counted)?;
    Ok(layers::matmul(&products, &counted)?)
}

/// One layer of the cross network (Wang et al., 2017): `x0 (x · w) + b + x`.
pub(super) fn cross(
    x0: &Variable,
    x: &Variable,
    initial: &Initializer,
    l2: f32,
) -> Result<Variable> {
    let width = x.shape()[1];
    let weight = decayed(ParamAttr::from(initial.clone()), l2);
    let weight = parameter(x.graph(), "cross.w", &weight, [width, 1])?;
    let bias = parameter(x.graph(), "cross.b", &ParamAttr::from(initial.clone()), [width])?;
    let weighted = layers::elementwise_mul(x0, &layers::matmul(x, &weight)?)?;
    Ok(layers::elementwise_add(&layers::elementwise_add(&weighted, &bias)?, x)?)
}

/// One layer of the second cross network (Wang et al., 2020): `x0 ⊙ (W x + b) + x`.
pub(super) fn cross_full(x0: &Variable, x: &Variable, l2: f32) -> Result<Variable> {
    let weight = decayed(ParamAttr::default(), l2);
    let inner = Linear::new(x.shape()[1]).param_attr(weight).apply(x)?;
    Ok(layers::elementwise_add(&layers::elementwise_mul(x0, &inner)?, x)?)
}

/// The layers of the second cross network as mixtures of low-rank experts, which share one gate:
/// expert e is `x0 ⊙ (U_e tanh(C_e tanh(V_e x)) + b)`.
pub(super) fn cross_mixture(
    x0: &Variable,
    layers_count: usize,
    experts: usize,
    rank: usize,
    l2: f32,
) -> Result<Variable> {
    let (graph, width) = (x0.graph(), x0.shape()[1]);
    let attr = decayed(ParamAttr::from(Initializer::Xavier(Default::default())), l2);
    let project = |x: &Variable, shape: [i64; 2]| -> Result<Variable> {
        Ok(layers::matmul(x, &parameter(graph, "cross_mixture.w", &attr, shape)?)?)
    };
    let gate = Linear::new(experts as i64).param_attr("cross_gate.w").bias_attr("cross_gate.b");
    let rank = rank as i64;
    let mut x = x0.clone();
    for _ in 0..layers_count {
        let zero = ParamAttr::from(Initializer::Constant(0.0));
        let bias = parameter(graph, "cross_mixture.b", &zero, [width])?;
        let shares = layers::split(&layers::softmax(&gate.apply(&x)?)?, experts, 1)?;
        let mut mixed = Vec::with_capacity(experts);
        for share in &shares {
            let low = layers::tanh(&project(&x, [width, rank])?)?;
            let low = layers::tanh(&project(&low, [rank, rank])?)?;
            let inner = layers::elementwise_add(&project(&low, [rank, width])?, &bias)?;
            mixed.push(layers::elementwise_mul(&inner, share)?);
        }
        let mixed = layers::sum(&mixed.iter().collect::<Vec<_>>())?;
        x = layers::elementwise_add(&layers::elementwise_mul(x0, &mixed)?, &x)?;
    }
    Ok(x)
}

/// The compressed interaction network (Lian et al., 2018): layer by layer, products of the fields
/// with the layer before, compressed to `sizes` vectors each; returns the sums of all of them,
/// `[batch, sum of sizes]`.
pub(super) fn compressed(fields: &Variable, sizes: &[usize]) -> Result<Variable> {
    let shape = fields.shape();
    let (count, width) = (shape[1] as i32, shape[2] as i32);
    // Fields last, so that compressing is one product of matrices.
    let first = layers::transpose(fields, &[0, 2, 1])?;
    let base = layers::reshape(&first, &[-1, width, count, 1])?;
    let (mut before, mut before_count) = (first, count);
    let mut sums = Vec::with_capacity(sizes.len());
    for size in sizes {
        let other = layers::reshape(&before, &[-1, width, 1, before_count])?;
        let products = layers::elementwise_mul(&base, &other)?;
        let products = layers::reshape(&products, &[-1, width, count * before_count])?;
        before = Linear::new(*size as i64).apply(&products)?;
        before_count = *size as i32;
        sums.push(layers::reduce_sum(&before, &[1], false)?);
    }
    Ok(layers::concat(&sums.iter().collect::<Vec<_>>(), 1)?)
}

/// The product of every two fields, `[batch, fields (fields - 1) / 2]`, from embeddings
/// `[batch, fields, width]`.
pub(super) fn products(fields: &Variable) -> Result<Variable> {
    let count = fields.shape()[1] as usize;
    let all = layers::matmul_transposed(fields, fields, false, true)?;
    let all = layers::reshape(&all, &[-1, (count * count) as i32])?;
    let above = (0..count).flat_map(|row| (row + 1..count).map(move |column| (row, column)));
    let places: Vec<i64> = above.map(|(row, column)| (row * count + column) as i64).collect();
    let places = constant_ids(fields.graph(), places)?;
    let picked = layers::op(fields.graph(), "index_select");
    Ok(picked.input("X", &all).input("Index", &places).attr("dim", 1).output("Out")?)
}

/// What a layer of self-attention between fields is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attention {
    pub(super) size: usize,
    pub(super) heads: usize,
    pub(super) residual: bool,
    pub(super) scaling: bool,
}

impl Attention {
    /// Appends the layer (Song et al., 2019): each field, `[batch, fields, width]`, becomes a mixture
    /// of all, in each of several heads.
    pub(super) fn apply(&self, fields: &Variable) -> Result<Variable> {
        let (count, head) = (fields.shape()[1] as i32, (self.size / self.heads) as i32);
        let project = || -> Result<Variable> {
            activate(&Linear::new(self.size as i64).no_bias().apply(fields)?, Act::Relu)
        };
        let heads = |x: Variable| -> Result<Variable> {
            let each = layers::reshape(&x, &[-1, count, self.heads as i32, head])?;
            Ok(layers::transpose(&each, &[0, 2, 1, 3])?)
        };
        let (query, key, value) = (heads(project()?)?, heads(project()?)?, heads(project()?)?);
        let mut scores = layers::matmul_transposed(&query, &key, false, true)?;
        if self.scaling {
            scores = layers::scale(&scores, 1.0 / (head as f32).sqrt(), 0.0)?;
        }
        let mixed = layers::matmul(&layers::softmax(&scores)?, &value)?;
        let mixed = layers::transpose(&mixed, &[0, 2, 1, 3])?;
        let mut mixed = layers::reshape(&mixed, &[-1, count, self.size as i32])?;
        if self.residual {
            mixed = layers::elementwise_add(&mixed, &project()?)?;
        }
        let norm = LayerNorm { begin_norm_axis: 2, epsilon: 1e-8, ..LayerNorm::default() };
        Ok(norm.apply(&layers::relu(&mixed)?)?)
    }
}

fn decayed(attr: ParamAttr, l2: f32) -> ParamAttr {
    if l2 > 0.0 { attr.regularizer(Regularizer::L2(l2)) } else { attr }
}

fn parameter(
    graph: &Graph,
    prefix: &str,
    attr: &ParamAttr,
    shape: impl Into<Vec<i64>>,
) -> Result<Variable> {
    let default = Initializer::default_weight();
    Ok(layers::create_parameter(graph, attr, prefix, shape, DType::F32, &default)?)
}

/// Numbers that are part of the program.
fn constant(graph: &Graph, shape: [i64; 2], values: Vec<f32>) -> Result<Variable> {
    let shape = shape.map(|size| size as i32).to_vec();
    let call = layers::op(graph, "assign_value").attr("shape", shape);
    let out = call.attr("dtype", DType::F32.code()).attr("fp32_values", values).output("Out")?;
    out.set_stop_gradient(true);
    Ok(out)
}

/// Places that are part of the program.
fn constant_ids(graph: &Graph, values: Vec<i64>) -> Result<Variable> {
    let call = layers::op(graph, "assign_value").attr("shape", vec![values.len() as i32]);
    let out = call.attr("dtype", DType::I64.code()).attr("int64_values", values).output("Out")?;
    out.set_stop_gradient(true);
    Ok(out)
}
