//! What a lowering function works with: the op, its variables, and the list of work that it writes.

use bireme_engine::Error;
use bireme_engine::device::{DeviceMeta, RowValues, View};
use bireme_engine::op::OpView;
use bireme_ir::{DType, VarKind};
use bytemuck::NoUninit;

use super::{Outcome, host};
use crate::work::{Arg, Base, Many, Product, Ref, Work};

/// Threads of a block where a kernel does not care.
pub(crate) const THREADS: u32 = 256;

/// Blocks beyond which elementwise kernels loop: enough for any card.
const MAX_BLOCKS: usize = 1 << 16;

/// Where scratch memory and other parts of it begin: as device memory is aligned.
pub(crate) const ALIGN: usize = 256;

/// An op on its way to the card.
pub(crate) struct Lowering<'a> {
    /// The op: attributes, slots.
    pub(crate) op: &'a OpView<'a>,
    inputs: &'a [DeviceMeta],
    outputs: &'a mut [DeviceMeta],
    lowered: Lowered,
}

/// The work of an op.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Lowered {
    pub(crate) work: Vec<Work>,
    /// Bytes of memory that the work needs beside the op's variables.
    pub(crate) scratch: usize,
    /// Where each piece of it begins, and how long it is.
    pub(crate) pieces: Vec<(usize, usize)>,
}

/// A variable of an op.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Var {
    /// Its elements; those of the selected rows, for selected rows.
    pub(crate) at: Ref,
    pub(crate) dtype: DType,
    /// Of selected rows: of the whole tensor.
    pub(crate) dims: Vec<usize>,
    pub(crate) selected: Option<Selected>,
    /// Elements from one row of a matrix to the next; more than its width only in slots that take gaps, which hold zeros,
    /// or lines, where rows of others lie between.
    pub(crate) pitch: usize,
    /// Whether zeros follow its rows, up to a multiple of [`bireme_engine::device::ROW_ROOM`].
    pub(crate) zeros_follow: bool,
}

/// Which rows are selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Selected {
    /// Their numbers, of 64 bits.
    pub(crate) rows: Ref,
    /// How many there are.
    pub(crate) count: usize,
    /// How their values lie, where not one behind the other; only in slots that take views.
    pub(crate) view: Option<View>,
}

impl Var {
    /// The number of elements; of the whole tensor, for selected rows.
    pub(crate) fn numel(&self) -> usize {
        self.dims.iter().product()
    }

    /// The number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.numel() * self.dtype.size()
    }

    /// What names of kernels for this element type end in.
    pub(crate) fn suffix(&self) -> Outcome<&'static str> {
        suffix(self.dtype)
    }

    /// The same, declined unless it is a dense tensor.
    pub(crate) fn dense(self) -> Outcome<Var> {
        if self.selected.is_some() { host() } else { Ok(self) }
    }

    /// Elements in one row.
    pub(crate) fn width(&self) -> usize {
        self.dims.get(1..).map_or(1, |rest| rest.iter().product())
    }

    /// Whether its rows lie apart.
    pub(crate) fn has_gaps(&self) -> bool {
        self.dims.len() == 2 && self.pitch != self.dims[1]
    }
}

/// What names of kernels for `dtype` end in.
pub(crate) fn suffix(dtype: DType) -> Outcome<&'static str> {
    Ok(match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::BF16 => "bf16",
        DType::F16 => "f16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 => "u8",
        DType::Bool => "bool",
        _ => return host(),
    })
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(
        op: &'a OpView<'a>,
        inputs: &'a [DeviceMeta],
        outputs: &'a mut [DeviceMeta],
    ) -> Lowering<'a> {
        Lowering { op, inputs, outputs, lowered: Lowered::default() }
    }

    pub(crate) fn finish(self) -> Lowered {
        self.lowered
    }

    /// The variable in input slot `slot`; an error when there is none.
    pub(crate) fn input(&self, slot: &str) -> Outcome<Var> {
        Ok(self.input_at(self.op.input_position(slot)?))
    }

    /// The variable in input slot `slot`, if there is one.
    pub(crate) fn maybe_input(&self, slot: &str) -> Option<Var> {
        self.op.input_positions(slot).next().map(|at| self.input_at(at))
    }

    /// All variables in input slot `slot`.
    pub(crate) fn inputs(&self, slot: &str) -> Vec<Var> {
        self.op.input_positions(slot).map(|at| self.input_at(at)).collect()
    }

    /// The variable in output slot `slot`; an error when there is none.
    pub(crate) fn output(&self, slot: &str) -> Outcome<Var> {
        Ok(self.output_at(self.op.output_position(slot)?))
    }

    /// The variable in output slot `slot`, if there is one.
    pub(crate) fn maybe_output(&self, slot: &str) -> Option<Var> {
        self.op.output_positions(slot).next().map(|at| self.output_at(at))
    }

    /// All variables in output slot `slot`.
    pub(crate) fn outputs(&self, slot: &str) -> Vec<Var> {
        self.op.output_positions(slot).map(|at| self.output_at(at)).collect()
    }

    /// Says how many rows the op selects in its outputs of slot `slot`.
    pub(crate) fn select(&mut self, slot: &str, count: usize) {
        for output in &mut self.outputs[self.op.output_positions(slot)] {
            output.rows = Some(count);
        }
    }

    /// As [`Lowering::select`], of one of several outputs.
    pub(crate) fn select_one(&mut self, slot: &str, which: usize, count: usize) {
        if let Some(at) = self.op.output_positions(slot).nth(which) {
            self.outputs[at].rows = Some(count);
        }
    }

    /// Makes the values of one of several outputs a view; says no where they need memory of their own.
    pub(crate) fn view_one(&mut self, slot: &str, which: usize, view: View) -> bool {
        let Some(at) = self.op.output_positions(slot).nth(which) else { return false };
        let output = &mut self.outputs[at];
        let may = output.values == RowValues::OwnOrView;
        if may {
            output.values = RowValues::View(view);
        }
        may
    }

    /// Says that the op writes zeros behind its output in slot `slot`.
    pub(crate) fn zeros_follow(&mut self, slot: &str) {
        for output in &mut self.outputs[self.op.output_positions(slot)] {
            output.zeros_follow = true;
        }
    }

    fn input_at(&self, at: usize) -> Var {
        var(&self.inputs[at], Base::Input(at), Base::InputRows(at))
    }

    fn output_at(&self, at: usize) -> Var {
        var(&self.outputs[at], Base::Output(at), Base::OutputRows(at))
    }

    /// Takes memory that only this run of the op uses.
    pub(crate) fn scratch(&mut self, bytes: usize) -> Ref {
        let offset = self.lowered.scratch.next_multiple_of(ALIGN);
        self.lowered.scratch = offset + bytes;
        self.lowered.pieces.push((offset, bytes));
        Ref { base: Base::Scratch, offset }
    }

    /// A kernel over `count` elements, with one thread for each up to a limit beyond which it loops. Nothing is
    /// launched for none.
    pub(crate) fn over(&mut self, name: impl Into<String>, count: usize) -> Launch<'_> {
        let blocks = count.div_ceil(THREADS as usize).min(MAX_BLOCKS) as u32;
        self.kernel(name, [blocks, 1, 1], THREADS)
    }

    /// A kernel of `blocks` blocks of `threads` threads; nothing is launched for no blocks.
    pub(crate) fn kernel(
        &mut self,
        name: impl Into<String>,
        blocks: [u32; 3],
        threads: u32,
    ) -> Launch<'_> {
        let name = name.into();
        let (work, args) = (&mut self.lowered.work, Vec::new());
        Launch { work, name, blocks, threads, args, many: None }
    }

    /// Multiplies matrices.
    pub(crate) fn product(&mut self, product: Product) {
        self.lowered.work.push(Work::Product(product));
    }

    /// Copies bytes.
    pub(crate) fn copy(&mut self, from: Ref, to: Ref, bytes: usize) {
        if bytes > 0 && from != to {
            self.lowered.work.push(Work::Copy { from, to, bytes });
        }
    }

    /// Fills memory with zeros.
    pub(crate) fn clear(&mut self, at: Ref, bytes: usize) {
        if bytes > 0 {
            self.lowered.work.push(Work::Clear { at, bytes });
        }
    }

    /// Makes an output a copy of the input that it continues; work for nothing when they are the same
    /// variable, which is known only when the op runs, so the copy then is from a place to itself and is left out.
    pub(crate) fn carry_over(&mut self, input: &Var, output: &Var) {
        self.copy(input.at, output.at, input.bytes());
    }
}

fn var(meta: &DeviceMeta, values: Base, rows: Base) -> Var {
    let dims = meta.meta.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
    let view = match meta.values {
        RowValues::View(view) => Some(view),
        RowValues::Own | RowValues::OwnOrView => None,
    };
    let selected = (meta.meta.kind == VarKind::SelectedRows).then(|| Selected {
        rows: Ref::of(rows),
        count: meta.rows.unwrap_or(0),
        view,
    });
    let dims: Vec<usize> = dims;
    let pitch = meta.pitch.unwrap_or_else(|| dims.iter().skip(1).product());
    let (dtype, zeros_follow) = (meta.meta.dtype, meta.zeros_follow);
    Var { at: Ref::of(values), dtype, dims, selected, pitch, zeros_follow }
}

/// A kernel that is about to be launched: its arguments in their order.
#[must_use]
pub(crate) struct Launch<'a> {
    work: &'a mut Vec<Work>,
    name: String,
    blocks: [u32; 3],
    threads: u32,
    args: Vec<Arg>,
    many: Option<Many>,
}

impl Launch<'_> {
    /// Says how it can be done together with others.
    pub(crate) fn many(mut self, many: Many) -> Self {
        self.many = Some(many);
        self
    }

    /// A pointer.
    pub(crate) fn at(mut self, at: Ref) -> Self {
        self.args.push(Arg::Ref(at));
        self
    }

    /// A structure of `count` pointers: these, then null pointers.
    pub(crate) fn refs(mut self, refs: impl IntoIterator<Item = Ref>, count: usize) -> Self {
        let mut refs: Vec<Ref> = refs.into_iter().collect();
        refs.resize(count, Ref::NULL);
        self.args.push(Arg::Refs(refs.into()));
        self
    }

    /// The elements of a variable.
    pub(crate) fn var(self, var: &Var) -> Self {
        self.at(var.at)
    }

    /// The elements of a variable, or a null pointer.
    pub(crate) fn maybe(self, var: Option<&Var>) -> Self {
        self.at(var.map_or(Ref::NULL, |var| var.at))
    }

    /// A number or a structure.
    pub(crate) fn value<T: NoUninit>(mut self, value: T) -> Self {
        self.args.push(Arg::Value(bytemuck::bytes_of(&value).into()));
        self
    }

    /// A count or size, as the kernels' `int64_t`.
    pub(crate) fn size(self, value: usize) -> Self {
        self.value(value as i64)
    }

    /// Where to complain, and in whose name: two arguments.
    pub(crate) fn complaint(mut self) -> Self {
        self.args.push(Arg::Ref(Ref::of(Base::Complaint)));
        self.args.push(Arg::Op);
        self
    }

    /// Adds the kernel to the op's work.
    pub(crate) fn launch(self) {
        if self.blocks.contains(&0) {
            return;
        }
        let Launch { work, name, blocks, threads, args, many } = self;
        work.push(Work::Kernel { name, blocks, threads, args, many });
    }
}

/// The error of an attribute that cannot be.
pub(crate) fn invalid(problem: impl Into<String>) -> super::Stop {
    super::Stop::Error(Error::kernel(problem))
}
