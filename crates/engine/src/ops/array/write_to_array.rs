//! `write_to_array`: puts a tensor into a place of a tensor array, which grows as far as it must.

use std::sync::Arc;

use bireme_ir::VarKind;

use super::{list, place};
use crate::op::join;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("write_to_array", kernel)
    .inputs(&[Slot::one("X"), Slot::one("I"), Slot::maybe("Array")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .any_width()
    .inplace(&[("Array", "Out")])
    .gradient(
        Gradient::new(&["X", "Array"], grad_kernel)
            .reads(&["X", "I", "Array"])
            .optional(&["Array"]),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?.clone();
    if x.kind != VarKind::LodTensor {
        return Err(Error::kernel("an array holds dense tensors only"));
    }
    let item = x.into_item();
    let out = match cx.maybe_input("Array") {
        // Items of different ranks share nothing, which readers find out.
        Some(array) => join(array, &item).unwrap_or_else(|_| Meta::unwritten_list(item.dtype)),
        None => item,
    };
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, i) = (op.input("X")?, op.input("I")?);
    let mut array = op.maybe_in_out("Array", "Out");
    let mut fresh = if array.is_none() { Some(op.output("Out")?) } else { None };
    Ok(Box::new(move |run| {
        let (at, item) = (place(run, i)?, Arc::new(run.value(x).clone()));
        let out = match (&mut array, &mut fresh) {
            (Some(array), _) => run.continued(array)?,
            (None, Some(out)) => {
                let out = run.out(out)?;
                let empty = List::empty(VarKind::LodTensorArray);
                *out = Tensor::of_list(item.dtype(), empty);
                out
            }
            (None, None) => unreachable!("the op has an output"),
        };
        out.list_mut()?.set(at, item);
        Ok(())
    }))
}

/// What was written gets the gradient of its place; in the array before, that place counted for nothing.
fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, i, given) = (op.input("X")?, op.input("I")?, op.input("Out@GRAD")?);
    let (mut dx, mut before) = (op.maybe_output("X@GRAD"), op.maybe_output("Array@GRAD"));
    Ok(Box::new(move |run| {
        let (at, items) = (place(run, i)?, list(run, given)?);
        if let Some(dx) = &mut dx {
            let dx = run.out(dx)?;
            match items.get(at) {
                Ok(item) => dx.copy_from(item.tensor()?),
                Err(_) => {
                    let x = run.tensor(x)?;
                    dx.resize(x.dtype(), x.dims());
                    dx.as_mut_bytes().fill(0);
                }
            }
        }
        if let Some(before) = &mut before {
            let mut items = items.clone();
            if let Some(item) = items.items.get_mut(at) {
                *item = None;
            }
            *run.out(before)? = Tensor::of_list(run.tensor(given)?.dtype(), items);
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use bireme_ir::grad_name;

    use super::*;
    use crate::ops::testing::*;

    fn number(value: f32) -> Value {
        Tensor::scalar(value).into()
    }

    fn write(x: &str, i: &str, array: Option<&str>, out: &str) -> Op {
        let op = Op::new("write_to_array").input("X", [x]).input("I", [i]).output("Out", [out]);
        if let Some(array) = array { op.input("Array", [array]) } else { op }
    }

    #[test]
    fn what_was_written_can_be_read_and_gets_its_gradient() {
        let mut values: HashMap<String, Value> = HashMap::new();
        values.insert("x".into(), number(1.0));
        values.insert("y".into(), number(2.0));
        values.insert("zero".into(), Tensor::scalar(0i64).into());
        values.insert("two".into(), Tensor::scalar(2i64).into());
        run_once(&write("x", "zero", None, "a"), &mut values).unwrap();
        run_once(&write("y", "two", Some("a"), "b"), &mut values).unwrap();
        let read = |i: &str| {
            Op::new("read_from_array").input("X", ["b"]).input("I", [i]).output("Out", ["out"])
        };
        run_once(&read("two"), &mut values).unwrap();
        assert_eq!(values["out"].tensor().unwrap().to_f64_vec(), [2.0]);
        let length = Op::new("lod_array_length").input("X", ["b"]).output("Out", ["n"]);
        run_once(&length, &mut values).unwrap();
        assert_eq!(values["n"].tensor().unwrap().to_f64_vec(), [3.0]);
        values.insert("one".into(), Tensor::scalar(1i64).into());
        let error = run_once(&read("one"), &mut values).unwrap_err().to_string();
        assert!(error.contains("place 1 of the array was not written: it has 3 places"), "{error}");
        values.insert("out@GRAD".into(), number(5.0));
        let op = read("two");
        let view = OpView::new(&op).unwrap();
        for grad in view.def.grad.ops(&view).unwrap() {
            run_once(&grad, &mut values).unwrap();
        }
        let op = write("y", "two", Some("a"), "b");
        let view = OpView::new(&op).unwrap();
        for grad in view.def.grad.ops(&view).unwrap() {
            run_once(&grad, &mut values).unwrap();
        }
        assert_eq!(values[&grad_name("y")].tensor().unwrap().to_f64_vec(), [5.0]);
        let before = values[&grad_name("a")].tensor().unwrap().list().unwrap().clone();
        assert!(before.items.iter().all(Option::is_none));
    }
}
