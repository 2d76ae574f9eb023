"""The forward pass of LLaDA and Dream in numpy float64: the oracle of the model plugins.

    model = ReferenceModel("tiny.gguf")
    logits = model.logits([5, 17, 290])              # float64 [3, vocabulary], one row per token
    scores = model.scores([5, 17, 290], [0, 2])      # rows that score these positions: with the shift

Written from the papers' code (LLaDA `modeling_llada.py`, Dream `modeling_dream.py`) and the layout of
llama.cpp's converter, apart from the C++: weights are decoded whole and every product is a plain
float64 matrix product.
"""

import struct

import numpy as np

from quant_blocks import NAMES, TYPES, decode, to_blocks

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?",
           10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


class GgufContents:
    """Metadata and raw tensors of a well-formed single GGUF file."""

    def __init__(self, path):
        n_tensors = self.read_metadata(path)
        infos = []
        for _ in range(n_tensors):
            name = self.text()
            shape = [self.take("<q") for _ in range(self.take("<I"))]
            infos.append((name, shape, NAMES[self.take("<i")], self.take("<Q")))
        alignment = self.metadata.get("general.alignment", 32)
        start = -(-self.at // alignment) * alignment
        self.tensors = {name: self.matrix(shape, kind, start + offset)
                        for name, shape, kind, offset in infos}

    @classmethod
    def metadata_of(cls, path):
        """The keys alone, whatever the tensors are."""
        contents = cls.__new__(cls)
        contents.read_metadata(path)
        return contents.metadata

    def read_metadata(self, path):
        """Returns the number of tensors."""
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 4
        version, n_tensors, n_keys = self.take("<I"), self.take("<q"), self.take("<q")
        assert self.data[:4] == b"GGUF" and version in (2, 3), path
        self.metadata = {}
        for _ in range(n_keys):
            key = self.text()
            self.metadata[key] = self.value(self.take("<i"))
        self.metadata_end = self.at
        return n_tensors

    def take(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        length = self.take("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            element, count = self.take("<i"), self.take("<Q")
            return [self.value(element) for _ in range(count)]
        return self.take(SCALARS[kind])

    def matrix(self, shape, kind, start):
        """float64 [rows, row length]; a vector is [length]."""
        kind_info = TYPES[kind]
        n_bytes = int(np.prod(shape)) // kind_info.elements * kind_info.bytes
        values = decode(kind, to_blocks(kind, self.data[start:start + n_bytes]))
        return values.reshape(shape[::-1])


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


class ReferenceModel:
    def __init__(self, path):
        contents = GgufContents(path)
        self.metadata, self.tensors = contents.metadata, contents.tensors
        self.arch = self.metadata["general.architecture"]
        self.n_layers = self.key("block_count")
        self.width = self.key("embedding_length")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)
        self.head_dim = self.key("attention.key_length", self.width // self.heads)
        self.rope_dims = self.key("rope.dimension_count", self.head_dim)
        self.theta = self.key("rope.freq_base", 10000.0)
        factor = self.key("rope.scaling.factor", 0)
        linear = self.key("rope.scaling.type", "linear") == "linear"
        self.position_scale = 1 / factor if factor and linear else 1.0
        self.eps = float(np.float32(self.key("attention.layer_norm_rms_epsilon")))
        self.shift = self.metadata.get("diffusion.shift_logits", self.arch == "dream")

    def key(self, suffix, default=None):
        value = self.metadata.get(f"{self.arch}.{suffix}", default)
        if value is None:
            raise KeyError(suffix)
        return value[0] if isinstance(value, list) else value

    def rotate(self, x, positions):
        """x: [n, heads, head_dim]. LLaDA pairs (2m, 2m+1), Dream (m, m + dims/2)."""
        half = self.rope_dims // 2
        angles = (np.asarray(positions, float)[:, None] * self.position_scale
                  * self.theta ** (-2.0 * np.arange(half) / self.rope_dims))
        cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
        pairs = np.arange(self.rope_dims)
        first, second = ((pairs[0::2], pairs[1::2]) if self.arch == "llada"
                         else (pairs[:half], pairs[half:]))
        rotated = x.copy()
        rotated[:, :, first] = x[:, :, first] * cos - x[:, :, second] * sin
        rotated[:, :, second] = x[:, :, first] * sin + x[:, :, second] * cos
        return rotated

    def product(self, name, x):
        """Of a matrix with rows; a subclass may round both."""
        return x @ self.tensors[name].T

    def project(self, layer, name, x, n_heads):
        y = self.product(f"blk.{layer}.{name}.weight", x)
        y = y + self.tensors.get(f"blk.{layer}.{name}.bias", 0.0)
        return y.reshape(len(x), n_heads, self.head_dim)

    def attend(self, layer, x, positions):
        a = rms_norm(x, self.tensors[f"blk.{layer}.attn_norm.weight"], self.eps)
        q = self.rotate(self.project(layer, "attn_q", a, self.heads), positions)
        k = self.rotate(self.project(layer, "attn_k", a, self.kv_heads), positions)
        v = self.project(layer, "attn_v", a, self.kv_heads)
        out = np.empty_like(q)
        for head in range(self.heads):
            kv = head * self.kv_heads // self.heads
            weights = softmax(q[:, head] @ k[:, kv].T / np.sqrt(self.head_dim))
            out[:, head] = weights @ v[:, kv]
        return self.product(f"blk.{layer}.attn_output.weight", out.reshape(len(x), -1))

    def feed_forward(self, layer, x):
        f = rms_norm(x, self.tensors[f"blk.{layer}.ffn_norm.weight"], self.eps)
        gate = self.product(f"blk.{layer}.ffn_gate.weight", f)
        up = self.product(f"blk.{layer}.ffn_up.weight", f)
        return self.product(f"blk.{layer}.ffn_down.weight", silu(gate) * up)

    def logits(self, ids, positions=None):
        positions = range(len(ids)) if positions is None else positions
        x = self.tensors["token_embd.weight"][np.asarray(ids)]
        for layer in range(self.n_layers):
            x = x + self.attend(layer, x, positions)
            x = x + self.feed_forward(layer, x)
        x = rms_norm(x, self.tensors["output_norm.weight"], self.eps)
        return self.product("output.weight" if "output.weight" in self.tensors
                            else "token_embd.weight", x)

    def scores(self, ids, wanted):
        """The logits that score each wanted position."""
        rows = [max(i - 1, 0) if self.shift else i for i in wanted]
        return self.logits(ids)[rows]
