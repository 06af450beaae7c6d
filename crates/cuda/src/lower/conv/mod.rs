//! `conv2d` and `depthwise_conv2d`: the windows of as many images as fit into scratch memory become
//! columns, then one product for each group. Where each channel has few filters of its own there is
//! nothing to share, and a kernel adds up directly.

mod sizes;

use bireme_engine::ops::ConvSizes;

use self::sizes::{MAX_CALLS, Sizes};
use super::products::multiply::{dense, float, multiply, plain, turned};
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::{Product, Ref};

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("conv2d", forward),
    ("conv2d_grad", backward),
    ("depthwise_conv2d", forward),
    ("depthwise_conv2d_grad", backward),
];

fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (x, filter) = (l.input("Input")?.dense()?, l.input("Filter")?.dense()?);
    let out = l.output("Output")?;
    let sizes = Sizes::of(l, &x, &filter, &out)?;
    let suffix = x.suffix()?;
    if sizes.is_depthwise() {
        let launch = l.over(format!("depthwise_{suffix}"), out.numel()).var(&x).var(&filter);
        let launch = launch.var(&out).value(sizes.images(sizes.images)).value(sizes.few());
        launch.size(out.numel()).launch();
        return Ok(());
    }
    let (inside, outside, weights) = sizes.planes();
    let (size, rows) = (x.dtype.size(), sizes.groups * weights);
    if sizes.is_pointwise() {
        return products(l, &sizes, x.at, &filter, out.at, sizes.images);
    }
    let chunks = sizes.chunks()?;
    let at_once = chunks.first().map_or(0, |chunk| chunk.1);
    let columns = l.scratch(at_once * rows * outside * size);
    for (first, count) in chunks {
        let from = x.at.plus(first * sizes.groups * sizes.channels * inside * size);
        let n = count * rows * outside;
        let launch = l.over(format!("to_columns_{suffix}"), n).at(from).at(columns);
        launch.value(sizes.images(count)).size(n).size(outside).size(rows * outside).launch();
        let to = out.at.plus(first * sizes.groups * sizes.filters * outside * size);
        products(l, &sizes, columns, &filter, to, count)?;
    }
    Ok(())
}

/// Filters times columns, of `count` images one after the other.
fn products(
    l: &mut Lowering<'_>,
    sizes: &Sizes,
    columns: Ref,
    filter: &Var,
    out: Ref,
    count: usize,
) -> Outcome {
    let (_, outside, weights) = sizes.planes();
    let (ConvSizes { groups, filters, last, .. }, dtype) = (**sizes, sizes.dtype);
    if groups > MAX_CALLS {
        return host();
    }
    for group in 0..groups {
        let filter = filter.at.plus(group * filters * weights * dtype.size());
        let columns = columns.plus(group * weights * outside * dtype.size());
        let (step, whole) = (groups * weights * outside, groups * filters * outside);
        let product = if last {
            // Each position has its channels side by side: the product is turned around.
            let out = out.plus(group * filters * dtype.size());
            let sizes = [outside, filters, weights];
            let one = dense(float(dtype)?, sizes, turned(columns), turned(filter), out);
            let pitches = [one.pitches[0], one.pitches[1], groups * filters];
            Product { batch: count, strides: [step, 0, whole], pitches, ..one }
        } else {
            let out = out.plus(group * filters * outside * dtype.size());
            let sizes = [filters, outside, weights];
            let one = dense(float(dtype)?, sizes, plain(filter), plain(columns), out);
            Product { batch: count, strides: [0, step, whole], ..one }
        };
        multiply(l, product)?;
    }
    Ok(())
}

/// The variables of the gradient.
struct Grad {
    x: Var,
    filter: Var,
    d: Var,
    dx: Option<Var>,
    dfilter: Option<Var>,
    sizes: Sizes,
}

fn backward(l: &mut Lowering<'_>) -> Outcome {
    let (x, filter) = (l.input("Input")?.dense()?, l.input("Filter")?.dense()?);
    let d = l.input("Output@GRAD")?.dense()?;
    let (dx, dfilter) = (l.maybe_output("Input@GRAD"), l.maybe_output("Filter@GRAD"));
    let sizes = Sizes::of(l, &x, &filter, &d)?;
    let grad = Grad { x, filter, d, dx, dfilter, sizes };
    if sizes.is_depthwise() { grad.depthwise(l) } else { grad.by_products(l) }
}

impl Grad {
    fn depthwise(&self, l: &mut Lowering<'_>) -> Outcome {
        let (suffix, sizes) = (self.x.suffix()?, &self.sizes);
        let (images, few) = (sizes.images(sizes.images), sizes.few());
        if let Some(dx) = &self.dx {
            let name = format!("depthwise_input_grad_{suffix}");
            let launch = l.over(name, dx.numel()).var(&self.d).var(&self.filter).var(dx);
            launch.value(images).value(few).size(dx.numel()).launch();
        }
        if let Some(dfilter) = &self.dfilter {
            let name = format!("depthwise_filter_grad_{suffix}");
            let launch = l.kernel(name, [dfilter.numel() as u32, 1, 1], 256).var(&self.x);
            launch.var(&self.d).var(dfilter).value(images).value(few).launch();
        }
        Ok(())
    }

    fn by_products(&self, l: &mut Lowering<'_>) -> Outcome {
        let sizes = &self.sizes;
        let (_, outside, weights) = sizes.planes();
        let chunks = sizes.chunks()?;
        let at_once = chunks.first().map_or(0, |chunk| chunk.1);
        let size = sizes.dtype.size();
        let columns = l.scratch(at_once * sizes.groups * weights * outside * size);
        let turned_d = l.scratch(at_once * sizes.groups * sizes.filters * outside * size);
        if let (Some(dfilter), true) = (&self.dfilter, chunks.is_empty()) {
            l.clear(dfilter.at, dfilter.bytes());
        }
        for (first, count) in chunks {
            self.planes_first(l, first, count, turned_d)?;
            if let Some(dfilter) = &self.dfilter {
                self.filter_grad(l, (first, count), columns, turned_d, dfilter)?;
            }
            if let Some(dx) = &self.dx {
                self.input_grad(l, (first, count), columns, turned_d, dx)?;
            }
        }
        Ok(())
    }

    /// The gradient of some images with the filters outermost, so that all images are one product.
    fn planes_first(&self, l: &mut Lowering<'_>, first: usize, count: usize, to: Ref) -> Outcome {
        let sizes = &self.sizes;
        let (_, outside, _) = sizes.planes();
        let n = count * sizes.groups * sizes.filters * outside;
        let [image, plane, _, element] = sizes.output_steps();
        let from = self.d.at.plus(first * image * sizes.dtype.size());
        let launch = l.over(format!("planes_first_{}", self.d.suffix()?), n).at(from).at(to);
        let launch = launch.size(n).size(count).size(outside).size(image);
        launch.size(plane).size(element).launch();
        Ok(())
    }

    /// Adds the part of some images to the gradient of the filters, which the first ones begin.
    fn filter_grad(
        &self,
        l: &mut Lowering<'_>,
        (first, count): (usize, usize),
        columns: Ref,
        turned_d: Ref,
        dfilter: &Var,
    ) -> Outcome {
        let sizes = &self.sizes;
        let ((_, outside, weights), size) = (sizes.planes(), sizes.dtype.size());
        let (n, wide) = (count * sizes.groups * weights * outside, count * outside);
        let from = self.x.at.plus(first * sizes.input_steps()[0] * size);
        let launch = l.over(format!("to_columns_{}", self.x.suffix()?), n).at(from).at(columns);
        launch.value(sizes.images(count)).size(n).size(wide).size(outside).launch();
        for group in 0..sizes.groups {
            let a = plain(turned_d.plus(group * sizes.filters * wide * size));
            let b = turned(columns.plus(group * weights * wide * size));
            let to = dfilter.at.plus(group * sizes.filters * weights * size);
            let one = dense(float(sizes.dtype)?, [sizes.filters, weights, wide], a, b, to);
            multiply(l, Product { beta: if first == 0 { 0.0 } else { 1.0 }, ..one })?;
        }
        Ok(())
    }

    /// The gradient of some images: of their columns first, which are then added up.
    fn input_grad(
        &self,
        l: &mut Lowering<'_>,
        (first, count): (usize, usize),
        columns: Ref,
        turned_d: Ref,
        dx: &Var,
    ) -> Outcome {
        let sizes = &self.sizes;
        let ((inside, outside, weights), size) = (sizes.planes(), sizes.dtype.size());
        let wide = count * outside;
        for group in 0..sizes.groups {
            let a = turned(self.filter.at.plus(group * sizes.filters * weights * size));
            let b = plain(turned_d.plus(group * sizes.filters * wide * size));
            let to = columns.plus(group * weights * wide * size);
            multiply(l, dense(float(sizes.dtype)?, [weights, wide, sizes.filters], a, b, to))?;
        }
        let n = count * sizes.groups * sizes.channels * inside;
        let to = dx.at.plus(first * sizes.input_steps()[0] * size);
        let launch = l.over(format!("from_columns_{}", dx.suffix()?), n).at(columns).at(to);
        launch.value(sizes.images(count)).size(n).size(wide).size(outside).launch();
        Ok(())
    }
}
