//! Products of matrices by cuBLASLt, in terms of rows.
//!
//! cuBLASLt stores columns one after another. A matrix of rows is its own transpose there, so
//! `out = a·b` is asked for as `outᵀ = bᵀ·aᵀ`: the operands change places, and a bias for each column of
//! `out` becomes one for each row, which is what cuBLASLt's epilogue adds.
#![expect(unsafe_code, reason = "cuBLASLt is called")]

mod plan;
mod spec;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::sys::{self, cublasLtHandle_t};

use self::plan::{Plan, check};
use self::spec::check_sizes;
pub use self::spec::{Compute, Element, Epilogue, Operand, ProductSpec};
use super::card::Card;
use super::error::Result;
use super::libraries;
use super::memory::{Memory, Span};
use super::stream::{Stream, wrong};

/// Memory that algorithms may use, for each stream; NVIDIA advises this much for the H200. Of a small card it is no
/// more than this part.
const WORKSPACE_BYTES: usize = 32 << 20;
const WORKSPACE_PART: usize = 256;
/// More alignment than this helps no algorithm.
const BEST_ALIGNMENT: u32 = 256;

/// Products of one card. Graphs that record products use its workspaces, so it outlives them.
pub struct Products {
    card: Arc<Card>,
    handle: cublasLtHandle_t,
    state: Mutex<State>,
    /// The stream of the workspaces, so that they can be allocated whatever the others do.
    stream: Arc<Stream>,
    /// The size of each.
    workspace_bytes: usize,
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
        let workspace_bytes = WORKSPACE_BYTES.min(card.memory()?.total / WORKSPACE_PART);
        Ok(Products { card: card.clone(), handle, state, stream, workspace_bytes })
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
        let bias = bias.filter(|_| spec.epilogue != Epilogue::None).map(|bias| bias.address());
        let plan = match state.plans.entry((*spec, alignment)) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(empty) => {
                empty.insert(Plan::new(self.handle, spec, alignment, bias, self.workspace_bytes)?)
            }
        };
        plan.set_bias(bias)?;
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
                plan.layouts[0].handle,
                a.address() as *const c_void,
                plan.layouts[1].handle,
                factor(1),
                out.address() as *const c_void,
                plan.layouts[2].handle,
                out.address() as *mut c_void,
                plan.layouts[2].handle,
                &raw const plan.algorithm,
                workspace as *mut c_void,
                self.workspace_bytes,
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
        let memory = self.stream.allocate(self.workspace_bytes)?;
        // A recording of this stream may be replayed on any other: memory that is there needs no order.
        self.stream.synchronize()?;
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

/// The largest power of two that an address is a multiple of.
fn alignment(span: Span<'_>) -> u32 {
    1 << span.address().trailing_zeros().min(BEST_ALIGNMENT.trailing_zeros())
}
