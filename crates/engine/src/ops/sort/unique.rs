//! `unique`: each different element once (or slice, along an axis), where it first came, which one
//! each element is, and how often it came.
//!
//! With `is_sorted` in ascending order, else in the order of first appearance.

use std::cmp::Ordering;

use super::lanes::order;
use crate::ops::prelude::*;
use crate::ops::shape::dims::axis_in;

pub(super) const DEF: OpDef = OpDef::new("unique", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[
        Slot::one("Out"),
        Slot::maybe("Indices"),
        Slot::maybe("Index"),
        Slot::maybe("Counts"),
    ])
    .attrs(&[
        attr::bool("return_index", false),
        attr::bool("return_inverse", false),
        attr::bool("return_counts", false),
        attr::ints("axis", &[]),
        attr::int("dtype", DType::I64.code()),
        attr::bool("is_sorted", false),
    ])
    .infer(infer);

/// The axis along which slices are compared; none for single elements.
fn axis(op: &OpView<'_>, rank: usize) -> Result<Option<usize>> {
    op.longs("axis")?.first().map(|axis| axis_in(*axis, rank)).transpose()
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, dtype) = (cx.input("X")?, cx.op().dtype("dtype")?);
    let mut out = Meta::new(x.dtype, [-1]);
    let mut items = x.numel().unwrap_or(-1);
    if let Some(axis) = axis(cx.op(), x.rank())? {
        out.dims.clone_from(&x.dims);
        out.dims[axis] = -1;
        items = x.dims[axis];
    } else if !cx.op().bool("is_sorted")? && x.rank() > 1 {
        return Err(Error::kernel(format!("`X` {:?} must be a list", x.dims)));
    }
    cx.set("Out", out);
    cx.set("Indices", Meta::new(dtype, [-1]));
    cx.set("Index", Meta::new(dtype, [items]));
    cx.set("Counts", Meta::new(dtype, [-1]));
    Ok(())
}

/// What was found, in the order of the output.
#[derive(Default)]
struct Groups {
    /// The items, equal ones side by side, each run by first appearance.
    sorted: Vec<usize>,
    /// The first item of each group.
    first: Vec<usize>,
    /// The number of items of each group.
    count: Vec<usize>,
    /// The group of each item.
    group: Vec<usize>,
}

impl Groups {
    fn find(&mut self, items: usize, is_sorted: bool, compare: impl Fn(usize, usize) -> Ordering) {
        self.sorted.clear();
        self.sorted.extend(0..items);
        self.sorted.sort_unstable_by(|a, b| compare(*a, *b).then(a.cmp(b)));
        self.first.clear();
        self.group.clear();
        self.group.resize(items, 0);
        for (at, item) in self.sorted.iter().enumerate() {
            if at == 0 || compare(self.sorted[at - 1], *item).is_ne() {
                self.first.push(*item);
            }
            self.group[*item] = self.first.len() - 1;
        }
        if !is_sorted {
            self.by_appearance();
        }
        self.count.clear();
        self.count.resize(self.first.len(), 0);
        self.group.iter().for_each(|group| self.count[*group] += 1);
    }

    /// Renumbers the groups by where each first came.
    fn by_appearance(&mut self) {
        self.first.sort_unstable();
        // Items come in order, so a group's first item is seen before its others.
        let (mut next, mut number) = (0, vec![usize::MAX; self.first.len()]);
        for group in &mut self.group {
            if number[*group] == usize::MAX {
                number[*group] = next;
                next += 1;
            }
            *group = number[*group];
        }
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, is_sorted) = (op.input("X")?, op.output("Out")?, op.bool("is_sorted")?);
    let (mut first, mut group) = (op.maybe_output("Indices"), op.maybe_output("Index"));
    let (mut count, dtype) = (op.maybe_output("Counts"), op.dtype("dtype")?);
    let along = op.longs("axis")?.first().copied();
    let mut groups = Groups::default();
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let along = along.map(|axis| axis_in(axis, x.dims().len())).transpose()?;
        collect(&mut groups, x, along, is_sorted, out)?;
        for (output, values) in
            [(&mut first, &groups.first), (&mut group, &groups.group), (&mut count, &groups.count)]
        {
            write(run, output, dtype, values)?;
        }
        Ok(())
    }))
}

/// Finds the groups of `x` and writes one member of each.
fn collect(
    groups: &mut Groups,
    x: &Tensor,
    along: Option<usize>,
    is_sorted: bool,
    out: &mut Tensor,
) -> Result<()> {
    let dims = x.dims();
    let (outer, items, inner) = match along {
        Some(axis) => (dims[..axis].iter().product(), dims[axis], dims.tail(axis + 1)),
        None => (1, x.numel(), 1),
    };
    dispatch!(x.dtype(), T in [f32, f64, i32, i64] => {
        let from = x.as_slice::<T>()?;
        // Element `i` of the slice that is item `item`.
        let at = |item: usize, i: usize| (i / inner * items + item) * inner + i % inner;
        groups.find(items, is_sorted, |a, b| {
            let pairs = (0..outer * inner).map(|i| order(&from[at(a, i)], &from[at(b, i)]));
            pairs.into_iter().find(|pair| pair.is_ne()).unwrap_or(Ordering::Equal)
        });
        let kept = groups.first.len();
        out.resize(x.dtype(), shape(dims, along, kept));
        let to = out.as_mut_slice::<T>()?;
        for (number, item) in groups.first.iter().enumerate() {
            for i in 0..outer * inner {
                to[(i / inner * kept + number) * inner + i % inner] = from[at(*item, i)];
            }
        }
        Ok(())
    }, else => Err(Error::kernel(format!("cannot order {} elements", x.dtype()))))
}

fn shape(dims: Dims, along: Option<usize>, kept: usize) -> Dims {
    let Some(axis) = along else { return Dims::from([kept]) };
    let mut all = [0; MAX_RANK];
    all[..dims.len()].copy_from_slice(&dims);
    all[axis] = kept;
    Dims::new(&all[..dims.len()])
}

fn write(run: &Run<'_>, output: &mut Option<Out>, dtype: DType, values: &[usize]) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    let output = run.out(output)?;
    output.resize(dtype, [values.len()]);
    dispatch!(dtype, I in [i64, i32] => {
        for (out, value) in output.as_mut_slice::<I>()?.iter_mut().zip(values) {
            *out = I::from_f64(*value as f64);
        }
        Ok(())
    }, else => Err(Error::kernel(format!("indices are int32 or int64, not {dtype}"))))
}
