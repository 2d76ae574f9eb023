"""Vectors of the decoding rules alone: settings and logits in, what each round commits out.

A vector is a dict: sampler, options, ids, editable, seed, n_vocab, n_tokens, mask_id, eos_id, eot_id, how its
logits are made ("logits", see tests/samplers/sampler_driver.cpp), and "rounds", [[position, id], ...] per round.
written() adds the logits themselves, so that a vector can be used without any code of ours.
"""

import random
import sys
from pathlib import Path

import sampler_oracle

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "samplers"))
from reference_test import random_case, text  # noqa: E402

SEED = 20261130


def drawn(options):
    """Whether a vector needs the very same random numbers."""
    return (options["temperature"] > 0 or options.get("alg_temp", 0) > 0
            or options.get("remasking") == "random" or options.get("algorithm") == "origin")


def run(case, options):
    rule = getattr(sampler_oracle, case["sampler"])
    return [commits for commits in rule(case, options, corrected=not options["exact"]).rounds if commits]


def make(sampler, count, with_draws):
    """`count` vectors of a sampler, with or without draws, the same ones every time."""
    rng = random.Random(f"{SEED} {sampler} {with_draws}")
    vectors = []
    while len(vectors) < count:
        case, options = random_case(rng, sampler)
        if drawn(options) != with_draws:
            continue
        vectors.append({**case, "options": {name: text(value) for name, value in options.items()},
                        "rounds": run(case, options), "settings": options})
    return vectors


def written(vector):
    """The vector with "steps": the canvas and the logits [positions, n_vocab] of every forward of the rule."""
    steps = []
    made_up = sampler_oracle.MadeUpModel(vector)

    def recording(ids):
        logits = made_up(ids)
        steps.append({"ids": [int(i) for i in ids], "logits": logits.round(9).tolist()})
        return logits
    run({**vector, "model": recording}, vector["settings"])
    return {**{key: value for key, value in vector.items() if key not in ("logits", "settings")}, "steps": steps}
