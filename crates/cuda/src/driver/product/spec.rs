//! What a product is: sizes, types and where the operands lie.

use std::hash::{Hash, Hasher};

use crate::driver::error::Result;
use crate::driver::memory::Span;
use crate::driver::stream::wrong;

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 16-bit floats with the range of 32-bit ones.
    Bf16,
    /// 16-bit floats of IEEE 754.
    F16,
}

impl Element {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Element::F64 => 8,
            Element::F32 => 4,
            Element::Bf16 | Element::F16 => 2,
        }
    }
}

/// What is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// 32-bit floats; sums of products of 16-bit floats too.
    F32,
    /// 32-bit floats whose factors are rounded to 10 bits of fraction, on tensor cores.
    Tf32,
    /// 64-bit floats.
    F64,
}

/// What is done to the product before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// A value for each column is added.
    Bias,
    /// A value for each column is added, and what is negative becomes 0.
    BiasRelu,
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Elements from the start of a row to that of the next, as it is stored.
    pub row_step: usize,
    /// Elements from one matrix of the batch to the next; 0 where all use the same one.
    pub batch_step: usize,
    /// Whether it is stored transposed. Not for the output.
    pub transposed: bool,
}

/// `out = epilogue(alpha · a·b + beta · out)`, with `a` of m×k, `b` of k×n and `out` of m×n elements.
#[derive(Clone, Copy, Debug)]
pub struct ProductSpec {
    /// Rows of `a` and of `out`.
    pub m: usize,
    /// Columns of `b` and of `out`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// How many products there are.
    pub batch: usize,
    /// How `a` lies in memory.
    pub a: Operand,
    /// How `b` lies in memory.
    pub b: Operand,
    /// How `out` lies in memory.
    pub out: Operand,
    /// The type of `a` and `b`.
    pub input: Element,
    /// The type of `out` and of the bias.
    pub output: Element,
    /// What is computed with.
    pub compute: Compute,
    /// What is done to the product; nothing else than [`Epilogue::None`] with [`Compute::F64`].
    pub epilogue: Epilogue,
    /// The product's factor.
    pub alpha: f64,
    /// The factor of what `out` held before. With 0 that is not read.
    pub beta: f64,
}

impl ProductSpec {
    /// A single product of dense matrices.
    pub fn dense(m: usize, n: usize, k: usize, element: Element) -> ProductSpec {
        let operand = |row_step| Operand { row_step, batch_step: 0, transposed: false };
        let compute = if element == Element::F64 { Compute::F64 } else { Compute::F32 };
        ProductSpec {
            m,
            n,
            k,
            batch: 1,
            a: operand(k),
            b: operand(n),
            out: operand(n),
            input: element,
            output: element,
            compute,
            epilogue: Epilogue::None,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// All that an algorithm is chosen by.
    fn key(&self) -> impl Hash + Eq + use<> {
        let sizes = [self.m, self.n, self.k, self.batch];
        (sizes, [self.a, self.b, self.out], [self.input, self.output], self.compute, self.epilogue)
    }
}

impl PartialEq for ProductSpec {
    fn eq(&self, other: &ProductSpec) -> bool {
        self.key() == other.key()
            && self.alpha.to_bits() == other.alpha.to_bits()
            && self.beta.to_bits() == other.beta.to_bits()
    }
}
impl Eq for ProductSpec {}
impl Hash for ProductSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// cuBLASLt would read and write beyond the spans without a word.
pub(super) fn check_sizes(
    spec: &ProductSpec,
    a: Span<'_>,
    b: Span<'_>,
    out: Span<'_>,
    bias: Option<Span<'_>>,
) -> Result<()> {
    let stored = |operand: &Operand, rows, cols| {
        if operand.transposed { (cols, rows) } else { (rows, cols) }
    };
    let matrices = [
        ("a", a, &spec.a, stored(&spec.a, spec.m, spec.k), spec.input),
        ("b", b, &spec.b, stored(&spec.b, spec.k, spec.n), spec.input),
        ("out", out, &spec.out, (spec.m, spec.n), spec.output),
    ];
    for (name, span, operand, (rows, cols), element) in matrices {
        let extent = extent(operand, rows, cols, spec.batch)
            .and_then(|count| count.checked_mul(element.bytes()));
        let overlaps = rows > 1 && operand.row_step < cols;
        if overlaps || extent.is_none_or(|extent| extent > span.len()) {
            let text = format!(
                "`{name}`, {rows}×{cols} {element:?} as {operand:?}, is not in {} bytes",
                span.len()
            );
            return Err(wrong("cublasLtMatmul", text));
        }
    }
    let wanted = if spec.epilogue == Epilogue::None { 0 } else { spec.n * spec.output.bytes() };
    let given = bias.map_or(0, |bias| bias.len());
    if spec.out.transposed || given < wanted {
        let text =
            format!("a bias of {wanted} bytes and a plain output are needed, not {given} bytes");
        return Err(wrong("cublasLtMatmul", text));
    }
    Ok(())
}

/// Elements from the first to the last one, of all matrices.
fn extent(operand: &Operand, rows: usize, cols: usize, batch: usize) -> Option<usize> {
    if rows == 0 || cols == 0 {
        return Some(0);
    }
    let last = batch.checked_sub(1)?.checked_mul(operand.batch_step)?;
    last.checked_add((rows - 1).checked_mul(operand.row_step)?)?.checked_add(cols)
}
