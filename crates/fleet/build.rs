//! Builds the binding to MPI, where the feature asks for it: a file of C, by MPI's own compiler
//! wrapper, so that any implementation will do.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/mpi/shim.c");
    println!("cargo::rerun-if-env-changed=MPICC");
    if env::var_os("CARGO_FEATURE_MPI").is_none() {
        return;
    }
    if let Err(problem) = build() {
        println!("cargo::error={problem}");
    }
}

fn build() -> Result<(), String> {
    let mpicc = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let out = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let object = Path::new(&out).join("shim.o");
    let library = Path::new(&out).join("libbireme_mpi.a");
    let compile = ["-O2", "-fPIC", "-Wall", "-c", "src/mpi/shim.c", "-o"];
    run(Command::new(&mpicc).args(compile).arg(&object), &mpicc)?;
    run(Command::new("ar").arg("crs").arg(&library).arg(&object), "ar")?;
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static=bireme_mpi");
    // Open MPI and MPICH have different words for the same question.
    let shown = run(Command::new(&mpicc).arg("--showme:link"), &mpicc)
        .or_else(|_| run(Command::new(&mpicc).arg("-link_info"), &mpicc))?;
    for word in shown.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo::rustc-link-lib=dylib={library}");
        }
    }
    Ok(())
}

fn run(command: &mut Command, program: &str) -> Result<String, String> {
    let output = command.output().map_err(|error| {
        format!(
            "the feature `mpi` needs `{program}`: {error}; install an MPI (Debian: \
             libopenmpi-dev), or set MPICC to its compiler"
        )
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("`{program}` failed: {}", said.lines().next().unwrap_or_default()))
        }
    }
}
