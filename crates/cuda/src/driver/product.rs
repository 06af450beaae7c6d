//! Products of matrices by cuBLASLt, in terms of rows.
//!
//! cuBLASLt stores columns one after another. A matrix of rows is its own transpose there, so
//! `out = a·b` is asked for as `outᵀ = bᵀ·aᵀ`: the operands change places, and a bias for each column of
//! `out` becomes one for each row, which is what cuBLASLt's epilogue adds.
#![expect(unsafe_code, reason = "cuBLASLt is called")]

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtHandle_t, cublasLtMatmulAlgo_t,
    cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cublasStatus_t, cudaDataType_t,
};

use super::card::Card;
use super::error::{Error, Result};
use super::event::{Event, Timing};
use super::libraries;
use super::memory::{Memory, Span};
use super::stream::{Stream, wrong};

/// Memory that algorithms may use, for each stream; NVIDIA advises this much for the H200.
const WORKSPACE_BYTES: usize = 32 << 20;
/// More alignment than this helps no algorithm.
const BEST_ALIGNMENT: u32 = 256;

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

/// Products of one card. Graphs that record products use its workspaces, so it outlives them.
pub struct Products {
    card: Arc<Card>,
    handle: cublasLtHandle_t,
    state: Mutex<State>,
    /// The stream of the workspaces, so that they can be allocated whatever the others do.
    stream: Arc<Stream>,
}

struct State {
    /// Descriptors and algorithm of every product that has been asked for, with its pointers' alignment.
    plans: HashMap<(ProductSpec, [u32; 3]), Plan>,
    /// By the stream's address.
    workspaces: HashMap<usize, Memory>,
}

// SAFETY: cuBLASLt's handles may be used from any thread; descriptors are behind the lock.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    /// Loads cuBLASLt for a card.
    pub fn new(card: &Arc<Card>) -> Result<Products> {
        libraries::products()?;
        let stream = Stream::new(card)?;
        card.enter()?;
        let mut handle: cublasLtHandle_t = ptr::null_mut();
        // SAFETY: the context is current, and one handle is written.
        check("cublasLtCreate", unsafe { sys::cublasLtCreate(&raw mut handle) })?;
        let state = Mutex::new(State { plans: HashMap::new(), workspaces: HashMap::new() });
        Ok(Products { card: card.clone(), handle, state, stream })
    }

    /// Allocates the workspace of a stream, which has to be there before products are recorded on it.
    pub fn prepare(&self, stream: &Stream) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.workspace(&mut state, stream).map(|_| ())
    }

    /// Gives a product to a stream. `bias` has one element for each column where the epilogue wants it.
    pub fn run(
        &self,
        stream: &Stream,
        spec: &ProductSpec,
        a: Span<'_>,
        b: Span<'_>,
        out: Span<'_>,
        bias: Option<Span<'_>>,
    ) -> Result<()> {
        if spec.m == 0 || spec.n == 0 || spec.batch == 0 {
            return Ok(());
        }
        check_sizes(spec, a, b, out, bias)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let workspace = self.workspace(&mut state, stream)?;
        self.card.enter()?;
        // cuBLASLt's first operand is our second one.
        let alignment = [alignment(b), alignment(a), alignment(out)];
        let key = (*spec, alignment);
        let plan = match state.plans.entry(key) {
            std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::hash_map::Entry::Vacant(empty) => {
                empty.insert(Plan::new(self.handle, spec, alignment)?)
            }
        };
        if let Some(bias) = bias.filter(|_| spec.epilogue != Epilogue::None) {
            plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.address())?;
        }
        self.card.set_last_launch(&plan.name);
        let (wide, narrow) = ([spec.alpha, spec.beta], [spec.alpha as f32, spec.beta as f32]);
        let factor = |which: usize| match spec.compute {
            Compute::F64 => (&raw const wide[which]).cast::<c_void>(),
            Compute::F32 | Compute::Tf32 => (&raw const narrow[which]).cast::<c_void>(),
        };
        // SAFETY: the spans hold the matrices, descriptors and algorithm are of this product, and factors
        // are read before the call returns.
        let status = unsafe {
            sys::cublasLtMatmul(
                self.handle,
                plan.desc,
                factor(0),
                b.address() as *const c_void,
                plan.layouts[0],
                a.address() as *const c_void,
                plan.layouts[1],
                factor(1),
                out.address() as *const c_void,
                plan.layouts[2],
                out.address() as *mut c_void,
                plan.layouts[2],
                &raw const plan.algorithm,
                workspace as *mut c_void,
                WORKSPACE_BYTES,
                stream.handle().cast(),
            )
        };
        check("cublasLtMatmul", status)
    }

    /// The address of a stream's workspace.
    fn workspace(&self, state: &mut State, stream: &Stream) -> Result<u64> {
        let key = stream.handle() as usize;
        if let Some(memory) = state.workspaces.get(&key) {
            return Ok(memory.address());
        }
        if stream.is_recording()? {
            let text =
                "call `Products::prepare` for the stream before its work is recorded".to_owned();
            return Err(wrong("cublasLtMatmul", text));
        }
        let memory = self.stream.allocate(WORKSPACE_BYTES)?;
        let allocated = Event::new(&self.card, Timing::Off)?;
        self.stream.record(&allocated)?;
        stream.wait(&allocated)?;
        let address = memory.address();
        state.workspaces.insert(key, memory);
        Ok(address)
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // Workspaces are freed in the order of another stream than that which uses them.
        let _ = self.card.synchronize();
        if self.card.enter().is_ok() {
            // SAFETY: the handle is ours.
            let _ = unsafe { sys::cublasLtDestroy(self.handle) };
        }
    }
}

/// Descriptors of a product, in cuBLASLt's order of operands, and how it is computed.
struct Plan {
    desc: cublasLtMatmulDesc_t,
    layouts: [cublasLtMatrixLayout_t; 3],
    algorithm: cublasLtMatmulAlgo_t,
    /// What it is called when something fails later.
    name: Arc<str>,
}

impl Plan {
    fn new(handle: cublasLtHandle_t, spec: &ProductSpec, alignment: [u32; 3]) -> Result<Plan> {
        let mut plan = Plan {
            desc: ptr::null_mut(),
            layouts: [ptr::null_mut(); 3],
            algorithm: cublasLtMatmulAlgo_t { data: [0; 8] },
            name: format!("product {}×{}×{}", spec.m, spec.n, spec.k).into(),
        };
        let (compute, scale) = match spec.compute {
            Compute::F32 => (cublasComputeType_t::CUBLAS_COMPUTE_32F, cudaDataType_t::CUDA_R_32F),
            Compute::Tf32 => {
                (cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, cudaDataType_t::CUDA_R_32F)
            }
            Compute::F64 => (cublasComputeType_t::CUBLAS_COMPUTE_64F, cudaDataType_t::CUDA_R_64F),
        };
        // SAFETY: one handle is written.
        let status = unsafe { sys::cublasLtMatmulDescCreate(&raw mut plan.desc, compute, scale) };
        check("cublasLtMatmulDescCreate", status)?;
        plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &i32::from(spec.b.transposed))?;
        plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &i32::from(spec.a.transposed))?;
        let epilogue = match spec.epilogue {
            Epilogue::None => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
            Epilogue::Bias => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            Epilogue::BiasRelu => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS,
        };
        plan.set(DescAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue as u32))?;
        let b = if spec.b.transposed { (spec.k, spec.n) } else { (spec.n, spec.k) };
        let a = if spec.a.transposed { (spec.m, spec.k) } else { (spec.k, spec.m) };
        plan.layouts[0] = layout(spec.input, b, &spec.b, spec.batch)?;
        plan.layouts[1] = layout(spec.input, a, &spec.a, spec.batch)?;
        plan.layouts[2] = layout(spec.output, (spec.n, spec.m), &spec.out, spec.batch)?;
        plan.choose(handle, alignment)?;
        Ok(plan)
    }

    fn set<T>(&mut self, attribute: DescAttribute, value: &T) -> Result<()> {
        // SAFETY: the attribute is copied, and has this size.
        let status = unsafe {
            sys::cublasLtMatmulDescSetAttribute(
                self.desc,
                attribute,
                ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        };
        check("cublasLtMatmulDescSetAttribute", status)
    }

    /// Takes the algorithm that cuBLASLt thinks best for this shape and alignment.
    fn choose(&mut self, handle: cublasLtHandle_t, alignment: [u32; 3]) -> Result<()> {
        let preference = Preference::new(alignment)?;
        // SAFETY: the result is plain numbers.
        let mut found: cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // SAFETY: all handles live; one result and a number are written.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                handle,
                self.desc,
                self.layouts[0],
                self.layouts[1],
                self.layouts[2],
                self.layouts[2],
                preference.handle,
                1,
                &raw mut found,
                &raw mut count,
            )
        };
        check("cublasLtMatmulAlgoGetHeuristic", status)?;
        if count == 0 {
            return check(
                "cublasLtMatmulAlgoGetHeuristic",
                cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
            );
        }
        self.algorithm = found.algo;
        Ok(())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the handles are ours, or null.
        unsafe {
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                let _ = sys::cublasLtMatrixLayoutDestroy(layout);
            }
            if !self.desc.is_null() {
                let _ = sys::cublasLtMatmulDescDestroy(self.desc);
            }
        }
    }
}

/// What an algorithm may rely on.
struct Preference {
    handle: cublasLtMatmulPreference_t,
}

impl Preference {
    fn new([first, second, out]: [u32; 3]) -> Result<Preference> {
        let mut preference = Preference { handle: ptr::null_mut() };
        // SAFETY: one handle is written.
        let status = unsafe { sys::cublasLtMatmulPreferenceCreate(&raw mut preference.handle) };
        check("cublasLtMatmulPreferenceCreate", status)?;
        preference.set(
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            &(WORKSPACE_BYTES as u64),
        )?;
        // It would take pointers for aligned to 256 bytes.
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &out)?;
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &out)?;
        Ok(preference)
    }

    fn set<T>(&self, attribute: PreferenceAttribute, value: &T) -> Result<()> {
        let value = ptr::from_ref(value).cast();
        // SAFETY: the attribute is copied, and has this size.
        let status = unsafe {
            sys::cublasLtMatmulPreferenceSetAttribute(self.handle, attribute, value, size_of::<T>())
        };
        check("cublasLtMatmulPreferenceSetAttribute", status)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is ours.
            let _ = unsafe { sys::cublasLtMatmulPreferenceDestroy(self.handle) };
        }
    }
}

/// A matrix of columns, with as many rows as `rows` says.
fn layout(
    element: Element,
    (rows, cols): (usize, usize),
    operand: &Operand,
    batch: usize,
) -> Result<cublasLtMatrixLayout_t> {
    let kind = match element {
        Element::F32 => cudaDataType_t::CUDA_R_32F,
        Element::F64 => cudaDataType_t::CUDA_R_64F,
        Element::Bf16 => cudaDataType_t::CUDA_R_16BF,
        Element::F16 => cudaDataType_t::CUDA_R_16F,
    };
    let mut layout: cublasLtMatrixLayout_t = ptr::null_mut();
    // A single row or column may say any step; cuBLASLt wants one that would fit.
    let step = operand.row_step.max(rows) as i64;
    // SAFETY: one handle is written.
    let status = unsafe {
        sys::cublasLtMatrixLayoutCreate(&raw mut layout, kind, rows as u64, cols as u64, step)
    };
    check("cublasLtMatrixLayoutCreate", status)?;
    let count = i32::try_from(batch)
        .map_err(|_| wrong("cublasLtMatrixLayoutCreate", format!("{batch} matrices")))?;
    let offset = operand.batch_step as i64;
    let set = |attribute, value: *const c_void, bytes| {
        // SAFETY: the attribute is copied, and has this size.
        let status =
            unsafe { sys::cublasLtMatrixLayoutSetAttribute(layout, attribute, value, bytes) };
        check("cublasLtMatrixLayoutSetAttribute", status)
    };
    set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (&raw const count).cast(), 4)?;
    set(
        LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        (&raw const offset).cast(),
        8,
    )?;
    Ok(layout)
}

/// The largest power of two that an address is a multiple of.
fn alignment(span: Span<'_>) -> u32 {
    1 << span.address().trailing_zeros().min(BEST_ALIGNMENT.trailing_zeros())
}

fn bytes_of(element: Element) -> usize {
    match element {
        Element::F64 => 8,
        Element::F32 => 4,
        Element::Bf16 | Element::F16 => 2,
    }
}

/// cuBLASLt would read and write beyond the spans without a word.
fn check_sizes(
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
            .and_then(|count| count.checked_mul(bytes_of(element)));
        let overlaps = rows > 1 && operand.row_step < cols;
        if overlaps || extent.is_none_or(|extent| extent > span.len()) {
            let text = format!(
                "`{name}`, {rows}×{cols} {element:?} as {operand:?}, is not in {} bytes",
                span.len()
            );
            return Err(wrong("cublasLtMatmul", text));
        }
    }
    let wanted = if spec.epilogue == Epilogue::None { 0 } else { spec.n * bytes_of(spec.output) };
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

fn check(function: &'static str, status: cublasStatus_t) -> Result<()> {
    if status == cublasStatus_t::CUBLAS_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: cuBLASLt gives a string that lives as long as it does.
    let text = unsafe { sys::cublasLtGetStatusString(status) };
    let text = if text.is_null() {
        format!("{status:?}")
    } else {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Err(Error::Call { function, code: status as i32, text })
}
