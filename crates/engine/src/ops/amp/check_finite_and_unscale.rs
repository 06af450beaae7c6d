//! `check_finite_and_unscale`: divides gradients by the factor of their loss, and says whether any of them is NaN or
//! infinite.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("check_finite_and_unscale", kernel)
    .inputs(&[Slot::many("X"), Slot::one("Scale")])
    .outputs(&[Slot::many("Out"), Slot::one("FoundInfinite")])
    .infer(infer)
    .inplace(&[("X", "Out")]);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    for x in cx.inputs("X") {
        if !x.dtype.is_float() {
            return Err(Error::kernel(format!("`X` must hold floats, not {}", x.dtype)));
        }
    }
    cx.like(&[("Out", "X")])?;
    cx.set("FoundInfinite", Meta::new(DType::Bool, [1]));
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut gradients = super::gradients(op)?;
    let (scale, mut found) = (op.input("Scale")?, op.output("FoundInfinite")?);
    Ok(Box::new(move |run| {
        let scale = match run.tensor(scale)?.dtype() {
            DType::F64 => run.first::<f64>(scale)?,
            _ => f64::from(run.first::<f32>(scale)?),
        };
        let mut is_finite = true;
        for gradient in &mut gradients {
            run.carry_over(gradient)?;
            is_finite &= match run.out_value(&mut gradient.out) {
                Value::Tensor(out) => unscale(out, 1.0 / scale)?,
                Value::Rows(SelectedRows { value, .. }) => unscale(value, 1.0 / scale)?,
            };
        }
        run.set::<u8>(&mut found)?[0] = u8::from(!is_finite);
        Ok(())
    }))
}

/// Multiplies all elements; says whether they all were, and are, finite.
fn unscale(values: &mut Tensor, factor: f64) -> Result<bool> {
    let dtype = values.dtype();
    dispatch!(dtype, T in [f32, f64] => {
        let (factor, mut is_finite) = (T::from_f64(factor), true);
        for value in values.as_mut_slice::<T>()? {
            *value = value.times(factor);
            is_finite &= value.is_finite();
        }
        Ok(is_finite)
    }, else => Err(crate::op::not_float("X", dtype)))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn one_bad_element_is_found_among_all() {
        let op = Op::new("check_finite_and_unscale").input("X", ["a", "b"]).input("Scale", ["s"]);
        let op = op.output("Out", ["a", "b"]).output("FoundInfinite", ["found"]);
        for (bad, expected) in [(2.0f32, 0u8), (f32::INFINITY, 1), (f32::NAN, 1)] {
            let mut values = HashMap::new();
            let mut give = |name: &str, tensor: Tensor| {
                values.insert(name.to_owned(), tensor.into());
            };
            give("a", Tensor::from_slice([2], &[4.0f32, -8.0]).unwrap());
            give("b", Tensor::from_slice([1], &[bad]).unwrap());
            give("s", Tensor::scalar(4.0f32));
            run_once(&op, &mut values).unwrap();
            assert_eq!(values["found"].tensor().unwrap().as_slice::<u8>().unwrap(), [expected]);
            assert_eq!(values["a"].tensor().unwrap().to_f64_vec(), [1.0, -2.0]);
        }
    }
}
