//! Kernels against the bytes that they move: what a card's memory gives is what bounds them.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bireme_engine::Value;
use bireme_engine::device::{
    Address, Complaints, Device, DeviceCall, DeviceKernel, DeviceMeta, DeviceTensor, DeviceValue,
    Operand, Region,
};
use bireme_engine::op::{Infer, Meta, OpView, meta_of};
use bireme_engine::random::Philox;
use bireme_engine::tensor::{Dims, SelectedRows, Tensor};
use bireme_ir::{DType, Op};

use super::parts::part_of;
use super::{Figure, Run};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Of a block of memory, by the driver: what the others are compared with.
    Copy,
    Add,
    /// A row to every row of a matrix.
    BroadcastAdd,
    ReduceRows,
    ReduceColumns,
    Softmax,
    /// Two matrices side by side.
    Concat,
    /// To 16 bits.
    Cast,
    /// Rows of 64 bytes.
    Gather,
    /// Row numbers with their positions.
    Sort,
    /// Sums of sorted rows, with Adagrad.
    RowUpdate,
}

const COLUMNS: usize = 1024;
const WIDTH: usize = 16;

/// An op on variables of the card.
struct OneOp {
    kernel: Arc<dyn DeviceKernel>,
    /// Holds their memory.
    _variables: HashMap<String, DeviceValue>,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    scratch: Arc<dyn Region>,
}

impl OneOp {
    /// The op with these inputs: values of the host, or a shape for what may be anything.
    fn new(device: &Arc<dyn Device>, op: &Op, given: Vec<(&str, Given)>) -> Result<OneOp> {
        let view = OpView::new(op)?;
        let mut variables = HashMap::new();
        let mut metas = HashMap::new();
        for (name, given) in given {
            let (value, meta) = given.place(device)?;
            variables.insert(name.to_owned(), value);
            metas.insert(name.to_owned(), meta);
        }
        let inputs: Vec<DeviceMeta> = view.flat_inputs().map(|name| metas[name].clone()).collect();
        let known: Vec<_> = inputs.iter().map(|input| input.meta.clone()).collect();
        let outputs = Infer::run(&view, &known)?.into_iter();
        let mut outputs: Vec<_> = outputs.map(DeviceMeta::new).collect();
        let kernel = device.kernel(&view, &inputs, &mut outputs)?;
        let kernel = kernel.with_context(|| format!("the card does not run `{}`", op.kind))?;
        for (name, output) in view.flat_outputs().zip(&outputs) {
            if !variables.contains_key(name) {
                let dims: Vec<usize> =
                    output.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
                let (tensor, _) = Given::Any(output.meta.dtype, dims).place(device)?;
                variables.insert(name.clone(), tensor);
            }
        }
        let operands = |names: &mut dyn Iterator<Item = &String>| -> Vec<Operand> {
            names.map(|name| variables[name].operand()).collect()
        };
        let inputs = operands(&mut view.flat_inputs());
        let outputs = operands(&mut view.flat_outputs());
        let scratch = device.allocate(kernel.scratch())?;
        Ok(OneOp { kernel, inputs, outputs, scratch, _variables: variables })
    }

    /// Gives it to the card.
    fn launch(&self, complaints: &dyn Complaints) -> bireme_engine::Result<()> {
        self.kernel.launch(&DeviceCall {
            inputs: &self.inputs,
            outputs: &self.outputs,
            scratch: self.scratch.address(),
            step: Address::NULL,
            op: 0,
            complaints: complaints.address(),
        })
    }
}

/// A variable of an op.
enum Given {
    /// Zeros.
    Any(DType, Vec<usize>),
    This(Value),
}

impl Given {
    fn floats(dims: &[usize]) -> Given {
        Given::Any(DType::F32, dims.to_vec())
    }

    fn place(self, device: &Arc<dyn Device>) -> Result<(DeviceValue, DeviceMeta)> {
        match self {
            Given::Any(dtype, dims) => {
                let tensor = DeviceTensor::new(device.as_ref(), dtype, Dims::new(&dims))?;
                device.clear(tensor.address(), tensor.bytes())?;
                let dims: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
                let meta = Meta::new(dtype, dims);
                let meta = DeviceMeta::new(meta);
                Ok((DeviceValue::Tensor(tensor), meta))
            }
            Given::This(value) => {
                let rows = value.rows().map(|rows| rows.rows.len());
                let meta = DeviceMeta { rows, ..DeviceMeta::new(meta_of(&value)) };
                Ok((DeviceValue::upload(device.as_ref(), &value)?, meta))
            }
        }
    }
}

impl Run {
    /// Gigabytes a second; the ratio is to a copy.
    pub(super) fn kernel(&mut self, kernel: Kernel) -> Result<Figure> {
        let copy = self.copy_speed()?;
        let speed = match kernel {
            Kernel::Copy => copy,
            Kernel::Sort | Kernel::RowUpdate => self.sorted_update(kernel)?,
            _ => self.op_speed(kernel)?,
        };
        Ok(Figure::new(speed, "GB/s", Some(speed / copy)))
    }

    /// Elements of a large tensor.
    fn elements(&self) -> usize {
        self.scale.of(64 << 20, 4 * COLUMNS)
    }

    /// Ids of a large batch, and rows of the table that they are of.
    fn ids(&self) -> (usize, usize) {
        self.scale.of((65_536 * 26, 10_000_000), (300, 1000))
    }

    /// Gigabytes a second of a copy on the card, read and written; measured once.
    pub(super) fn copy_speed(&mut self) -> Result<f64> {
        if let Some(known) = self.copy_gb_s {
            return Ok(known);
        }
        let bytes = self.elements() * 4;
        let [from, to] = [self.device.allocate(bytes)?, self.device.allocate(bytes)?];
        self.device.clear(from.address(), bytes)?;
        let seconds = self.time(|| Ok(self.device.copy(from.address(), to.address(), bytes)?))?;
        let speed = 2.0 * bytes as f64 / seconds / 1e9;
        self.copy_gb_s = Some(speed);
        Ok(speed)
    }

    fn op_speed(&self, kernel: Kernel) -> Result<f64> {
        let count = self.elements();
        let (rows, all) = (count / COLUMNS, count * 4);
        let op = |kind: &str| Op::new(kind).input("X", ["x"]).output("Out", ["out"]);
        let matrix = Given::floats(&[rows, COLUMNS]);
        let reduce = |axis: i32| op("reduce_sum").attr("dim", vec![axis]);
        let (op, given, bytes) = match kernel {
            Kernel::Add => {
                let op = op("elementwise_add").input("Y", ["y"]);
                (op, vec![("x", matrix), ("y", Given::floats(&[rows, COLUMNS]))], 3 * all)
            }
            Kernel::BroadcastAdd => {
                let op = op("elementwise_add").input("Y", ["y"]).attr("axis", 1);
                (op, vec![("x", matrix), ("y", Given::floats(&[COLUMNS]))], 2 * all)
            }
            Kernel::ReduceRows => (reduce(1), vec![("x", matrix)], all),
            Kernel::ReduceColumns => (reduce(0), vec![("x", matrix)], all),
            Kernel::Concat => {
                let half = || Given::floats(&[rows, COLUMNS / 2]);
                let op = Op::new("concat").input("X", ["x", "y"]).output("Out", ["out"]);
                (op.attr("axis", 1), vec![("x", half()), ("y", half())], 2 * all)
            }
            Kernel::Cast => {
                let op = op("cast").attr("in_dtype", DType::F32.code());
                (op.attr("out_dtype", DType::BF16.code()), vec![("x", matrix)], all + all / 2)
            }
            Kernel::Gather => {
                let (ids, rows) = self.ids();
                let given = vec![
                    ("x", Given::floats(&[rows, WIDTH])),
                    ("index", Given::This(evenly(ids, rows)?.into())),
                ];
                (op("gather").input("Index", ["index"]), given, ids * (8 + 2 * WIDTH * 4))
            }
            Kernel::Copy | Kernel::Softmax | Kernel::Sort | Kernel::RowUpdate => {
                (op("softmax"), vec![("x", matrix)], 2 * all)
            }
        };
        let one = OneOp::new(&self.device, &op, given)?;
        let complaints = self.device.complaints()?;
        let seconds = self.time(|| Ok(one.launch(complaints.as_ref())?))?;
        ensure!(complaints.take()?.is_none(), "`{}` complains", op.kind);
        Ok(bytes as f64 / seconds / 1e9)
    }

    /// Random rows of 64 bytes that are read in a second, in thousand millions; measured once.
    pub(super) fn row_reads(&mut self) -> Result<f64> {
        if let Some(known) = self.row_reads {
            return Ok(known);
        }
        let speed = self.op_speed(Kernel::Gather)? / (8 + 2 * WIDTH * 4) as f64;
        self.row_reads = Some(speed);
        Ok(speed)
    }

    /// One half of an update of rows, whose pieces are timed by themselves.
    fn sorted_update(&self, kernel: Kernel) -> Result<f64> {
        let (ids, rows) = self.ids();
        let numbers = skewed(ids, rows);
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let value = Tensor::zeros(DType::F32, [ids, WIDTH]);
        let grad = Value::Rows(SelectedRows { rows: numbers, height: rows, value });
        let op = Op::new("adagrad")
            .input("Param", ["param"])
            .input("Grad", ["grad"])
            .input("Moment", ["moment"])
            .input("LearningRate", ["rate"])
            .output("ParamOut", ["param"])
            .output("MomentOut", ["moment"]);
        let given = vec![
            ("param", Given::floats(&[rows, WIDTH])),
            ("moment", Given::floats(&[rows, WIDTH])),
            ("rate", Given::floats(&[1])),
            ("grad", Given::This(grad)),
        ];
        let one = OneOp::new(&self.device, &op, given)?;
        let complaints = self.device.complaints()?;
        let mut launch = || one.launch(complaints.as_ref());
        let record = || self.device.record(&mut launch);
        let (recorded, profiles) = bireme_cuda::profiled(self.number, record)?;
        recorded?;
        let (part, bytes) = match kernel {
            Kernel::Sort => {
                let passes = (usize::BITS - rows.leading_zeros()).div_ceil(8) as usize;
                // Numbers of 64 bits become keys; passes read and write keys and positions, but the first reads none.
                ("sort", ids * (12 + 16 * passes - 4))
            }
            _ => ("row_update", ids * (WIDTH * 4 + 8) + distinct.len() * WIDTH * 4 * 4),
        };
        let pieces = profiles.iter().flat_map(|profile| &profile.pieces);
        let us: f32 = pieces.filter(|piece| part_of(piece) == part).map(|piece| piece.us).sum();
        ensure!(us > 0.0, "the update has no part `{part}`");
        Ok(bytes as f64 / f64::from(us) / 1e3)
    }
}

/// Row numbers, each as likely as the others.
fn evenly(count: usize, rows: usize) -> Result<Tensor> {
    let random = Philox::new(2, "rows");
    let ids: Vec<i64> = (0..count as u64).map(|i| (random.u64(i) % rows as u64) as i64).collect();
    Ok(Tensor::from_slice([count], &ids)?)
}

/// Row numbers skewed as `u⁴`.
fn skewed(count: usize, rows: usize) -> Vec<i64> {
    let random = Philox::new(3, "rows");
    let row =
        |i| ((f64::from(random.uniform(i)).powi(4) * rows as f64) as i64).min(rows as i64 - 1);
    (0..count as u64).map(row).collect()
}
