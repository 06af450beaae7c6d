//! `lstm_unit`: one step of a long short-term memory, whose products are made before. Only 1.x
//! programs have it.
//!
//! Columns of `X`, `hidden` of each: input gate, forget gate, output gate, candidate.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("lstm_unit", kernel)
    .inputs(&[Slot::one("X"), Slot::one("C_prev")])
    .outputs(&[Slot::one("C"), Slot::one("H")])
    .attrs(&[attr::float("forget_bias", 0.0)])
    .infer(infer)
    .split(SplitRule::RowWise)
    .gradient(
        Gradient::new(&["X", "C_prev"], grad_kernel)
            .reads(&["X", "C_prev", "C", "H"])
            .optional(&["H"])
            .from(&["C", "H"]),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, cell) = (cx.input("X")?, cx.input("C_prev")?);
    let fits = match (&x.dims[..], &cell.dims[..]) {
        ([rows, columns], [cell_rows, hidden]) => {
            let columns = *hidden < 0 || same_dim(*columns, 4 * hidden).is_ok();
            columns && same_dim(*rows, *cell_rows).is_ok()
        }
        _ => false,
    };
    if !fits {
        return Err(Error::kernel(format!(
            "`X` must have shape [rows, 4 * hidden] and `C_prev` [rows, hidden], not {:?} and {:?}",
            x.dims, cell.dims
        )));
    }
    cx.set("C", cell.clone());
    cx.set("H", cell.clone());
    Ok(())
}

/// Input gate, forget gate, output gate and candidate at column `j` of a row.
#[inline(always)]
fn gates<T: Real>(x: &[T], hidden: usize, j: usize, forget_bias: T) -> [T; 4] {
    [
        x[j].sigmoid(),
        (x[hidden + j] + forget_bias).sigmoid(),
        x[2 * hidden + j].sigmoid(),
        x[3 * hidden + j].tanh(),
    ]
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, last) = (op.input("X")?, op.input("C_prev")?);
    let (mut cell, mut state) = (op.output("C")?, op.output("H")?);
    let forget_bias = op.f64("forget_bias")?;
    float_kernel!(op, "X", |run, T| {
        let hidden = run.dims(last)?[1];
        let (x, last) = (run.get::<T>(x)?, run.get::<T>(last)?);
        let (cell, state) = (run.set(&mut cell)?, run.set(&mut state)?);
        forward::<T>(hidden, T::from_f64(forget_bias), x, last, cell, state);
    })
}

fn forward<T: Real>(
    hidden: usize,
    forget_bias: T,
    x: &[T],
    last: &[T],
    cell: &mut [T],
    state: &mut [T],
) {
    let rows = x.chunks_exact(4 * hidden.max(1)).zip(last.chunks_exact(hidden.max(1)));
    let outs = cell.chunks_exact_mut(hidden.max(1)).zip(state.chunks_exact_mut(hidden.max(1)));
    vectorized(
        #[inline(always)]
        || {
            for ((x, last), (cell, state)) in rows.zip(outs) {
                for j in 0..hidden {
                    let [input, forget, output, candidate] = gates(x, hidden, j, forget_bias);
                    cell[j] = forget * last[j] + input * candidate;
                    state[j] = output * cell[j].tanh();
                }
            }
        },
    );
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, last, cell) = (op.input("X")?, op.input("C_prev")?, op.input("C")?);
    let (dcell, dstate) = (op.input("C@GRAD")?, op.input("H@GRAD")?);
    let (mut dx, mut dlast) = (op.maybe_output("X@GRAD"), op.maybe_output("C_prev@GRAD"));
    let forget_bias = op.f64("forget_bias")?;
    float_kernel!(op, "X", |run, T| {
        let hidden = run.dims(last)?[1];
        let reads =
            [run.get::<T>(x)?, run.get(last)?, run.get(cell)?, run.get(dcell)?, run.get(dstate)?];
        let dx = dx.as_mut().map(|dx| run.set::<T>(dx)).transpose()?;
        let dlast = dlast.as_mut().map(|dlast| run.set::<T>(dlast)).transpose()?;
        backward::<T>(hidden, T::from_f64(forget_bias), reads, dx, dlast);
    })
}

fn backward<T: Real>(
    hidden: usize,
    forget_bias: T,
    [x, last, cell, dcell, dstate]: [&[T]; 5],
    mut dx: Option<&mut [T]>,
    mut dlast: Option<&mut [T]>,
) {
    for (row, x) in x.chunks_exact(4 * hidden.max(1)).enumerate() {
        for j in 0..hidden {
            let at = row * hidden + j;
            let [input, forget, output, candidate] = gates(x, hidden, j, forget_bias);
            let squashed = cell[at].tanh();
            let d = dcell[at] + dstate[at] * output * (T::ONE - squashed * squashed);
            if let Some(dx) = &mut dx {
                let dx = &mut dx[row * 4 * hidden..(row + 1) * 4 * hidden];
                dx[j] = d * candidate * input * (T::ONE - input);
                dx[hidden + j] = d * last[at] * forget * (T::ONE - forget);
                dx[2 * hidden + j] = dstate[at] * squashed * output * (T::ONE - output);
                dx[3 * hidden + j] = d * input * (T::ONE - candidate * candidate);
            }
            if let Some(dlast) = &mut dlast {
                dlast[at] = d * forget;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bireme_ir::grad_name;

    use crate::ops::testing::*;

    const X: [f64; 16] =
        [0.3, -0.7, 1.1, 0.2, -0.4, 0.9, 0.5, -1.2, 0.1, 0.6, -0.3, 0.8, -0.9, 0.4, 0.7, -0.5];
    const CELL: [f64; 4] = [0.5, -0.2, 0.9, -1.3];

    fn run(x: &[f64], cell: &[f64]) -> (Op, HashMap<String, Value>) {
        let op = Op::new("lstm_unit").input("X", ["x"]).input("C_prev", ["last"]);
        let op = op.output("C", ["c"]).output("H", ["h"]).attr("forget_bias", 0.5f32);
        let mut values = HashMap::new();
        values.insert("x".to_owned(), Tensor::from_slice([2, 8], x).unwrap().into());
        values.insert("last".to_owned(), Tensor::from_slice([2, 2], cell).unwrap().into());
        run_once(&op, &mut values).unwrap();
        (op, values)
    }

    /// A weighted sum of both outputs.
    fn loss(values: &HashMap<String, Value>) -> f64 {
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
        let pairs = of("c").into_iter().zip(of("h")).enumerate();
        pairs.map(|(i, (c, h))| (i + 1) as f64 * c - 2.0 * h).sum()
    }

    #[test]
    fn the_first_element_is_as_defined() {
        let (_, values) = run(&X, &CELL);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let cell = sigmoid(1.1 + 0.5) * 0.5 + sigmoid(0.3) * 0.5f64.tanh();
        let state = sigmoid(-0.4) * cell.tanh();
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec()[0];
        assert!((of("c") - cell).abs() < 1e-12 && (of("h") - state).abs() < 1e-12);
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        let (op, mut values) = run(&X, &CELL);
        let weights = Tensor::from_slice([2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        values.insert(grad_name("c"), weights.into());
        values.insert(grad_name("h"), Tensor::from_slice([2, 2], &[-2.0; 4]).unwrap().into());
        run_gradient(&op, &mut values);
        for (name, count) in [("x", 16), ("last", 4)] {
            let slopes = values[&grad_name(name)].tensor().unwrap().to_f64_vec();
            for (i, slope) in slopes.iter().enumerate().take(count) {
                let at = |step: f64| {
                    let (mut x, mut cell) = (X, CELL);
                    if name == "x" {
                        x[i] += step
                    } else {
                        cell[i] += step
                    }
                    loss(&run(&x, &cell).1)
                };
                let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!((slope - difference).abs() < 1e-7, "`{name}` {i}: {slope} {difference}");
            }
        }
    }
}
