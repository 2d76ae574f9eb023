#!/usr/bin/python3
"""What int8 products on a GPU round, in float64 on the CPU: errors of logits, without a GPU.

    tests/peers/int8_accuracy.py                     # Q4_K_M
    tests/peers/int8_accuracy.py --types Q4_K,Q6_K   # beside the errors measured on a GPU (docs/accuracy.md)

Columns: `llama.cpp`, its CUDA backend's products of K types: activations as int8 with a step for 32, minima times the sums
of the activations as they are (ggml-cuda `mmq.cuh`, `quantize.cu`); `int8` and `mixed`, that products option of dllm's CUDA
backend: weights and activations as int8 with a step for 128 or 256, of `mixed` some matrices alone
(plugins/backend_cuda/products.cpp), the others with activations as they are. What else is rounded, binary16 operands and
sums, is left out. Models: accuracy_models.py; a cell is the root mean square over LLaDA and Dream, in percent. With --seeds N
over N made-up models of each: one alone can be half as far off or twice.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from accuracy import relative_error, table            # noqa: E402
from accuracy_models import MIX, cases                # noqa: E402
from quant_blocks import TYPES, decode, to_blocks     # noqa: E402
from reference_forward import GgufContents, ReferenceModel  # noqa: E402

KINDS = ("Q4_0", "Q8_0", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", MIX)  # of whole numbers
WITH_MINIMA = ("Q4_K", "Q5_K")
CODES_AT = 16  # of their blocks


def rounded(values, group):
    """Rows as int8 codes with a step, the largest of `group` values over 127, represent them."""
    n = values.shape[-1]
    padded = np.pad(values, ((0, 0), (0, -n % group))).reshape(len(values), -1, group)
    step = np.abs(padded).max(-1, keepdims=True) / 127
    codes = np.rint(np.divide(padded, step, out=np.zeros_like(padded), where=step > 0))
    return (codes * step).reshape(len(values), -1)[:, :n]


class Contents(GgufContents):
    """Types of matrices, and their minima where a type has some."""

    def __init__(self, path):
        self.kinds, self.minima = [], []
        super().__init__(path)
        self.kinds = dict(zip(self.tensors, self.kinds))
        self.minima = dict(zip(self.tensors, self.minima))

    def matrix(self, shape, kind, start):
        minima = None
        if kind in WITH_MINIMA:
            info = TYPES[kind]
            n_bytes = int(np.prod(shape)) // info.elements * info.bytes
            blocks = to_blocks(kind, self.data[start:start + n_bytes]).copy()
            blocks[:, CODES_AT:] = 0  # what is left of a weight is its minimum
            minima = decode(kind, blocks).reshape(shape[::-1])
        self.kinds.append(kind)
        self.minima.append(minima)
        return super().matrix(shape, kind, start)


class Rounding(ReferenceModel):
    """The reference forward with products that round; contents: types and minima of its file."""

    def __init__(self, path, contents):
        super().__init__(path)
        self.contents = contents


class LlamaCpp(Rounding):
    def product(self, name, x):
        minima = self.contents.minima[name]
        if minima is None:
            return rounded(x, 32) @ self.tensors[name].T
        return rounded(x, 32) @ (self.tensors[name] - minima).T + x @ minima.T


class Int8(Rounding):
    def __init__(self, path, contents):
        super().__init__(path, contents)
        self.weights = {}  # rounded, by name

    def is_exact(self, name):
        return False

    def product(self, name, x):
        if self.is_exact(name):
            return super().product(name, x)
        gated = "ffn_gate" in name or "ffn_up" in name
        if name not in self.weights:
            is_head = not name.startswith("blk.")
            self.weights[name] = rounded(self.tensors[name], 256 if gated or is_head else 128)
        return rounded(x, 256 if gated else 128) @ self.weights[name].T


class Mixed(Int8):
    def is_exact(self, name):
        kind = self.contents.kinds[name]
        if any(part in name for part in ("attn_q", "attn_k", "attn_v")):
            return True
        return kind not in ("Q4_K", "Q5_K") and not ("ffn_down" in name and kind in ("Q6_K", "Q8_0"))


def measure(case, folder):
    path = case.write(f"{folder}/model.gguf")
    exact, contents = ReferenceModel(path), Contents(path)
    ids = case.ids(len(exact.tensors["token_embd.weight"]))
    want = exact.logits(ids)
    ways = {"llama.cpp": LlamaCpp, "int8": Int8, "mixed": Mixed}
    errors = {name: relative_error(way(path, contents).logits(ids), want)
              for name, way in ways.items()}
    case.discard(path)
    return errors


def kinds_of(text):
    """The option --types."""
    kinds = text.split(",")
    for kind in kinds:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"no type '{kind}'; there are {', '.join(KINDS)}")
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--types", type=kinds_of, default=[MIX], help="comma-separated")
    parser.add_argument("--seeds", type=int, default=1, help="made-up models of each set and family")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(table({case.name: measure(case, folder) for case in cases(arguments.types, arguments.seeds)}))


if __name__ == "__main__":
    main()
