//! Shape rules: from what is known of an op's inputs to what will be known of its outputs.
//!
//! The same rule runs when a program is built (batch dimensions unknown, -1) and when it is planned
//! for a concrete batch. A rule that cannot know a dimension leaves -1; the kernel then sizes its
//! output itself.

use bireme_ir::{DType, Var, VarKind};

use super::{InferRule, OpView};
use crate::tensor::MAX_RANK;
use crate::{Error, Result};

/// What is known of a variable before it has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Meta {
    /// Dense or selected rows.
    pub kind: VarKind,
    /// Element type.
    pub dtype: DType,
    /// Dimensions; -1 where unknown.
    pub dims: Vec<i64>,
    /// Levels of raggedness.
    pub lod_level: u32,
}

impl Meta {
    /// A dense tensor.
    pub fn new(dtype: DType, dims: impl Into<Vec<i64>>) -> Meta {
        Meta { kind: VarKind::LodTensor, dtype, dims: dims.into(), lod_level: 0 }
    }

    /// What a declaration says.
    pub fn of(var: &Var) -> Meta {
        // A declaration cannot tell items without dimensions from unknown ones.
        if var.kind == VarKind::LodTensorArray && var.shape.is_empty() {
            return Meta::unwritten_list(var.dtype);
        }
        // Paddle 1.x multiplies unknown dimensions; any negative product is as unknown as -1.
        let dims = var.shape.iter().map(|dim| (*dim).max(-1)).collect();
        Meta { kind: var.kind, dtype: var.dtype, dims, lod_level: var.lod_level }
    }

    /// That a tensor can have this shape: [`MAX_RANK`] dimensions at most, each known or -1, and a
    /// product that fits the address space. Dimensions of zero count as one, as in `Dims::bytes`.
    ///
    /// # Errors
    /// When it cannot; the text continues a sentence about the variable.
    pub(crate) fn check_size(&self) -> std::result::Result<(), String> {
        let dims = &self.dims;
        if self.is_unwritten_list() {
            return Ok(());
        }
        if self.rank() > MAX_RANK {
            return Err(format!("has {} dimensions, which is more than {MAX_RANK}", self.rank()));
        }
        if dims.iter().any(|dim| *dim < -1) {
            return Err(format!("has the impossible shape {dims:?}"));
        }
        let mut known = dims.iter().filter(|dim| **dim > 0);
        match known.try_fold(self.dtype.size() as i64, |bytes, dim| bytes.checked_mul(*dim)) {
            Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
            _ => Err(format!("has the shape {dims:?}, which is too large for any memory")),
        }
    }

    /// A tensor array that nothing was written to: the shape of its items is open, to the number of dimensions.
    pub(crate) fn unwritten_list(dtype: DType) -> Meta {
        Meta { kind: VarKind::LodTensorArray, ..Meta::new(dtype, [UNWRITTEN]) }
    }

    /// Whether nothing is known of its items.
    pub(crate) fn is_unwritten_list(&self) -> bool {
        self.dims == [UNWRITTEN]
    }

    /// The dimensions as a declaration gives them: none for an array that nothing was written to.
    pub(crate) fn declared_dims(&self) -> Vec<i64> {
        if self.is_unwritten_list() { Vec::new() } else { self.dims.clone() }
    }

    /// A tensor array of items like this.
    pub(crate) fn into_item(self) -> Meta {
        Meta { kind: VarKind::LodTensorArray, ..self }
    }

    /// The same with other dimensions.
    pub fn with_dims(&self, dims: impl Into<Vec<i64>>) -> Meta {
        Meta { dims: dims.into(), ..self.clone() }
    }

    /// The same with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Meta {
        Meta { dtype, ..self.clone() }
    }

    /// Kind and type, for messages.
    fn describe(&self) -> String {
        match self.kind {
            VarKind::LodTensor => self.dtype.to_string(),
            kind => format!("{} of {}", kind.name(), self.dtype),
        }
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Whether every dimension is known.
    pub fn is_static(&self) -> bool {
        self.dims.iter().all(|dim| *dim >= 0)
    }

    /// The number of elements, when known.
    pub fn numel(&self) -> Option<i64> {
        self.is_static().then(|| self.dims.iter().product())
    }

    /// An axis counted from the end when negative.
    ///
    /// # Errors
    /// When it lies outside the rank.
    pub fn axis(&self, axis: i64) -> Result<usize> {
        let rank = self.rank() as i64;
        let positive = if axis < 0 { axis + rank } else { axis };
        if (0..rank.max(1)).contains(&positive) {
            Ok(positive as usize)
        } else {
            Err(Error::kernel(format!("axis {axis} lies outside a tensor of rank {rank}")))
        }
    }
}

/// The only dimension of an array that nothing was written to.
const UNWRITTEN: i64 = i64::MIN;

/// One application of a shape rule.
pub struct Infer<'a> {
    view: &'a OpView<'a>,
    inputs: &'a [Meta],
    outputs: Vec<Option<Meta>>,
}

impl<'a> Infer<'a> {
    /// Runs the op's shape rule on its inputs (in the order of [`OpView::flat_inputs`]).
    ///
    /// # Errors
    /// When the inputs do not fit, the rule forgets an output, or no tensor can have the shape that
    /// it computes.
    pub fn run(view: &OpView<'_>, inputs: &[Meta]) -> Result<Vec<Meta>> {
        for slot in view.def.signature.inputs.iter().filter(|slot| slot.required) {
            if view.op.inputs_of(slot.name).is_empty() {
                return Err(Error::kernel(format!("input slot `{}` is empty", slot.name)));
            }
        }
        let names: Vec<_> = view.flat_outputs().collect();
        let mut infer = Infer { view, inputs, outputs: vec![None; names.len()] };
        match view.def.infer {
            InferRule::Like(pairs) => infer.like(pairs)?,
            InferRule::Continued => {
                for (input, output) in view.def.inplace {
                    infer.like(&[(output, input)])?;
                }
            }
            InferRule::Fn(rule) => rule(&mut infer)?,
        }
        let outputs = infer.outputs.into_iter().zip(names);
        outputs
            .map(|(meta, name)| {
                let meta = meta
                    .ok_or_else(|| Error::kernel(format!("no shape rule for output `{name}`")))?;
                let possible = meta.check_size();
                possible.map_err(|problem| Error::kernel(format!("output `{name}` {problem}")))?;
                Ok(meta)
            })
            .collect()
    }

    /// The op, for its attributes.
    pub fn op(&self) -> &OpView<'a> {
        self.view
    }

    /// The input in slot `slot`.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn input(&self, slot: &str) -> Result<&'a Meta> {
        Ok(&self.inputs[self.view.input_position(slot)?])
    }

    /// The input in slot `slot`, if there is one.
    pub fn maybe_input(&self, slot: &str) -> Option<&'a Meta> {
        self.inputs[self.view.input_positions(slot)].first()
    }

    /// All inputs in slot `slot`.
    pub fn inputs(&self, slot: &str) -> Vec<&'a Meta> {
        self.inputs[self.view.input_positions(slot)].iter().collect()
    }

    /// Sets every output of slot `slot` (usually one); an absent slot is ignored.
    pub fn set(&mut self, slot: &str, meta: Meta) {
        self.outputs[self.view.output_positions(slot)].fill(Some(meta));
    }

    /// Sets the outputs of slot `slot` one by one.
    pub fn set_each(&mut self, slot: &str, metas: impl IntoIterator<Item = Meta>) {
        for (output, meta) in self.outputs[self.view.output_positions(slot)].iter_mut().zip(metas) {
            *output = Some(meta);
        }
    }

    /// Outputs look like inputs: pairs `(output slot, input slot)`.
    ///
    /// # Errors
    /// When an input slot is empty although its output is asked for.
    pub fn like(&mut self, pairs: &[(&str, &str)]) -> Result<()> {
        for (output, input) in pairs {
            let metas: Vec<Meta> = self.inputs(input).into_iter().cloned().collect();
            if metas.is_empty() && !self.view.output_positions(output).is_empty() {
                return Err(Error::kernel(format!("input slot `{input}` is empty")));
            }
            self.set_each(output, metas);
        }
        Ok(())
    }
}

/// What is known of a value that is like one of the two: dimensions in which they differ are unknown.
///
/// # Errors
/// When they are of different kinds or types, or have different numbers of dimensions.
pub(crate) fn join(a: &Meta, b: &Meta) -> Result<Meta> {
    if a.kind != b.kind || a.dtype != b.dtype {
        let (a, b) = (a.describe(), b.describe());
        return Err(Error::kernel(format!("it is {a} in one case, and {b} in another")));
    }
    if a.is_unwritten_list() {
        return Ok(b.clone());
    }
    if b.is_unwritten_list() {
        return Ok(a.clone());
    }
    if a.rank() != b.rank() {
        let (a, b) = (&a.dims, &b.dims);
        return Err(Error::kernel(format!(
            "it has the shape {a:?} in one case, and {b:?} in another: the number of dimensions \
             must be one"
        )));
    }
    let dims = a.dims.iter().zip(&b.dims).map(|(a, b)| if a == b { *a } else { -1 });
    Ok(Meta { lod_level: a.lod_level.max(b.lod_level), ..a.with_dims(dims.collect::<Vec<_>>()) })
}

/// The two dimensions as one; unknown gives way to known.
///
/// # Errors
/// When both are known and differ.
pub fn same_dim(a: i64, b: i64) -> Result<i64> {
    match (a, b) {
        (-1, known) | (known, -1) => Ok(known),
        (a, b) if a == b => Ok(a),
        (a, b) => Err(Error::kernel(format!("dimensions {a} and {b} differ"))),
    }
}
