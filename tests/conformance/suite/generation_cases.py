"""Whole generations, held to the independent rules over the independent forward, and what must hold of any draw."""

from dataclasses import replace

import numpy as np

from models import LETTERS, SPREAD, TOKENS, Ids, chain, known_scores, small
from rules import check_generation, draws, expected, is_stable
from runtime import NotApplicable, Refused

PROMPT = b"q"
RULES = {"llada": ("low_confidence", "random"), "dream": ("origin", "maskgit_plus", "topk_margin", "entropy")}
GREEDY = {"llada": ("low_confidence",), "dream": ("maskgit_plus", "topk_margin", "entropy")}   # draw no order
NEUTRAL = {"temperature": 0.0}

# (name, architecture, settings): what broke other runtimes (lengths and steps that do not divide), and the ordinary.
SCHEDULES = [
    ("generation_48_block_32", "llada", {"n": 48, "steps": 12, "block_length": 32}),
    ("ten_steps_over_four_blocks", "llada", {"n": 16, "steps": 10, "block_length": 4}),
    ("block_longer_than_generation", "llada", {"n": 10, "steps": 5, "block_length": 32}),
    ("block_of_one", "llada", {"n": 6, "steps": 6, "block_length": 1}),
    ("one_step", "llada", {"n": 8, "steps": 1, "block_length": 8}),
    ("steps_equal_tokens", "llada", {"n": 12, "steps": 12, "block_length": 12}),
    ("more_steps_than_tokens", "llada", {"n": 4, "steps": 9, "block_length": 4}),
    ("uneven_steps", "llada", {"n": 13, "steps": 5, "block_length": 13}),
    ("one_token", "llada", {"n": 1, "steps": 1, "block_length": 1}),
    ("dream_one_step", "dream", {"n": 8, "steps": 1}),
    ("dream_steps_equal_tokens", "dream", {"n": 12, "steps": 12}),
    ("dream_more_steps_than_tokens", "dream", {"n": 8, "steps": 40}),
    ("dream_fewer_steps", "dream", {"n": 13, "steps": 5}),
    ("dream_large_eps", "dream", {"n": 13, "steps": 6, "eps": 0.7}),
    ("dream_256_tokens_in_512_steps", "dream", {"n": 256, "steps": 512}),
]


def register(registry):
    for name, arch, settings in SCHEDULES:
        registry.add(f"schedule.{name}", f"{arch}, {words(settings)}: every round commits what the reference's schedule says",
                     lambda t, arch=arch, settings=settings: by_schedule(t, arch, settings))
    for arch in ("llada", "dream"):
        for shift in ("default", False, True):
            for rule in GREEDY[arch]:
                registry.add(f"greedy.{arch}_{rule}_shift_{shift}".lower(),
                             f"{arch} by {rule} at temperature 0 on known logits, diffusion.shift_logits {shift}",
                             lambda t, arch=arch, shift=shift, rule=rule: known(t, arch, shift, {"algorithm": rule}))
        for rule in RULES[arch]:
            registry.add(f"drawn.{arch}_{rule}", f"{arch} by {rule} at temperature 0.8 equals the rule with the same Philox draws",
                         lambda t, arch=arch, rule=rule: known(t, arch, True, {"algorithm": rule, "temperature": 0.8, "seed": 11}))
            registry.add(f"random_weights.{arch}_{rule}", f"{arch} by {rule} on random weights writes what float64 writes",
                         lambda t, arch=arch, rule=rule: random_weights(t, arch, {"algorithm": rule, "seed": 3}))
    for group, members in GROUPS.items():
        for each in members:
            registry.case(group)(each)


def words(settings):
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def generate(t, path, settings, prompt=PROMPT):
    return t.runtime.generate(path, prompt, {**NEUTRAL, **settings})


def answer(got):
    """What two runs are compared by."""
    return got.tokens if got.tokens is not None else got.text


def agrees(t, arch, path, settings, prompt=PROMPT, want=None):
    if draws(arch, settings) and not t.runtime.philox:
        raise NotApplicable("its random numbers are others")
    got = generate(t, path, settings, prompt)
    check_generation(t, got, want or expected(arch, path, prompt, {**NEUTRAL, **settings}), settings)
    return got


def by_schedule(t, arch, settings):
    settings = {"algorithm": GREEDY[arch][-1], **settings}
    want = expected(arch, None, PROMPT, {**NEUTRAL, **settings}, known_scores(chain(), True))
    got = agrees(t, arch, t.files.known("chain", arch, True, context=320), settings, want=want)
    ids = Ids(arch)
    if got.tokens is not None:
        t.claim(ids.mask not in got.tokens and len(got.tokens) == settings["n"], f"masks are left or tokens are missing: {got.tokens}")
    if got.forwards is not None:
        t.equal(got.forwards, len([commits for commits in got.rounds or [] if commits]) or got.forwards,
                "forwards: a round that commits nothing needs none")


def known(t, arch, shift, settings):
    base = {"n": 14, "steps": 7, **({"block_length": 7} if arch == "llada" else {})}
    agrees(t, arch, t.files.known("chain", arch, shift), {**base, **settings})


def random_weights(t, arch, settings):
    """The first of some models on which errors of 1 % of a deviation change nothing: there all must agree."""
    settings = {"n": 6, "steps": 3, **({"block_length": 6} if arch == "llada" else {}), **settings}
    if draws(arch, settings) and not t.runtime.philox:
        raise NotApplicable("its random numbers are others")
    for seed in range(1, 20):
        path = t.files.random(arch, seed)
        want = is_stable(arch, path, PROMPT, {**NEUTRAL, **settings})
        if want:
            agrees(t, arch, path, settings, want=want)
            return
    raise AssertionError("no model is stable enough")


# ---- prompts and masks ----------------------------------------------------------------------------------------------


def prompt_length_is_no_multiple_of_the_block(t):
    """prompts of 1, 3 and 7 letters before blocks of 4"""
    for prompt in (b"q", b"qjx", b"qjxqjxq"):
        agrees(t, "llada", t.files.known("chain", "llada", True), {"n": 8, "steps": 8, "block_length": 4}, prompt)


def empty_prompt(t):
    """an empty prompt works, also where the model shifts: position 0 is scored by row 0"""
    for arch in ("llada", "dream"):
        settings = {"n": 5, "steps": 5, **({"block_length": 5} if arch == "llada" else {})}
        for shift in (True, False):
            agrees(t, arch, t.files.known("chain", arch, shift), settings, b"")


def masks_in_the_prompt_stay_text(t):
    """the mask token, end markers and role headers in a prompt are text: never rewritten, and masks nowhere but behind it"""
    for arch, text in (("llada", b"<|mdm_mask|><|eot_id|><|start_header_id|>"), ("dream", b"<|mask|><|im_end|><|im_start|>")):
        for chat in (False, True):
            got = generate(t, t.files.known("always_A", arch, template="default"), {"n": 3, "chat": chat}, text)
            if got.prompt is None:
                raise NotApplicable("it does not tell the prompt's ids")
            ids = Ids(arch)
            t.equal(answer(got), [ord("A")] * 3, "generated ids")
            t.claim(ids.mask not in got.prompt, f"the mask is in the prompt's ids {got.prompt}")
            for round_ in got.rounds or []:
                t.claim(all(position >= len(got.prompt) for position, _ in round_), f"a round rewrote the prompt: {round_}")


def mask_id_from_the_file(t):
    """mask id 5 of the metadata is used as given: it stands for what is open, and is never written"""
    table = chain()
    table[:, 5] = 30.0
    path = t.files.tiny("mask5", replace(small("llada"), known_logits=table, mask_id=5))
    got = generate(t, path, {"n": 6, "steps": 6})
    first = 5 * (5 % 128) + 3
    if got.tokens is not None:
        t.equal(got.tokens, [LETTERS[first % 26]] * 6, "ids: rows of token 5 everywhere, 5 itself nowhere")
    else:
        t.equal(got.text, bytes([LETTERS[first % 26]]) * 6, "text")


def mask_id_from_an_option(t):
    """a mask id given by hand is used where the file has none, and wins where it has one"""
    for given in (None, 5):
        table = chain()
        path = t.files.tiny(f"mask-by-hand-{given}", replace(small("llada"), known_logits=table, mask_id=given))
        got = generate(t, path, {"n": 4, "steps": 4, "mask_id": 9})
        t.equal(bytes(got.tokens) if got.tokens is not None else got.text, bytes([LETTERS[(5 * 9 + 3) % 26]]) * 4, "text")


def architecture_decides_the_shift(t):
    """without diffusion.shift_logits LLaDA does not shift and Dream does"""
    for arch, shifts in (("llada", False), ("dream", True)):
        settings = {"n": 8, "steps": 8, **({"block_length": 8} if arch == "llada" else {})}
        said = expected(arch, t.files.known("chain", arch, shifts), PROMPT, {**NEUTRAL, **settings})
        agrees(t, arch, t.files.known("chain", arch, None), settings, want=said)


def position_0_has_no_row_before_it(t):
    """with the shift, a generation that starts at position 0 takes row 0 there: no row -1, no other sequence's"""
    agrees(t, "dream", t.files.known("chain", "dream", True), {"n": 1, "steps": 1}, b"")
    agrees(t, "dream", t.files.known("chain", "dream", True), {"n": 9, "steps": 3}, b"")


# ---- equal runs -----------------------------------------------------------------------------------------------------


def threads_change_nothing(t):
    """threads 1, 2, 3 and 7 give the same tokens, at temperature 0 and with draws"""
    for arch in ("llada", "dream"):
        for temperature in (0.0, 0.9):
            settings = {"n": 12, "steps": 6, "temperature": temperature, "seed": 4}
            ends = {str(answer(generate(t, t.files.random(arch), {**settings, "threads": n}))) for n in (1, 2, 3, 7)}
            t.equal(len(ends), 1, f"{arch}, temperature {temperature}: number of different answers")


def seeds_change_nothing_at_temperature_0(t):
    """seeds 1, 2 and 3 give the same tokens at temperature 0, by every rule that draws no order"""
    for arch, rules in GREEDY.items():
        for rule in rules:
            ends = {str(answer(generate(t, t.files.random(arch), {"n": 8, "steps": 4, "algorithm": rule, "seed": seed})))
                    for seed in (1, 2, 3)}
            t.equal(len(ends), 1, f"{arch} {rule}: number of different answers")


def rules_that_draw_an_order_repeat_by_seed(t):
    """origin, random and alg_temp above 0 draw an order: equal seeds give equal tokens and order, others another order"""
    for arch, settings in (("llada", {"algorithm": "random"}), ("dream", {"algorithm": "origin"}),
                           ("dream", {"algorithm": "maskgit_plus", "alg_temp": 0.7})):
        runs = [generate(t, t.files.random(arch), {"n": 16, "steps": 8, "seed": seed, **settings}) for seed in (1, 1, 2)]
        t.equal(answer(runs[0]), answer(runs[1]), f"{settings}, the same seed twice")
        if runs[0].rounds is not None:
            t.equal(runs[0].rounds, runs[1].rounds, "rounds of one seed")
            orders = [[[position for position, _ in commits] for commits in run.rounds] for run in runs]
            t.claim(orders[0] != orders[2], f"{settings}: two seeds drew the same order")


def a_seed_repeats_a_run_with_draws(t):
    """at temperature 0.8 the same seed repeats a run, and another seed gives another"""
    for arch in ("llada", "dream"):
        path = t.files.known("spread", arch)
        runs = [answer(generate(t, path, {"n": 32, "temperature": 0.8, "seed": seed})) for seed in (1, 1, 2)]
        t.equal(runs[0], runs[1], f"{arch}, the same seed twice")
        t.claim(runs[0] != runs[2], f"{arch}: two seeds gave the same 32 tokens")


# ---- what each option does ------------------------------------------------------------------------------------------

N_DRAWS, N_SEEDS = 64, 4


def counts_of(t, arch, settings):
    """How often each letter A to H was written: N_SEEDS runs of N_DRAWS positions in one step."""
    base = {"n": N_DRAWS, "steps": 1, **({"block_length": N_DRAWS} if arch == "llada" else {"algorithm": "maskgit_plus"})}
    counts = np.zeros(TOKENS)
    for seed in range(N_SEEDS):
        got = generate(t, t.files.known("spread", arch), {**base, "seed": seed, **settings})
        for token in got.tokens if got.tokens is not None else got.text:
            counts[token] += 1
    letters = counts[list(SPREAD)]
    t.equal((counts.sum(), letters.sum()), (N_DRAWS * N_SEEDS,) * 2, f"tokens in all and those with any probability, {settings}")
    return letters


def follows(t, counts, law, what):
    """Chi-square of the counts under the law, no larger than once in a million."""
    law = np.array(law) / np.sum(law)
    t.equal(counts[law == 0].sum(), 0, f"{what}: draws of what the settings exclude, counts {counts}")
    want = law * counts.sum()
    kept = want >= 3
    statistic = np.sum((counts[kept] - want[kept]) ** 2 / want[kept])
    rest, rest_want = counts[~kept].sum(), want[~kept].sum()
    if rest_want > 0:
        statistic += (rest - rest_want) ** 2 / rest_want
    bound = 24 + 6 * max(kept.sum() + (rest_want > 0) - 1, 1)     # above the 1e-6 quantile for up to 7 degrees
    t.claim(statistic < bound, f"{what}: counts {counts}, wanted about {want.round(1)} (chi-square {statistic:.1f}, {bound} allowed)")


PROBABILITIES = np.array(list(SPREAD.values()))


def tempered_draws_follow_the_tempered_law(t):
    """draws at temperatures 0.5, 1 and 2 follow p^(1/T), at all 64 positions of a step"""
    for arch in ("llada", "dream"):
        for temperature in (0.5, 1.0, 2.0):
            follows(t, counts_of(t, arch, {"temperature": temperature}), PROBABILITIES ** (1 / temperature), f"{arch}, T {temperature}")


def every_position_draws(t):
    """each of four equal masked positions gets different tokens under different seeds: noise reaches every row"""
    for arch in ("llada", "dream"):
        seen = [set() for _ in range(4)]
        for seed in range(12):
            got = generate(t, t.files.known("spread", arch), {"n": 4, "steps": 2, "temperature": 0.8, "seed": seed})
            for place, token in enumerate(got.tokens if got.tokens is not None else got.text):
                seen[place].add(token)
        t.claim(all(1 < len(each) and each <= set(SPREAD) for each in seen), f"{arch}: tokens seen at each position: {seen}")


def acts_or_is_refused(t, arch, settings, law, what):
    try:
        counts = counts_of(t, arch, settings)
    except Refused as refusal:
        t.refused(refusal.outcome)          # in words, as every refusal
        return
    follows(t, counts, law, f"{arch}, {what}")


def top_k_acts_at_every_position(t):
    """top_k 3 leaves the three most probable at every position, or the decoding rule refuses it"""
    law = np.where(np.arange(8) < 3, PROBABILITIES, 0)
    for arch in ("llada", "dream"):
        acts_or_is_refused(t, arch, {"temperature": 1.0, "top_k": 3}, law, "top_k 3")


def top_k_1_equals_greedy(t):
    """top_k 1 at temperature 0.8 writes what temperature 0 writes, or the decoding rule refuses it"""
    for arch in ("llada", "dream"):
        acts_or_is_refused(t, arch, {"temperature": 0.8, "top_k": 1}, [1] + [0] * 7, "top_k 1")


def top_p_acts_on_the_tempered_distribution(t):
    """top_p cuts the tempered distribution: 0.6 leaves A at T 0.5 (0.62 of the mass) and A, B, C at T 2"""
    for arch in ("llada", "dream"):
        for temperature, kept in ((0.5, 1), (2.0, 3)):
            law = PROBABILITIES ** (1 / temperature)
            acts_or_is_refused(t, arch, {"temperature": temperature, "top_p": 0.6}, np.where(np.arange(8) < kept, law, 0),
                               f"T {temperature}, top_p 0.6")


def cfg_scale_acts_or_is_refused(t):
    """a guidance scale of 2 blends as the reference does, and another scale differs; or the decoding rule refuses it"""
    for arch in ("llada", "dream"):
        settings = {"n": 10, "steps": 5, **({"block_length": 10} if arch == "llada" else {})}
        path = t.files.known("chain", arch, True)
        try:
            generate(t, path, {**settings, "cfg_scale": 2.0})
        except Refused as refusal:
            t.refused(refusal.outcome)
            continue
        t.equal(arch, "llada", "architecture whose published rule has guidance")
        agrees(t, arch, path, {**settings, "cfg_scale": 2.0}, b"b")
        agrees(t, arch, path, settings, b"b")


def alg_temp_acts_or_is_refused(t):
    """alg_temp draws the order in proportion to exp(confidence / alg_temp): another order than without; or it is refused"""
    settings = {"n": 16, "steps": 8, "algorithm": "maskgit_plus", "seed": 5}
    path = t.files.random("dream")
    plain = generate(t, path, settings)
    if plain.rounds is None:
        raise NotApplicable("it does not tell the order")
    try:
        drawn = generate(t, path, {**settings, "alg_temp": 1.0})
    except Refused as refusal:
        t.refused(refusal.outcome)
        return
    places = [[[position for position, _ in commits] for commits in run.rounds] for run in (plain, drawn)]
    t.claim(places[0] != places[1], f"the order with alg_temp 1 is the order without: {places[0]}")


GROUPS = {
    "prompt": (prompt_length_is_no_multiple_of_the_block, empty_prompt, masks_in_the_prompt_stay_text, mask_id_from_the_file,
               mask_id_from_an_option, architecture_decides_the_shift, position_0_has_no_row_before_it),
    "equal_runs": (threads_change_nothing, seeds_change_nothing_at_temperature_0, rules_that_draw_an_order_repeat_by_seed,
                   a_seed_repeats_a_run_with_draws),
    "option": (tempered_draws_follow_the_tempered_law, every_position_draws, top_k_acts_at_every_position, top_k_1_equals_greedy,
               top_p_acts_on_the_tempered_distribution, cfg_scale_acts_or_is_refused, alg_temp_acts_or_is_refused),
}
