#!/usr/bin/env python3
"""Writes the seeds of every fuzz target: make_seeds.py FOLDER makes FOLDER/<target>/<name>.

Small whole inputs of every kind, from the same writers the other tests use; the fuzzer takes them apart.
What it found lies beside this file in corpus/ and is played with them.
"""

import json
import pathlib
import struct
import sys

import numpy as np

from gguf_writer import TENSOR_TYPES, GgufWriter, tensor_bytes
from quant_blocks import TYPES, Random, random_blocks

TEXTS = ["", "Hello, world!", "  two  spaces\n\n\ttab", "It's 12345 o'clock: we've won.", "na\u00efve caf\u0065\u0301 \uac00\u1100\u1161",
         "\u4e2d\u6587\u3002\U0001f600\u200d", "<|mask|><|im_end|><tool_call><tool>x", "\u180e\u00a0\u3000 x", "the the  the\r\n"]
BROKEN_TEXTS = [b"\xff\xfe\x80", b"\xed\xa0\x80\xe4\xb8", b"\xc0\xaf\xf4\x90\x80\x80", b"a\x00b"]


def gguf_files():
    def metadata(writer):
        writer.set("general.architecture", "llada")
        for name in ("u8", "u16", "u32", "u64"):
            writer.set(f"x.{name}", 7, name)
        for name in ("i8", "i16", "i32", "i64"):
            writer.set(f"x.{name}", -7, name)
        for name in ("f32", "f64"):
            writer.set(f"x.{name}", 0.1, name)
        writer.set("x.flag", True)
        writer.set("x.text", "a \"quoted\" text\n")
        writer.set("tokenizer.ggml.tokens", ["a", "b", "<|mask|>"], "string")
        writer.set("tokenizer.ggml.token_type", [1, 1, 3], "i32")
        writer.set("x.long", list(range(40)), "u16")
        writer.set("x.flags", [True, False], "bool")
        writer.set("x.none", [], "f64")
        return writer

    yield "metadata", metadata(GgufWriter()).to_bytes()
    whole = metadata(GgufWriter())
    whole.add("token_embd.weight", np.arange(12, dtype=np.float32).reshape(3, 4))
    whole.add("output_norm.weight", np.ones(5, np.float16))
    yield "tensors", whole.to_bytes()
    whole.version = 2
    yield "version-2", whole.to_bytes()
    aligned = GgufWriter(alignment=64)
    aligned.set("general.alignment", 64)
    aligned.add("a", np.zeros((1, 1, 1, 1), np.float64))
    yield "aligned", aligned.to_bytes()
    types = GgufWriter()
    for name in sorted(TENSOR_TYPES):
        block = TENSOR_TYPES[name][1]
        types.add_raw(f"t.{name}", name, (block, 1), bytes(tensor_bytes(name, (block, 1))))
    yield "types", types.to_bytes()
    split = GgufWriter()
    split.set("split.no", 0, "u16")
    split.set("split.count", 2, "u16")
    split.set("split.tensors.count", 1, "i32")
    yield "split", split.to_bytes()
    yield "empty", b""
    yield "header", b"GGUF" + struct.pack("<IQQ", 3, 0, 0)


def quant_rows():
    ids = sorted((TENSOR_TYPES[name][0], name) for name in TENSOR_TYPES)
    for index, (_, name) in enumerate(ids):  # all_dtypes() is in the order of the ids
        blocks = bytes(random_blocks(name, 2, 0.5, Random(index)).tobytes()) if name in TYPES else bytes(64)
        yield name.lower(), bytes([index]) + blocks
        if name in TYPES:
            yield name.lower() + "-not-finite", bytes([index]) + b"\xff" * len(blocks)


def tokenizer_texts():
    for choice in range(5):
        for i, text in enumerate(TEXTS):
            yield f"{choice}-{i}", bytes([choice]) + text.encode()
        for i, text in enumerate(BROKEN_TEXTS):
            yield f"{choice}-broken-{i}", bytes([choice]) + text


def chats():
    def text(value):
        return bytes([len(value)]) + value

    message = bytes([1, 1]) + bytes([2, 0]) + text(b" Hi ") + bytes([1, 5])
    for template in range(5):
        yield f"known-{template}", bytes([0, template, 2]) + message * 2
    for i, jinja in enumerate([b"<|im_start|>system\nBe brief.<|im_end|>", b"<role>ASSISTANT</role><|role_end|>"]):
        yield f"own-{i}", bytes([3]) + text(jinja) + bytes([1]) + message


def configs():
    yield "whole", (b"# a comment\nmodel = m.gguf   # relative\nprompt = \"two\\nlines # in it\"\nn = 9\n"
                    b"no-chat = true\n[sampler]\nsteps = 32\n[backend]\nthreads = 4\n")
    yield "spellings", b"\xef\xbb\xbftemp = 0.5\r\nn_predict=3\nescape = off\nplugin-dir = /a/b\nfile = -\n"
    yield "faults", b"[samplr]\nstpes = 4\nx\n"
    yield "quotes", b"system = \"\\x41\\\\\\\"\\t\"\nprompt = a#b\n"


def command_lines():
    lines = [("run", ["-m", "m.gguf", "-p", "Hi", "-n", "12", "--temp=0.7", "--seed", "-1"]),
             ("run", ["-sys", "be brief", "--set", "steps=4", "--no-chat", "--diffusion-steps", "8"]),
             ("tokenize", ["--decode", "1,2,3"]), ("logits", ["--rows", "0,2-7", "--tokens", "[1, 2]"]),
             ("bench", ["--canvas", "160", "--repeat=3"]), ("replay", ["trace.jsonl", "--sampler", "dream"]),
             ("run", ["--stpes", "4"]), ("run", ["-n128"]), ("run", ["--", "-p"]), ("run", ["-p", "a\\nb\\x41"])]
    commands = ["run", "tokenize", "inspect", "logits", "plugins", "new-sampler", "check-plugin", "bench", "replay"]
    for i, (command, arguments) in enumerate(lines):
        for option in (i, i + 16, i + 32):
            yield f"{i}-{option}", bytes([commands.index(command), option]) + "\0".join(arguments).encode()
    for option in range(64):
        yield f"values-{option}", bytes([0, option]) + b"0\0+5\0-1\00.5\0true\0off\0none\0" b"1e9\0\0x"


def elf_file(descriptor, owner=b"dllm\0\0\0\0", owner_size=5, note_type=1, segments=()):
    """A shared object as small as the reader takes: one PT_NOTE with the descriptor, one PT_LOAD of all."""
    note = struct.pack("<III", owner_size, len(descriptor), note_type) + owner + descriptor
    headers = 2 + len(segments)
    at = 64 + 56 * headers
    size = at + len(note)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, headers, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 4096)
    notes = struct.pack("<IIQQQQQQ", 4, 4, at, at, at, len(note), len(note), 4)
    return header + load + notes + b"".join(segments) + note


def descriptor_bytes(magic=b"DLLMPLG\0", size=408, major=1, minor=0, kind=1, identity=b"left_to_right", tag=b""):
    return (magic + struct.pack("<IHHII", size, major, minor, kind, 0) + identity.ljust(32, b"\0") +
            b"1.0.0".ljust(32, b"\0") + tag.ljust(192, b"\0") + b"one line".ljust(128, b"\0"))


def plugin_files():
    yield "sampler", elf_file(descriptor_bytes())
    for name, change in [("magic", {"magic": b"NOTDLLM\0"}), ("size", {"size": 4096}), ("small", {"size": 64}),
                         ("major", {"major": 2}), ("minor", {"minor": 9}), ("kind", {"kind": 7}),
                         ("id", {"identity": b"No-Id"}), ("backend", {"kind": 2, "tag": b"elsewhere"}),
                         ("model", {"kind": 3, "tag": b"t" * 192}), ("full-id", {"identity": b"a" * 32})]:
        yield name, elf_file(descriptor_bytes(**change))
    yield "owner", elf_file(descriptor_bytes(), owner=b"GNU\0", owner_size=4)
    yield "type", elf_file(descriptor_bytes(), note_type=3)
    yield "short", elf_file(descriptor_bytes()[:12])
    yield "past-end", elf_file(descriptor_bytes(), segments=[struct.pack("<IIQQQQQQ", 1, 4, 1 << 40, 0, 0, 9, 9, 1)])
    yield "text", b"no ELF file at all\n"


def random_bytes(sizes):
    random = np.random.default_rng(20261130)
    for i, size in enumerate(sizes):
        yield f"random-{i}", random.integers(0, 256, size, np.uint8).tobytes()


def traces():
    facts = {"n_vocab": 8, "n_tokens": 8, "mask_id": 3, "bos_id": -1, "eos_id": 2, "eot_id": -1, "pad_id": -1,
             "context_length": 64, "trained_block_length": 0, "stop_ids": [2]}

    def row(position):
        return {"position": position, "sampled": 5, "sampled_prob": 0.5, "argmax": 5, "top1_prob": 0.5,
                "top2_prob": 0.25, "entropy": 1.04, "log_sum_exp": 2.0, "top_ids": [5, 6, 1],
                "top_probs": [0.5, 0.25, 0.25]}

    def lines(sampler, options, changed=None, plan=None):
        header = {"trace": 1, "model": "m.gguf", "sampler": sampler, "options": options, "seed": 7,
                  "ignore_eos": False, "facts": {**facts, **(changed or {})}, "ids": [1, 4, 3, 3, 3],
                  "editable": [0, 0, 1, 1, 1]}
        plan = {"positions": [2, 3, 4], "want": 1, "domain": "raw", "allow_all": False, "temperature": 0.0,
                "top_p": 1.0, "top_k": 0, "guidance_scale": 0.0, "suppress_both": [], "suppress_confidence": [],
                **(plan or {})}
        rounds = [{"round": i, "forward": True, "plan": {**plan, "positions": list(range(2 + i, 5))},
                   "rows": [row(position) for position in (2, 3, 4)],
                   "edits": [{"position": 2 + i, "token": 5, "kind": "commit", "confidence": 0.5}],
                   "finished": i == 2} for i in range(3)]
        end = {"finish_reason": "length", "ids": [1, 4, 5, 5, 5], "pieces": {"5": "x", "6": "\u00ff"}}
        return "\n".join(json.dumps(line) for line in [header, *rounds, end]).encode() + b"\n"

    yield "llada", lines("llada", {"steps": "3"})
    yield "guided", lines("llada", {"cfg_scale": "1.5", "steps": "2"}, plan={"guidance_scale": 1.5})
    yield "dream", lines("dream", {"temperature": "0.7", "top_p": "0.9", "alg_temp": "0.3"},
                         plan={"domain": "filtered", "temperature": 0.7, "top_p": 0.9, "want": 9})
    yield "blocks", lines("llada", {"block_length": "2"}, {"trained_block_length": 2, "n_vocab": 9})
    yield "cut", lines("dream", {}).rsplit(b"\n", 2)[0]
    yield "missing", lines("llada", {}).replace(b"0.25", b"null")
    yield "other", lines("margin", {"x": "y"})


SEEDS = {"gguf": gguf_files, "inspect": gguf_files, "quant": quant_rows, "tokenizer": tokenizer_texts,
         "vocabulary": lambda: random_bytes([8, 16, 40, 60, 80, 100, 120, 160, 200, 260]), "chat": chats,
         "config": configs, "command_line": command_lines, "descriptor": plugin_files,
         "sampler": lambda: random_bytes([12 + 4 * i for i in range(48)]), "trace": traces}


def main():
    for target, inputs in SEEDS.items():
        folder = pathlib.Path(sys.argv[1], target)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in inputs():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
