//! `empty_array`: a tensor array without items. Programs do not name it: the engine puts it where one reads, or writes in
//! a block, an array that nothing was written to before.

use bireme_ir::VarKind;

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("empty_array", kernel)
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("dtype", DType::F32.code())])
    .infer(|cx| {
        let out = Meta::unwritten_list(cx.op().dtype("dtype")?);
        cx.set("Out", out);
        Ok(())
    })
    .any_width();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut out, dtype) = (op.output("Out")?, op.dtype("dtype")?);
    Ok(Box::new(move |run| {
        *run.out(&mut out)? = Tensor::of_list(dtype, List::empty(VarKind::LodTensorArray));
        Ok(())
    }))
}
