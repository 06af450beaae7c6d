//! A formula: what an op computes, written as other ops. The gradient of a gradient op follows from
//! its formula (`autodiff`), so that nobody derives second derivatives by hand.

use bireme_ir::{Attr, Block, Op};

use super::OpView;
use crate::{Error, Result};

/// The ops of a formula, under construction.
pub struct Formula<'a> {
    view: &'a OpView<'a>,
    /// Where the variables of the op are declared.
    block: &'a Block,
    ops: Vec<Op>,
    /// Values that do not change smoothly with the op's inputs, or whose change does not count.
    constants: Vec<String>,
    next: usize,
}

impl<'a> Formula<'a> {
    /// An empty formula of the op of `view`, whose variables `block` declares.
    pub(crate) fn new(view: &'a OpView<'a>, block: &'a Block) -> Formula<'a> {
        Formula { view, block, ops: Vec::new(), constants: Vec::new(), next: 0 }
    }

    /// Its ops, and the variables that count as constants.
    pub(crate) fn finish(self) -> (Vec<Op>, Vec<String>) {
        (self.ops, self.constants)
    }

    /// The op whose formula it is.
    pub fn op(&self) -> &'a OpView<'a> {
        self.view
    }

    /// The type of the op.
    pub fn kind(&self) -> &'static str {
        self.view.def.name
    }

    /// The attributes of the op.
    pub fn attrs(&self) -> Vec<(&'a str, Attr)> {
        let attrs = self.view.op.attrs.iter().filter(|(name, _)| !name.starts_with("op_"));
        attrs.map(|(name, value)| (name.as_str(), value.clone())).collect()
    }

    /// The variable in input slot `slot`.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn input(&self, slot: &str) -> Result<String> {
        let found = self.view.op.inputs_of(slot).first().cloned();
        found.ok_or_else(|| Error::kernel(format!("input slot `{slot}` is empty")))
    }

    /// Whether the op has something in input slot `slot`.
    pub fn has(&self, slot: &str) -> bool {
        !self.view.op.inputs_of(slot).is_empty()
    }

    /// Whether the op writes output slot `slot`.
    pub fn wants(&self, slot: &str) -> bool {
        !self.view.op.outputs_of(slot).is_empty()
    }

    /// The rank of the variable in input slot `slot`.
    ///
    /// # Errors
    /// When the slot is empty, or its variable is not declared.
    pub fn rank(&self, slot: &str) -> Result<usize> {
        let name = self.input(slot)?;
        let var = self.block.var(&name);
        Ok(var.ok_or_else(|| Error::kernel(format!("`{name}` is not declared")))?.shape.len())
    }

    /// Appends an op that writes a new variable in its slot `Out`, and returns that.
    pub fn apply(&mut self, kind: &str, inputs: &[(&str, &str)], attrs: &[(&str, Attr)]) -> String {
        self.apply_to(kind, inputs, attrs, "Out")
    }

    /// As [`Formula::apply`], with the variable in output slot `slot`.
    pub fn apply_to(
        &mut self,
        kind: &str,
        inputs: &[(&str, &str)],
        attrs: &[(&str, Attr)],
        slot: &str,
    ) -> String {
        let out = format!("t{}", self.next);
        self.next += 1;
        let mut op = Op::new(kind).output(slot, [out.as_str()]);
        for (slot, var) in inputs {
            op = op.input(slot, [*var]);
        }
        for (name, value) in attrs {
            op = op.attr(name, value.clone());
        }
        self.ops.push(op);
        out
    }

    /// `f(x)` of an op with one input.
    pub fn unary(&mut self, kind: &str, x: &str) -> String {
        self.apply(kind, &[("X", x)], &[])
    }

    /// A function of two operands, of which the second is repeated from axis -1.
    pub fn binary(&mut self, kind: &str, x: &str, y: &str) -> String {
        self.apply(kind, &[("X", x), ("Y", y)], &[])
    }

    /// `x * y`.
    pub fn mul(&mut self, x: &str, y: &str) -> String {
        self.binary("elementwise_mul", x, y)
    }

    /// `x + y`.
    pub fn add(&mut self, x: &str, y: &str) -> String {
        self.binary("elementwise_add", x, y)
    }

    /// `x - y`.
    pub fn sub(&mut self, x: &str, y: &str) -> String {
        self.binary("elementwise_sub", x, y)
    }

    /// `x / y`.
    pub fn div(&mut self, x: &str, y: &str) -> String {
        self.binary("elementwise_div", x, y)
    }

    /// `factor * x + bias`.
    pub fn affine(&mut self, x: &str, factor: f64, bias: f64) -> String {
        let attrs = [("scale", Attr::Float(factor as f32)), ("bias", Attr::Float(bias as f32))];
        self.apply("scale", &[("X", x)], &attrs)
    }

    /// `x` to the power of a number.
    pub fn pow(&mut self, x: &str, exponent: f64) -> String {
        self.apply("pow", &[("X", x)], &[("factor", Attr::Float(exponent as f32))])
    }

    /// As many times `value` as `x` has elements.
    pub fn filled_like(&mut self, x: &str, value: f32) -> String {
        let made = self.apply("fill_any_like", &[("X", x)], &[("value", Attr::Float(value))]);
        self.constant(&made);
        made
    }

    /// 1 where a comparison of `x` and `y` holds, 0 elsewhere, in the type of output `like`.
    ///
    /// # Errors
    /// When `like` is not declared.
    pub fn mask(&mut self, comparison: &str, x: &str, y: &str, like: &str) -> Result<String> {
        self.mask_along(comparison, x, y, Attr::Int(-1), like)
    }

    /// As [`Formula::mask`], with the operands along axis `axis`.
    ///
    /// # Errors
    /// When `like` is not declared.
    pub fn mask_along(
        &mut self,
        comparison: &str,
        x: &str,
        y: &str,
        axis: Attr,
        like: &str,
    ) -> Result<String> {
        let holds = self.apply(comparison, &[("X", x), ("Y", y)], &[("axis", axis)]);
        let var = self.block.var(like);
        let dtype = var.ok_or_else(|| Error::kernel(format!("`{like}` is not declared")))?.dtype;
        let types = [
            ("in_dtype", Attr::Int(bireme_ir::DType::Bool.code())),
            ("out_dtype", Attr::Int(dtype.code())),
        ];
        let mask = self.apply("cast", &[("X", holds.as_str())], &types);
        self.constant(&mask);
        Ok(mask)
    }

    /// The sum along axes.
    pub fn sum(&mut self, x: &str, axes: &[i32], keep: bool) -> String {
        self.reduce("reduce_sum", x, axes, keep)
    }

    /// A reduction along axes.
    pub fn reduce(&mut self, kind: &str, x: &str, axes: &[i32], keep: bool) -> String {
        let attrs = [("dim", Attr::Ints(axes.to_vec())), ("keep_dim", Attr::Bool(keep))];
        self.apply(kind, &[("X", x)], &attrs)
    }

    /// What a reduction of `x` along the axes in `attrs` made, or the gradient of that, repeated to the shape of `x`.
    pub fn spread(&mut self, x: &str, reduced: &str, attrs: &[(&str, Attr)]) -> String {
        self.apply_to("reduce_sum_grad", &[("X", x), ("Out@GRAD", reduced)], attrs, "X@GRAD")
    }

    /// `value`, which has the shape that `x` and `y` have together, summed to the shape of one of them.
    pub fn summed_to(&mut self, which: &str, x: &str, y: &str, value: &str, axis: Attr) -> String {
        let inputs = [("X", x), ("Y", y), ("Out@GRAD", value)];
        self.apply_to("elementwise_add_grad", &inputs, &[("axis", axis)], which)
    }

    /// Lets nothing depend on how `var` came about.
    pub fn constant(&mut self, var: &str) {
        self.constants.push(var.to_owned());
    }

    /// Says that `value` is what the op writes into output slot `slot`.
    pub fn give(&mut self, slot: &str, value: &str) {
        let Some(out) = self.view.op.outputs_of(slot).first() else { return };
        let op = Op::new("assign").input("X", [value]).output("Out", [out.as_str()]);
        self.ops.push(op);
    }
}
