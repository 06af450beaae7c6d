//! `fused_fc`: a product with its bias and activation in one call, and its gradient.
//!
//! The library's own epilogues for gradients are several times slower than plain products, so one
//! kernel of our own takes the gradient through the activation and sums it for the bias on the way.

use super::columns::{Chunks, Sums, finish, sum_size};
use super::matmul::as_matrix;
use super::multiply::{DotRows, dense, dot_rows_to, float, multiply, plain, turned};
use super::{slopes, small};
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::{Epilogue, Product, Ref};
use bireme_ir::DType;

/// Activations of `fused_fc`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    None,
    Relu,
    Sigmoid,
    Tanh,
}

impl Act {
    fn of(l: &Lowering<'_>, attribute: &str) -> Outcome<Act> {
        Ok(match l.op.string(attribute)?.as_str() {
            "" => Act::None,
            "relu" => Act::Relu,
            "sigmoid" => Act::Sigmoid,
            "tanh" => Act::Tanh,
            // The host says what is wrong.
            _ => return host(),
        })
    }

    /// The activation that made the input of a gradient op of `rows` rows, where the gradient is taken through it.
    pub(super) fn of_input(l: &Lowering<'_>, rows: usize) -> Outcome<Act> {
        let most = up_to(l, "x_act_rows")?;
        if most == 0 || rows <= most { Act::of(l, "x_act") } else { Ok(Act::None) }
    }

    /// What kernels call it.
    fn number(self) -> i32 {
        self as i32
    }
}

/// The sizes of the product, `[m, n, k]`.
fn sizes(l: &Lowering<'_>, x: &Var, w: &Var) -> Outcome<[usize; 3]> {
    let [m, k] = as_matrix(&x.dims, l.op.i64("x_num_col_dims")?)?;
    match w.dims[..] {
        [rows, n] if rows == k && k > 0 && w.dtype == x.dtype => Ok([m, n, k]),
        _ => host(),
    }
}

/// The variables of a layer, and the sizes of its product, `[m, n, k]`.
pub(super) struct Layer {
    pub(super) x: Var,
    pub(super) w: Var,
    pub(super) bias: Var,
    pub(super) out: Var,
    pub(super) act: Act,
    pub(super) sizes: [usize; 3],
}

/// `Out = act(X * W + Bias)`
pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (x, w) = (l.input("X")?.dense()?, l.input("W")?.dense()?);
    let (bias, out) = (l.input("Bias")?.dense()?, l.output("Out")?);
    let (sizes, act) = (sizes(l, &x, &w)?, Act::of(l, "act")?);
    Layer { x, w, bias, out, act, sizes }.lower(l)
}

impl Layer {
    /// Adds the layer to the work.
    pub(super) fn lower(&self, l: &mut Lowering<'_>) -> Outcome {
        let Layer { x, w, bias, out, act, sizes: [m, n, k] } = self;
        let ([m, n, k], act, elements) = ([*m, *n, *k], *act, float(x.dtype)?);
        if bias.numel() != n || bias.dtype != x.dtype || x.dtype == DType::F64 {
            return host();
        }
        if m * n == 0 {
            return Ok(());
        }
        if n == 1 && x.pitch != k || n > 1 && out.dtype != x.dtype {
            return host();
        }
        if n == 1 {
            let types = [x.dtype, out.dtype];
            let (a, b, bias, out) = (x.at, w.at, bias.at, out.at);
            let rows = DotRows { a, b, bias, out, rows: m, width: k, rows_per_b: m };
            return dot_rows_to(l, types, rows, 1.0, act.number());
        }
        // The zeros in the gaps of `X` and behind `W` add nothing, and make a size that the library is fast with.
        let k = if w.zeros_follow { x.pitch } else { k };
        let epilogue = if act == Act::Relu { Epilogue::BiasRelu } else { Epilogue::Bias };
        let product = dense(elements, [m, n, k], plain(x.at), plain(w.at), out.at);
        let pitches = [x.pitch, product.pitches[1], product.pitches[2]];
        let product = Product { bias: bias.at, epilogue, pitches, ..product };
        if small::multiply(l, &product, act.number())? {
            return Ok(());
        }
        l.product(product);
        let kernel = match act {
            Act::None | Act::Relu => return Ok(()),
            Act::Sigmoid => "sigmoid",
            Act::Tanh => "tanh",
        };
        let launch = l.over(format!("{kernel}_{}", out.suffix()?), m * n).var(out).var(out);
        launch.size(m * n).value(0.0f64).value(0.0f64).value(0.0f64).launch();
        Ok(())
    }
}

/// The variables of the gradient.
pub(super) struct Grad {
    pub(super) x: Var,
    pub(super) w: Var,
    /// The output, if there is an activation that it says the slope of.
    pub(super) out: Option<Var>,
    pub(super) dout: Var,
    pub(super) dx: Option<Var>,
    pub(super) dw: Option<Var>,
    pub(super) dbias: Option<Var>,
    pub(super) act: Act,
    /// The activation that made `x`, through which `dx` is taken.
    pub(super) x_act: Act,
}

/// Rows up to which `attribute` says that something holds.
pub(super) fn up_to(l: &Lowering<'_>, attribute: &str) -> Outcome<usize> {
    Ok(usize::try_from(l.op.i64(attribute)?).unwrap_or(0))
}

/// The gradients of `X`, `W` and `Bias` that are asked for.
pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let (x, w) = (l.input("X")?.dense()?, l.input("W")?.dense()?);
    let sizes = sizes(l, &x, &w)?;
    let act = if sizes[0] <= up_to(l, "taken_rows")? { Act::None } else { Act::of(l, "act")? };
    let grad = Grad {
        x,
        w,
        out: l.maybe_input("Out").filter(|_| act != Act::None),
        dout: l.input("Out@GRAD")?.dense()?,
        dx: l.maybe_output("X@GRAD"),
        dw: l.maybe_output("W@GRAD"),
        dbias: l.maybe_output("Bias@GRAD"),
        act,
        x_act: Act::of_input(l, sizes[0])?,
    };
    grad.lower(l, sizes)
}

impl Grad {
    /// Adds the gradients to the work; `sizes` are those of the product, `[m, n, k]`.
    pub(super) fn lower(&self, l: &mut Lowering<'_>, [m, n, k]: [usize; 3]) -> Outcome {
        let given = [Some(&self.dout), self.out.as_ref()];
        let is_type = |dtype: DType| dtype == self.x.dtype || n == 1 && dtype == DType::F32;
        let fits = |var: &&Var| var.numel() == m * n && is_type(var.dtype);
        if !given.iter().flatten().all(fits)
            || self.x.dtype == DType::F64
            || self.out.as_ref().is_some_and(|out| out.dtype != self.x.dtype)
            || self.dbias.as_ref().is_some_and(|dbias| dbias.numel() != n)
        {
            return host();
        }
        // Sums are made in 32 bits, and stored as that or as what the rest is.
        let is_stored = |var: &Var| [self.x.dtype, DType::F32].contains(&var.dtype);
        let params = [&self.dw, &self.dbias];
        let types: Vec<DType> = params.iter().copied().flatten().map(|var| var.dtype).collect();
        if !params.iter().copied().flatten().all(is_stored)
            || types.windows(2).any(|two| two[0] != two[1])
        {
            return host();
        }
        let has_gaps = |var: &Var| var.pitch != k;
        if n > 1 {
            self.wide(l, [m, n, k])
        } else if has_gaps(&self.x) || self.dx.as_ref().is_some_and(has_gaps) {
            host()
        } else {
            self.narrow(l, [m, n, k])
        }
    }

    fn wide(&self, l: &mut Lowering<'_>, [m, n, k]: [usize; 3]) -> Outcome {
        let has_gaps = |var: &Var| var.pitch != k;
        let is_narrow = |var: &Option<Var>| var.as_ref().is_none_or(|v| v.dtype == self.x.dtype);
        let is_plain = !self.dx.as_ref().is_some_and(has_gaps)
            && is_narrow(&self.dw)
            && is_narrow(&self.dbias);
        if small::is_small([m, n, k]) && is_plain {
            let grad = small::FcGrad {
                x: &self.x,
                w: &self.w,
                out: self.out.as_ref(),
                dout: &self.dout,
                dx: self.dx.as_ref(),
                dw: self.dw.as_ref(),
                dbias: self.dbias.as_ref(),
            };
            let acts = [self.act, self.x_act].map(Act::number);
            return small::fc_grad(l, &grad, [m, n, k], acts);
        }
        let wants_product = self.dx.is_some() || self.dw.is_some();
        let masked = match &self.out {
            Some(_) if wants_product => Some(l.scratch(self.dout.bytes())),
            _ => None,
        };
        if masked.is_some() {
            self.mask(l, [m, n], masked)?;
        }
        let (dz, elements) = (masked.unwrap_or(self.dout.at), float(self.x.dtype)?);
        if let Some(dx) = self.dx.as_ref().filter(|_| self.x_act != Act::None) {
            slopes::input_grad(l, [&self.x, &self.w, dx], dz, [m, n, k], self.x_act.number())?;
        } else if let Some(dx) = &self.dx {
            // Zeros behind `W` make the zeros in the gaps.
            let columns = if self.w.zeros_follow { dx.pitch } else { k };
            if columns < dx.pitch {
                l.clear(dx.at, m * dx.pitch * dx.dtype.size());
            }
            let product = dense(elements, [m, columns, n], plain(dz), turned(self.w.at), dx.at);
            let pitches = [n, n, dx.pitch];
            multiply(l, Product { pitches, ..product })?;
        }
        if let Some(dw) = &self.dw {
            // What the gaps of `X` make of it lies in the room behind it.
            let rows = if dw.zeros_follow { k } else { self.x.pitch };
            let product = dense(elements, [rows, n, m], turned(self.x.at), plain(dz), dw.at);
            let (pitches, output) = ([self.x.pitch, n, n], float(dw.dtype)?);
            multiply(l, Product { pitches, output, ..product })?;
        }
        // Nothing but the update waits for these sums.
        if masked.is_none() && self.dbias.is_some() {
            self.mask(l, [m, n], None)?;
        }
        Ok(())
    }

    /// Takes the gradient through the activation, to `masked`, and sums it for the bias.
    fn mask(&self, l: &mut Lowering<'_>, [m, n]: [usize; 2], masked: Option<Ref>) -> Outcome {
        let (dtype, suffix) = (self.x.dtype, self.x.suffix()?);
        let pack = if n.is_multiple_of(4) { 4 } else { 1 };
        let chunks = Chunks::of(m, n, pack);
        let is_summed = |dbias: &Var| sum_size(dtype) == dbias.dtype.size();
        let is_done = chunks.count == 1 && self.dbias.as_ref().is_some_and(is_summed);
        let partials = match &self.dbias {
            None => Ref::NULL,
            Some(dbias) if is_done => dbias.at,
            Some(_) => l.scratch(chunks.count * n * sum_size(dtype)),
        };
        let launch = l.kernel(format!("fc_mask_{pack}_{suffix}"), chunks.blocks, 256);
        let launch = launch.maybe(self.out.as_ref()).var(&self.dout);
        let launch = launch.at(masked.unwrap_or(Ref::NULL)).at(partials).size(m).size(n);
        launch.size(chunks.rows).value(self.act.number()).launch();
        match &self.dbias {
            Some(dbias) if !is_done => {
                let sums = Sums { first: dbias.at, split: n, second: Ref::NULL, scale: 1.0 };
                finish(l, dbias.dtype, partials, chunks.count, n, &sums)
            }
            _ => Ok(()),
        }
    }

    /// One column: everything comes from one pass over `X`.
    fn narrow(&self, l: &mut Lowering<'_>, [m, _, k]: [usize; 3]) -> Outcome {
        let (dtype, suffix) = (self.x.dtype, self.x.suffix()?);
        let chunks = Chunks::of(m, k + 1, 1);
        let partials = l.scratch(chunks.count * (k + 1) * sum_size(dtype));
        let from = if self.dout.dtype == dtype { "" } else { "_from_f32" };
        let launch = l.kernel(format!("fc_narrow_grad_{suffix}{from}"), chunks.blocks, 256);
        let launch = launch.var(&self.x).var(&self.w).maybe(self.out.as_ref()).var(&self.dout);
        let launch = launch.maybe(self.dx.as_ref()).at(partials).size(m).size(k);
        let launch = launch.size(chunks.rows).value(self.act.number());
        launch.value(self.x_act.number()).launch();
        let place = |var: &Option<Var>| var.as_ref().map_or(Ref::NULL, |var| var.at);
        let (first, second) = (place(&self.dw), place(&self.dbias));
        if self.dw.is_none() && self.dbias.is_none() {
            return Ok(());
        }
        let sums = Sums { first, split: k, second, scale: 1.0 };
        let written = self.dw.as_ref().or(self.dbias.as_ref()).map_or(dtype, |var| var.dtype);
        finish(l, written, partials, chunks.count, k + 1, &sums)
    }
}
