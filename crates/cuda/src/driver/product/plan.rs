//! cuBLASLt's descriptors of a product, and the algorithm for it.
#![expect(unsafe_code, reason = "cuBLASLt is called")]

use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;

use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtHandle_t, cublasLtMatmulAlgo_t,
    cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cublasStatus_t, cudaDataType_t,
};

use super::spec::{Compute, Element, Epilogue, Operand, ProductSpec};
use crate::driver::error::{Error, Result};
use crate::driver::stream::wrong;

/// Descriptors of a product, in cuBLASLt's order of operands, and how it is computed.
pub(super) struct Plan {
    pub(super) desc: cublasLtMatmulDesc_t,
    /// Of our `b`, `a` and `out`.
    pub(super) layouts: [Layout; 3],
    pub(super) algorithm: cublasLtMatmulAlgo_t,
    /// What it is called when something fails later.
    pub(super) name: Arc<str>,
}

impl Plan {
    /// Describes a product and chooses its algorithm. The context is current.
    pub(super) fn new(
        handle: cublasLtHandle_t,
        spec: &ProductSpec,
        alignment: [u32; 3],
        bias: Option<u64>,
        workspace_bytes: usize,
    ) -> Result<Plan> {
        let b = if spec.b.transposed { (spec.k, spec.n) } else { (spec.n, spec.k) };
        let a = if spec.a.transposed { (spec.m, spec.k) } else { (spec.k, spec.m) };
        let mut plan = Plan {
            desc: ptr::null_mut(),
            layouts: [
                Layout::new(spec.input, b, &spec.b, spec.batch)?,
                Layout::new(spec.input, a, &spec.a, spec.batch)?,
                Layout::new(spec.output, (spec.n, spec.m), &spec.out, spec.batch)?,
            ],
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
        // An algorithm is chosen for a bias that is there.
        plan.set_bias(bias)?;
        plan.choose(handle, Preference::new(alignment, workspace_bytes)?)?;
        Ok(plan)
    }

    /// Sets where the bias of the next product lies, if it has one.
    pub(super) fn set_bias(&mut self, bias: Option<u64>) -> Result<()> {
        match bias {
            Some(address) => self.set(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address),
            None => Ok(()),
        }
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
    fn choose(&mut self, handle: cublasLtHandle_t, preference: Preference) -> Result<()> {
        // SAFETY: the result is plain numbers.
        let mut found: cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let mut count = 0;
        // SAFETY: all handles live; one result and a number are written.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                handle,
                self.desc,
                self.layouts[0].handle,
                self.layouts[1].handle,
                self.layouts[2].handle,
                self.layouts[2].handle,
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
        if !self.desc.is_null() {
            // SAFETY: the handle is ours.
            let _ = unsafe { sys::cublasLtMatmulDescDestroy(self.desc) };
        }
    }
}

/// How a matrix of columns lies in memory.
pub(super) struct Layout {
    pub(super) handle: cublasLtMatrixLayout_t,
}

impl Layout {
    fn new(
        element: Element,
        (rows, cols): (usize, usize),
        operand: &Operand,
        batch: usize,
    ) -> Result<Layout> {
        let kind = match element {
            Element::F32 => cudaDataType_t::CUDA_R_32F,
            Element::F64 => cudaDataType_t::CUDA_R_64F,
            Element::Bf16 => cudaDataType_t::CUDA_R_16BF,
            Element::F16 => cudaDataType_t::CUDA_R_16F,
        };
        let mut layout = Layout { handle: ptr::null_mut() };
        // A single row may say any step; cuBLASLt wants one that would fit.
        let step = operand.row_step.max(rows) as i64;
        let (rows, cols) = (rows as u64, cols as u64);
        // SAFETY: one handle is written.
        let status = unsafe {
            sys::cublasLtMatrixLayoutCreate(&raw mut layout.handle, kind, rows, cols, step)
        };
        check("cublasLtMatrixLayoutCreate", status)?;
        let too_many = |_| wrong("cublasLtMatrixLayoutCreate", format!("{batch} matrices"));
        let count = i32::try_from(batch).map_err(too_many)?;
        layout.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count)?;
        let offset = operand.batch_step as i64;
        layout.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset)?;
        Ok(layout)
    }

    fn set<T>(&self, attribute: LayoutAttribute, value: &T) -> Result<()> {
        let value = ptr::from_ref(value).cast();
        // SAFETY: the attribute is copied, and has this size.
        let status = unsafe {
            sys::cublasLtMatrixLayoutSetAttribute(self.handle, attribute, value, size_of::<T>())
        };
        check("cublasLtMatrixLayoutSetAttribute", status)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is ours.
            let _ = unsafe { sys::cublasLtMatrixLayoutDestroy(self.handle) };
        }
    }
}

/// What an algorithm may rely on.
struct Preference {
    handle: cublasLtMatmulPreference_t,
}

impl Preference {
    fn new([first, second, out]: [u32; 3], workspace_bytes: usize) -> Result<Preference> {
        let mut preference = Preference { handle: ptr::null_mut() };
        // SAFETY: one handle is written.
        let status = unsafe { sys::cublasLtMatmulPreferenceCreate(&raw mut preference.handle) };
        check("cublasLtMatmulPreferenceCreate", status)?;
        preference.set(
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            &(workspace_bytes as u64),
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

/// Turns a status of cuBLASLt into a result.
pub(super) fn check(function: &'static str, status: cublasStatus_t) -> Result<()> {
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
