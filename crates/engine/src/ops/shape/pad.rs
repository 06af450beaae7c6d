//! `pad`, `pad2d` and `pad3d`: elements put around a tensor.
//!
//! They are a constant, or repeat what is inside: `reflect` mirrors it without its edge,
//! `replicate` (`edge` in `pad2d`) repeats the edge, `circular` starts again at the other end.

use super::dims::{signed, sized};
use super::given::Given;
use super::relocate::Relocate;
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

const IMAGE: [Slot; 2] = [Slot::one("X"), Slot::maybe("Paddings")];

const PAD_ATTRS: &[AttrSpec] =
    &[attr::required("paddings", AttrKind::Ints), attr::float("pad_value", 0.0)];
const PAD2D_ATTRS: &[AttrSpec] = &[
    attr::ints("paddings", &[0, 0, 0, 0]),
    attr::float("pad_value", 0.0),
    attr::str("mode", "constant"),
    attr::str("data_format", "NCHW"),
];
const PAD3D_ATTRS: &[AttrSpec] = &[
    attr::ints("paddings", &[]),
    attr::float("value", 0.0),
    attr::str("mode", "constant"),
    attr::str("data_format", "NCDHW"),
];

pub(super) const PAD: OpDef = def("pad")
    .inputs(&[Slot::one("X")])
    .attrs(PAD_ATTRS)
    .gradient(GRADIENT.reads(&["X"]).optional(&["X"]).infer(infer_grad));
pub(super) const PAD2D: OpDef = def("pad2d").inputs(&IMAGE).attrs(PAD2D_ATTRS);
pub(super) const PAD3D: OpDef = def("pad3d").inputs(&IMAGE).attrs(PAD3D_ATTRS);

const GRADIENT: Gradient = Gradient::new(&["X"], grad_kernel).reads(&["X", "Paddings"]);

const fn def(name: &'static str) -> OpDef {
    OpDef::new(name, kernel)
        .outputs(const { &[Slot::one("Out")] })
        .infer(infer)
        .split(SplitRule::Fn(split))
        .gradient(GRADIENT)
}

/// What lies around.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Constant,
    Reflect,
    Replicate,
    Circular,
}

/// What the attributes say.
struct Config {
    mode: Mode,
    value: f64,
    /// The axes that pairs of paddings belong to, in their order; `None` for all from the first on.
    axes: Option<Vec<usize>>,
}

impl Config {
    fn of(op: &OpView<'_>) -> Result<Config> {
        let name = op.def.name;
        if name.starts_with("pad_") || name == "pad" {
            let value = op.f64("pad_value")?;
            return Ok(Config { mode: Mode::Constant, value, axes: None });
        }
        let mode = match op.string("mode")?.as_str() {
            "constant" => Mode::Constant,
            "reflect" => Mode::Reflect,
            "edge" | "replicate" => Mode::Replicate,
            "circular" => Mode::Circular,
            other => return Err(Error::kernel(format!("there is no `mode` `{other}`"))),
        };
        // Two dimensions from the first to the last, three from the last to the first, as in Paddle.
        let axes = match op.string("data_format")?.as_str() {
            "NCHW" => vec![2, 3],
            "NHWC" => vec![1, 2],
            "NCDHW" => vec![4, 3, 2],
            "NDHWC" => vec![3, 2, 1],
            other => return Err(Error::kernel(format!("there is no `data_format` `{other}`"))),
        };
        let value = op.f64(if name.starts_with("pad2d") { "pad_value" } else { "value" })?;
        Ok(Config { mode, value, axes: Some(axes) })
    }

    /// The paddings before and after each axis of a tensor of rank `rank`.
    fn around(&self, given: &[i64], rank: usize) -> Result<[(i64, i64); MAX_RANK]> {
        let mut around = [(0, 0); MAX_RANK];
        let count = self.axes.as_ref().map_or(rank, Vec::len);
        let fits = self.axes.as_ref().is_none_or(|axes| rank == axes.len() + 2);
        if given.len() != 2 * count || !fits || given.iter().any(|padding| *padding < 0) {
            return Err(Error::kernel(format!(
                "paddings {given:?} of a tensor of rank {rank}: expected {} numbers from 0 on",
                2 * count
            )));
        }
        for (i, pair) in given.chunks_exact(2).enumerate() {
            around[self.axes.as_ref().map_or(i, |axes| axes[i])] = (pair[0], pair[1]);
        }
        Ok(around)
    }

    /// That an axis of `len` elements has what `mode` puts around it.
    fn check(&self, len: usize, (before, after): (i64, i64)) -> Result<()> {
        if (before, after) == (0, 0) {
            return Ok(());
        }
        let most = match self.mode {
            Mode::Constant => return Ok(()),
            Mode::Reflect => (len as i64 - 1).max(0),
            Mode::Replicate | Mode::Circular if len > 0 => return Ok(()),
            Mode::Replicate | Mode::Circular => 0,
        };
        if before > most || after > most {
            return Err(Error::kernel(format!(
                "{:?} padding of {before} and {after} around {len} elements: at most {most}",
                self.mode
            )));
        }
        Ok(())
    }
}

/// Where the paddings come from.
fn paddings(op: &OpView<'_>) -> Result<Given> {
    if op.def.signature.inputs.iter().any(|slot| slot.name == "Paddings") {
        return Given::new(op, "paddings", "Paddings", "Paddings");
    }
    Given::attr(op, "paddings")
}

/// The input index that output `at` shows.
fn source(mode: Mode, at: usize, before: i64, len: usize) -> usize {
    let (at, len) = (at as i64 - before, len as i64);
    let inside = match mode {
        Mode::Constant | Mode::Replicate => at.clamp(0, len - 1),
        Mode::Circular => at.rem_euclid(len),
        Mode::Reflect if at < 0 => -at,
        Mode::Reflect if at >= len => 2 * (len - 1) - at,
        Mode::Reflect => at,
    };
    inside as usize
}

fn padded(dims: &[i64], around: &[(i64, i64)], sign: i64) -> Vec<i64> {
    let pairs = dims.iter().zip(around);
    pairs.map(|(dim, (b, a))| if *dim < 0 { -1 } else { dim + sign * (b + a) }).collect()
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, config) = (cx.input("X")?, Config::of(cx.op())?);
    let dims = match paddings(cx.op())?.known() {
        Some(given) => padded(&x.dims, &config.around(given, x.rank())?, 1),
        None => vec![-1; x.rank()],
    };
    let mut out = x.with_dims(dims);
    out.lod_level = 0;
    cx.set("Out", out);
    Ok(())
}

/// Paddle's gradient op does not get `X`: its shape is what the padding leaves.
fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let (dout, config) = (cx.input("Out@GRAD")?, Config::of(cx.op())?);
    let around = config.around(&cx.op().longs("paddings")?, dout.rank())?;
    let dims = padded(&dout.dims, &around, -1);
    if dims.iter().any(|dim| *dim < -1) {
        let problem = format!("`Out@GRAD` {:?} is smaller than its padding", dout.dims);
        return Err(Error::kernel(problem));
    }
    cx.set("X@GRAD", dout.with_dims(dims));
    Ok(())
}

/// Row by row unless the batch itself is padded.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (config, given) = (Config::of(view.op).ok()?, paddings(view.op).ok()?);
    let around = config.around(given.known()?, view.outputs[0].rank()).ok()?;
    if around[0] == (0, 0) { SplitRule::RowWise.apply(view) } else { None }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let (config, mut given, mut frame) = (Config::of(op)?, paddings(op)?, Frame::default());
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let around = config.around(given.read(run)?, x.dims().len())?;
        out.resize(x.dtype(), sized(&padded(&signed(&x.dims()), &around, 1))?);
        frame.set(&config, x.dims(), out.dims(), &around)?;
        if config.mode == Mode::Constant {
            fill(out, config.value)?;
            frame.inside.write(x, out);
        } else {
            frame.shown.read(x, out);
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let (config, mut given, mut frame) = (Config::of(op)?, paddings(op)?, Frame::default());
    Ok(Box::new(move |run| {
        let (dout, dx) = (run.tensor(dout)?, run.out(&mut dx)?);
        let around = config.around(given.read(run)?, dout.dims().len())?;
        dx.resize(dout.dtype(), sized(&padded(&signed(&dout.dims()), &around, -1))?);
        frame.set(&config, dx.dims(), dout.dims(), &around)?;
        if config.mode == Mode::Constant {
            frame.inside.read(dout, dx);
            return Ok(());
        }
        frame.shown.add(dout, dx)
    }))
}

/// How inputs lie in the padded tensor; memory that is kept between steps.
#[derive(Default)]
struct Frame {
    /// The inputs as a part of the padded tensor, for a constant around them.
    inside: StridedWalk,
    /// The input that each padded element shows, otherwise.
    shown: Relocate,
}

impl Frame {
    fn set(
        &mut self,
        config: &Config,
        inner: Dims,
        outer: Dims,
        around: &[(i64, i64)],
    ) -> Result<()> {
        if config.mode == Mode::Constant {
            let strides = outer.strides();
            let before =
                strides.iter().zip(around).map(|(step, (before, _))| step * *before as usize);
            self.inside.start(before.sum());
            for (dim, stride) in inner.iter().zip(strides.iter()) {
                self.inside.axis(*dim, *stride as isize);
            }
            return Ok(());
        }
        for (dim, around) in inner.iter().zip(around) {
            config.check(*dim, *around)?;
        }
        let source = |axis: usize, at| source(config.mode, at, around[axis].0, inner[axis]);
        self.shown.set(inner, |axis| outer[axis], source);
        Ok(())
    }
}

fn fill(out: &mut Tensor, value: f64) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, i32, i64] => {
        out.as_mut_slice::<T>()?.fill(T::from_f64(value));
        Ok(())
    }, else => Err(Error::kernel(format!("cannot pad {} elements", out.dtype()))))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    /// `pad2d` has no kernel in Paddle 2.6; golden cases of `pad3d` show the modes.
    #[test]
    fn images_are_padded_from_top_to_right() {
        let check = |mode: &str, expected: [f32; 12], gradient: [f32; 4]| {
            let op = Op::new("pad2d").input("X", ["x"]).output("Out", ["out"]);
            let op = op.attr("paddings", vec![1, 0, 1, 1]).attr("mode", mode);
            let op = op.attr("pad_value", 9.0f32);
            let mut values = HashMap::new();
            let x = Tensor::from_slice([1, 1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
            values.insert("x".to_owned(), x.into());
            run_once(&op, &mut values).unwrap();
            let out = values["out"].tensor().unwrap().clone();
            assert_eq!(out.as_slice::<f32>().unwrap(), expected, "{mode}");
            values.insert("out@GRAD".to_owned(), out.into());
            run_gradient(&op, &mut values);
            let dx = values["x@GRAD"].tensor().unwrap().as_slice::<f32>().unwrap();
            assert_eq!(dx, gradient, "{mode}");
        };
        let constant = [9.0, 9.0, 9.0, 9.0, 9.0, 1.0, 2.0, 9.0, 9.0, 3.0, 4.0, 9.0];
        check("constant", constant, [1.0, 2.0, 3.0, 4.0]);
        let edge = [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0];
        check("edge", edge, [4.0, 8.0, 6.0, 8.0]);
        let reflect = [4.0, 3.0, 4.0, 3.0, 2.0, 1.0, 2.0, 1.0, 4.0, 3.0, 4.0, 3.0];
        check("reflect", reflect, [2.0, 4.0, 12.0, 16.0]);
    }

    #[test]
    fn paddings_that_do_not_fit_are_refused() {
        let refuse = |kind: &str, paddings: Vec<i32>, mode: Option<&str>, dims: &[usize]| {
            let mut op = Op::new(kind).input("X", ["x"]).output("Out", ["out"]);
            op = op.attr("paddings", paddings);
            if let Some(mode) = mode {
                op = op.attr("mode", mode);
            }
            let mut values = HashMap::new();
            let x = Tensor::zeros(bireme_ir::DType::F32, dims);
            values.insert("x".to_owned(), x.into());
            run_once(&op, &mut values).unwrap_err().to_string()
        };
        assert!(refuse("pad", vec![1, 2], None, &[2, 2]).contains("expected 4 numbers"));
        assert!(refuse("pad", vec![-1, 2], None, &[2]).contains("from 0 on"));
        let far = refuse("pad2d", vec![0, 0, 3, 0], Some("reflect"), &[1, 1, 2, 3]);
        assert!(far.contains("at most 2"), "{far}");
        let odd = refuse("pad2d", vec![0, 0, 3, 0], Some("wrap"), &[1, 1, 2, 3]);
        assert!(odd.contains("`wrap`"), "{odd}");
    }
}
