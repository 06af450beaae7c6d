//! `fused_pack_weights`: weights as products read them, packed once for all shares of a batch (`gemm::pack`).

use crate::gemm::{self, Order, Packing};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("fused_pack_weights", kernel)
    // A program that only predicts reads none transposed.
    .inputs(&[Slot::any("W"), Slot::any("Transposed")])
    // Those of `W`, then those of `Transposed`.
    .outputs(&[Slot::many("Out")])
    .infer(infer);

/// Weights that are packed at a time.
const AT_ONCE: usize = 16;

/// Whether a weight of this shape is packed for products of this processor.
pub(crate) fn is_for(rows_and_columns: [usize; 2], half: bool) -> bool {
    /// Numbers of a weight that each share packs for itself in no time.
    const SMALL: usize = 4096;
    let [rows, columns] = rows_and_columns;
    rows * columns > SMALL && gemm::packed_len(rows_and_columns, half).is_some()
}

/// The sizes of the right operand that a weight is.
fn operand([rows, columns]: [usize; 2], order: Order) -> [usize; 2] {
    match order {
        Order::Plain => [rows, columns],
        Order::Transposed => [columns, rows],
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let half = cx.op().rounds_factors();
    let plain = cx.inputs("W").into_iter().map(|meta| (meta, Order::Plain));
    let turned = cx.inputs("Transposed").into_iter().map(|meta| (meta, Order::Transposed));
    let packed = plain.chain(turned).map(|(w, order)| {
        let dims: Vec<usize> = w.dims.iter().filter_map(|dim| usize::try_from(*dim).ok()).collect();
        let dims = <[usize; 2]>::try_from(dims).ok().map(|dims| operand(dims, order));
        let len = dims.and_then(|dims| gemm::packed_len(dims, half));
        let len = len.ok_or_else(|| Error::kernel(format!("{:?} is no weight", w.dims)))?;
        Ok(w.with_dims(vec![len as i64]))
    });
    let packed = packed.collect::<Result<Vec<_>>>()?;
    cx.set_each("Out", packed);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let plain = op.inputs("W").into_iter().map(|w| (w, Order::Plain));
    let turned = op.inputs("Transposed").into_iter().map(|w| (w, Order::Transposed));
    let weights: Vec<(In, Order)> = plain.chain(turned).collect();
    let mut outs = op.outputs("Out");
    Ok(Box::new(move |run| {
        let half = run.rounds_factors;
        for (weights, outs) in weights.chunks(AT_ONCE).zip(outs.chunks_mut(AT_ONCE)) {
            let mut operands = [const { None }; AT_ONCE];
            for (((w, order), out), operand_at) in weights.iter().zip(outs).zip(&mut operands) {
                let dims = run.dims(*w)?;
                let sizes = operand([dims[0], dims[1]], *order);
                let rhs = (run.get(*w)?, *order);
                *operand_at = Some(Packing::new(sizes, rhs, half, run.set(out)?));
            }
            gemm::pack(&operands);
        }
        Ok(())
    }))
}
