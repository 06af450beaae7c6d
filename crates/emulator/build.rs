//! Compiles the emulated card and all kernel files as C++ into shared libraries.
//!
//! A machine without a C++ compiler builds everything else: then there is no card to test on, and a
//! warning says so.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::SystemTime;

/// What all files are compiled with: the order of floating point operations is the source's, and a
/// misaligned access is a trap, as on a card.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-g0",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
    "-U_FORTIFY_SOURCE",
    "-Wall",
    "-Wno-unused-function",
    "-Wno-unknown-pragmas",
    "-DEMULATED_CARD",
];

/// Asks for a card that looks for races (`src/races.cpp`); it is many times slower.
const RACES: &str = "BIREME_CARD_RACES";

/// What such a card's kernels are compiled with: each access becomes a call.
const RACES_FLAGS: &[&str] =
    &["-DCARD_RACES", "-fsanitize=thread", "--param=tsan-distinguish-volatile=1"];

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A source file and the object that it becomes.
struct Unit {
    source: PathBuf,
    object: PathBuf,
    is_kernel: bool,
}

fn main() -> Outcome<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let kernels = root.join("../cuda/kernels");
    for watched in ["build.rs", "src", "../cuda/kernels"] {
        println!("cargo:rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo:rerun-if-env-changed=CXX");
    println!("cargo:rerun-if-env-changed={RACES}");
    // A lint runs nothing, and has a folder of its own for what is built.
    if env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|tool| tool.contains("clippy")) {
        return Ok(());
    }
    let Some(compiler) = find_compiler() else {
        println!("cargo:warning=no C++ compiler: tests on the emulated card are skipped");
        return Ok(());
    };
    let races = env::var_os(RACES).is_some();
    // Objects of one kind of card are not taken for those of the other.
    let out = if races { out.join("races") } else { out };
    let own = root.join("src");
    let newest = newest_header(&[&own, &kernels, &root.join("build.rs")])?;
    let mut units = units(&own, &["cpp", "cu"], &out)?;
    // Two files of one name may not become one object.
    let kernel_objects = out.join("kernels");
    fs::create_dir_all(&kernel_objects)?;
    units.extend(self::units(&kernels, &["cu"], &kernel_objects)?);
    let stale = units.iter().filter(|unit| is_stale(unit, newest)).collect();
    compile(&compiler, &[&own, &kernels], stale, races)?;
    let objects: Vec<_> = units.iter().map(|unit| unit.object.as_path()).collect();
    link(&compiler, &out, &objects)?;
    if !races {
        publish(&out)?;
    }
    println!("cargo:rustc-env=EMULATED_CARD_DIR={}", out.display());
    if races {
        println!("cargo:rustc-env=EMULATED_CARD_RACES=1");
    }
    Ok(())
}

/// The compiler, if it runs.
fn find_compiler() -> Option<cc::Tool> {
    let tool =
        cc::Build::new().cpp(true).cargo_metadata(false).warnings(false).try_get_compiler().ok()?;
    let status =
        tool.to_command().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then_some(tool)
}

fn units(folder: &Path, endings: &[&str], out: &Path) -> Outcome<Vec<Unit>> {
    let mut units = Vec::new();
    for entry in fs::read_dir(folder)? {
        let source = entry?.path();
        let ending = source.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let Some(stem) = source.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if endings.contains(&ending) {
            let object = out.join(format!("{stem}.{ending}.o"));
            let is_kernel = ending == "cu";
            units.push(Unit { source, object, is_kernel });
        }
    }
    units.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(units)
}

/// When the last header of these folders, or a file that is named itself, was changed.
fn newest_header(paths: &[&Path]) -> Outcome<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for path in paths {
        let files = if path.is_dir() {
            let entries: Result<Vec<_>, _> = fs::read_dir(path)?.collect();
            entries?.iter().map(|entry| entry.path()).filter(|path| is_header(path)).collect()
        } else {
            vec![path.to_path_buf()]
        };
        for file in files {
            newest = newest.max(fs::metadata(&file)?.modified()?);
        }
    }
    Ok(newest)
}

fn is_header(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "hpp" || ending == "cuh")
}

fn is_stale(unit: &Unit, headers: SystemTime) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
    match (modified(&unit.source), modified(&unit.object)) {
        (Ok(source), Ok(object)) => source.max(headers) >= object,
        _ => true,
    }
}

/// Compiles as many files at once as cargo lets this script use cores.
fn compile(compiler: &cc::Tool, headers: &[&Path], units: Vec<&Unit>, races: bool) -> Outcome<()> {
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let queue = Mutex::new(units.into_iter());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let next =
                            queue.lock().expect("no worker panics with the lock held").next();
                        let Some(unit) = next else { return Ok(()) };
                        compile_one(compiler, headers, unit, races)?;
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker returns its errors"))
    })
}

fn compile_one(compiler: &cc::Tool, headers: &[&Path], unit: &Unit, races: bool) -> Outcome<()> {
    let mut command = compiler.to_command();
    command.args(FLAGS);
    for folder in headers {
        command.arg("-I").arg(folder);
    }
    match (races, unit.is_kernel) {
        (true, true) => command.args(RACES_FLAGS),
        (true, false) => command.arg(RACES_FLAGS[0]),
        (false, _) => &mut command,
    };
    if unit.is_kernel {
        // A large frame must not reach over the closed page below a thread's stack.
        command.args(["-O1", "-fstack-clash-protection", "-x", "c++", "-include", "card.hpp"]);
    } else {
        command.arg("-O2");
    }
    run(command.arg("-c").arg(&unit.source).arg("-o").arg(&unit.object), &unit.source)
}

/// `libcuda.so` holds everything; the others are empty and lead to it.
fn link(compiler: &cc::Tool, out: &Path, objects: &[&Path]) -> Outcome<()> {
    let cuda = out.join("libcuda.so");
    let mut command = compiler.to_command();
    command.args(["-shared", "-Wl,-soname,libcuda.so", "-Wl,-z,defs"]).args(objects);
    run(command.args(["-lpthread", "-ldl"]).arg("-o").arg(&cuda), &cuda)?;
    for name in ["libcublasLt.so", "libnccl.so.2"] {
        let library = out.join(name);
        let mut command = compiler.to_command();
        command.args(["-shared", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"]);
        command.arg(format!("-Wl,-soname,{name}")).arg("-L").arg(out).arg("-lcuda");
        run(command.arg("-o").arg(&library), &library)?;
    }
    Ok(())
}

/// Puts the libraries where processes look for them that are to use emulated cards (`BIREME_DEVICE=emulated`): into the
/// folder of the build that executables are in. They are renamed into place, so that a process which runs keeps its own.
fn publish(out: &Path) -> Outcome<()> {
    // The folder of this script's output is `build/NAME/out` below it.
    let Some(profile) = out.ancestors().nth(3) else { return Ok(()) };
    let folder = profile.join("emulated-card");
    fs::create_dir_all(&folder)?;
    for name in ["libcuda.so", "libcublasLt.so", "libnccl.so.2"] {
        let aside = folder.join(format!("{name}.new"));
        fs::copy(out.join(name), &aside)?;
        fs::rename(&aside, folder.join(name))?;
    }
    Ok(())
}

fn run(command: &mut Command, what: &Path) -> Outcome<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("compiling `{}` failed:\n{text}", what.display()).into())
}
