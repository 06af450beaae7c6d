//! One product: by the library, or by a kernel of our own where it is with a vector, which the
//! library for large matrices is slow at.

use bireme_ir::DType;

use super::columns::{Matrix, column_sums};
use super::small;
use crate::lower::lowering::{Lowering, suffix};
use crate::lower::{Outcome, host};
use crate::work::{Epilogue, Float, Product, Ref};

/// The element type of a product; others are declined.
pub(crate) fn float(dtype: DType) -> Outcome<Float> {
    Ok(match dtype {
        DType::F32 => Float::F32,
        DType::F64 => Float::F64,
        DType::BF16 => Float::Bf16,
        DType::F16 => Float::F16,
        _ => return host(),
    })
}

fn dtype(float: Float) -> DType {
    match float {
        Float::F32 => DType::F32,
        Float::F64 => DType::F64,
        Float::Bf16 => DType::BF16,
        Float::F16 => DType::F16,
    }
}

/// One of the operands of a product, and whether it is used transposed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) at: Ref,
    pub(crate) transposed: bool,
}

/// An operand as it lies there.
pub(crate) fn plain(at: Ref) -> Operand {
    Operand { at, transposed: false }
}

/// An operand that is used transposed.
pub(crate) fn turned(at: Ref) -> Operand {
    Operand { at, transposed: true }
}

/// `out = a * b`, `[m, n, k]`, of matrices without gaps.
pub(crate) fn dense(
    elements: Float,
    [m, n, k]: [usize; 3],
    a: Operand,
    b: Operand,
    out: Ref,
) -> Product {
    Product {
        a: a.at,
        b: b.at,
        out,
        bias: Ref::NULL,
        m,
        n,
        k,
        transpose_a: a.transposed,
        transpose_b: b.transposed,
        batch: 1,
        strides: [m * k, k * n, m * n],
        pitches: [if a.transposed { m } else { k }, if b.transposed { k } else { n }, n],
        inputs: elements,
        output: elements,
        epilogue: Epilogue::None,
        alpha: 1.0,
        beta: 0.0,
    }
}

/// Adds a product to the work.
pub(crate) fn multiply(l: &mut Lowering<'_>, product: Product) -> Outcome {
    let Product { m, n, k, batch, out, beta, .. } = product;
    if m * n * batch == 0 {
        return Ok(());
    }
    if k == 0 {
        // A sum of nothing.
        if beta == 0.0 {
            l.clear(out, m * n * batch * dtype(product.output).size());
        }
        return Ok(());
    }
    if !with_vector(l, &product)? && !small::multiply(l, &product, 0)? {
        l.product(product);
    }
    Ok(())
}

/// Does a product with a vector; says whether it was one.
fn with_vector(l: &mut Lowering<'_>, product: &Product) -> Outcome<bool> {
    let Product { a, b, out, m, n, k, batch, strides, pitches, .. } = *product;
    let (ta, tb) = (product.transpose_a, product.transpose_b);
    let is_plain = product.inputs == product.output
        && product.epilogue == Epilogue::None
        && product.beta == 0.0
        && (batch == 1 || strides[2] == m * n);
    // A column has no gaps if its pitch is 1, a row never has.
    let vector_b = n == 1 && (tb || pitches[1] == 1);
    let vector_a = m == 1 && (!ta || pitches[0] == 1);
    if !is_plain || (n > 1 && pitches[2] != n) || (m > 1 && n == 1 && pitches[2] != 1) {
        return Ok(false);
    }
    let elements = dtype(product.inputs);
    let follows = |stride: usize, size: usize| batch == 1 || stride == size;
    let spread = |stride: usize| batch == 1 || stride == 0 || stride == k;
    if vector_b && !ta && pitches[0] == k && follows(strides[0], m * k) && spread(strides[1]) {
        let rows_per_b = if strides[1] == k && batch > 1 { m } else { batch * m };
        let rows = DotRows { a, b, bias: Ref::NULL, out, rows: batch * m, width: k, rows_per_b };
        dot_rows(l, elements, rows, product.alpha, 0)?;
    } else if vector_a && tb && pitches[1] == k && follows(strides[1], n * k) && spread(strides[0])
    {
        let rows_per_b = if strides[0] == k && batch > 1 { n } else { batch * n };
        let (a, b) = (b, a);
        let rows = DotRows { a, b, bias: Ref::NULL, out, rows: batch * n, width: k, rows_per_b };
        dot_rows(l, elements, rows, product.alpha, 0)?;
    } else if batch == 1 && vector_b && ta {
        let matrix = Matrix { at: a, dtype: elements, rows: k, columns: m, pitch: pitches[0] };
        column_sums(l, matrix, b, out, f64::from(product.alpha))?;
    } else if batch == 1 && vector_a && !tb {
        let matrix = Matrix { at: b, dtype: elements, rows: k, columns: n, pitch: pitches[1] };
        column_sums(l, matrix, a, out, f64::from(product.alpha))?;
    } else if batch == 1 && k == 1 && (ta || pitches[0] == 1) && (!tb || pitches[1] == 1) {
        let launch = l.over(format!("outer_{}", suffix(elements)?), m * n);
        let launch = launch.at(a).at(b).at(out).size(m * n).size(n);
        launch.value(f64::from(product.alpha)).launch();
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Rows times vectors: what `dot_rows` of `products.cu` takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DotRows {
    pub(crate) a: Ref,
    pub(crate) b: Ref,
    /// One number that is added, or null.
    pub(crate) bias: Ref,
    pub(crate) out: Ref,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    /// How many rows are multiplied by the same vector.
    pub(crate) rows_per_b: usize,
}

/// Adds rows times vectors to the work; `act` is the activation, 0 for none.
pub(crate) fn dot_rows(
    l: &mut Lowering<'_>,
    elements: DType,
    rows: DotRows,
    alpha: f32,
    act: i32,
) -> Outcome {
    dot_rows_to(l, [elements; 2], rows, alpha, act)
}

/// As [`dot_rows`], of elements that may be of 16 bits where their products are of 32.
pub(crate) fn dot_rows_to(
    l: &mut Lowering<'_>,
    [elements, out]: [DType; 2],
    rows: DotRows,
    alpha: f32,
    act: i32,
) -> Outcome {
    let lanes = if rows.width <= 64 { 8 } else { 32 };
    let blocks = rows.rows.div_ceil(256 / lanes).min(1 << 16) as u32;
    let to = match (elements, out) {
        (from, to) if from == to => "",
        (DType::BF16 | DType::F16, DType::F32) => "_to_f32",
        _ => return host(),
    };
    let name = format!("dot_rows_{lanes}_{}{to}", suffix(elements)?);
    let launch = l.kernel(name, [blocks, 1, 1], 256);
    let launch = launch.at(rows.a).at(rows.b).at(rows.bias).at(rows.out).size(rows.rows);
    let launch = launch.size(rows.width).size(rows.rows_per_b.max(1));
    launch.value(f64::from(alpha)).value(act).launch();
    Ok(())
}
