"""What a generation must give: the independent decoding rules (tests/support/sampler_oracle.py) over the
independent forward (tests/support/reference_forward.py).
"""

import numpy as np

import sampler_oracle
from models import TOKENS, Ids, scores_of
from runtime import NotApplicable
from tiny_vocabulary import build_vocabulary, byte_characters

LLADA = {"steps": 0, "block_length": 0, "temperature": 0.0, "cfg_scale": 0.0, "remasking": "low_confidence",
         "logits_eos_inf": False, "confidence_eos_eot_inf": False}
DREAM = {"steps": 0, "eps": 0.001, "algorithm": "entropy", "temperature": 0.0, "top_p": 1.0, "top_k": 0, "alg_temp": 0.0}


def text_of(arch, tokens):
    """Bytes of ids of a 320-token model; special ones have none."""
    vocabulary = build_vocabulary(arch, TOKENS)
    bytes_of = {character: byte for byte, character in byte_characters().items()}
    special = set(Ids(arch).of.values())
    return bytes(bytes_of[c] for token in tokens if token not in special for c in vocabulary.tokens[token])


class Expected:
    """The end of a generation: `tokens`, `text`, `rounds` (those that commit), `prompt`."""

    def __init__(self, result, prompt, arch):
        self.prompt = prompt
        self.tokens = [int(i) for i in result.x[len(prompt):]]
        self.text = text_of(arch, self.tokens)
        self.rounds = [commits for commits in result.rounds if commits]


def draws(arch, settings):
    """Whether the rule draws anything: then only the same random numbers give the same tokens."""
    drawn = settings.get("algorithm") in ("random", "origin") or settings.get("alg_temp", 0) > 0
    return drawn or settings.get("temperature", 0) > 0


def expected(arch, path, prompt, settings, scores=None):
    """`prompt`: bytes that no merge touches. `scores` replaces the forward (ids -> logits)."""
    ids = Ids(arch)
    prompt_ids = ids.prompt(prompt)
    n = settings["n"]
    case = {"ids": prompt_ids + [ids.mask] * n, "editable": [0] * len(prompt_ids) + [1] * n, "mask_id": ids.mask,
            "eos_id": ids.eos, "eot_id": ids.eot, "n_vocab": TOKENS, "n_tokens": TOKENS, "seed": settings.get("seed", 0),
            "model": scores or scores_of(path)}
    options = dict(LLADA if arch == "llada" else DREAM)
    names = {"algorithm": "remasking"} if arch == "llada" else {}
    options.update({names.get(key, key): value for key, value in settings.items() if names.get(key, key) in options})
    rule = sampler_oracle.llada if arch == "llada" else sampler_oracle.dream
    return Expected(rule(case, options, corrected=True), prompt_ids, arch)


def is_stable(arch, path, prompt, settings, noise=0.01, tries=6):
    """Whether the end and the way there survive errors of `noise` deviations in every logit: then every runtime
    that computes that well must agree, whatever its rounding."""
    exact = scores_of(path)
    wanted = expected(arch, path, prompt, settings, exact)
    for attempt in range(tries):
        random = np.random.default_rng(attempt)

        def shaken(ids):
            logits = exact(ids)
            return logits + noise * logits.std() * random.standard_normal(logits.shape)
        got = expected(arch, path, prompt, settings, shaken)
        if (got.tokens, got.rounds) != (wanted.tokens, wanted.rounds):
            return None
    return wanted


def check_generation(t, got, want, settings):
    """Compares what the runtime tells; text stands for ids where it tells no ids."""
    if got.tokens is not None:
        t.equal(got.tokens, want.tokens, "ids")
    else:
        if b"\xef\xbf\xbd" in want.text.decode("utf-8", "replace").encode():
            raise NotApplicable("it tells text alone, and these ids make none that is UTF-8")
        t.equal(got.text, want.text, "text")
    if got.prompt is not None:
        t.equal(got.prompt, want.prompt, "prompt ids")
    if got.rounds is not None:
        t.equal([commits for commits in got.rounds if commits], want.rounds, f"rounds of {settings}")
