//! An Einstein sum as one stack of matrix products.
//!
//! Each operand is first summed over the axes that only it has, and put in order: `[stack, rows,
//! inner]` on the left, `[stack, inner, columns]` on the right. The stack is what both have in
//! common with the output; the inner axes are those that only the operands have. The product is
//! then put in the order of the output. A single operand has rows only.

use super::equation::{Label, Labels, is_unnamed};
use crate::gemm::{Matrix, Order, gemm};
use crate::ops::prelude::*;
use crate::ops::shape::strided_walk::StridedWalk;

/// One axis on two sides: its size, and its strides in a tensor and in the ordered form.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    label: Label,
    /// Elements along it.
    pub size: usize,
    /// How far apart they are on the other side.
    pub stride: isize,
}

/// How an operand is read.
#[derive(Debug)]
pub struct Side {
    /// The operand's own axes, with their strides in the ordered form; 0 where summed.
    pub own: Vec<Axis>,
    /// The axes of the ordered form, with their strides in the operand.
    pub kept: Vec<Axis>,
    /// The axes that are summed, with their strides in the operand.
    pub summed: Vec<Axis>,
    /// Some label stands twice: only a diagonal is read.
    pub is_diagonal: bool,
}

/// The plan of an Einstein sum.
#[derive(Debug)]
pub struct Contraction {
    /// How each operand is read.
    pub sides: Vec<Side>,
    stack: usize,
    m: usize,
    n: usize,
    k: usize,
    /// The output's own axes, with their strides in the product.
    pub out: Vec<Axis>,
    /// The axes of the product, with their strides in the output.
    pub product: Vec<Axis>,
    /// Some label stands twice in the output: only a diagonal is written.
    pub writes_diagonal: bool,
}

/// Memory that is used again every step.
pub(super) struct Scratch {
    walk: StridedWalk,
    wide: Tensor,
    product: Tensor,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        let empty = || Tensor::empty(DType::F32);
        Scratch { walk: StridedWalk::default(), wide: empty(), product: empty() }
    }
}

impl Contraction {
    /// # Errors
    /// When there are more than two operands.
    pub(super) fn new(labels: &Labels, operands: &[Dims]) -> Result<Contraction> {
        if !(1..=2).contains(&operands.len()) {
            let count = operands.len();
            return Err(Error::kernel(format!("takes one or two operands, not {count}")));
        }
        // An unnamed axis of 1 repeats, so it might as well not be there.
        let has = |operand: usize, label: Label| {
            let axes = labels.inputs.get(operand).into_iter().flatten();
            let mut sizes =
                axes.zip(operands.get(operand).into_iter().flat_map(|dims| dims.iter()));
            sizes.any(|(other, size)| *other == label && (*size != 1 || !is_unnamed(label)))
        };
        let pair = operands.len() == 2;
        let choose = |from: &[Label], wanted: &dyn Fn(Label) -> bool| {
            let mut chosen: Vec<Label> = Vec::new();
            for label in from {
                if wanted(*label) && !chosen.contains(label) {
                    chosen.push(*label);
                }
            }
            chosen
        };
        let output = &labels.output;
        let stack = choose(output, &|label| pair && has(0, label) && has(1, label));
        let rows = choose(output, &|label| has(0, label) && !stack.contains(&label));
        let columns = choose(output, &|label| has(1, label) && !stack.contains(&label));
        let inner = choose(&labels.inputs[0], &|label| {
            pair && has(0, label) && has(1, label) && !output.contains(&label)
        });
        let orders =
            [[&stack[..], &rows, &inner].concat(), [&stack[..], &inner, &columns].concat()];
        let sides = operands.iter().zip(&labels.inputs).zip(&orders);
        let sides = sides.map(|((dims, axes), order)| Side::new(axes, dims, order)).collect();
        let count =
            |axes: &[Label]| axes.iter().map(|label| labels.size(*label) as usize).product();
        let out_dims: Vec<usize> = output.iter().map(|l| labels.size(*l) as usize).collect();
        let order = [stack.as_slice(), &rows, &columns].concat();
        let (out, product) = both_ways(output, &Dims::new(&out_dims), &order);
        Ok(Contraction {
            sides,
            stack: count(&stack),
            m: count(&rows),
            n: count(&columns),
            k: count(&inner),
            writes_diagonal: repeats(output),
            out,
            product,
        })
    }

    /// Elements of an operand in order.
    pub fn ordered(&self, operand: usize) -> usize {
        if operand == 0 { self.stack * self.m * self.k } else { self.stack * self.k * self.n }
    }

    /// Whether an operand is in order as it is.
    pub fn is_ordered(&self, operand: usize) -> bool {
        let side = &self.sides[operand];
        side.summed.is_empty() && !side.is_diagonal && is_dense(&side.kept)
    }

    /// The sizes of the products: `[stack, m, n, k]`.
    pub fn sizes(&self) -> [usize; 4] {
        [self.stack, self.m, self.n, self.k]
    }

    /// Whether the product is the output as it is.
    pub fn is_product_ordered(&self) -> bool {
        !self.writes_diagonal && is_dense(&self.product)
    }

    /// Sums an operand over the axes that only it has, and puts it in order.
    ///
    /// # Errors
    /// When its elements are not `T`.
    pub(super) fn order<T: Real>(
        &self,
        operand: usize,
        from: &Tensor,
        to: &mut Tensor,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let side = &self.sides[operand];
        to.resize(T::DTYPE, [self.ordered(operand)]);
        start(&mut scratch.walk, side.kept.iter().chain(&side.summed));
        if side.summed.is_empty() {
            scratch.walk.read(from, to);
            return Ok(());
        }
        let each: usize = side.summed.iter().map(|axis| axis.size).product();
        scratch.wide.resize(T::DTYPE, [to.numel() * each]);
        scratch.walk.read(from, &mut scratch.wide);
        let (wide, to) = (scratch.wide.as_slice::<T>()?, to.as_mut_slice::<T>()?);
        for (i, to) in to.iter_mut().enumerate() {
            *to = sum_of(&wide[i * each..(i + 1) * each], |x| x);
        }
        Ok(())
    }

    /// Computes the output from operands in order.
    ///
    /// # Errors
    /// When elements are not `T`.
    pub(super) fn forward<T: Matrix + Real>(
        &self,
        operands: [Option<&Tensor>; 2],
        out: &mut Tensor,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let [Some(left), right] = operands else {
            return Err(Error::kernel("takes one or two operands"));
        };
        let product = match right {
            None => left,
            Some(right) => {
                let (left, right) = (left.as_slice::<T>()?, right.as_slice::<T>()?);
                let (sizes, direct) = (self.sizes(), self.is_product_ordered());
                let product = if direct { &mut *out } else { &mut scratch.product };
                if !direct {
                    product.resize(T::DTYPE, [self.stack * self.m * self.n]);
                }
                let to = product.as_mut_slice::<T>()?;
                multiply(sizes, to, (left, Order::Plain), (right, Order::Plain));
                if direct {
                    return Ok(());
                }
                &scratch.product
            }
        };
        if self.writes_diagonal {
            start(&mut scratch.walk, &self.product);
            return scratch.walk.add(product, out);
        }
        start(&mut scratch.walk, &self.out);
        scratch.walk.read(product, out);
        Ok(())
    }

    /// The gradient of the product, from that of the output.
    pub(super) fn product_grad<T: Real>(
        &self,
        dout: &Tensor,
        to: &mut Tensor,
        scratch: &mut Scratch,
    ) {
        to.resize(T::DTYPE, [self.stack * self.m * self.n]);
        start(&mut scratch.walk, &self.product);
        scratch.walk.read(dout, to);
    }

    /// The gradient of an operand, from that of the product and the other operand in order.
    ///
    /// # Errors
    /// When elements are not `T`.
    pub(super) fn backward<T: Matrix + Real>(
        &self,
        operand: usize,
        dproduct: &Tensor,
        other: Option<&Tensor>,
        doperand: &mut Tensor,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Contraction { stack, m, n, k, .. } = *self;
        let Some(other) = other else {
            return self.sides[operand].spread::<T>(dproduct, doperand, scratch);
        };
        let mut ordered = std::mem::replace(&mut scratch.product, Tensor::empty(T::DTYPE));
        ordered.resize(T::DTYPE, [self.ordered(operand)]);
        let (to, other, dproduct) =
            (ordered.as_mut_slice::<T>()?, other.as_slice::<T>()?, dproduct.as_slice::<T>()?);
        let (plain, turned) = (Order::Plain, Order::Transposed);
        if operand == 0 {
            multiply([stack, m, k, n], to, (dproduct, plain), (other, turned));
        } else {
            multiply([stack, k, n, m], to, (other, turned), (dproduct, plain));
        }
        let outcome = self.sides[operand].spread::<T>(&ordered, doperand, scratch);
        scratch.product = ordered;
        outcome
    }
}

impl Side {
    fn new(axes: &[Label], dims: &Dims, order: &[Label]) -> Side {
        let (own, kept) = both_ways(axes, dims, order);
        let mut others: Vec<Label> = Vec::new();
        for (label, size) in axes.iter().zip(dims.iter()) {
            // An unnamed axis of 1 has nothing to sum.
            if !order.contains(label) && !others.contains(label) && (*size != 1) {
                others.push(*label);
            }
        }
        let (_, summed) = both_ways(axes, dims, &others);
        Side { own, kept, summed, is_diagonal: repeats(axes) }
    }

    /// Gives every element of the operand the gradient of what it was added to; the reverse of
    /// ordering.
    fn spread<T: Real>(&self, from: &Tensor, to: &mut Tensor, scratch: &mut Scratch) -> Result<()> {
        if !self.is_diagonal {
            start(&mut scratch.walk, &self.own);
            scratch.walk.read(from, to);
            return Ok(());
        }
        let each: usize = self.summed.iter().map(|axis| axis.size).product();
        scratch.wide.resize(T::DTYPE, [from.numel() * each]);
        scratch.walk.start(0);
        scratch.walk.axis(from.numel(), 1);
        scratch.walk.axis(each, 0);
        scratch.walk.read(from, &mut scratch.wide);
        start(&mut scratch.walk, self.kept.iter().chain(&self.summed));
        scratch.walk.add(&scratch.wide, to)
    }
}

/// The axes of a tensor with their strides in a dense one of axes `order`, and those of the dense
/// one with their strides in the tensor. A label that stands twice steps along a diagonal.
fn both_ways(axes: &[Label], dims: &Dims, order: &[Label]) -> (Vec<Axis>, Vec<Axis>) {
    let strides = dims.strides();
    let mut dense: Vec<Axis> = Vec::new();
    for label in order {
        let mut axis = Axis { label: *label, size: 1, stride: 0 };
        for (at, _) in axes.iter().enumerate().filter(|(_, other)| *other == label) {
            axis.size = dims[at];
            axis.stride += strides[at] as isize;
        }
        dense.push(axis);
    }
    let mut stride = 1;
    let mut inside: Vec<(Label, isize)> = Vec::new();
    for axis in dense.iter().rev() {
        inside.push((axis.label, stride));
        stride *= axis.size as isize;
    }
    let own = axes.iter().zip(dims.iter()).map(|(label, size)| {
        let found = inside.iter().find(|(other, _)| other == label);
        Axis { label: *label, size: *size, stride: found.map_or(0, |(_, stride)| *stride) }
    });
    (own.collect(), dense)
}

/// Whether the axes lie one inside the other without gaps.
fn is_dense(axes: &[Axis]) -> bool {
    let mut stride = 1;
    axes.iter().rev().filter(|axis| axis.size != 1).all(|axis| {
        let fits = axis.stride == stride;
        stride *= axis.size as isize;
        fits
    })
}

fn repeats(labels: &[Label]) -> bool {
    labels.iter().enumerate().any(|(i, label)| labels[..i].contains(label))
}

fn start<'a>(walk: &mut StridedWalk, axes: impl IntoIterator<Item = &'a Axis>) {
    walk.start(0);
    axes.into_iter().for_each(|axis| walk.axis(axis.size, axis.stride));
}

/// A stack of products: `[stack, m, n, k]`.
fn multiply<T: Matrix + Real>(
    [stack, m, n, k]: [usize; 4],
    out: &mut [T],
    (left, left_layout): (&[T], Order),
    (right, right_layout): (&[T], Order),
) {
    // Matrices of one element, or of one row and one column, are not worth a call each.
    if m == 1 && n == 1 && k == 1 {
        for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
            *out = *left * *right;
        }
    } else if m == 1 && n == 1 {
        for (i, out) in out.iter_mut().enumerate() {
            let at = i * k..(i + 1) * k;
            *out = sum_of_pairs(&left[at.clone()], &right[at], |x, y| x * y);
        }
    } else if k == 1 {
        for i in 0..stack {
            let right = &right[i * n..(i + 1) * n];
            for (row, left) in left[i * m..(i + 1) * m].iter().enumerate() {
                let out = &mut out[(i * m + row) * n..(i * m + row + 1) * n];
                out.iter_mut().zip(right).for_each(|(out, right)| *out = *left * *right);
            }
        }
    } else {
        for i in 0..stack {
            let out = &mut out[i * m * n..(i + 1) * m * n];
            let (left, right) =
                (&left[i * m * k..(i + 1) * m * k], &right[i * k * n..(i + 1) * k * n]);
            gemm(m, n, k, out, left, left_layout, right, right_layout);
        }
    }
}
