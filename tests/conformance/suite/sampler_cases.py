"""Decoding rules alone, on given logits: what every round commits."""

from runtime import NotApplicable

import vectors

VECTORS = 50        # of each sampler, with draws and without


def register(registry):
    for sampler in ("llada", "dream"):
        registry.add(f"sampler.{sampler}_without_draws", f"{VECTORS} settings of {sampler} that draw nothing commit, round by round, "
                     "what the published rule does (equal scores: lower position first)",
                     lambda t, sampler=sampler: agrees(t, sampler, False))
        registry.add(f"sampler.{sampler}_with_philox_draws", f"{VECTORS} settings of {sampler} that draw commit what the published "
                     "rule does with the draws of Philox4x32-10", lambda t, sampler=sampler: agrees(t, sampler, True))


def agrees(t, sampler, with_draws):
    if with_draws and not t.runtime.philox:
        raise NotApplicable("its random numbers are others")
    made = vectors.make(sampler, VECTORS, with_draws)
    answers = t.runtime.sample(made)
    t.equal(len(answers), len(made), "number of answers")
    for vector, rounds in zip(made, answers):
        got = [commits for commits in rounds if commits] if isinstance(rounds, list) else rounds
        t.equal(got, vector["rounds"], f"rounds with {vector['options']}, seed {vector['seed']}")
