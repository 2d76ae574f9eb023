"""The suite's own model files, made when a case asks for them: the same bytes on every machine.

Known logits: every block is switched off (attn_output and ffn_down are zero), so a row's logits are a chosen
function of its token (tests/support/make_tiny_gguf.py). Ids below 256 are the bytes, so what such a model
writes can be read off the text by a runtime that reports no ids.
"""

import hashlib
import os
from dataclasses import replace

import numpy as np

import vocabulary
from broken_gguf import container_faults, correct
from make_tiny_gguf import TinyModel, write_tiny_model
from reference_forward import ReferenceModel

TOKENS = 320
FLOOR = -20.0                              # the logit of what a table does not mention
CLASSES = 128                              # of a table: token t has class t % 128
LETTERS = [ord(c) for c in "abcdefghijklmnopqrstuvwxyz"]
SPREAD = dict(zip(map(ord, "ABCDEFGH"), (0.40, 0.25, 0.15, 0.10, 0.05, 0.03, 0.015, 0.005)))


def always(token):
    """Every row prefers this token."""
    table = np.full((1, TOKENS), FLOOR)
    table[0, token] = 10.0
    return table


def spread():
    """Every row gives the letters A to H the probabilities of SPREAD, and the rest nothing at any temperature up to 2."""
    table = np.full((1, TOKENS), 4 * FLOOR)
    for token, probability in SPREAD.items():
        table[0, token] = np.log(probability)
    return table


def chain():
    """Each row leads to a letter that depends on its token, and is as sure of it as no other row is.

    A row of class c prefers letter 5c + 3, then 5c + 11, then 5c + 14 (mod 26), by c's own lead.
    """
    table = np.full((CLASSES, TOKENS), FLOOR)
    for c in range(CLASSES):
        lead = 0.25 + 3.0 * (37 * c % CLASSES) / CLASSES
        for steps, logit in ((3, lead), (11, 0.0), (14, -0.6)):
            table[c, LETTERS[(5 * c + steps) % 26]] = logit
    return table


def short(changes):
    """A file name's part for changes of a model: equal ones give equal parts."""
    return [hashlib.sha256(repr(sorted(changes.items())).encode()).hexdigest()[:12]] if changes else []


class Files:
    """Model files in a folder, each written once."""

    def __init__(self, folder):
        self.folder = folder
        self.written = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def tiny(self, name, model):
        """Writes a TinyModel as NAME.gguf; the same name must mean the same model."""
        if name not in self.written:
            write_tiny_model(self.path(name + ".gguf"), model)
            self.written[name] = self.path(name + ".gguf")
        return self.written[name]

    def content(self, name, content):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def known(self, table_name, arch="llada", shift="default", **changes):
        """A model of known logits; `table_name`: chain, spread, or always_X for a letter X."""
        table = {"chain": chain, "spread": spread}.get(table_name) or (lambda: always(ord(table_name[-1])))
        name = "-".join(["known", table_name, arch, f"shift_{shift}".lower(), *short(changes)])
        return self.tiny(name, replace(small(arch), known_logits=table(), shift=shift, **changes))

    def random(self, arch, seed=1, **changes):
        """Random weights: every row depends on the whole canvas."""
        name = "-".join(["random", arch, str(seed), *short(changes)])
        return self.tiny(name, replace(small(arch), seed=seed, **changes))

    def tokenizer(self, arch):
        """A model over the vocabulary of the tokenizer goldens."""
        tokens, types, merges, ids = vocabulary.with_specials(arch)
        special = {key: ("u32", ids[text]) for key, text in special_keys(arch).items()}
        return self.tiny(f"tokenizer-{arch}", replace(
            small(arch), template="default", tokens=len(tokens), mask_id=special["tokenizer.ggml.mask_token_id"][1],
            extra_keys={"tokenizer.ggml.tokens": ("string[]", tokens), "tokenizer.ggml.token_type": ("i32[]", types),
                        "tokenizer.ggml.merges": ("string[]", merges), **special}))

    def write_all(self):
        """Everything that is no secret of a case: for runtimes that are tested by other means."""
        for arch in ("llada", "dream"):
            for shift in ("default", True, False):
                self.known("chain", arch, shift)
            for table in ("spread", "always_A"):
                self.known(table, arch)
            self.random(arch)
            self.tokenizer(arch)
        self.content("correct.gguf", correct().to_bytes())
        for broken in container_faults():
            self.content(f"broken-{broken.name}.gguf", broken.content)


BARE = "{{ messages[0]['content'] }}"      # a chat format that adds nothing, for runtimes that always apply the file's


def small(arch):
    """Two layers of width 128, 320 tokens."""
    return TinyModel(arch, layers=2, width=CLASSES, heads=4, head_dim=32, ffn=160, context=256, template=BARE)


def special_keys(arch):
    from tiny_vocabulary import FAMILIES
    family = FAMILIES[arch]
    return {"tokenizer.ggml.bos_token_id": family.bos, "tokenizer.ggml.eos_token_id": family.eos,
            "tokenizer.ggml.padding_token_id": family.eos, "tokenizer.ggml.mask_token_id": family.mask}


class Ids:
    """Where the special tokens of a 320-token model are, and what a prompt of plain letters becomes."""

    def __init__(self, arch):
        from tiny_vocabulary import FAMILIES
        family = FAMILIES[arch]
        names = [text for text, _ in family.specials]
        self.of = {text: TOKENS - len(names) + at for at, text in enumerate(names)}
        self.mask, self.eos, self.bos = (self.of[text] for text in (family.mask, family.eos, family.bos))
        self.eot = self.of.get("<|eot_id|>", self.of.get("<|im_end|>"))
        self.start = [self.bos] if family.add_bos else []

    def prompt(self, text):
        """Ids of a text that no merge rule of the tiny vocabulary touches (bare, with the start token)."""
        return self.start + list(text)


def known_scores(table, shifts):
    """ids -> what scores_of() gives for a model of these known logits, without a forward."""
    def scores(ids):
        rows = table[np.asarray(ids) % len(table)]
        return np.concatenate([rows[:1], rows[:-1]]) if shifts else rows.copy()
    return scores


def scores_of(path):
    """ids -> float64 logits [positions, vocabulary] that score each position, by the independent forward."""
    model = ReferenceModel(path)
    return lambda ids: model.scores([int(i) for i in ids], range(len(ids)))
