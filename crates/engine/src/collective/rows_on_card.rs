//! Sums of selected rows over ranks whose cards exchange among themselves: each card gathers the rows of all, as the
//! host does (`ops/collective/rows.rs`), inside the recorded step.
//!
//! Cards gather parts of one size, so that every rank brings as many rows as the ranks have agreed on: the most that
//! one of them has. What a rank has less is filled up with rows that are none.

use std::sync::Arc;

use bireme_ir::{DType, Op, VarKind};

use crate::device::{
    Address, Device, DeviceCall, DeviceKernel, DeviceMeta, Elements, Exchange, NO_ROW, Operand,
    RowValues,
};
use crate::op::{Meta, OpView};
use crate::ops::collective::ring;
use crate::{Error, Result};

/// Where parts of scratch memory begin.
const ALIGN: usize = 256;

struct Gather {
    exchange: Arc<dyn Exchange>,
    /// Rows that each rank brings.
    room: usize,
    /// Elements of a row.
    width: usize,
    dtype: DType,
    /// Fills up what is missing.
    fill: Option<Fill>,
}

/// Makes rows and their numbers longer.
struct Fill {
    numbers: Longer,
    values: Longer,
}

/// Makes a vector longer, by a constant.
struct Longer {
    constant: Arc<dyn DeviceKernel>,
    join: Arc<dyn DeviceKernel>,
    /// Bytes of the constant, and of the longer vector.
    bytes: [usize; 2],
}

/// The kernel of a sum of selected rows, if it is one, and the cards of its ring exchange among themselves.
///
/// # Errors
/// When another rank is lost, or does not take part.
pub(super) fn kernel(
    op: &OpView<'_>,
    device: &dyn Device,
    inputs: &[DeviceMeta],
    outputs: &mut [DeviceMeta],
) -> Result<Option<Arc<dyn DeviceKernel>>> {
    let (Some(x), [out], "c_allreduce_sum") = (inputs.first(), outputs, op.def.name) else {
        return Ok(None);
    };
    let Some(rows) = x.rows.filter(|_| x.meta.kind == VarKind::SelectedRows) else {
        return Ok(None);
    };
    let (link, ring) = (op.link()?, ring(op)?);
    let Some(exchange) = link.peers().on_card(ring) else { return Ok(None) };
    if matches!(x.values, RowValues::View(_)) || !exchange.takes(x.meta.dtype) {
        return Ok(None);
    }
    let name = op.op.inputs_of("X").first().map_or("", String::as_str);
    let (size, room) = (link.peers().size(ring)?, link.agree_rows(ring, name, rows)?);
    let dims = x.meta.dims.iter().skip(1).map(|dim| usize::try_from(*dim).unwrap_or(0));
    let (width, dtype) = (dims.product::<usize>(), x.meta.dtype);
    let fill = match room - rows {
        0 => None,
        _ => Some(Fill {
            numbers: Longer::new(device, DType::I64, NO_ROW, [rows, room])?,
            values: Longer::new(device, dtype, 0, [rows * width, room * width])?,
        }),
    };
    *out = DeviceMeta { rows: Some(size * room), values: RowValues::Own, ..x.clone() };
    Ok(Some(Arc::new(Gather { exchange, room, width, dtype, fill })))
}

impl Longer {
    fn new(
        device: &dyn Device,
        dtype: DType,
        value: i64,
        [have, want]: [usize; 2],
    ) -> Result<Longer> {
        let vector = |count: usize| DeviceMeta::new(Meta::new(dtype, [count as i64]));
        let made = |op: &Op, inputs: &[DeviceMeta], output: usize| {
            let kernel = device.kernel(&OpView::new(op)?, inputs, &mut [vector(output)])?;
            kernel.ok_or_else(|| Error::kernel(format!("the card has no `{}`", op.kind)))
        };
        let more = want - have;
        let constant = Op::new("fill_constant").output("Out", ["out"]).attr("dtype", dtype.code());
        let constant =
            constant.attr("shape", vec![more as i64]).attr("str_value", value.to_string());
        let join = Op::new("concat").input("X", ["x", "y"]).output("Out", ["out"]);
        Ok(Longer {
            constant: made(&constant, &[], more)?,
            join: made(&join.attr("axis", 0), &[vector(have), vector(more)], want)?,
            bytes: [more, want].map(|count| (count * dtype.size()).next_multiple_of(ALIGN)),
        })
    }

    /// Bytes that a run needs, of which the longer vector is the first part.
    fn scratch(&self) -> usize {
        let own = self.constant.scratch().max(self.join.scratch());
        self.bytes[0] + self.bytes[1] + own.next_multiple_of(ALIGN)
    }

    fn launch(&self, call: &DeviceCall<'_>, from: Address, at: Address) -> Result<()> {
        let constant = at.plus(self.bytes[1]);
        let scratch = constant.plus(self.bytes[0]);
        let [longer, more] = [at, constant].map(Operand::Dense);
        self.constant.launch(&DeviceCall { inputs: &[], outputs: &[more], scratch, ..*call })?;
        let inputs = &[Operand::Dense(from), more];
        self.join.launch(&DeviceCall { inputs, outputs: &[longer], scratch, ..*call })
    }
}

impl DeviceKernel for Gather {
    fn scratch(&self) -> usize {
        self.fill.as_ref().map_or(0, |fill| fill.numbers.scratch() + fill.values.scratch())
    }

    fn counts_steps(&self) -> bool {
        false
    }

    fn launch(&self, call: &DeviceCall<'_>) -> Result<()> {
        let (Some(Operand::Rows { rows, values }), Some(Operand::Rows { rows: all, values: sums })) =
            (call.inputs.first().copied(), call.outputs.first().copied())
        else {
            return Err(Error::NotDense);
        };
        let (mut numbers, mut own) = (rows, values);
        if let Some(fill) = &self.fill {
            let at = [call.scratch, call.scratch.plus(fill.numbers.scratch())];
            fill.numbers.launch(call, rows, at[0])?;
            fill.values.launch(call, values, at[1])?;
            [numbers, own] = at;
        }
        if self.room == 0 {
            return Ok(());
        }
        let of = |dtype: DType, count: usize| Elements { dtype, count };
        self.exchange.all_gather(numbers, all, of(DType::I64, self.room))?;
        self.exchange.all_gather(own, sums, of(self.dtype, self.room * self.width))
    }
}
