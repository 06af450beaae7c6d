//! `data_norm`: columns normalised by statistics of all data seen so far, which are parameters.

use bireme_ir::DType;

use crate::lower::divider::divider;
use crate::lower::products::columns::Chunks;
use crate::lower::{Lowering, Outcome, Var, host};

/// Numbers that a chunk of rows says of a column, as in `data_norm.cu`.
const FOUND: usize = 5;

/// Rows and columns of `X`, and the columns of a slot (0 for no slots).
struct Sizes {
    rows: usize,
    columns: usize,
    slot: usize,
}

impl Sizes {
    fn of(l: &Lowering<'_>, x: &Var) -> Outcome<Sizes> {
        let slot = usize::try_from(l.op.i64("slot_dim")?).unwrap_or(0);
        let is_wide = matches!(x.dtype, DType::F32 | DType::F64);
        match x.dims[..] {
            [rows, columns]
                if is_wide && i32::try_from(x.numel()).is_ok() && fits(slot, columns) =>
            {
                Ok(Sizes { rows, columns, slot })
            }
            _ => host(),
        }
    }
}

/// Whether columns can be cut into slots.
fn fits(slot: usize, columns: usize) -> bool {
    slot == 0 || columns.is_multiple_of(slot)
}

/// One number a column, of the type of `x`.
fn per_column(l: &Lowering<'_>, slot: &str, x: &Var, columns: usize) -> Outcome<Var> {
    let var = l.input(slot)?.dense()?;
    if var.dtype == x.dtype && var.numel() == columns { Ok(var) } else { host() }
}

/// Weight and bias, where the op uses them.
fn shift(l: &Lowering<'_>, x: &Var, columns: usize) -> Outcome<Option<[Var; 2]>> {
    if !l.op.bool("enable_scale_and_shift")? {
        return Ok(None);
    }
    Ok(Some([per_column(l, "scale_w", x, columns)?, per_column(l, "bias", x, columns)?]))
}

pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let x = l.input("X")?.dense()?;
    let sizes = Sizes::of(l, &x)?;
    let [size, total, square] = ["BatchSize", "BatchSum", "BatchSquareSum"]
        .map(|slot| per_column(l, slot, &x, sizes.columns));
    let (size, total, square) = (size?, total?, square?);
    let shift = shift(l, &x, sizes.columns)?;
    let (y, means, scales) = (l.output("Y")?, l.output("Means")?, l.output("Scales")?);
    let suffix = x.suffix()?;
    let launch = l.over(format!("data_norm_statistics_{suffix}"), sizes.columns).var(&size);
    launch.var(&total).var(&square).var(&means).var(&scales).size(sizes.columns).launch();
    if x.numel() == 0 {
        return Ok(());
    }
    let [weight, bias] = [0, 1].map(|i| shift.as_ref().map(|shift| &shift[i]));
    let launch = l.over(format!("data_norm_{suffix}"), x.numel()).var(&x).var(&means).var(&scales);
    let launch = launch.maybe(weight).maybe(bias).var(&y).size(x.numel());
    launch.value(divider(sizes.columns)).size(sizes.slot).launch();
    Ok(())
}

pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let (x, d) = (l.input("X")?.dense()?, l.input("Y@GRAD")?.dense()?);
    let sizes = Sizes::of(l, &x)?;
    let means = per_column(l, "Means", &x, sizes.columns)?;
    let scales = per_column(l, "Scales", &x, sizes.columns)?;
    let shift = shift(l, &x, sizes.columns)?;
    if d.dtype != x.dtype || d.numel() != x.numel() {
        return host();
    }
    // Programs may name the statistics as outputs, which are left alone: the host knows how.
    let is_named = |slot: &&str| l.maybe_output(slot).is_some();
    if ["BatchSize", "BatchSum", "BatchSquareSum"].iter().any(is_named) {
        return host();
    }
    let dx = l.maybe_output("X@GRAD");
    let wanted =
        ["BatchSize@GRAD", "BatchSum@GRAD", "BatchSquareSum@GRAD", "scale_w@GRAD", "bias@GRAD"]
            .map(|slot| l.maybe_output(slot));
    let (epsilon, suffix) = (l.op.f64("epsilon")?, x.suffix()?);
    if let (Some(dx), true) = (dx, x.numel() > 0) {
        let weight = shift.as_ref().map(|shift| &shift[0]);
        let launch = l.over(format!("data_norm_grad_{suffix}"), x.numel()).var(&x).var(&d);
        let launch = launch.var(&scales).maybe(weight).var(&dx).size(x.numel());
        launch.value(divider(sizes.columns)).size(sizes.slot).launch();
    }
    if wanted.iter().all(Option::is_none) {
        return Ok(());
    }
    let chunks = Chunks::of(sizes.rows, sizes.columns, 1);
    let partials = l.scratch(chunks.count * sizes.columns * FOUND * 8);
    let launch = l.kernel(format!("data_norm_sums_{suffix}"), chunks.blocks, 256).var(&x).var(&d);
    let launch = launch.var(&means).var(&scales).at(partials).size(sizes.rows).size(sizes.columns);
    launch.size(chunks.rows).size(sizes.slot).launch();
    let mut launch = l.over(format!("data_norm_finish_{suffix}"), sizes.columns).at(partials);
    for output in &wanted {
        launch = launch.maybe(output.as_ref());
    }
    let launch = launch.size(sizes.columns).size(chunks.count).size(sizes.slot);
    launch.value(i32::from(shift.is_some())).value(epsilon).launch();
    Ok(())
}
