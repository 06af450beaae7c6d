//! Optimizer steps of rows.

use bireme_engine::device::{Address, DeviceCall, Operand};
use bireme_engine::op::OpView;
use bireme_ir::{DType, Op};
use bytemuck::{Pod, Zeroable};

use super::call::Call;
use super::error::Result;
use super::{NUMBER, Table, argument};
use crate::bound::{Extents, Places, Ready};
use crate::driver::{Products, Span, Stream};
use crate::lower::{Lowered, Lowering, Rows, Stop, Unsorted, sort};
use crate::work::{Base, Ref, Work};

/// How a gradient changes a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Against the gradient.
    Sgd,
    /// One accumulator: the sum of squares.
    Adagrad {
        /// Keeps the division from zero.
        epsilon: f64,
    },
    /// Two accumulators: the mean gradient and the mean square. Rows that no gradient names stay as they are.
    Adam {
        /// How much of the mean gradient stays.
        beta1: f64,
        /// How much of the mean square stays.
        beta2: f64,
        /// Keeps the division from zero.
        epsilon: f64,
    },
    /// Two accumulators: the sum of squares and the linear term.
    Ftrl {
        /// How hard weights are pulled to zero.
        l1: f64,
        /// How hard they are kept small.
        l2: f64,
        /// The power of the rate's decay, -0.5 for a root.
        lr_power: f64,
    },
}

/// What the rows of an update have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The learning rate.
    pub rate: f32,
    /// The number of this step, from 1: Adam corrects its means by it.
    pub count: u64,
}

/// As `Attributes` of `kernels/rules.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawAttributes {
    of: [f64; 6],
    doubles: u32,
    unused: u32,
}

impl Rule {
    /// Accumulators that it needs.
    pub fn states(self) -> usize {
        match self {
            Rule::Sgd => 0,
            Rule::Adagrad { .. } => 1,
            Rule::Adam { .. } | Rule::Ftrl { .. } => 2,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Rule::Sgd => "sgd",
            Rule::Adagrad { .. } => "adagrad",
            Rule::Adam { .. } => "adam",
            Rule::Ftrl { .. } => "ftrl",
        }
    }

    /// In the order that the rule names them in (`kernels/rules.cuh`).
    fn attributes(self) -> [f64; 6] {
        match self {
            Rule::Sgd => [0.0; 6],
            Rule::Adagrad { epsilon } => [epsilon, 0.0, 0.0, 0.0, 0.0, 0.0],
            Rule::Adam { beta1, beta2, epsilon } => [beta1, beta2, epsilon, 1.0, 0.0, 0.0],
            Rule::Ftrl { l1, l2, lr_power } => [l1, l2, -lr_power, 0.0, 0.0, 0.0],
        }
    }

    /// The learning rate and the powers of decay rates in this step.
    fn numbers(self, step: Step) -> [f64; 3] {
        let exponent = i32::try_from(step.count).unwrap_or(i32::MAX);
        let powers = match self {
            Rule::Adam { beta1, beta2, .. } => [beta1.powi(exponent), beta2.powi(exponent)],
            _ => [0.0; 2],
        };
        [f64::from(step.rate), powers[0], powers[1]]
    }
}

impl Table {
    /// Applies gradients to rows by their numbers: those of a row that occurs several times are added up first, in
    /// the order in which they stand. [`super::NO_ROW`] is passed over. A number that no row has is an error of a
    /// later call.
    ///
    /// # Errors
    /// When the sizes do not fit, or the rows have not the accumulators that the rule needs.
    pub fn update(
        &mut self,
        numbers: Span<'_>,
        grads: Span<'_>,
        rule: Rule,
        step: Step,
    ) -> Result<()> {
        self.complaints.heed()?;
        let count = self.items(Call::Update, "row numbers", numbers, NUMBER)?;
        let width = self.shape.width;
        self.check_size(Call::Update, "gradients", grads, count * width * 4)?;
        if rule.states() > self.shape.states {
            let (needs, has) = (rule.states(), self.shape.states);
            let problem = format!("{rule:?} needs {needs} accumulators, and rows have {has}");
            return Err(argument(Call::Update, problem));
        }
        let rates = self.stream.allocate(size_of::<[f64; 3]>())?;
        self.stream.upload(rates.whole(), bytemuck::cast_slice(&rule.numbers(step)))?;
        let lowered = self.lower(count, rule, rates.address()).map_err(|stop| match stop {
            Stop::Host => argument(Call::Update, format!("{count} gradients are too many at once")),
            Stop::Error(error) => argument(Call::Update, error.to_string()),
        })?;
        self.run(lowered, numbers, grads)
    }

    fn lower(&self, count: usize, rule: Rule, rates: u64) -> std::result::Result<Lowered, Stop> {
        let op = Op::new("sgd");
        let view = OpView::new(&op)?;
        let mut cx = Lowering::new(&view, &[], &mut []);
        let unsorted = Unsorted {
            at: Ref::of(Base::Input(0)),
            dtype: DType::I32,
            count,
            // No row, as a signed number.
            padding: -1,
            bound: self.made_at_most,
        };
        let sorted = sort(&mut cx, &unsorted)?;
        let values = Ref::of(Base::Input(1));
        let (dtype, width) = (DType::F32, self.shape.width);
        let rows = Rows { sorted, values, dtype, width, view: None };
        let kernels =
            ["table_update", "table_update_spans"].map(|kind| format!("{kind}_{}", rule.name()));
        let attributes = RawAttributes { of: rule.attributes(), doubles: 0b111, unused: 0 };
        let numbers = [0, 8, 16].map(|offset| rates + offset);
        rows.sum(&mut cx, [&kernels[0], &kernels[1]], |launch| {
            launch.value(self.blocks.raw()).value(numbers).value(attributes)
        })?;
        Ok(cx.finish())
    }

    fn run(&self, lowered: Lowered, numbers: Span<'_>, grads: Span<'_>) -> Result<()> {
        let Lowered { work, scratch: bytes, pieces } = lowered;
        let scratch = self.stream.allocate(bytes)?;
        let inputs = [numbers, grads].map(|span| Operand::Dense(Address(span.address())));
        let extents = Extents {
            inputs: [numbers, grads].map(|span| [span.len(), 0]).into(),
            outputs: Vec::new(),
            scratch: pieces,
        };
        let call = DeviceCall {
            inputs: &inputs,
            outputs: &[],
            scratch: Address(scratch.address()),
            step: Address::NULL,
            op: Call::Update as u32,
            complaints: Address(self.complaints.address()),
        };
        let places = Places { call: &call, extents: &extents };
        for work in work {
            let Some(ready) = ready(&self.stream, work)? else { continue };
            if let Some(bound) = places.bind(&ready) {
                bound.run(&self.stream, &no_products)?;
            }
        }
        Ok(())
    }
}

/// Sorts and sums are kernels and memory to be cleared, nothing else.
fn ready(stream: &Stream, work: Work) -> Result<Option<Ready>> {
    Ok(match work {
        Work::Kernel { name, blocks, threads, args, .. } => {
            let function = stream.card().function(&name)?;
            Some(Ready::Kernel { function, blocks, threads, args, joint: None })
        }
        Work::Clear { at, bytes } => Some(Ready::Clear { at, bytes }),
        Work::Product(_) | Work::Copy { .. } => None,
    })
}

fn no_products<'p>() -> crate::driver::Result<&'p Products> {
    Err(crate::driver::Error::NoProducts)
}
