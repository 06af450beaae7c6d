//! Runs one op on a card at once, outside any plan: what tests compare with [`crate::op::run_once`].

use std::collections::HashMap;
use std::sync::Arc;

use bireme_ir::{DType, Op, VarKind};

use super::{
    Complaint, Device, DeviceCall, DeviceMeta, DeviceRows, DeviceTensor, DeviceValue, Problem,
};
use crate::op::{Infer, OpView, meta_of};
use crate::tensor::{Dims, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// Runs `op` on the variables in `values` and puts its outputs there, all by way of `device`. Says no, and
/// does nothing, when the host must run it.
///
/// # Errors
/// When an input is missing, or shape rule or kernel refuse the inputs.
pub fn run_once_on(
    device: &Arc<dyn Device>,
    op: &Op,
    values: &mut HashMap<String, Value>,
) -> Result<bool> {
    let view = OpView::new(op)?;
    view.check_aliases().map_err(|error| error.in_op(op))?;
    let mut metas = Vec::new();
    for name in view.flat_inputs() {
        let value = values.get(name).ok_or_else(|| Error::NotInitialized { var: name.clone() })?;
        let rows = value.rows().map(|rows| rows.rows.len());
        metas.push(DeviceMeta { rows, ..DeviceMeta::new(meta_of(value)) });
    }
    let known: Vec<_> = metas.iter().map(|input| input.meta.clone()).collect();
    let outputs = Infer::run(&view, &known).map_err(|error| error.in_op(op))?;
    let is_plain = |meta: &crate::op::Meta| meta.is_static() && meta.lod_level == 0;
    if !known.iter().chain(&outputs).all(is_plain) {
        return Ok(false);
    }
    let mut outputs: Vec<_> = outputs.into_iter().map(DeviceMeta::new).collect();
    let kernel = device.kernel(&view, &metas, &mut outputs).map_err(|error| error.in_op(op))?;
    let Some(kernel) = kernel else { return Ok(false) };
    let mut on_card: HashMap<&String, DeviceValue> = HashMap::new();
    for name in view.flat_inputs() {
        on_card.insert(name, DeviceValue::upload(device.as_ref(), &values[name])?);
    }
    for (name, meta) in view.flat_outputs().zip(&outputs) {
        if !on_card.contains_key(name) {
            on_card.insert(name, unwritten(device.as_ref(), meta)?);
        }
    }
    let scratch = device.allocate(kernel.scratch())?;
    let step = DeviceTensor::upload(device.as_ref(), &Tensor::scalar(0i64))?;
    let complaints = device.complaints()?;
    let operands = |names: &mut dyn Iterator<Item = &String>| -> Vec<_> {
        names.map(|name| on_card[name].operand()).collect()
    };
    kernel.launch(&DeviceCall {
        inputs: &operands(&mut view.flat_inputs()),
        outputs: &operands(&mut view.flat_outputs()),
        scratch: scratch.address(),
        step: step.address(),
        op: 0,
        complaints: complaints.address(),
    })?;
    device.synchronize()?;
    if let Some(complaint) = complaints.take()? {
        return Err(refused(&complaint).in_op(op));
    }
    for name in view.flat_outputs() {
        values.insert(name.clone(), on_card[name].download()?);
    }
    Ok(true)
}

/// Memory for an output, of which nothing is known.
pub(crate) fn unwritten(device: &dyn Device, meta: &DeviceMeta) -> Result<DeviceValue> {
    let dims: Vec<usize> =
        meta.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
    let (dims, dtype) = (Dims::new(&dims), meta.meta.dtype);
    if meta.meta.kind != VarKind::SelectedRows {
        return Ok(DeviceValue::Tensor(DeviceTensor::new(device, dtype, dims)?));
    }
    let count = meta.rows.unwrap_or(0);
    Ok(DeviceValue::Rows(DeviceRows {
        rows: DeviceTensor::new(device, DType::I64, Dims::new(&[count]))?,
        height: dims.first().copied().unwrap_or(0),
        value: DeviceTensor::new(device, dtype, dims.with_rows(count))?,
    }))
}

/// The error of a kernel that complained.
pub(crate) fn refused(complaint: &Complaint) -> Error {
    let Complaint { value, position, bound, problem, .. } = complaint;
    Error::kernel(match problem {
        Problem::OutOfRange => format!("{value} at position {position} lies outside 0..{bound}"),
        Problem::Label => {
            format!("label {value} of sample {position} lies outside the {bound} classes")
        }
        Problem::NotFinite => format!("element {position} is NaN or infinite"),
        Problem::ZeroDivisor => "integer division by zero: `Y` has a zero".to_owned(),
        Problem::UnknownKey => crate::ops::unknown_key(*value, *position as usize, *bound as usize),
        Problem::TooManyRows => {
            crate::ops::too_many_rows(*value as usize, *position as usize, *bound as usize)
        }
    })
}
