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

/// The variable that chooses the device of a process; only whether cards are emulated counts here.
const DEVICE_VARIABLE: &str = "BIREME_DEVICE";
/// The folder of the emulated card's libraries, beside executables and in a build folder.
const EMULATED_FOLDER: &str = "emulated-card";

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
    "cuLaunchKernelEx",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuPointerGetAttributes",
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

/// Whether the environment asks for emulated cards (`BIREME_DEVICE=emulated`): slow ones that the processor plays, to
/// try a configuration with.
pub fn is_emulated() -> bool {
    env::var(DEVICE_VARIABLE).as_deref() == Ok("emulated")
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
    let found = FOUND
        .get_or_init(|| load(EXCHANGE_FILES.iter().map(|file| (*file).to_owned()), EXCHANGE_FILES));
    found.as_ref().ok_or(Error::NoExchange)
}

fn search<T>(with: impl FnOnce(&mut Search) -> T) -> T {
    with(&mut SEARCH.lock().unwrap_or_else(PoisonError::into_inner))
}

fn find(name: &str, files: &[&str], functions: &[&'static str], missing: Error) -> Result<()> {
    let missing = if is_emulated() { Error::NoEmulatedCard } else { missing };
    // The loader knows a library by name as long as somebody holds it.
    let names = cudarc::get_lib_name_candidates(name);
    std::mem::forget(load(names.into_iter(), files).ok_or(missing.clone())?);
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

/// Loads a library of which there are several `files`; the system's loader may know it by one of `names`.
fn load(mut names: impl Iterator<Item = String>, files: &[&str]) -> Option<Library> {
    let packages = search(|search| search.packages.clone());
    load_first(files).or_else(|| match is_emulated() {
        // Never a real card, which somebody may pay for.
        true => load_below(&emulated(&packages)?, files),
        false => names
            .find_map(|name| open(Path::new(&name)))
            .or_else(|| load_elsewhere(&packages, files)),
    })
}

/// From the folders that somebody has named.
fn load_first(files: &[&str]) -> Option<Library> {
    let first = search(|search| search.first.clone());
    let named = env::var_os(LIBRARIES_VARIABLE).map(PathBuf::from);
    [first, named].iter().flatten().find_map(|folder| load_below(folder, files))
}

/// From where the system's loader does not look.
fn load_elsewhere(packages: &[PathBuf], files: &[&str]) -> Option<Library> {
    let known = KNOWN_FOLDERS.iter().find_map(|folder| load_below(Path::new(folder), files));
    known.or_else(|| {
        let folders =
            packages.iter().flat_map(|root| PACKAGE_FOLDERS.iter().map(|folder| root.join(folder)));
        folders.into_iter().find_map(|folder| load_below(&folder, files))
    })
}

/// Where the emulated card's libraries are: beside the executable, in the Python package, or in the build folder of
/// the checkout that the package is in. The newest, where there are several.
fn emulated(packages: &[PathBuf]) -> Option<PathBuf> {
    let own = env::current_exe().ok();
    // Executables of tests are one folder deeper.
    let beside = own.iter().flat_map(|own| own.ancestors().skip(1).take(2)).map(Path::to_path_buf);
    let packaged = packages.iter().flat_map(|root| {
        let builds = ["debug", "release"].map(|build| root.join("../target").join(build));
        [root.join("bireme")].into_iter().chain(builds)
    });
    let folders = beside.chain(packaged).map(|folder| folder.join(EMULATED_FOLDER));
    let built = |folder: &PathBuf| {
        let library = folder.join("libcuda.so");
        library.metadata().and_then(|library| library.modified()).ok()
    };
    folders.filter(|folder| built(folder).is_some()).max_by_key(built)
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
