"""Builds the small programs that ask llama.cpp for times and logits against an owner's llama.cpp."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = (HERE, HERE.parent / "models" / "goldens")
STATIC = ("src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a")


def libraries(build):
    """Link arguments for the static libraries of a build, or for its shared ones."""
    static = [build / name for name in STATIC]
    if all(path.exists() for path in static):
        return [*static, "-fopenmp", "-lpthread", "-ldl"]
    folder = build / "bin"
    if (folder / "libllama.so").exists():
        return ["-L", folder, "-lllama", "-lggml", "-lggml-base", "-lggml-cpu", f"-Wl,-rpath,{folder}"]
    sys.exit(f"no llama.cpp libraries in {build}\nFix: cmake --build {build} --target llama")


def build_program(source, build, llama_source, folder):
    """Compiles `source` (a file of this folder or of the goldens); returns the program's path."""
    build, include = Path(build).resolve(), Path(llama_source).resolve()
    if not (include / "include" / "llama.h").exists():
        sys.exit(f"{include} has no include/llama.h\nFix: name llama.cpp's source folder")
    path = next(f / source for f in FOLDERS if (f / source).exists())
    program = Path(folder) / Path(source).stem
    command = ["g++", "-O2", "-std=c++17", path, "-I", include / "include", "-I",
               include / "ggml" / "include", *libraries(build), "-o", program]
    subprocess.run([str(part) for part in command], check=True)
    return program
