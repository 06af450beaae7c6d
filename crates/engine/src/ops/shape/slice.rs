//! `slice` and `strided_slice`: part of some axes of a tensor.
//!
//! Bounds may come from attributes or tensors; axes in `decrease_axis` have one element left and
//! are dropped.

use super::dims::axis_in;
use super::given::Given;
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

const BOUNDS: [Slot; 4] = [
    Slot::maybe("StartsTensor"),
    Slot::maybe("EndsTensor"),
    Slot::any("StartsTensorList"),
    Slot::any("EndsTensorList"),
];
const STRIDES: [Slot; 2] = [Slot::maybe("StridesTensor"), Slot::any("StridesTensorList")];

pub(super) const DEF: OpDef = OpDef::new("slice", kernel)
    .inputs(&[Slot::one("Input"), BOUNDS[0], BOUNDS[1], BOUNDS[2], BOUNDS[3]])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("axes", AttrKind::Ints),
        attr::ints("starts", &[]),
        attr::ints("ends", &[]),
        attr::ints("infer_flags", &[]),
        attr::ints("decrease_axis", &[]),
    ])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["Input"], grad_kernel).second(second::linear).reads(&[
        "Input",
        "StartsTensor",
        "EndsTensor",
        "StartsTensorList",
        "EndsTensorList",
    ]));

pub(super) const STRIDED: OpDef = OpDef::new("strided_slice", kernel)
    .inputs(&[
        Slot::one("Input"),
        BOUNDS[0],
        BOUNDS[1],
        BOUNDS[2],
        BOUNDS[3],
        STRIDES[0],
        STRIDES[1],
    ])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("axes", AttrKind::Ints),
        attr::ints("starts", &[]),
        attr::ints("ends", &[]),
        attr::ints("strides", &[]),
        attr::ints("infer_flags", &[]),
        attr::ints("decrease_axis", &[]),
    ])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["Input"], grad_kernel).second(second::linear).reads(&[
        "Input",
        "StartsTensor",
        "EndsTensor",
        "StartsTensorList",
        "EndsTensorList",
        "StridesTensor",
        "StridesTensorList",
    ]));

/// What an op cuts out.
pub(super) struct Cut {
    axes: Vec<i64>,
    starts: Given,
    ends: Given,
    strides: Option<Given>,
    decrease: Vec<i64>,
    /// Whether an end before the front, going backwards, includes the front.
    to_front: bool,
    /// From the whole tensor to the part, once [`Cut::prepare`] has run.
    pub(super) walk: StridedWalk,
}

/// The part of one axis: its first index, the step to the next, and how many there are.
#[derive(Debug, PartialEq)]
struct Part {
    first: usize,
    step: isize,
    count: usize,
}

impl Cut {
    fn new(op: &OpView<'_>) -> Result<Cut> {
        let strided = op.def.name.starts_with("strided");
        let strides = strided
            .then(|| Given::new(op, "strides", "StridesTensor", "StridesTensorList"))
            .transpose()?;
        Ok(Cut {
            axes: op.longs("axes")?,
            starts: Given::new(op, "starts", "StartsTensor", "StartsTensorList")?,
            ends: Given::new(op, "ends", "EndsTensor", "EndsTensorList")?,
            strides,
            decrease: op.longs("decrease_axis")?,
            to_front: false,
            walk: StridedWalk::default(),
        })
    }

    /// What `set_value` assigns to.
    pub(super) fn assigned(op: &OpView<'_>) -> Result<Cut> {
        Ok(Cut {
            axes: op.longs("axes")?,
            starts: Given::or_list(op, "starts", "StartsTensorList")?,
            ends: Given::or_list(op, "ends", "EndsTensorList")?,
            strides: Some(Given::or_list(op, "steps", "StepsTensorList")?),
            decrease: op.longs("decrease_axes")?,
            to_front: true,
            walk: StridedWalk::default(),
        })
    }

    /// Sets the walk over the chosen part of a tensor; returns the part's shape.
    pub(super) fn prepare(&mut self, run: &Run<'_>, dims: Dims) -> Result<Dims> {
        let strides = self.strides.as_mut().map(|strides| strides.read(run)).transpose()?;
        let (starts, ends) = (self.starts.read(run)?, self.ends.read(run)?);
        let count = self.axes.len();
        if starts.len() != count || ends.len() != count || strides.is_some_and(|s| s.len() != count)
        {
            return Err(Error::kernel(format!("{count} axes need as many starts and ends")));
        }
        let mut parts = [const { Part { first: 0, step: 1, count: 0 } }; MAX_RANK];
        parts.iter_mut().zip(dims.iter()).for_each(|(part, dim)| part.count = *dim);
        for (i, axis) in self.axes.iter().enumerate() {
            let at = axis_in(*axis, dims.len())?;
            let dropped = self.decrease.contains(axis);
            let stride = strides.map(|strides| strides[i]);
            let front = self.to_front && stride < Some(0) && ends[i] < -(dims[at] as i64);
            let bounds = (starts[i], if front { -1 } else { ends[i] }, stride);
            parts[at] = part(bounds, dims[at] as i64, dropped)?;
        }
        let steps = dims.strides();
        let parts = &parts[..dims.len()];
        self.walk.start(parts.iter().zip(steps.iter()).map(|(part, step)| part.first * step).sum());
        let mut kept = [0; MAX_RANK];
        let mut rank = 0;
        for (at, (part, step)) in parts.iter().zip(steps.iter()).enumerate() {
            self.walk.axis(part.count, part.step * *step as isize);
            if !self.drops(at, dims.len()) {
                kept[rank] = part.count;
                rank += 1;
            } else if part.count != 1 {
                return Err(dropped_more(at, part.count));
            }
        }
        Ok(Dims::new(&kept[..rank]))
    }

    fn drops(&self, axis: usize, rank: usize) -> bool {
        self.decrease.iter().any(|dropped| axis_in(*dropped, rank).is_ok_and(|at| at == axis))
    }
}

fn dropped_more(axis: usize, count: usize) -> Error {
    Error::kernel(format!("axis {axis} is to be dropped, but {count} elements of it are chosen"))
}

fn part(bounds: (i64, i64, Option<i64>), dim: i64, dropped: bool) -> Result<Part> {
    let (start, mut end, stride) = bounds;
    // The last element by a bound that a tensor gives: `start + 1` is then 0.
    if dropped && start == -1 && end == 0 {
        end = dim;
    }
    let refuse = || {
        let from = format!("{start}..{end} by {}", stride.unwrap_or(1));
        Error::kernel(format!("the slice {from} of a dimension of {dim} runs backwards"))
    };
    let wrap = |bound: i64| if bound < 0 { (bound + dim).max(0) } else { bound };
    let (first, count, step) = match stride.unwrap_or(1) {
        0 => return Err(Error::kernel("a stride must not be 0")),
        step if step > 0 => {
            let (start, end) = (wrap(start).min(dim), wrap(end).min(dim));
            if start > end {
                return Err(refuse());
            }
            (start, (end - start).unsigned_abs().div_ceil(step.unsigned_abs()), step)
        }
        step => {
            // -1 means "to the very front" when going backwards: Paddle's form of an omitted end.
            let end = if end == -1 { -1 } else { wrap(end) };
            if wrap(start) < end {
                return Err(refuse());
            }
            let start = wrap(start).min(dim - 1);
            (start, (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs()), step)
        }
    };
    // A step that leads nowhere could be anything; 1 overflows nothing.
    let first = if count == 0 { 0 } else { first };
    let step = if count > 1 { step } else { 1 };
    Ok(Part { first: first as usize, step: step as isize, count: count as usize })
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, cut) = (cx.input("Input")?, Cut::new(cx.op())?);
    let known = |given: &Given, i: usize| given.known().and_then(|values| values.get(i).copied());
    let mut dims = x.dims.clone();
    for (i, axis) in cut.axes.iter().enumerate() {
        let at = axis_in(*axis, x.rank())?;
        let dropped = cut.drops(at, x.rank());
        let stride = match &cut.strides {
            Some(strides) => known(strides, i).map(Some),
            None => Some(None),
        };
        dims[at] = match (known(&cut.starts, i), known(&cut.ends, i), stride) {
            (Some(start), Some(end), Some(stride)) if dims[at] >= 0 => {
                let part = part((start, end, stride), dims[at], dropped)?;
                if dropped && part.count != 1 {
                    return Err(dropped_more(at, part.count));
                }
                part.count as i64
            }
            _ => -1,
        };
    }
    let kept = (0..x.rank()).filter(|at| !cut.drops(*at, x.rank())).map(|at| dims[at]);
    let mut out = x.with_dims(kept.collect::<Vec<_>>());
    if cut.axes.iter().any(|axis| axis_in(*axis, x.rank()).is_ok_and(|at| at == 0)) {
        out.lod_level = 0;
    }
    cx.set("Out", out);
    Ok(())
}

/// Row by row unless the batch itself is cut.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (axes, rank) = (view.op.longs("axes").ok()?, view.meta("Input")?.rank());
    let inside = axes.iter().all(|axis| axis_in(*axis, rank).is_ok_and(|axis| axis > 0));
    if inside && view.spread("Input") == Spread::Rows {
        SplitRule::RowWise.apply(view)
    } else {
        None
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut cut) = (op.input("Input")?, op.output("Out")?, Cut::new(op)?);
    let rows_stay = !cut.axes.contains(&0);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let dims = cut.prepare(run, x.dims())?;
        out.resize(x.dtype(), dims);
        cut.walk.read(x, out);
        out.set_lod(if rows_stay && x.rows() == out.rows() { x.lod() } else { &[] });
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout) = (op.input("Input")?, op.input("Out@GRAD")?);
    let (mut dx, mut cut) = (op.output("Input@GRAD")?, Cut::new(op)?);
    Ok(Box::new(move |run| {
        let (dims, dout, dx) = (run.dims(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        let part = cut.prepare(run, dims)?;
        if part.numel() != dout.numel() {
            let problem = format!("`Out@GRAD` is {}, but the slice is {part}", dout.dims());
            return Err(Error::kernel(problem));
        }
        dx.resize(dout.dtype(), dims);
        cut.walk.add(dout, dx)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts and first indices as real Paddle 2.6.2 gives them.
    #[test]
    fn bounds_are_paddles() {
        let check = |bounds, dim, first, step, count| {
            let given = part(bounds, dim, false).unwrap();
            assert_eq!(given, Part { first, step, count }, "{bounds:?} of {dim}");
        };
        check((-2, 100, None), 3, 1, 1, 2);
        check((3, 3, None), 3, 0, 1, 0);
        check((3, -6, Some(-2)), 4, 3, -2, 2);
        check((0, 4, Some(2)), 4, 0, 2, 2);
        check((-1, 0, Some(-1)), 4, 3, -1, 3);
        check((-1, -4, Some(-1)), 3, 2, -1, 2);
        check((10, -10, Some(-1)), 4, 3, -1, 3);
        check((-1, -1, Some(-1)), 4, 3, -1, 4);
        assert_eq!(part((-1, 0, None), 5, true).unwrap(), Part { first: 4, step: 1, count: 1 });
        assert!(part((2, 1, None), 3, false).is_err());
        assert!(part((0, 4, Some(-1)), 4, false).is_err());
        assert!(part((0, 4, Some(0)), 4, false).is_err());
    }
}
