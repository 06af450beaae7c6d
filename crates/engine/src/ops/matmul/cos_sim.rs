//! `cos_sim` of Paddle 1.x: the cosine of the angle between each row of `X` and the same row of
//! `Y`, or its only one.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("cos_sim", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out"), Slot::one("XNorm"), Slot::one("YNorm")])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X", "Y"], grad_kernel).reads(&["X", "Y", "Out", "XNorm", "YNorm"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let refuse = || {
        let shapes = format!("`X` {:?} and `Y` {:?}", x.dims, y.dims);
        Error::kernel(format!("{shapes} must have as many rows, or `Y` one, of the same shape"))
    };
    let (&[rows, ref x_row @ ..], &[y_rows, ref y_row @ ..]) = (&x.dims[..], &y.dims[..]) else {
        return Err(refuse());
    };
    let same = x_row.len() == y_row.len()
        && x_row.iter().zip(y_row).all(|(a, b)| same_dim(*a, *b).is_ok());
    if !same || (y_rows != 1 && same_dim(rows, y_rows).is_err()) {
        return Err(refuse());
    }
    let column = |rows| x.with_dims([rows, 1]);
    cx.set("Out", column(rows));
    cx.set("XNorm", column(rows));
    cx.set("YNorm", column(y_rows));
    Ok(())
}

/// Row by row when `Y` has rows of its own.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rows = view.spreads.iter().all(|spread| *spread == Spread::Rows);
    rows.then(|| SplitRule::RowWise.apply(view)).flatten()
}

/// Rows of `X`, rows of `Y`, and their width.
fn sizes(run: &Run<'_>, x: In, y: In) -> Result<(usize, usize, usize)> {
    let (x, y) = (run.tensor(x)?, run.tensor(y)?);
    let width = x.dims().tail(1);
    if y.dims().tail(1) != width || (y.rows() != 1 && y.rows() != x.rows()) {
        let shapes = format!("`X` {} and `Y` {}", x.dims(), y.dims());
        return Err(Error::kernel(format!("{shapes} differ in their rows")));
    }
    Ok((x.rows(), y.rows(), width))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let (mut x_norm, mut y_norm) = (op.output("XNorm")?, op.output("YNorm")?);
    float_kernel!(op, "X", |run, T| {
        let (rows, y_rows, width) = sizes(run, x, y)?;
        let (x, y, out) = (run.get::<T>(x)?, run.get::<T>(y)?, run.set::<T>(&mut out)?);
        let (x_norm, y_norm) = (run.set::<T>(&mut x_norm)?, run.set::<T>(&mut y_norm)?);
        norms(x, width, x_norm);
        norms(y, width, y_norm);
        for at in 0..rows {
            let other = if y_rows == 1 { 0 } else { at };
            let (x, y) = (&x[at * width..][..width], &y[other * width..][..width]);
            out[at] = sum_of_pairs(x, y, |x, y| x * y) / x_norm[at] / y_norm[other];
        }
    })
}

fn norms<T: Real>(rows: &[T], width: usize, norms: &mut [T]) {
    for (at, norm) in norms.iter_mut().enumerate() {
        let row = &rows[at * width..][..width];
        *norm = sum_of_pairs(row, row, |a, b| a * b).sqrt();
    }
}

/// The variables of the gradient op.
struct Grad {
    inputs: [In; 6],
    dx: Option<Out>,
    dy: Option<Out>,
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let [x, y, out, x_norm, y_norm, dout] =
        ["X", "Y", "Out", "XNorm", "YNorm", "Out@GRAD"].map(|slot| op.input(slot));
    let mut grad = Grad {
        inputs: [x?, y?, out?, x_norm?, y_norm?, dout?],
        dx: op.maybe_output("X@GRAD"),
        dy: op.maybe_output("Y@GRAD"),
    };
    float_kernel!(op, "X", |run, T| {
        grad.run::<T>(run)?;
    })
}

impl Grad {
    fn run<T: Real>(&mut self, run: &Run<'_>) -> Result<()> {
        let (rows, y_rows, width) = sizes(run, self.inputs[0], self.inputs[1])?;
        let [x, y, out, x_norm, y_norm, dout] = self.inputs.map(|input| run.get::<T>(input));
        let (x, y, out, x_norm, y_norm, dout) = (x?, y?, out?, x_norm?, y_norm?, dout?);
        if [out, x_norm, dout].iter().any(|column| column.len() != rows) || y_norm.len() != y_rows {
            return Err(Error::kernel("`Out`, norms and `Out@GRAD` differ in their rows"));
        }
        let mut dx = self.dx.as_mut().map(|dx| run.set::<T>(dx)).transpose()?;
        let mut dy = self.dy.as_mut().map(|dy| run.set::<T>(dy)).transpose()?;
        for gradient in [&mut dx, &mut dy].into_iter().flatten() {
            gradient.fill(T::ZERO);
        }
        for at in 0..rows {
            let other = if y_rows == 1 { 0 } else { at };
            let (x, y) = (&x[at * width..][..width], &y[other * width..][..width]);
            let by_product = dout[at] / (x_norm[at] * y_norm[other]);
            let along = |norm: T| dout[at] * out[at] / (norm * norm);
            if let Some(dx) = &mut dx {
                add(&mut dx[at * width..][..width], (y, by_product), (x, along(x_norm[at])));
            }
            if let Some(dy) = &mut dy {
                add(&mut dy[other * width..][..width], (x, by_product), (y, along(y_norm[other])));
            }
        }
        Ok(())
    }
}

/// `to += a * by_a - b * by_b`
fn add<T: Real>(to: &mut [T], (a, by_a): (&[T], T), (b, by_b): (&[T], T)) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to += *a * by_a - *b * by_b;
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn run(x: &[f64], y: &[f64]) -> HashMap<String, Value> {
        let op = Op::new("cos_sim").input("X", ["x"]).input("Y", ["y"]).output("Out", ["out"]);
        let op = op.output("XNorm", ["xn"]).output("YNorm", ["yn"]);
        let mut values = HashMap::new();
        for (name, rows) in [("x", x), ("y", y)] {
            let tensor = Tensor::from_slice([rows.len() / 2, 2], rows).unwrap();
            values.insert(name.to_owned(), tensor.into());
        }
        run_once(&op, &mut values).unwrap();
        let dout = Tensor::from_slice([x.len() / 2, 1], &vec![1.0; x.len() / 2]).unwrap();
        values.insert("out@GRAD".to_owned(), dout.into());
        run_gradient(&op, &mut values);
        values
    }

    fn get(values: &HashMap<String, Value>, name: &str) -> Vec<f64> {
        values[name].tensor().unwrap().to_f64_vec()
    }

    #[test]
    fn values_and_gradients_follow_the_definition() {
        let x = [3.0, 4.0, 1.0, -2.0];
        for y in [&[0.5, 1.5, -1.0, 2.5][..], &[0.5, 1.5]] {
            let values = run(&x, y);
            let norm = |row: &[f64]| row.iter().map(|v| v * v).sum::<f64>().sqrt();
            let expected = (x[0] * y[0] + x[1] * y[1]) / norm(&x[..2]) / norm(&y[..2]);
            assert!((get(&values, "out")[0] - expected).abs() < 1e-12);
            let loss = |x: &[f64], y: &[f64]| get(&run(x, y), "out").iter().sum::<f64>();
            for i in 0..4 {
                let moved = |step: f64| {
                    let mut moved = x;
                    moved[i] += step;
                    loss(&moved, y)
                };
                let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((get(&values, "x@GRAD")[i] - slope).abs() < 1e-6);
            }
            for i in 0..y.len() {
                let moved = |step: f64| {
                    let mut moved = y.to_vec();
                    moved[i] += step;
                    loss(&x, &moved)
                };
                let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((get(&values, "y@GRAD")[i] - slope).abs() < 1e-6);
            }
        }
    }
}
