//! `split`: a tensor cut along an axis, into equal parts or parts of given sizes.

use bireme_ir::{Op, grad_name};

use super::blocks;
use super::concat::{Axis, split_inside};
use super::given::Given;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("split", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("AxisTensor"), Slot::any("SectionsTensorList")])
    .outputs(&[Slot::many("Out")])
    .attrs(&[attr::ints("sections", &[]), attr::int("num", 0), attr::int("axis", 0)])
    .infer(infer)
    .grad(GradRule::Fn(grad))
    .split(SplitRule::Fn(|view| split_inside(view, "X")));

/// The gradient joins the parts again.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let mut op = Op::new("concat")
        .input("X", view.op.outputs_of("Out").iter().map(|out| grad_name(out)))
        .output("Out", view.op.inputs_of("X").iter().map(|x| grad_name(x)))
        .attr("axis", view.attr("axis")?);
    if let Some(axis) = view.op.inputs.get("AxisTensor") {
        op.inputs.insert("AxisTensor".to_owned(), axis.clone());
    }
    Ok(vec![op])
}

fn sections(op: &OpView<'_>) -> Result<Given> {
    Given::or_list(op, "sections", "SectionsTensorList")
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let (sections, count) = (sections(cx.op())?, cx.op().op.outputs_of("Out").len());
    let Some(axis) = Axis::new(cx.op())?.known(x.rank())? else {
        cx.set("Out", x.with_dims(vec![-1; x.rank()]));
        return Ok(());
    };
    let sizes = match sections.known() {
        Some(known) => sizes(x.dims[axis], known, count)?,
        None => vec![-1; count],
    };
    let part = |size: i64| {
        let mut part = x.clone();
        part.dims[axis] = size;
        part.lod_level = if axis == 0 { 0 } else { x.lod_level };
        part
    };
    let parts: Vec<_> = sizes.into_iter().map(part).collect();
    cx.set_each("Out", parts);
    Ok(())
}

/// The sizes of `count` parts of a dimension; -1 where they depend on an unknown one.
fn sizes(dim: i64, sections: &[i64], count: usize) -> Result<Vec<i64>> {
    let refuse = || {
        let problem = format!("cannot cut {dim} into {count} parts of sizes {sections:?}");
        Err(Error::kernel(problem))
    };
    if sections.is_empty() {
        return match dim {
            _ if count == 0 => refuse(),
            -1 => Ok(vec![-1; count]),
            _ if dim % count as i64 == 0 => Ok(vec![dim / count as i64; count]),
            _ => refuse(),
        };
    }
    let known: i64 = sections.iter().filter(|size| **size >= 0).sum();
    let open = sections.iter().filter(|size| **size < 0).count();
    let fits = dim == -1 || if open == 0 { known == dim } else { known <= dim };
    if sections.len() != count || open > 1 || sections.iter().any(|size| *size < -1) || !fits {
        return refuse();
    }
    let rest = if dim == -1 { -1 } else { dim - known };
    Ok(sections.iter().map(|size| if *size < 0 { rest } else { *size }).collect())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut outputs) = (op.input("X")?, op.outputs("Out"));
    let (axis, mut sections) = (Axis::new(op)?, sections(op)?);
    // The sizes for the last dimension seen; they hold until it changes.
    let (mut parts, mut last) = (Vec::new(), None);
    Ok(Box::new(move |run| {
        let x = run.tensor(x)?;
        let axis = axis.read(run, x.dims().len())?;
        if sections.known().is_none() || last != Some(x.dims()[axis]) {
            parts = sizes(x.dims()[axis] as i64, sections.read(run)?, outputs.len())?;
            last = Some(x.dims()[axis]);
        }
        let (tail, element) = (x.dims().tail(axis + 1), x.dtype().size());
        let row = x.dims().tail(axis) * element;
        let mut at = 0;
        for (output, size) in outputs.iter_mut().zip(&parts) {
            let mut dims = [0; crate::tensor::MAX_RANK];
            dims[..x.dims().len()].copy_from_slice(&x.dims());
            dims[axis] = *size as usize;
            let out = run.out(output)?;
            out.resize(x.dtype(), Dims::new(&dims[..x.dims().len()]));
            let width = *size as usize * tail * element;
            blocks::take(x.as_bytes(), row, at, out.as_mut_bytes(), width);
            out.set_lod(if axis == 0 { &[] } else { x.lod() });
            at += width;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::sizes;

    #[test]
    fn sizes_fill_the_dimension() {
        assert_eq!(sizes(6, &[], 3).unwrap(), [2, 2, 2]);
        assert_eq!(sizes(6, &[2, -1, 1], 3).unwrap(), [2, 3, 1]);
        assert_eq!(sizes(-1, &[2, -1], 2).unwrap(), [2, -1]);
        for (dim, sections, count) in
            [(5, &[][..], 2), (6, &[2, 3], 2), (6, &[-1, -1], 2), (6, &[7, -1], 2), (6, &[6], 2)]
                .into_iter()
                .chain([(6, &[][..], 0), (-1, &[], 0)])
        {
            assert!(sizes(dim, sections, count).is_err(), "{dim} {sections:?}");
        }
    }
}
