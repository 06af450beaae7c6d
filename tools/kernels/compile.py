#!/usr/bin/env python3
"""Compiles the CUDA kernels of `crates/cuda/kernels` with NVRTC, which needs no driver and no card.

Every file becomes code for cards of compute capability 9.0 and PTX for all others from 8.0 on, both
compressed, in `crates/cuda/compiled`; `images` there lists the files for the program that carries them,
`index` says which of them has which kernel, and of code for 9.0 which kernels wait for the one before them, and `sources` has the hash of what they were compiled from. With `--check` nothing is written: it fails when what is
there is not what would be written.
"""

import argparse
import concurrent.futures
import ctypes
import hashlib
import importlib.metadata
import pathlib
import re
import sys
import zlib

VERSION = "13.0.88"
ROOT = pathlib.Path(__file__).resolve().parents[2] / "crates" / "cuda"
KERNELS, COMPILED = ROOT / "kernels", ROOT / "compiled"
OPTIONS = ["--std=c++17", "-default-device"]
TARGETS = {"ptx": "compute_80", "cubin": "sm_90a"}


def sources_hash():
    """The hash of all that the result depends on."""
    digest = hashlib.sha256(f"{VERSION} {OPTIONS} {sorted(TARGETS.items())}\n".encode())
    for path in sorted(KERNELS.iterdir()):
        digest.update(f"{path.name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Compiler:
    """NVRTC, from its package."""

    def __init__(self):
        files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
        paths = [pathlib.Path(file.locate()) for file in files if ".so" in file.name]
        builtins = next(path for path in paths if "builtins" in path.name and "alt" not in str(path))
        library = next(path for path in paths if path.name.startswith("libnvrtc.so"))
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(str(library))
        self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p

    def check(self, code, what):
        if code:
            raise RuntimeError(f"{what}: {self.lib.nvrtcGetErrorString(code).decode()}")

    def get(self, program, what):
        """One of the texts or images of a program."""
        size = ctypes.c_size_t()
        self.check(getattr(self.lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
        buffer = ctypes.create_string_buffer(size.value)
        self.check(getattr(self.lib, f"nvrtcGet{what}")(program, buffer), what)
        return buffer.raw

    def compile(self, path, kind):
        """The PTX or the code of a file, and the PTX in any case."""
        program = ctypes.c_void_p()
        text, name = path.read_bytes(), path.name.encode()
        created = self.lib.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None)
        self.check(created, path.name)
        options = [*OPTIONS, f"--gpu-architecture={TARGETS[kind]}", f"--include-path={KERNELS}"]
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = self.lib.nvrtcCompileProgram(program, len(options), array)
        if code:
            log = self.get(program, "ProgramLog").rstrip(b"\0").decode()
            raise RuntimeError(f"{path.name} does not compile for {TARGETS[kind]}:\n{log}")
        image, ptx = self.get(program, kind.upper()), self.get(program, "PTX")
        self.lib.nvrtcDestroyProgram(ctypes.byref(program))
        return image, ptx


def kernels_of(ptx):
    """The kernels of a file, each with whether it waits for the one before it."""
    parts = re.split(rb"^\.visible \.entry (\w+)\(", ptx, flags=re.MULTILINE)[1:]
    return [(name.decode(), b"griddepcontrol.wait" in body) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def compile_all(compiler):
    """All that belongs into the folder, by file name."""
    paths = sorted(KERNELS.glob("*.cu"))
    jobs = [(path, kind) for path in paths for kind in TARGETS]
    # NVRTC lets go of the interpreter's lock, so threads are enough.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        images = list(pool.map(lambda job: compiler.compile(*job), jobs))
    result, index = {}, []
    for (path, kind), (image, ptx) in zip(jobs, images, strict=True):
        result[f"{path.stem}.{kind}.z"] = zlib.compress(image, 9)
        if kind == "cubin":
            index += [f"{name} {path.stem}{' waits' if waits else ''}\n" for name, waits in kernels_of(ptx)]
        print(f"{path.stem}.{kind}: {len(image)} bytes", file=sys.stderr)
    images = "".join(f'    image!("{path.stem}"),\n' for path in paths)
    result["images"] = f"&[\n{images}]\n".encode()
    result["index"] = "".join(sorted(index)).encode()
    result["sources"] = f"{sources_hash()}\n".encode()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    check = parser.parse_args().check
    stored = {path.name: path.read_bytes() for path in COMPILED.glob("*")}
    if check and stored.get("sources", b"").decode().strip() != sources_hash():
        sys.exit("the compiled kernels are older than their sources: run `cargo xtask kernels`")
    result = compile_all(Compiler())
    if check:
        # Compressors differ in what they write, so images are compared.
        def plain(name, data):
            return zlib.decompress(data) if name.endswith(".z") else data

        names = set(stored) ^ set(result) | {
            name for name in result if name in stored and plain(name, stored[name]) != plain(name, result[name])
        }
        if names:
            sys.exit(f"not what their sources give: {', '.join(sorted(names))}; run `cargo xtask kernels`")
        return
    COMPILED.mkdir(exist_ok=True)
    for name in set(stored) - set(result):
        (COMPILED / name).unlink()
    for name, data in result.items():
        (COMPILED / name).write_bytes(data)


if __name__ == "__main__":
    main()
