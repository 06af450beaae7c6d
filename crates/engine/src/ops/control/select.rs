//! `select_input`: one of several variables, by a number: what `cond` returns. `select_output`: puts a variable into
//! one of several; those that are not chosen are zero.

use crate::op::join;
use crate::ops::prelude::*;

pub(super) const INPUT: OpDef = OpDef::new("select_input", input_kernel)
    .inputs(&[Slot::many("X"), Slot::one("Mask")])
    .outputs(&[Slot::one("Out")])
    .infer(input_infer)
    .sizes_itself()
    .any_width()
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Mask"]));

pub(super) const OUTPUT: OpDef = OpDef::new("select_output", output_kernel)
    .inputs(&[Slot::one("X"), Slot::one("Mask")])
    .outputs(&[Slot::many("Out")])
    .infer(|cx| {
        let x = cx.input("X")?.clone();
        cx.set("Out", x);
        Ok(())
    })
    .any_width();

fn input_infer(cx: &mut Infer<'_>) -> Result<()> {
    let inputs = cx.inputs("X");
    let first = *inputs.first().ok_or_else(|| Error::kernel("input slot `X` is empty"))?;
    let out = inputs.iter().try_fold(first.clone(), |all, one| join(&all, one));
    let alike = |error: Error| Error::kernel(format!("what is chosen from must be alike: {error}"));
    cx.set("Out", out.map_err(alike)?);
    Ok(())
}

/// The number of the chosen variable, of `count`.
fn choice(run: &Run<'_>, mask: In, count: usize) -> Result<usize> {
    let mask = run.tensor(mask)?;
    let chosen = match (mask.numel(), mask.dtype()) {
        (1, DType::I32) => i64::from(mask.as_slice::<i32>()?[0]),
        (1, DType::I64) => mask.as_slice::<i64>()?[0],
        (1, DType::Bool) => i64::from(mask.as_slice::<u8>()?[0]),
        (_, dtype) => {
            let text = format!("`Mask` must be one number, not {dtype} of shape {}", mask.dims());
            return Err(Error::kernel(text));
        }
    };
    usize::try_from(chosen).ok().filter(|chosen| *chosen < count).ok_or_else(|| {
        Error::kernel(format!("`Mask` is {chosen}, but there are {count} variables, from 0 on"))
    })
}

fn input_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, mask, mut out) = (op.inputs("X"), op.input("Mask")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let chosen = choice(run, mask, inputs.len())?;
        run.copy(inputs[chosen], &mut out)
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, mask, given) = (op.inputs("X"), op.input("Mask")?, op.input("Out@GRAD")?);
    let mut outs = op.outputs("X@GRAD");
    Ok(Box::new(move |run| {
        let chosen = choice(run, mask, inputs.len())?;
        for (at, (out, x)) in outs.iter_mut().zip(&inputs).enumerate() {
            match at == chosen {
                true => run.copy(given, out)?,
                false => zeros_like(run.tensor(*x)?, run.out(out)?),
            }
        }
        Ok(())
    }))
}

fn output_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mask, mut outs) = (op.input("X")?, op.input("Mask")?, op.outputs("Out"));
    Ok(Box::new(move |run| {
        let chosen = choice(run, mask, outs.len())?;
        for (at, out) in outs.iter_mut().enumerate() {
            match at == chosen {
                true => run.copy(x, out)?,
                false => zeros_like(run.tensor(x)?, run.out(out)?),
            }
        }
        Ok(())
    }))
}

fn zeros_like(x: &Tensor, out: &mut Tensor) {
    match x.list() {
        Some(list) => *out = Tensor::of_list(x.dtype(), List::empty(list.kind)),
        None => {
            out.resize(x.dtype(), x.dims());
            out.as_mut_bytes().fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::*;

    fn values(mask: i32) -> HashMap<String, Value> {
        let number = |value: f32| Value::from(Tensor::scalar(value));
        let mask = Value::from(Tensor::scalar(mask));
        HashMap::from([
            ("a".to_owned(), number(1.0)),
            ("b".to_owned(), number(2.0)),
            ("m".to_owned(), mask),
        ])
    }

    fn select() -> Op {
        Op::new("select_input").input("X", ["a", "b"]).input("Mask", ["m"]).output("Out", ["y"])
    }

    #[test]
    fn the_chosen_one_gets_the_gradient() {
        for (mask, chosen) in [(0, [3.0, 0.0]), (1, [0.0, 3.0])] {
            let mut values = values(mask);
            run_once(&select(), &mut values).unwrap();
            assert_eq!(values["y"].tensor().unwrap().to_f64_vec(), [f64::from(mask) + 1.0]);
            values.insert("y@GRAD".to_owned(), Tensor::scalar(3f32).into());
            let grad = Op::new("select_input_grad").input("X", ["a", "b"]).input("Mask", ["m"]);
            let grad = grad.input("Out@GRAD", ["y@GRAD"]).output("X@GRAD", ["da", "db"]);
            run_once(&grad, &mut values).unwrap();
            let of = |name: &str| values[name].tensor().unwrap().to_f64_vec()[0];
            assert_eq!([of("da"), of("db")], chosen);
        }
    }

    #[test]
    fn a_number_outside_is_an_error() {
        let error = run_once(&select(), &mut values(2)).unwrap_err().to_string();
        assert!(error.contains("`Mask` is 2, but there are 2"), "{error}");
    }
}
