#!/usr/bin/env python3
"""Tiny LLaDA and Dream models of any shape and tensor type, for the tests.

    make_tiny_gguf.py --arch dream --heads 6 --kv-heads 2 --quant Q4_K --out tiny.gguf
    make_tiny_gguf.py --arch llada --known-logits next --out next.gguf

or, from a test:

    from make_tiny_gguf import TinyModel, write_tiny_model
    write_tiny_model("tiny.gguf", TinyModel("llada", layers=3, width=256, quant="Q6_K"))

Weights are random, the same bytes on every machine, with a deviation that keeps activations of order
one. The vocabulary works: every text encodes and decodes.

With `known_logits`, an array [classes, rows], every block is switched off (attn_output and ffn_down are
zero) and the logits of a row are known_logits[token % classes], exactly up to rounding: what a position
gets depends on its own token alone. On the command line `--known-logits next` makes token t prefer
t + 1, then t + 2 and so on; `--known-logits FILE.npy` takes any table.
"""

import argparse
import math
from dataclasses import dataclass, field, replace
from typing import Optional

import numpy as np

from gguf_writer import GgufWriter, tensor_bytes
from quant_blocks import TYPES, Random, encode_plain, random_blocks
from tiny_vocabulary import build_vocabulary

U32, F32, BOOL, STRING = "u32", "f32", "bool", "string"


@dataclass
class TinyModel:
    """What to write. Lengths are in elements; None means the architecture's habit."""
    arch: str = "llada"
    layers: int = 2
    width: int = 256
    heads: int = 4
    kv_heads: Optional[int] = None       # heads for llada, heads / 2 for dream where even
    head_dim: Optional[int] = None       # width / heads; written as key_length where it differs
    ffn: int = 512
    tokens: int = 320                    # length of the tokens array
    rows: Optional[int] = None           # rows of the embedding table; tokens
    tied: bool = False
    quant: str = "F32"                   # type of every matrix, or "Q4_K_M" for that mix
    quant_of: dict = field(default_factory=dict)   # tensor name, or its part after blk.N., -> type
    context: int = 512
    rope_base: Optional[float] = None
    rope_dims: Optional[int] = None
    eps: Optional[float] = None
    bias: Optional[bool] = None          # QKV biases; dream has them
    shift: object = "default"            # True, False, None (key absent) or "default" (as converted)
    mask_id: object = "default"          # an id, None (key absent) or "default"
    pre: Optional[str] = None
    template: object = "default"         # text, None (key absent) or "default"
    known_logits: Optional[np.ndarray] = None
    alignment: int = 32
    outliers: float = 0                  # about one channel in 64 of a norm is this much larger
    seed: int = 1
    extra_keys: dict = field(default_factory=dict)     # key -> (type, value); replaces or adds
    drop_keys: tuple = ()
    shape_of: dict = field(default_factory=dict)       # tensor name -> GGUF shape, to lie
    drop_tensors: tuple = ()
    extra_tensors: dict = field(default_factory=dict)  # name -> (GGUF shape, type)

    def __post_init__(self):
        dream = self.arch == "dream"
        if self.kv_heads is None:
            self.kv_heads = self.heads // 2 if dream and self.heads % 2 == 0 else self.heads
        if self.head_dim is None:
            self.head_dim = self.width // self.heads
        if self.rows is None:
            self.rows = self.tokens
        if self.rope_base is None:
            self.rope_base = 1e6 if dream else 5e5
        if self.eps is None:
            self.eps = 1e-6 if dream else 1e-5
        if self.bias is None:
            self.bias = dream


def metadata(model, vocabulary):
    """Ordered key -> (type, value), as llama.cpp's converter writes them."""
    arch, ids, family = model.arch, vocabulary.ids, vocabulary.family
    keys = {
        "general.architecture": (STRING, arch),
        "general.type": (STRING, "model"),
        "general.name": (STRING, f"tiny {arch}"),
        f"{arch}.block_count": (U32, model.layers),
        f"{arch}.context_length": (U32, model.context),
        f"{arch}.embedding_length": (U32, model.width),
        f"{arch}.feed_forward_length": (U32, model.ffn),
        f"{arch}.attention.head_count": (U32, model.heads),
        f"{arch}.attention.head_count_kv": (U32, model.kv_heads),
        f"{arch}.rope.freq_base": (F32, model.rope_base),
        f"{arch}.attention.layer_norm_rms_epsilon": (F32, model.eps),
        f"{arch}.attention.causal": (BOOL, False),
        "general.quantization_version": (U32, 2),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, model.pre or family.pre),
        "tokenizer.ggml.tokens": ("string[]", vocabulary.tokens),
        "tokenizer.ggml.token_type": ("i32[]", vocabulary.types),
        "tokenizer.ggml.merges": ("string[]", vocabulary.merges),
        "tokenizer.ggml.bos_token_id": (U32, ids[family.bos]),
        "tokenizer.ggml.eos_token_id": (U32, ids[family.eos]),
        "tokenizer.ggml.padding_token_id": (U32, ids[family.eos]),
        "tokenizer.ggml.mask_token_id": (U32, ids[family.mask]),
        "tokenizer.ggml.add_bos_token": (BOOL, family.add_bos),
        "tokenizer.chat_template": (STRING, family.template),
    }
    if model.head_dim * model.heads != model.width:
        keys[f"{arch}.attention.key_length"] = (U32, model.head_dim)
        keys[f"{arch}.attention.value_length"] = (U32, model.head_dim)
    if arch == "llada" or model.rope_dims is not None:
        keys[f"{arch}.rope.dimension_count"] = (U32, model.rope_dims or model.head_dim)
    if arch == "llada":
        keys[f"{arch}.vocab_size"] = (U32, model.rows)

    def choose(key, kind, value, habit):
        if value is None or value == "default" and habit is None:
            keys.pop(key, None)
        else:
            keys[key] = (kind, habit if isinstance(value, str) and value == "default" else value)

    choose("diffusion.shift_logits", BOOL, model.shift, False if arch == "llada" else None)
    choose("tokenizer.ggml.mask_token_id", U32, model.mask_id, ids[family.mask])
    choose("tokenizer.chat_template", STRING, model.template, family.template)
    keys.update(model.extra_keys)
    return {key: value for key, value in keys.items() if key not in model.drop_keys}


def more_bits(layer, layers):
    """Layers that llama-quantize's Q4_K_M gives Q6_K (llama.cpp `llama-quant.cpp`)."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def matrix_type(model, name, layer):
    short = name.split(".", 2)[2] if name.startswith("blk.") else name
    for key in (name, short):
        if key in model.quant_of:
            return model.quant_of[key]
    if model.quant != "Q4_K_M":
        return model.quant
    if name == "output.weight" or model.tied and name == "token_embd.weight":
        return "Q6_K"
    promoted = short in ("attn_v.weight", "ffn_down.weight")
    return "Q6_K" if promoted and more_bits(layer, model.layers) else "Q4_K"


def tensor_list(model):
    """(name, GGUF shape, type) in the order of a file that llama-quantize writes."""
    width, ffn = model.width, model.ffn
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    tensors = [] if model.tied else [("output.weight", (width, model.rows))]
    tensors += [("output_norm.weight", (width,)), ("token_embd.weight", (width, model.rows))]
    for layer in range(model.layers):
        block = {"attn_norm.weight": (width,), "attn_q.weight": (width, q),
                 "attn_k.weight": (width, kv), "attn_v.weight": (width, kv),
                 "attn_output.weight": (q, width), "ffn_norm.weight": (width,),
                 "ffn_gate.weight": (width, ffn), "ffn_up.weight": (width, ffn),
                 "ffn_down.weight": (ffn, width)}
        if model.bias:
            block.update({"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)})
        tensors += [(f"blk.{layer}.{name}", shape) for name, shape in sorted(block.items())]

    result = []
    for name, shape in tensors:
        if name in model.drop_tensors:
            continue
        shape = model.shape_of.get(name, shape)
        layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
        kind = matrix_type(model, name, layer) if len(shape) > 1 else model.quant_of.get(name, "F32")
        result.append((name, shape, kind))
    return result + [(name, shape, kind) for name, (shape, kind) in model.extra_tensors.items()]


def norm_weights(n, outliers, random):
    """Near 1. With outliers a few channels are that much larger than the rest, at the same total power."""
    weights = 1 + 0.1 * random.normal(n)
    if not outliers:
        return weights
    weights[random.uniform(n) < 1 / 64] *= outliers
    return weights / np.sqrt(np.mean(weights ** 2))


def random_tensor(name, shape, kind, random, outliers=0):
    """uint8 blocks. Matrices get the deviation that keeps activations of order one."""
    if name.endswith("_norm.weight"):
        return encode_plain(kind, norm_weights(shape[0], outliers, random))
    if name.endswith(".bias"):
        return encode_plain(kind, 0.3 * random.normal(shape[0]))
    if shape[0] % TYPES[kind].elements:
        raise ValueError(f"{name}: rows of {shape[0]} are no multiple of {kind}'s block")
    deviation = 1.0 if name == "token_embd.weight" else 1.28 / math.sqrt(shape[0])
    return random_blocks(kind, math.prod(shape) // TYPES[kind].elements, deviation, random)


def known_logits_tensor(model, name, shape, kind, random):
    """Embedding rows are scaled unit vectors; RMSNorm turns any of them into sqrt(width) e_class."""
    if name.endswith(("attn_output.weight", "ffn_down.weight")):
        return random_blocks(kind, math.prod(shape) // TYPES[kind].elements, 0.0, random)
    table = np.asarray(model.known_logits, np.float64)
    if name == "output_norm.weight":
        return encode_plain(kind, np.ones(shape[0]))
    if name == "token_embd.weight":
        rows = np.zeros((model.rows, model.width))
        rows[np.arange(model.rows), np.arange(model.rows) % len(table)] = 1000.0
        return encode_plain(kind, rows)
    if name == "output.weight":
        rows = np.zeros((model.rows, model.width))
        rows[:, :len(table)] = table.T / math.sqrt(model.width)
        return encode_plain(kind, rows)
    return random_tensor(name, shape, kind, random)


def tensor_data(model, name, shape, kind, random):
    if kind not in TYPES:                      # a type nobody decodes: the bytes do not matter
        return bytes(tensor_bytes(kind, shape))
    if model.known_logits is not None:
        return known_logits_tensor(model, name, shape, kind, random).tobytes()
    return random_tensor(name, shape, kind, random, model.outliers).tobytes()


def write_tiny_model(path, model):
    """Writes the file; returns the vocabulary it carries."""
    if model.known_logits is not None:
        table = np.asarray(model.known_logits)
        if model.tied or table.shape[0] > model.width or table.shape[1] != model.rows:
            raise ValueError(f"known_logits {table.shape} needs an untied model, at most "
                             f"{model.width} classes and {model.rows} columns")
        model = replace(model, quant_of={**model.quant_of, "token_embd.weight": "F32",
                                         "output.weight": "F32"})
    vocabulary = build_vocabulary(model.arch, model.tokens)
    writer = GgufWriter(model.alignment)
    for key, (kind, value) in metadata(model, vocabulary).items():
        writer.set(key, value, kind.removesuffix("[]"))
    for number, (name, shape, kind) in enumerate(tensor_list(model)):
        data = tensor_data(model, name, shape, kind, Random(model.seed, number))
        writer.add_raw(name, kind, shape, data)
    writer.write(path)
    return vocabulary


def next_token_table(rows, classes=64):
    """Logits [classes, rows]: a row of token t prefers t + 1 (mod classes), then t + 2, t + 3, ..."""
    table = np.full((classes, rows), -20.0)
    for token in range(classes):
        for step in range(1, 9):
            table[token, (token + step) % classes] = 10.0 - 2 * step
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--arch", choices=("llada", "dream"), default="llada")
    for name in ("layers", "width", "heads", "kv-heads", "head-dim", "ffn", "tokens", "rows",
                 "context", "seed", "rope-dims", "mask-id"):
        parser.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS)
    parser.add_argument("--quant", choices=[*TYPES, "Q4_K_M"], default="F32")
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--shift", choices=("true", "false", "absent"), default=argparse.SUPPRESS)
    parser.add_argument("--no-mask-id", action="store_true")
    parser.add_argument("--no-template", action="store_true")
    parser.add_argument("--known-logits", metavar="next|FILE.npy")
    parser.add_argument("--out", required=True)
    arguments = vars(parser.parse_args())
    out, table = arguments.pop("out"), arguments.pop("known_logits")
    if arguments.pop("no_mask_id"):
        arguments["mask_id"] = None
    if arguments.pop("no_template"):
        arguments["template"] = None
    if "shift" in arguments:
        arguments["shift"] = {"true": True, "false": False, "absent": None}[arguments["shift"]]
    model = TinyModel(**arguments)
    if table:
        model.known_logits = next_token_table(model.rows) if table == "next" else np.load(table)
    write_tiny_model(out, model)


if __name__ == "__main__":
    main()
