#!/usr/bin/env python3
"""Makes llamacpp.npz: the logits that llama.cpp computes for the tiny models of golden_cases.py.

    PYTHONPATH=tests/support make_llamacpp_goldens.py LLAMA_CPP_SOURCE LLAMA_CPP_BUILD

LLAMA_CPP_BUILD holds bin/libllama.so (cmake -DBUILD_SHARED_LIBS=ON, target llama). Made with the
llama.cpp that PyPI's llama-cpp-python 0.3.36 carries. The file keeps, for each case, the
model's SHA-256 (tiny models are the same bytes everywhere) and the logits as f16 [tokens, rows].
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from golden_cases import CASES, IDS
from make_tiny_gguf import write_tiny_model

HERE = Path(__file__).parent


def main():
    source, build = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    goldens = {"ids": np.array(IDS, np.int32)}
    with tempfile.TemporaryDirectory() as folder:
        program, model = f"{folder}/llamacpp_logits", f"{folder}/model.gguf"
        subprocess.run(["g++", "-O2", HERE / "llamacpp_logits.cpp", "-I", source / "include",
                        "-I", source / "ggml/include", "-L", build / "bin", "-lllama", "-lggml",
                        "-lggml-base", f"-Wl,-rpath,{build}/bin", "-o", program], check=True)
        for name, tiny in CASES.items():
            write_tiny_model(model, tiny)
            raw = subprocess.run([program, model, ",".join(map(str, IDS))], check=True,
                                 stdout=subprocess.PIPE).stdout
            logits = np.frombuffer(raw, "<f4").reshape(len(IDS), -1)
            goldens[f"{name}.logits"] = logits.astype(np.float16)
            goldens[f"{name}.sha256"] = hashlib.sha256(Path(model).read_bytes()).hexdigest()
    np.savez_compressed(HERE / "llamacpp.npz", **goldens)


if __name__ == "__main__":
    main()
