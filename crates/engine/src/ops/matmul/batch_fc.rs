//! `batch_fc`: a fully connected layer for each slot of a stack: `Out[s] = Input[s] * W[s] + Bias[s]`.

use crate::gemm::{Order, gemm, gemm_add};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("batch_fc", kernel)
    .inputs(&[Slot::one("Input"), Slot::one("W"), Slot::one("Bias")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("Input")
    .gradient(Gradient::new(&["Input", "W", "Bias"], grad_kernel).reads(&["Input", "W", "Bias"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, w, bias) = (cx.input("Input")?, cx.input("W")?, cx.input("Bias")?);
    let misfit = || {
        Error::kernel(format!(
            "`Input` [slots, rows, in], `W` [slots, in, out] and `Bias` [slots, out] do not fit: \
             their shapes are {:?}, {:?} and {:?}",
            input.dims, w.dims, bias.dims
        ))
    };
    let ([slots, rows, depth], [w_slots, w_depth, out], [b_slots, b_out]) =
        (&input.dims[..], &w.dims[..], &bias.dims[..])
    else {
        return Err(misfit());
    };
    for (a, b) in [(slots, w_slots), (depth, w_depth), (slots, b_slots), (out, b_out)] {
        same_dim(*a, *b).map_err(|_| misfit())?;
    }
    let out = input.with_dims([same_dim(*slots, *w_slots)?, *rows, *out]);
    cx.set("Out", out);
    Ok(())
}

/// Slots, rows, columns of the input and of the output.
fn sizes(run: &Run<'_>, input: In, w: In) -> Result<[usize; 4]> {
    let (input, w) = (run.dims(input)?, run.dims(w)?);
    Ok([input[0], input[1], input[2], w[2]])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, w, bias) = (op.input("Input")?, op.input("W")?, op.input("Bias")?);
    let mut out = op.output("Out")?;
    float_kernel!(op, "Input", |run, T| {
        let [slots, rows, depth, width] = sizes(run, input, w)?;
        let (input, w, bias) = (run.get::<T>(input)?, run.get::<T>(w)?, run.get::<T>(bias)?);
        let out = run.set::<T>(&mut out)?;
        for slot in 0..slots {
            let out = &mut out[slot * rows * width..][..rows * width];
            let bias = &bias[slot * width..][..width];
            out.chunks_exact_mut(width.max(1)).for_each(|row| row.copy_from_slice(bias));
            let input = &input[slot * rows * depth..][..rows * depth];
            let w = &w[slot * depth * width..][..depth * width];
            gemm_add(rows, width, depth, out, input, Order::Plain, w, Order::Plain);
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, w, dout) = (op.input("Input")?, op.input("W")?, op.input("Out@GRAD")?);
    let wanted = ["Input@GRAD", "W@GRAD", "Bias@GRAD"];
    let [mut dinput, mut dw, mut dbias] = wanted.map(|slot| op.maybe_output(slot));
    let (plain, turned) = (Order::Plain, Order::Transposed);
    float_kernel!(op, "Input", |run, T| {
        let [slots, rows, depth, width] = sizes(run, input, w)?;
        let (input, w, dout) = (run.get::<T>(input)?, run.get::<T>(w)?, run.get::<T>(dout)?);
        if dout.len() != slots * rows * width {
            return Err(Error::kernel("`Out@GRAD` has not the shape of `Out`"));
        }
        let mut dinput = dinput.as_mut().map(|d| run.set::<T>(d)).transpose()?;
        let mut dw = dw.as_mut().map(|d| run.set::<T>(d)).transpose()?;
        let mut dbias = dbias.as_mut().map(|d| run.set::<T>(d)).transpose()?;
        for slot in 0..slots {
            let dout = &dout[slot * rows * width..][..rows * width];
            if let Some(dinput) = &mut dinput {
                let dinput = &mut dinput[slot * rows * depth..][..rows * depth];
                let w = &w[slot * depth * width..][..depth * width];
                gemm(rows, depth, width, dinput, dout, plain, w, turned);
            }
            if let Some(dw) = &mut dw {
                let dw = &mut dw[slot * depth * width..][..depth * width];
                let input = &input[slot * rows * depth..][..rows * depth];
                gemm(depth, width, rows, dw, input, turned, dout, plain);
            }
            if let Some(dbias) = &mut dbias {
                let dbias = &mut dbias[slot * width..][..width];
                dbias.fill(0.0);
                for row in dout.chunks_exact(width.max(1)) {
                    dbias.iter_mut().zip(row).for_each(|(d, dout)| *d += *dout);
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn values() -> HashMap<String, Value> {
        let numbers = |count: usize, by: f64| (0..count).map(|i| (i as f64 * by).sin()).collect();
        let tensor = |dims: &[usize], by: f64| {
            let numbers: Vec<f64> = numbers(dims.iter().product(), by);
            Tensor::from_slice(crate::tensor::Dims::new(dims), &numbers).unwrap().into()
        };
        HashMap::from([
            ("input".to_owned(), tensor(&[2, 3, 2], 0.7)),
            ("w".to_owned(), tensor(&[2, 2, 2], 1.3)),
            ("bias".to_owned(), tensor(&[2, 2], 2.1)),
            ("out@GRAD".to_owned(), tensor(&[2, 3, 2], 0.9)),
        ])
    }

    fn op() -> Op {
        let op = Op::new("batch_fc").input("Input", ["input"]).input("W", ["w"]);
        op.input("Bias", ["bias"]).output("Out", ["out"])
    }

    #[test]
    fn each_slot_has_its_own_layer() {
        let mut values = values();
        run_once(&op(), &mut values).unwrap();
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
        let (input, w, bias, out) = (of("input"), of("w"), of("bias"), of("out"));
        for (i, out) in out.iter().enumerate() {
            let (slot, row, column) = (i / 6, i / 2 % 3, i % 2);
            let products =
                (0..2).map(|k| input[slot * 6 + row * 2 + k] * w[slot * 4 + k * 2 + column]);
            let expected = bias[slot * 2 + column] + products.sum::<f64>();
            assert!((out - expected).abs() < 1e-12, "{i}: {out} {expected}");
        }
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        gradients_agree_with_differences(&op(), &values(), &["input", "w", "bias"]);
    }
}
