"""The models of the accuracy table, the same bytes on every machine.

    for case in cases():
        case.write("model.gguf")

Three sets, each for LLaDA and Dream:
* `random`: weights of one tensor type with random codes and scales, as deep as four layers;
* `outliers`: the same with one channel in 64 of every norm 20 times larger than the rest, as trained
  models have: what shares an 8-bit scale with such a channel is rounded 20 times coarser;
* `trained`: the demo models' weights rounded to the type.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

from make_tiny_gguf import TinyModel, matrix_type, write_tiny_model
from quant_blocks import TYPES
from quantise import QUANTISERS, quantise
from reference_forward import GgufContents

DEMO = Path(__file__).resolve().parents[2] / "apps" / "demo_models"
ALIGNMENT = 32
N_IDS = 40
SEED = 31
# What the table leaves out: legacy types that behave as their neighbours do.
ROWS = [kind for kind in TYPES if kind not in ("Q4_1", "Q5_1", "IQ4_NL")]
MIX = "Q4_K_M"  # of Q4_K and Q6_K


@dataclass(frozen=True)
class Case:
    group: str
    arch: str
    kind: str
    seed: int = SEED

    @property
    def name(self):
        return f"{self.group}/{self.arch}{'' if self.seed == SEED else f'-{self.seed}'}/{self.kind}"

    def write(self, path):
        """Returns where the model lies."""
        if self.group == "trained":
            round_demo_model(DEMO / f"demo-{self.arch}.gguf", self.kind, path)
            return path
        dream = self.arch == "dream"
        write_tiny_model(path, TinyModel(
            self.arch, layers=4, width=512, heads=8, kv_heads=2 if dream else 8, ffn=1024, tokens=512,
            quant=self.kind, outliers=20 if self.group == "outliers" else 0, seed=self.seed))
        return path

    def discard(self, path):
        Path(path).unlink()

    def ids(self, rows):
        """Half of the canvas is one repeated token, as a masked canvas has."""
        return [(i * 7919 + 13) % rows if i < N_IDS // 2 else rows - 4 for i in range(N_IDS)]


class FileCase(Case):
    """A model that is there."""

    def __init__(self, path):
        super().__init__("file", str(path), "")

    @property
    def name(self):
        return Path(self.arch).name

    def write(self, _):
        return self.arch

    def discard(self, _):
        pass


def cases(kinds=ROWS, n_seeds=1):
    """Of these types; demo models of those that quantise.py writes. `n_seeds`: made-up models of each family."""
    seeds = {"random": n_seeds, "outliers": n_seeds, "trained": 1}
    can_be_trained = (*QUANTISERS, MIX)
    return [Case(group, arch, kind, seed) for kind in kinds for group, n in seeds.items()
            if group != "trained" or kind in can_be_trained for arch in ("llada", "dream")
            for seed in range(SEED, SEED + n)]


def round_demo_model(source, kind, path):
    """A copy of the file with every matrix rounded to `kind`, or to the mix Q4_K_M; metadata, norms and biases as
    they are."""
    contents = GgufContents(source)
    arch = contents.metadata["general.architecture"]
    model = TinyModel(arch, layers=contents.metadata[f"{arch}.block_count"], quant=kind,
                      tied="output.weight" not in contents.tensors)
    infos, data = b"", b""
    for name, values in contents.tensors.items():
        layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
        stored = matrix_type(model, name, layer) if values.ndim == 2 else "F32"
        blocks = quantise(stored, values).tobytes()
        shape = values.shape[::-1]
        infos += struct.pack("<Q", len(name)) + name.encode()
        infos += struct.pack(f"<I{len(shape)}QiQ", len(shape), *shape, TYPES[stored].ggml_id, len(data))
        data += blocks + bytes(-len(blocks) % ALIGNMENT)
    head = contents.data[:contents.metadata_end] + infos
    Path(path).write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
