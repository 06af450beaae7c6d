//! `set_value`: a tensor with a part of it replaced: what `x[i] = v` is made of.
//!
//! The value comes from `ValueTensor`, or from attributes `values` and `shape`, and is repeated to
//! fill the part. Axes in `decrease_axes` are missing in the shape that it fills; those in
//! `none_axes` are extra ones of size 1.

use bireme_ir::{Attr, Scalar};

use super::dims::sized;
use super::slice::Cut;
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

const BOUNDS: [Slot; 3] =
    [Slot::any("StartsTensorList"), Slot::any("EndsTensorList"), Slot::any("StepsTensorList")];

const ATTRS: &[AttrSpec] = &[
    attr::longs("axes", &[]),
    attr::longs("starts", &[]),
    attr::longs("ends", &[]),
    attr::longs("steps", &[]),
    attr::longs("decrease_axes", &[]),
    attr::longs("none_axes", &[]),
    attr::longs("shape", &[]),
    attr::absent("values", AttrKind::Scalars),
    attr::int("dtype", DType::F32.code()),
];

pub(super) const DEF: OpDef = OpDef::new("set_value", kernel)
    .inputs(&[Slot::one("Input"), Slot::maybe("ValueTensor"), BOUNDS[0], BOUNDS[1], BOUNDS[2]])
    .outputs(&[Slot::one("Out")])
    .attrs(ATTRS)
    .like(&[("Out", "Input")])
    .lod_from("Input")
    .inplace(&[("Input", "Out")])
    .grad(GradRule::Op(&["ValueTensor", "StartsTensorList", "EndsTensorList", "StepsTensorList"]));

pub(super) const GRAD: OpDef = OpDef::new("set_value_grad", grad_kernel)
    .inputs(&[Slot::one("Out@GRAD"), Slot::maybe("ValueTensor"), BOUNDS[0], BOUNDS[1], BOUNDS[2]])
    .outputs(&[Slot::maybe("Input@GRAD"), Slot::maybe("ValueTensor@GRAD")])
    .attrs(ATTRS)
    .like(&[("Input@GRAD", "Out@GRAD"), ("ValueTensor@GRAD", "ValueTensor")]);

/// The part that is assigned to, and memory for the value that fills it.
struct Part {
    cut: Cut,
    none_axes: Vec<i64>,
    repeat: StridedWalk,
    filled: Tensor,
}

impl Part {
    fn new(op: &OpView<'_>) -> Result<Part> {
        Ok(Part {
            cut: Cut::assigned(op)?,
            none_axes: op.longs("none_axes")?,
            repeat: StridedWalk::default(),
            filled: Tensor::empty(DType::F32),
        })
    }

    /// Prepares both walks for a tensor of shape `dims` and a value of shape `value`; `filled` gets
    /// the shape of the part.
    fn prepare(&mut self, run: &Run<'_>, dtype: DType, dims: Dims, value: Dims) -> Result<()> {
        let part = self.cut.prepare(run, dims)?;
        let part = self.with_none_axes(part)?;
        self.filled.resize(dtype, part);
        let refuse = || {
            Error::kernel(format!("a value of shape {value} cannot fill a part of shape {part}"))
        };
        // More dimensions than the part has may only be ones.
        let extra = value.len().saturating_sub(part.len());
        if value[..extra].iter().any(|dim| *dim != 1) {
            return Err(refuse());
        }
        let (new, strides) = (part.len() + extra - value.len(), value.strides());
        self.repeat.start(0);
        for (at, len) in part.iter().enumerate() {
            let stride = match at.checked_sub(new).map(|at| (value[at + extra], at + extra)) {
                None | Some((1, _)) => 0,
                Some((dim, at)) if dim == *len => strides[at] as isize,
                Some(_) => return Err(refuse()),
            };
            self.repeat.axis(*len, stride);
        }
        Ok(())
    }

    /// The shape with an axis of size 1 in front of each axis that `none_axes` names.
    fn with_none_axes(&self, part: Dims) -> Result<Dims> {
        let (mut all, mut rank) = ([1; MAX_RANK], 0);
        if part.len() + self.none_axes.len() > MAX_RANK {
            return Err(Error::kernel(format!("a part has at most {MAX_RANK} dimensions")));
        }
        let mut none = self.none_axes.iter().peekable();
        for (at, dim) in part.iter().enumerate() {
            while none.next_if(|axis| **axis <= at as i64).is_some() {
                rank += 1;
            }
            all[rank] = *dim;
            rank += 1;
        }
        Ok(Dims::new(&all[..rank + none.count()]))
    }
}

/// Where the value comes from.
enum Source {
    Tensor(In),
    Constant(Box<Constant>),
}

/// Numbers of an attribute, and the tensor that was last made of them.
struct Constant {
    values: Vec<Scalar>,
    dims: Dims,
    made: Tensor,
}

impl Source {
    fn of(op: &OpView<'_>) -> Result<Source> {
        if let Some(tensor) = op.maybe_input("ValueTensor") {
            return Ok(Source::Tensor(tensor));
        }
        let values = match op.maybe_attr("values").map(|attr| attr.coerce(AttrKind::Scalars)) {
            Some(Some(Attr::Scalars(values))) => values,
            _ => return Err(Error::kernel("neither `ValueTensor` nor numbers in `values`")),
        };
        let mut dims = sized(&op.longs("shape")?)?;
        // One number needs no shape.
        if values.len() == 1 && dims.numel() != 1 {
            dims = Dims::new(&[]);
        }
        if dims.numel() != values.len() {
            let problem = format!("{} numbers in `values` do not fill {dims}", values.len());
            return Err(Error::kernel(problem));
        }
        let made = Tensor::empty(DType::F32);
        Ok(Source::Constant(Box::new(Constant { values, dims, made })))
    }

    /// The value as a tensor of type `dtype`.
    fn read<'a>(&'a mut self, run: &Run<'a>, dtype: DType) -> Result<&'a Tensor> {
        match self {
            Source::Tensor(value) => {
                let value = run.tensor(*value)?;
                if value.dtype() != dtype {
                    let problem = format!("`ValueTensor` is {}, `Input` {dtype}", value.dtype());
                    return Err(Error::kernel(format!("{problem}: cast one of them")));
                }
                Ok(value)
            }
            Source::Constant(constant) => {
                let Constant { values, dims, made } = &mut **constant;
                if made.dtype() != dtype || made.numel() != values.len() || made.dims() != *dims {
                    *made = tensor_of(values, dtype, *dims)?;
                }
                Ok(made)
            }
        }
    }
}

fn tensor_of(values: &[Scalar], dtype: DType, dims: Dims) -> Result<Tensor> {
    let mut made = Tensor::zeros(dtype, dims);
    let real = |value: &Scalar| match value {
        Scalar::Bool(value) => f64::from(u8::from(*value)),
        Scalar::Long(value) => *value as f64,
        // What is left of a complex number where it is assigned to a real one.
        Scalar::Float64(value) | Scalar::Complex(value, _) => *value,
    };
    // 64-bit integers do not fit a real number.
    if let Ok(elements) = made.as_mut_slice::<i64>() {
        for (element, value) in elements.iter_mut().zip(values) {
            *element = if let Scalar::Long(value) = value { *value } else { real(value) as i64 };
        }
        return Ok(made);
    }
    dispatch!(dtype, T in [f32, f64, i32, u8, i8, i16] => {
        for (made, value) in made.as_mut_slice::<T>()?.iter_mut().zip(values) {
            *made = T::from_f64(real(value));
        }
        Ok(made)
    }, else => Err(Error::kernel(format!("cannot assign numbers to {dtype} elements"))))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut x = op.in_out("Input", "Out")?;
    let (mut part, mut source) = (Part::new(op)?, Source::of(op)?);
    Ok(Box::new(move |run| {
        let (dtype, dims) = (run.before(&x)?.dtype(), run.before(&x)?.dims());
        let value = source.read(run, dtype)?;
        part.prepare(run, dtype, dims, value.dims())?;
        part.repeat.read(value, &mut part.filled);
        part.cut.walk.write(&part.filled, run.continued(&mut x)?);
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (dout, value) = (op.input("Out@GRAD")?, op.maybe_input("ValueTensor"));
    let (mut dx, mut dvalue) = (op.maybe_output("Input@GRAD"), op.maybe_output("ValueTensor@GRAD"));
    let mut part = Part::new(op)?;
    Ok(Box::new(move |run| {
        let dout = run.tensor(dout)?;
        let shape = value.map_or(Ok(Dims::new(&[])), |value| run.dims(value))?;
        part.prepare(run, dout.dtype(), dout.dims(), shape)?;
        if let Some(dvalue) = &mut dvalue {
            let dvalue = run.out(dvalue)?;
            dvalue.resize(dout.dtype(), shape);
            part.cut.walk.read(dout, &mut part.filled);
            part.repeat.add(&part.filled, dvalue)?;
        }
        if let Some(dx) = &mut dx {
            let dx = run.out(dx)?;
            dx.copy_from(dout);
            part.filled.as_mut_bytes().fill(0);
            part.cut.walk.write(&part.filled, dx);
        }
        Ok(())
    }))
}
