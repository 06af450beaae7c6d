//! What the emulated card has beyond what `bireme-cuda` calls, asked through the bindings as they are.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unsafe_code, reason = "the driver's functions are called")]

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard};

use bireme_emulator::{Control, DIR};
use cudarc::cublaslt::sys as lt;
use cudarc::driver::sys::{self, CUresult, CUstream};

static MACHINE: Mutex<()> = Mutex::new(());

/// A machine with the first card's context current on this thread, and a stream.
struct Session {
    control: Control,
    stream: CUstream,
    _guard: MutexGuard<'static, ()>,
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn session() -> Option<Session> {
    let guard = MACHINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(control) = Control::open() else {
        eprintln!("skipped: there is no emulated card, for want of a C++ compiler");
        return None;
    };
    let control = control.unwrap();
    control.reset();
    let products = format!("{}/libcublasLt.so", DIR.unwrap());
    // SAFETY: the library does nothing when it is loaded. It stays, for the bindings to find it by name.
    std::mem::forget(unsafe { libloading::Library::new(products) }.unwrap());
    let (mut context, mut stream) = (null_mut(), null_mut());
    // SAFETY: handles are written to where they are asked for.
    unsafe {
        ok(sys::cuInit(0));
        ok(sys::cuDevicePrimaryCtxRetain(&mut context, 0));
        ok(sys::cuCtxSetCurrent(context));
        ok(sys::cuStreamCreate(&mut stream, 1));
    }
    Some(Session { control, stream, _guard: guard })
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: it was retained when the session began.
        unsafe { ok(sys::cuDevicePrimaryCtxRelease_v2(0)) };
        assert_eq!(self.control.allocated(), 0);
    }
}

fn ok(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

impl Session {
    fn allocate(&self, bytes: usize) -> u64 {
        let mut at = 0;
        // SAFETY: one address is written.
        unsafe { ok(sys::cuMemAlloc_v2(&mut at, bytes)) };
        at
    }

    fn put(&self, values: &[f32]) -> u64 {
        let at = self.allocate(size_of_val(values));
        // SAFETY: the memory has this size, and the bytes are taken at the call.
        unsafe {
            ok(sys::cuMemcpyHtoDAsync_v2(
                at,
                values.as_ptr().cast(),
                size_of_val(values),
                self.stream,
            ));
        }
        at
    }

    fn get(&self, at: u64, count: usize) -> Vec<f32> {
        let mut values = vec![0f32; count];
        // SAFETY: the memory has this size, and the call waits.
        unsafe {
            ok(sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), at, count * 4, self.stream))
        };
        values
    }
}

#[test]
fn plain_memory_is_freed_when_the_card_is_done() {
    let Some(session) = session() else { return };
    let at = session.allocate(64);
    let (mut module, mut function) = (null_mut(), null_mut());
    let (mut device, mut offset) = (at, 3i64);
    // SAFETY: the kernel takes an address and a number.
    unsafe {
        ok(sys::cuModuleLoadData(&mut module, c"".as_ptr().cast()));
        ok(sys::cuModuleGetFunction(&mut function, module, c"probe_write".as_ptr()));
        let mut args = [(&raw mut device).cast::<c_void>(), (&raw mut offset).cast()];
        let mut launch = || {
            let args = args.as_mut_ptr();
            sys::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, session.stream, args, null_mut())
        };
        ok(launch());
        // The free waits for the kernel, which would be a fault otherwise.
        ok(sys::cuMemFree_v2(at));
        ok(sys::cuStreamSynchronize(session.stream));
        assert_eq!(sys::cuMemFree_v2(at), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(sys::cuMemFree_v2(at + 16), CUresult::CUDA_ERROR_INVALID_VALUE);
        ok(sys::cuModuleUnload(module));
        assert_eq!(launch(), CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
}

#[test]
fn a_pointer_says_what_it_is() {
    let Some(session) = session() else { return };
    let at = session.allocate(64);
    let kind = |at: u64| {
        let mut kind = 7u32;
        let mut attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        let mut place: *mut std::ffi::c_void = (&raw mut kind).cast();
        // SAFETY: the attribute has 4 bytes.
        ok(unsafe { sys::cuPointerGetAttributes(1, &raw mut attribute, &raw mut place, at) });
        kind
    };
    assert_eq!(kind(at + 5), 2);
    assert_eq!(kind((&raw const at) as u64), 0, "ordinary memory");
    let (mut pinned, mut device, mut total) = (null_mut(), 0, 0);
    // SAFETY: addresses and a number are written.
    unsafe {
        ok(sys::cuMemHostAlloc(&mut pinned, 100, 0));
        assert_eq!(kind(pinned as u64), 1);
        ok(sys::cuMemHostGetDevicePointer_v2(&mut device, pinned, 0));
        assert_eq!(device, pinned as u64);
        ok(sys::cuMemFreeHost(pinned));
        assert_eq!(sys::cuMemFreeHost(pinned), CUresult::CUDA_ERROR_INVALID_VALUE);
        ok(sys::cuDeviceTotalMem_v2(&mut total, 0));
        assert_eq!(total, 1 << 30);
    }
}

#[test]
fn rows_of_the_host_are_copied() {
    let Some(session) = session() else { return };
    let from = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let at = session.put(&[0.0; 8]);
    let mut copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 4,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: from.as_ptr().cast(),
        srcDevice: 0,
        srcArray: null_mut(),
        srcPitch: 12,
        dstXInBytes: 8,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: at,
        dstArray: null_mut(),
        dstPitch: 16,
        WidthInBytes: 8,
        Height: 2,
    };
    // SAFETY: the rows lie in the memory, or the call fails.
    unsafe {
        ok(sys::cuMemcpy2DAsync_v2(&copy, session.stream));
        assert_eq!(session.get(at, 8), [0.0, 0.0, 2.0, 3.0, 0.0, 0.0, 5.0, 6.0]);
        copy.Height = 3;
        assert_eq!(
            sys::cuMemcpy2DAsync_v2(&copy, session.stream),
            CUresult::CUDA_ERROR_INVALID_VALUE
        );
        copy.Height = 2;
        copy.dstPitch = 4;
        assert_eq!(
            sys::cuMemcpy2DAsync_v2(&copy, session.stream),
            CUresult::CUDA_ERROR_INVALID_VALUE
        );
    }
}

#[test]
fn a_thread_without_a_context_can_do_nothing() {
    let Some(session) = session() else { return };
    let stream = session.stream as usize;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: the calls fail.
            unsafe {
                let mut at = 0;
                assert_eq!(sys::cuMemAlloc_v2(&mut at, 16), CUresult::CUDA_ERROR_INVALID_CONTEXT);
                let code = sys::cuStreamSynchronize(stream as CUstream);
                assert_eq!(code, CUresult::CUDA_ERROR_INVALID_CONTEXT);
            }
        });
    });
    // SAFETY: the call fails: the legacy stream does not exist here.
    let code = unsafe { sys::cuStreamSynchronize(null_mut()) };
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_HANDLE);
}

fn good(status: lt::cublasStatus_t) {
    assert_eq!(status, lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
}

/// A layout of 32-bit floats whose rows follow each other.
fn rows(rows: u64, cols: u64) -> lt::cublasLtMatrixLayout_t {
    let mut layout = null_mut();
    let order = 1i32;
    // SAFETY: a handle is written, and the attribute has this size.
    unsafe {
        let kind = lt::cudaDataType_t::CUDA_R_32F;
        good(lt::cublasLtMatrixLayoutCreate(&mut layout, kind, rows, cols, cols as i64));
        let attribute = lt::cublasLtMatrixLayoutAttribute_t::CUBLASLT_MATRIX_LAYOUT_ORDER;
        good(lt::cublasLtMatrixLayoutSetAttribute(layout, attribute, (&raw const order).cast(), 4));
    }
    layout
}

/// A product of 2×2 by 2×2 in rows, with an epilogue, a workspace and the alignment that is promised.
fn product(session: &Session, epilogue: u32, workspace: usize, alignment: u32) -> Option<Vec<f32>> {
    use lt::cublasLtMatmulPreferenceAttributes_t as Preference;
    let (a, b) = (session.put(&[1.0, 2.0, -3.0, 4.0]), session.put(&[1.0, 0.0, 0.0, -1.0]));
    let (out, space) = (session.put(&[0.0; 4]), session.allocate(1 << 20));
    let (one, zero) = (1f32, 0f32);
    let (mut handle, mut desc, mut preference, mut count) = (null_mut(), null_mut(), null_mut(), 0);
    let layout = rows(2, 2);
    // SAFETY: handles are written; attributes have their sizes; the matrices are in memory.
    unsafe {
        good(lt::cublasLtCreate(&mut handle));
        let compute = lt::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        good(lt::cublasLtMatmulDescCreate(&mut desc, compute, lt::cudaDataType_t::CUDA_R_32F));
        let attribute = lt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE;
        good(lt::cublasLtMatmulDescSetAttribute(desc, attribute, (&raw const epilogue).cast(), 4));
        good(lt::cublasLtMatmulPreferenceCreate(&mut preference));
        let room = 1u64 << 20;
        for (attribute, value, bytes) in [
            (
                Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const room).cast::<c_void>(),
                8,
            ),
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                (&raw const alignment).cast(),
                4,
            ),
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                (&raw const alignment).cast(),
                4,
            ),
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                (&raw const alignment).cast(),
                4,
            ),
            (
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                (&raw const alignment).cast(),
                4,
            ),
        ] {
            good(lt::cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes));
        }
        let mut found: lt::cublasLtMatmulHeuristicResult_t = zeroed();
        let heuristic = lt::cublasLtMatmulAlgoGetHeuristic;
        good(heuristic(
            handle, desc, layout, layout, layout, layout, preference, 1, &mut found, &mut count,
        ));
        assert_eq!(count, 1);
        let status = lt::cublasLtMatmul(
            handle,
            desc,
            (&raw const one).cast(),
            a as *const c_void,
            layout,
            b as *const c_void,
            layout,
            (&raw const zero).cast(),
            null(),
            layout,
            out as *mut c_void,
            layout,
            &found.algo,
            space as *mut c_void,
            workspace,
            session.stream.cast(),
        );
        good(lt::cublasLtMatmulPreferenceDestroy(preference));
        good(lt::cublasLtMatrixLayoutDestroy(layout));
        good(lt::cublasLtMatmulDescDestroy(desc));
        good(lt::cublasLtDestroy(handle));
        (status == lt::cublasStatus_t::CUBLAS_STATUS_SUCCESS).then(|| session.get(out, 4))
    }
}

#[test]
fn products_of_rows_with_other_epilogues() {
    let Some(session) = session() else { return };
    let (plain, relu, gelu) = (1, 2, 32);
    assert_eq!(product(&session, plain, 1 << 20, 16).unwrap(), [1.0, -2.0, -3.0, -4.0]);
    assert_eq!(product(&session, relu, 1 << 20, 16).unwrap(), [1.0, 0.0, 0.0, 0.0]);
    let out = product(&session, gelu, 1 << 20, 16).unwrap();
    // torch.nn.functional.gelu(torch.tensor([1., -2., -3., -4.]), approximate="tanh")
    for (out, wanted) in out.iter().zip([0.8412, -0.0454, -0.0036, -0.0001]) {
        assert!((out - wanted).abs() < 1e-4, "{out} {wanted}");
    }
    // An algorithm gets the workspace and the alignment that it was promised.
    assert_eq!(product(&session, plain, 16, 16), None);
    session.control.seed(0);
    assert_eq!(product(&session, plain, 1 << 20, 4096), None);
}

/// Launches a probe of races with 64 threads in each of so many blocks; the words for what it did wrong.
fn race(
    session: &Session,
    probe: &std::ffi::CStr,
    blocks: u32,
    args: &mut [*mut c_void],
) -> String {
    let (mut module, mut function) = (null_mut(), null_mut());
    // SAFETY: each probe is given the arguments that it takes.
    unsafe {
        ok(sys::cuModuleLoadData(&mut module, c"".as_ptr().cast()));
        ok(sys::cuModuleGetFunction(&mut function, module, probe.as_ptr()));
        let args = args.as_mut_ptr();
        ok(sys::cuLaunchKernel(
            function,
            blocks,
            1,
            1,
            64,
            1,
            1,
            512,
            session.stream,
            args,
            null_mut(),
        ));
        sys::cuStreamSynchronize(session.stream);
    }
    session.control.last_fault()
}

/// What a probe says with and without what orders its accesses.
fn both(probe: &std::ffi::CStr, blocks: u32) -> Option<[String; 2]> {
    let said = [1i32, 0].map(|ordered| {
        let session = session()?;
        session.control.be_quiet();
        let [mut words, mut ticket, mut out, mut ordered] =
            [session.put(&[0.0; 64]), session.put(&[0.0]), session.put(&[0.0; 64]), ordered as u64];
        let at = |word: &mut u64| std::ptr::from_mut(word).cast::<c_void>();
        let mut args = match probe.to_bytes() {
            b"probe_race_of_blocks" => vec![at(&mut words), at(&mut ticket), at(&mut out)],
            _ => vec![at(&mut words)],
        };
        args.push(at(&mut ordered));
        let said = race(&session, probe, blocks, &mut args);
        for memory in [words, ticket, out] {
            // SAFETY: it was allocated above; a broken context has forgotten it.
            unsafe { sys::cuMemFree_v2(memory) };
        }
        Some(said)
    });
    let [ordered, unordered] = said;
    Some([ordered?, unordered?])
}

#[test]
fn accesses_that_nothing_orders_are_found() {
    if !bireme_emulator::FINDS_RACES {
        eprintln!("skipped: races, which only a card of `cargo xtask races` finds");
        return;
    }
    for (probe, blocks, words) in [
        (c"probe_race_in_block", 1, "with no barrier between"),
        (c"probe_race_in_warp", 1, "with no barrier between"),
        (c"probe_race_of_blocks", 8, "with no atomic operation between"),
    ] {
        let Some([ordered, unordered]) = both(probe, blocks) else { return };
        assert_eq!(ordered, "", "{probe:?}");
        assert!(
            unordered.contains("race: ") && unordered.contains(words),
            "{probe:?}: {unordered}"
        );
    }
    let Some(session) = session() else { return };
    let mut at = session.put(&[0.0; 64]);
    let said = race(&session, c"probe_halves", 1, &mut [(&raw mut at).cast()]);
    assert_eq!(said, "");
    // SAFETY: it was allocated above.
    unsafe { ok(sys::cuMemFree_v2(at)) };
}
