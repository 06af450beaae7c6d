//! What a card is given to do for one op, before it is known where the op's variables lie.

/// What an address is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    /// Nothing: a null pointer.
    Null,
    /// The values of an input, by its position in flat order.
    Input(usize),
    /// The row numbers of an input that is selected rows.
    InputRows(usize),
    /// The values of an output.
    Output(usize),
    /// The row numbers of an output that is selected rows.
    OutputRows(usize),
    /// Memory of this run alone.
    Scratch,
    /// The number of the step.
    Step,
    /// Where kernels write what is wrong with their inputs.
    Complaint,
}

/// A place that is known when the op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ref {
    pub(crate) base: Base,
    /// Bytes behind it.
    pub(crate) offset: usize,
}

impl Ref {
    pub(crate) const NULL: Ref = Ref { base: Base::Null, offset: 0 };

    pub(crate) fn of(base: Base) -> Ref {
        Ref { base, offset: 0 }
    }

    /// So many bytes further on.
    pub(crate) fn plus(self, bytes: usize) -> Ref {
        Ref { offset: self.offset + bytes, ..self }
    }
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arg {
    /// A pointer.
    Ref(Ref),
    /// A structure of pointers, one behind the other.
    Refs(Box<[Ref]>),
    /// Bytes of a number or a structure.
    Value(Box<[u8]>),
    /// The number of the op, for what it complains of.
    Op,
}

/// Element types of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Float {
    F32,
    F64,
    Bf16,
    F16,
}

/// What is done to a product before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Epilogue {
    None,
    /// A bias is added to every row.
    Bias,
    /// A bias is added to every row, and what is negative becomes zero.
    BiasRelu,
}

/// `out = alpha * op(a) * op(b) + beta * out`, all of them row-major: `a` is `m × k` and `b` is `k × n`
/// after `op`, which may transpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Product {
    pub(crate) a: Ref,
    pub(crate) b: Ref,
    pub(crate) out: Ref,
    pub(crate) bias: Ref,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) transpose_a: bool,
    pub(crate) transpose_b: bool,
    /// Products in all, and elements from one to the next in `a`, `b` and `out`.
    pub(crate) batch: usize,
    pub(crate) strides: [usize; 3],
    /// Elements from one stored row to the next in `a`, `b` and `out`.
    pub(crate) pitches: [usize; 3],
    pub(crate) inputs: Float,
    pub(crate) output: Float,
    pub(crate) epilogue: Epilogue,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
}

/// How launches of one kernel, each for targets of its own, become one launch of another that takes more of them.
///
/// Its first two arguments are arrays with an element for each target, and the third, if there is one, their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Many {
    /// The kernel for many targets.
    pub(crate) name: String,
    /// Targets of this launch, elements of its arrays, and elements of those of the kernel for many.
    pub(crate) targets: usize,
    pub(crate) room: usize,
    pub(crate) most: usize,
    /// The word of an element of the second array whose lower half is the first block of its target.
    pub(crate) block_word: Option<usize>,
}

/// One thing to do. A list is done in its order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    Kernel { name: String, blocks: [u32; 3], threads: u32, args: Vec<Arg>, many: Option<Many> },
    Product(Product),
    Copy { from: Ref, to: Ref, bytes: usize },
    Clear { at: Ref, bytes: usize },
}
