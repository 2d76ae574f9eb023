"""Files that must be refused, each by name, at once and for little memory; and odd ones that must load."""

from dataclasses import replace

import numpy as np

from broken_gguf import container_faults, correct
from broken_models import model_faults
from models import TOKENS, always, scores_of, small
from runtime import NotApplicable
from tiny_vocabulary import build_vocabulary


def register(registry):
    for broken in container_faults():
        registry.add(f"broken_file.{broken.name}", f"a file with this fault is refused by name: {broken.fault}",
                     lambda t, broken=broken: refuse_file(t, broken))
    for broken in model_faults():
        registry.add(f"broken_model.{broken.name}", f"a model with this fault is refused by name: {broken.fault}",
                     lambda t, broken=broken: refuse_model(t, broken))
    for each in (correct_file_is_listed, faulty_model_is_still_listed, tied_output, no_kv_head_count, scores_are_not_needed, a_token_text_twice,
                 other_integer_widths, per_layer_arrays, rows_beyond_the_tokens, vocab_size_is_no_authority, version_2, alignment_64,
                 non_ascii_path):
        registry.case("file")(each)


def refuse_file(t, broken):
    path = t.files.content(f"{broken.name}.gguf", broken.content)
    t.refused(t.runtime.load(path), broken.item, broken.says, limits=True)
    try:
        outcome, names = t.runtime.inspect(path)
    except NotApplicable:
        return
    t.refused(outcome, broken.item, broken.says, limits=True)
    t.claim(set(broken.lists) <= set(names), f"listed: {names}, readable: {broken.lists}")


def refuse_model(t, broken):
    path = t.files.path(f"model-{broken.name}.gguf")
    broken.write(path)
    t.refused(t.runtime.load(path), broken.item, broken.says, limits=True)


def correct_file_is_listed(t):
    """the correct file that the broken ones are made from is listed whole"""
    outcome, names = t.runtime.inspect(t.files.content("correct.gguf", correct().to_bytes()))
    t.equal(outcome.status, 0, "exit status")
    t.claim({"general.architecture", "llada.block_count", "a", "b"} <= set(names), f"listed: {names}")


def faulty_model_is_still_listed(t):
    """a model with a tensor nobody decodes, or of an architecture nobody runs, is still listed"""
    for name in ("TypeNobodyDecodes", "UnknownArchitecture"):
        broken = next(each for each in model_faults() if each.name == name)
        path = t.files.path(f"listed-{name}.gguf")
        broken.write(path)
        outcome, names = t.runtime.inspect(path)
        t.equal(outcome.status, 0, "exit status")
        t.claim({"general.architecture", "blk.0.ffn_up.weight", "token_embd.weight"} <= set(names), f"listed: {names}")


def writes(t, path, token=ord("A"), settings=None, arch="llada"):
    """The model at `path` writes this token everywhere."""
    n = 4
    got = t.runtime.generate(path, b"q", {"n": n, "temperature": 0.0, **(settings or {})})
    if got.tokens is not None:
        t.equal(got.tokens, [token] * n, "ids")
    else:
        t.equal(got.text, bytes([token]) * n, "text")


def loads(t, name, **changes):
    writes(t, t.files.known("always_A", **changes))


def tied_output(t):
    """a file without output.weight uses the embedding table for both"""
    path = t.files.tiny("tied", replace(small("llada"), tied=True))
    ids = [5, 17, 290]
    t.close(t.runtime.logits(path, ids, [0, 1, 2]), scores_of(path)(ids))


def no_kv_head_count(t):
    """a file without head_count_kv has as many as heads"""
    loads(t, "kv", drop_keys=("llada.attention.head_count_kv",))


def scores_are_not_needed(t):
    """a byte-pair vocabulary with scores, without scores, and without token types loads"""
    writes(t, t.files.known("always_A"))
    writes(t, t.files.known("always_A", extra_keys={"tokenizer.ggml.scores": ("f32", [0.0] * TOKENS)}))
    writes(t, t.files.known("always_A", drop_keys=("tokenizer.ggml.token_type",)))


def a_token_text_twice(t):
    """two tokens with one text load: the first is the text's id, and both can be written"""
    tokens = list(build_vocabulary("llada", TOKENS).tokens)
    tokens[300] = tokens[ord("A")]
    twice = {"tokenizer.ggml.tokens": ("string[]", tokens)}
    writes(t, t.files.known("always_A", extra_keys=twice))
    table = np.full((1, TOKENS), -20.0)
    table[0, 300] = 10.0
    got = t.runtime.generate(t.files.tiny("twice", replace(small("llada"), known_logits=table, extra_keys=twice)), b"A",
                             {"n": 2, "temperature": 0.0})
    t.equal(got.text, b"AA", "text")
    if got.prompt is not None:
        t.equal(got.prompt[-1], ord("A"), "id of A in the prompt")


def other_integer_widths(t):
    """an integer of another width, signed or not, is read where its value fits"""
    a = "llada"
    writes(t, t.files.known("always_A", extra_keys={
        f"{a}.block_count": ("u64", 2), f"{a}.context_length": ("i32", 256), f"{a}.embedding_length": ("u16", 128),
        f"{a}.attention.head_count": ("u8", 4), f"{a}.feed_forward_length": ("i64", 160),
        "tokenizer.ggml.mask_token_id": ("u64", 316), "tokenizer.ggml.eos_token_id": ("u16", 315),
        "general.alignment": ("u64", 32)}))


def per_layer_arrays(t):
    """a number that is given as an array of equal values, one a layer, is that number; token types may be unsigned"""
    types = build_vocabulary("llada", TOKENS).types
    writes(t, t.files.known("always_A", extra_keys={
        "llada.attention.head_count": ("u32", [4, 4]), "llada.attention.head_count_kv": ("i32", [4, 4]),
        "llada.feed_forward_length": ("u64", [160, 160]), "tokenizer.ggml.token_type": ("u32", types)}))


def rows_beyond_the_tokens(t):
    """ids with an embedding row and no token are never produced, however much the logits prefer them"""
    rows = 400
    table = np.full((1, rows), -20.0)
    table[0, TOKENS:] = 30.0
    table[0, ord("A")] = 10.0
    path = t.files.tiny("beyond", replace(small("llada"), rows=rows, known_logits=table))
    writes(t, path)
    for temperature in (0.5, 3.0):
        got = t.runtime.generate(path, b"q", {"n": 32, "temperature": temperature, "seed": 3})
        if got.tokens is not None:
            t.claim(max(got.tokens) < TOKENS, f"ids beyond the {TOKENS} tokens: {got.tokens}")
        else:
            t.claim(b"A" in got.text, f"text {got.text!r}")


def vocab_size_is_no_authority(t):
    """vocab_size below the tokens array, which is below the embedding's rows, loads"""
    rows = 384
    table = np.concatenate([always(ord("A")), np.full((1, rows - TOKENS), -20.0)], axis=1)
    writes(t, t.files.tiny("vocab_size", replace(small("llada"), rows=rows, known_logits=table,
                                                 extra_keys={"llada.vocab_size": ("u32", 300)})))


def version_2(t):
    """GGUF version 2 reads like version 3"""
    with open(t.files.known("always_A"), "rb") as file:
        content = bytearray(file.read())
    content[4:8] = (2).to_bytes(4, "little")
    writes(t, t.files.content("version2.gguf", bytes(content)))


def alignment_64(t):
    """tensor data lie where the file's own alignment puts them"""
    writes(t, t.files.known("always_A", alignment=64))


def non_ascii_path(t):
    """a path that is not ASCII opens"""
    with open(t.files.known("always_A"), "rb") as file:
        content = file.read()
    writes(t, t.files.content("mod\u00e8le \u65e5\u672c.gguf", content))
