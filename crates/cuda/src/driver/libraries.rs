//! Finds `libcuda`, `libcublasLt` and `libnccl`.
//!
//! cudarc looks for libraries by name and panics where there is none, or where one lacks a function.
//! So they are loaded here first, by path where need be, and kept: the loader then knows them by name.
//! All functions that this crate calls are looked up once, before any of them is called.
#![expect(unsafe_code, reason = "libraries are loaded")]

use std::env;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;

use super::error::{Error, Result};

/// The variable that names a folder with the libraries, which is searched before the system.
pub const LIBRARIES_VARIABLE: &str = "BIREME_CUDA_LIBRARIES";

/// Folders that the system's loader may not know.
const KNOWN_FOLDERS: &[&str] = &["/usr/local/cuda/lib64", "/usr/lib/wsl/lib"];
/// Folders of NVIDIA's packages below a folder of Python packages.
const PACKAGE_FOLDERS: &[&str] = &["nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/nccl/lib"];

const DRIVER_FILES: &[&str] = &["libcuda.so.1", "libcuda.so"];
const PRODUCT_FILES: &[&str] = &["libcublasLt.so.13", "libcublasLt.so"];
/// Other libraries of this process may have loaded the first already.
const EXCHANGE_FILES: &[&str] = &["libnccl.so.2", "libnccl.so"];

/// The driver's functions that this crate calls.
const DRIVER_FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuDeviceGetDefaultMemPool",
    "cuMemPoolSetAttribute",
    "cuMemPoolGetAttribute",
    "cuMemPoolTrimTo",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpy2DAsync_v2",
    "cuMemsetD8Async",
    "cuMemsetD32Async",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime_v2",
    "cuEventDestroy_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuPointerGetAttribute",
];

/// cuBLASLt's functions that this crate calls.
const PRODUCT_FUNCTIONS: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetStatusString",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmul",
];

/// Where to look, as far as it has been said.
#[derive(Default)]
struct Search {
    first: Option<PathBuf>,
    packages: Vec<PathBuf>,
}

// The loader's list of libraries is the process's, and so is where they are looked for.
static SEARCH: Mutex<Search> = Mutex::new(Search { first: None, packages: Vec::new() });

/// Names a folder that is searched before all others. It counts until the first card is asked for.
pub fn load_from(folder: impl Into<PathBuf>) {
    search(|search| search.first = Some(folder.into()));
}

/// Names folders of Python packages, in which NVIDIA's packages may lie. They count until the first
/// card is asked for.
pub fn load_hints(folders: &[PathBuf]) {
    search(|search| search.packages.extend_from_slice(folders));
}

/// Whether there is a driver with all that is needed of it.
pub fn is_present() -> bool {
    driver().is_ok()
}

/// Loads the driver.
pub(super) fn driver() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND.get_or_init(|| find("cuda", DRIVER_FILES, DRIVER_FUNCTIONS, Error::NoDriver)).clone()
}

/// Loads cuBLASLt.
pub(super) fn products() -> Result<()> {
    static FOUND: OnceLock<Result<()>> = OnceLock::new();
    FOUND
        .get_or_init(|| find("cublasLt", PRODUCT_FILES, PRODUCT_FUNCTIONS, Error::NoProducts))
        .clone()
}

/// Loads NCCL. cudarc does not know it by this name, so its functions are looked up by who calls them.
pub(super) fn exchange() -> Result<&'static Library> {
    static FOUND: OnceLock<Option<Library>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let by_name = || EXCHANGE_FILES.iter().find_map(|file| open(Path::new(file)));
        load_first(EXCHANGE_FILES).or_else(by_name).or_else(|| load_elsewhere(EXCHANGE_FILES))
    });
    found.as_ref().ok_or(Error::NoExchange)
}

fn search<T>(with: impl FnOnce(&mut Search) -> T) -> T {
    with(&mut SEARCH.lock().unwrap_or_else(PoisonError::into_inner))
}

fn find(name: &str, files: &[&str], functions: &[&'static str], missing: Error) -> Result<()> {
    // The loader knows a library by name as long as somebody holds it.
    std::mem::forget(load(name, files).ok_or(missing.clone())?);
    let library = known_to_cudarc(name).ok_or(missing)?;
    for function in functions {
        // SAFETY: the address is only asked for.
        let known = unsafe { library.get::<*const c_void>(function.as_bytes()) }.is_ok();
        if !known {
            let text = format!("`{name}` has no such function: the library is too old");
            return Err(Error::Call { function, code: 0, text });
        }
    }
    Ok(())
}

/// The library that cudarc will call: it searches by name, and panics where it finds none.
fn known_to_cudarc(name: &str) -> Option<&'static Library> {
    // SAFETY: libraries of NVIDIA, or the emulated card's, may be loaded.
    unsafe {
        match name {
            "cuda" => cudarc::driver::sys::is_culib_present().then(|| cudarc::driver::sys::culib()),
            _ => cudarc::cublaslt::sys::is_culib_present().then(|| cudarc::cublaslt::sys::culib()),
        }
    }
}

fn load(name: &str, files: &[&str]) -> Option<Library> {
    let by_name = || {
        let names = cudarc::get_lib_name_candidates(name);
        names.into_iter().find_map(|name| open(Path::new(&name)))
    };
    load_first(files).or_else(by_name).or_else(|| load_elsewhere(files))
}

/// From the folders that somebody has named.
fn load_first(files: &[&str]) -> Option<Library> {
    let first = search(|search| search.first.clone());
    let named = env::var_os(LIBRARIES_VARIABLE).map(PathBuf::from);
    [first, named].iter().flatten().find_map(|folder| load_below(folder, files))
}

/// From where the system's loader does not look.
fn load_elsewhere(files: &[&str]) -> Option<Library> {
    let packages = search(|search| search.packages.clone());
    let known = KNOWN_FOLDERS.iter().find_map(|folder| load_below(Path::new(folder), files));
    known.or_else(|| {
        let folders =
            packages.iter().flat_map(|root| PACKAGE_FOLDERS.iter().map(|folder| root.join(folder)));
        folders.into_iter().find_map(|folder| load_below(&folder, files))
    })
}

fn load_below(folder: &Path, files: &[&str]) -> Option<Library> {
    files
        .iter()
        .map(|file| folder.join(file))
        .filter(|path| path.exists())
        .find_map(|path| open(&path))
}

fn open(path: &Path) -> Option<Library> {
    // SAFETY: NVIDIA's libraries, and those of the emulated card, may be loaded at any time.
    unsafe { Library::new(path) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_an_error() {
        let found = find(
            "bireme-no-such-library",
            &["libbireme-no-such-library.so"],
            &[],
            Error::NoProducts,
        );
        assert_eq!(found, Err(Error::NoProducts));
    }
}
