//! `layer_norm`: a warp or a block for each row; the gradients of scale and bias are column sums.

use bireme_ir::DType;

use crate::lower::products::columns::{Chunks, Sums, finish};
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::Ref;

/// Rows, their width, and how many threads share one.
struct Rows {
    count: usize,
    width: usize,
    team: usize,
}

impl Rows {
    fn of(l: &Lowering<'_>, x: &Var) -> Outcome<Rows> {
        let axis = usize::try_from(l.op.i64("begin_norm_axis")?).unwrap_or(usize::MAX);
        let is_wide = matches!(x.dtype, DType::F32 | DType::F64);
        let Some(row) = x.dims.get(axis..) else { return host() };
        let width: usize = row.iter().product();
        if width == 0 || !is_wide {
            return host();
        }
        let team = if width <= 1024 { 32 } else { 256 };
        Ok(Rows { count: x.numel() / width, width, team })
    }

    fn blocks(&self) -> [u32; 3] {
        [self.count.div_ceil(256 / self.team).min(1 << 16) as u32, 1, 1]
    }
}

/// The variable in an input slot, if there is one, of the type of `x` and with `count` elements.
fn of_size(l: &Lowering<'_>, slot: &str, x: &Var, count: usize) -> Outcome<Option<Var>> {
    let Some(var) = l.maybe_input(slot) else { return Ok(None) };
    let var = var.dense()?;
    if var.dtype == x.dtype && var.numel() == count { Ok(Some(var)) } else { host() }
}

pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (x, y) = (l.input("X")?.dense()?, l.output("Y")?);
    let rows = Rows::of(l, &x)?;
    let scale = of_size(l, "Scale", &x, rows.width)?;
    let bias = of_size(l, "Bias", &x, rows.width)?;
    let (mean, variance) = (l.maybe_output("Mean"), l.maybe_output("Variance"));
    let epsilon = l.op.f64("epsilon")?;
    let name = format!("layer_norm_{}_{}", rows.team, x.suffix()?);
    let launch = l.kernel(name, rows.blocks(), 256).var(&x).maybe(scale.as_ref());
    let launch = launch.maybe(bias.as_ref()).var(&y).maybe(mean.as_ref()).maybe(variance.as_ref());
    launch.size(rows.count).size(rows.width).value(epsilon).launch();
    Ok(())
}

pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let (x, d) = (l.input("X")?.dense()?, l.input("Y@GRAD")?.dense()?);
    let rows = Rows::of(l, &x)?;
    let scale = of_size(l, "Scale", &x, rows.width)?;
    let (Some(mean), Some(variance)) =
        (of_size(l, "Mean", &x, rows.count)?, of_size(l, "Variance", &x, rows.count)?)
    else {
        return host();
    };
    if d.dtype != x.dtype || d.numel() != x.numel() {
        return host();
    }
    let [dx, dscale, dbias] =
        ["X@GRAD", "Scale@GRAD", "Bias@GRAD"].map(|slot| l.maybe_output(slot));
    let (epsilon, suffix) = (l.op.f64("epsilon")?, x.suffix()?);
    if let Some(dx) = dx {
        let name = format!("layer_norm_grad_{}_{suffix}", rows.team);
        let launch = l.kernel(name, rows.blocks(), 256).var(&x).maybe(scale.as_ref()).var(&mean);
        let launch = launch.var(&variance).var(&d).var(&dx).size(rows.count).size(rows.width);
        launch.value(epsilon).launch();
    }
    if dscale.is_none() && dbias.is_none() {
        return Ok(());
    }
    let chunks = Chunks::of(rows.count, rows.width, 1);
    let partials = l.scratch(chunks.count * 2 * rows.width * x.dtype.size());
    let launch = l.kernel(format!("layer_norm_sums_{suffix}"), chunks.blocks, 256).var(&x);
    let launch = launch.var(&mean).var(&variance).var(&d).at(partials).size(rows.count);
    launch.size(rows.width).size(chunks.rows).value(epsilon).launch();
    let place = |var: Option<Var>| var.map_or(Ref::NULL, |var| var.at);
    let (first, second) = (place(dscale), place(dbias));
    let sums = Sums { first, split: rows.width, second, scale: 1.0 };
    finish(l, x.dtype, partials, chunks.count, 2 * rows.width, &sums)
}
