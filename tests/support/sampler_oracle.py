"""The decoding rules of LLaDA (generate.py) and Dream (generation_utils.py) in numpy, float64.

Written from reference descriptions, sequence-wide and with whole logits as the originals work; torch's
random numbers are replaced by the Philox draws of the SDK, its unspecified tie order by "lower index
first". `corrected` switches from the original's behaviour to dllm's default (docs/samplers.md).
"""

import numpy as np

import philox

_U64 = np.uint64


def mix(x):
    """splitmix64's finaliser on uint64 (scalar arrays included)."""
    with np.errstate(over="ignore"):
        x = x + _U64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
        return x ^ (x >> _U64(31))


class MadeUpModel:
    """Logits as sampler_driver.cpp makes them: [n_positions, n_vocab] of a canvas."""

    def __init__(self, case):
        made = case["logits"]
        self.seed, self.levels, self.scale, self.tie = (
            made["seed"], made["levels"], made["scale"], made["tie"])
        self.n_vocab = case["n_vocab"]

    def __call__(self, x):
        state = mix(_U64(self.seed))
        for token in x:
            state = mix(state ^ _U64(int(token)))
        rows = mix(state ^ (np.arange(len(x), dtype=np.uint64) // _U64(self.tie)))
        spread = self.scale * (1 + (rows % _U64(1024)).astype(np.float64) / 1024)
        hashes = mix(rows[:, None] ^ np.arange(self.n_vocab, dtype=np.uint64)[None, :])
        return spread[:, None] * (hashes % _U64(self.levels)).astype(np.float64)


def model_of(case):
    """What gives a canvas its logits: the case's own function of the ids, else a MadeUpModel."""
    return case["model"] if "model" in case else MadeUpModel(case)


def softmax(rows):
    peak = rows.max(axis=-1, keepdims=True)
    weights = np.exp(rows - np.where(np.isfinite(peak), peak, 0.0))
    return weights / weights.sum(axis=-1, keepdims=True)


def top(scores, count):
    """Indices of the largest scores; equal ones: lower index first."""
    return np.argsort(-scores, kind="stable")[:count]


def suppress_special(logits, case):
    """dllm's default: neither the mask nor an id without token is ever a candidate."""
    logits[:, case["mask_id"]] = -np.inf
    logits[:, case["n_tokens"]:] = -np.inf


class Result:
    def __init__(self, x):
        self.x, self.rounds, self.forwards = x, [], 0

    def write(self, positions, tokens, mask_id):
        """Writes tokens; a candidate equal to the mask leaves its position masked."""
        committed = []
        for position, token in sorted(zip(positions, tokens)):
            self.x[position] = token
            if token != mask_id:
                committed.append([int(position), int(token)])
        self.rounds.append(committed)


# ---- LLaDA ----

def num_transfer_tokens(masked, steps):
    """get_num_transfer_tokens of one row."""
    counts = np.full(steps, masked // steps)
    counts[: masked % steps] += 1
    return counts


def add_gumbel_noise(logits, temperature, noise):
    """exp(l) / (-ln U)^T; the row's largest logit is taken out first, a common factor."""
    if temperature == 0:
        return logits
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.exp(shifted) / (-np.log(noise)) ** temperature


def candidate_noise(seed, step, n_positions, n_vocab):
    return philox.uniform(seed, step, np.arange(n_positions)[:, None], np.arange(n_vocab)[None, :],
                          philox.CANDIDATE)


def llada_blocks(x, editable, options, case, corrected):
    """[(first position, end position, steps)] of every block."""
    masked = [i for i in range(len(x)) if editable[i] and x[i] == case["mask_id"]]
    n = len(masked)
    if n == 0:
        return []
    steps = options["steps"] or n
    length = options["block_length"] or min(n, 32)
    if not corrected:
        prompt = masked[0]  # exact cases are a prompt followed by masks
        assert masked == list(range(prompt, prompt + n)), "exact cases have no holes"
        assert n % length == 0
        count = n // length
        assert steps % count == 0
        return [(prompt + b * length, prompt + (b + 1) * length, steps // count)
                for b in range(count)]
    groups = [masked[i : i + length] for i in range(0, n, length)]
    spread = [len(part) for part in np.array_split(np.arange(steps), len(groups))]
    return [(group[0], group[-1] + 1, s) for group, s in zip(groups, spread)]


def llada(case, options, corrected):
    model, mask_id, seed = model_of(case), case["mask_id"], case["seed"]
    temperature = float(np.float32(options["temperature"]))
    cfg = float(np.float32(options["cfg_scale"]))
    editable = np.array(case["editable"], dtype=bool)
    x = np.array(case["ids"])
    result = Result(x)
    prompt_index = ~editable
    step = 0
    for begin, end, steps in llada_blocks(x, editable, options, case, corrected):
        in_block = np.zeros(len(x), dtype=bool)
        in_block[begin:end] = True
        counts = num_transfer_tokens(int((in_block & editable & (x == mask_id)).sum()), steps)
        for count in counts:
            mask_index = (x == mask_id) & editable
            if not mask_index.any():
                return result  # nothing can change any more
            logits = model(x)
            if cfg > 0:
                blind = x.copy()
                blind[prompt_index] = mask_id
                unconditional = model(blind)
                logits = unconditional + (cfg + 1) * (logits - unconditional)
            if corrected:
                suppress_special(logits, case)
            if options["logits_eos_inf"]:
                logits[:, case["eos_id"]] = -np.inf
            noise = None
            if temperature > 0:
                noise = candidate_noise(seed, step, len(x), case["n_vocab"])
            noised = add_gumbel_noise(logits, temperature, noise)  # may be `logits` itself
            x0 = np.argmax(noised, axis=-1)
            if options["confidence_eos_eot_inf"]:
                noised[:, case["eos_id"]] = logits[:, case["eot_id"]] = -np.inf
                if corrected:
                    logits[:, case["eos_id"]] = -np.inf
            if options["remasking"] == "low_confidence":
                p = softmax(logits)[np.arange(len(x)), x0].astype(np.float32).astype(np.float64)
            else:
                p = philox.uniform(seed, step, np.arange(len(x)), 0, philox.ORDER)
            p[end:] = -np.inf
            confidence = np.where(mask_index, p, -np.inf)
            chosen = top(confidence, count)
            assert all(mask_index[chosen]) and all(chosen < end)
            result.write(chosen, x0[chosen], mask_id)
            result.forwards += count > 0
            step += 1
    return result


# ---- Dream ----

def linspace_f32(start, end, count):
    """torch.linspace in float32: up to the middle from the first end, behind it from the last."""
    start, end = np.float32(start), np.float32(end)
    step = np.float32((end - start) / np.float32(count - 1))
    index = np.arange(count)
    low = start + step * index.astype(np.float32)
    high = end - step * (count - 1 - index).astype(np.float32)
    return np.where(index < count // 2, low, high).astype(np.float32)


def top_p_logits(z, top_p):
    order = np.argsort(-z, axis=-1, kind="stable")
    cumulative = np.cumsum(softmax(np.take_along_axis(z, order, -1)), axis=-1)
    remove_sorted = cumulative > top_p
    remove_sorted[:, 1:] = remove_sorted[:, :-1].copy()  # the first beyond the limit stays
    remove_sorted[:, 0] = False
    remove = np.zeros_like(remove_sorted)
    np.put_along_axis(remove, order, remove_sorted, -1)
    return np.where(remove, -np.inf, z)


def top_k_logits(z, top_k):
    top_k = min(top_k, z.shape[-1])
    kth = -np.sort(-z, axis=-1)[:, top_k - 1 : top_k]
    return np.where(z < kth, -np.inf, z)


def sample_tokens(logits, temperature, top_p, top_k, noise, kind):
    """(confidence, x0) of rows. Categorical sampling is done as Gumbel-max: the same law."""
    z = logits / temperature if temperature > 0 else logits
    if top_p < 1:
        z = top_p_logits(z, top_p)
    if top_k > 0:
        z = top_k_logits(z, top_k)
    probs = softmax(z)
    if temperature > 0:
        x0 = np.argmax(z - np.log(-np.log(noise)), axis=-1)
    else:
        x0 = np.argmax(z, axis=-1)
    confidence = probs[np.arange(len(x0)), x0].astype(np.float32).astype(np.float64)
    if kind == "topk_margin":
        ordered = -np.sort(-probs, axis=-1).astype(np.float32).astype(np.float64)
        confidence = ordered[:, 0] - ordered[:, 1]
    elif kind == "entropy":
        # The reference adds 1e-10 inside the logarithm; the SDK's statistic does not.
        terms = np.where(probs > 0, probs * np.log(np.where(probs > 0, probs, 1)), 0)
        confidence = terms.sum(axis=-1).astype(np.float32).astype(np.float64)
    return confidence, x0


def dream(case, options, corrected):
    model, mask_id, seed = model_of(case), case["mask_id"], case["seed"]
    temperature = float(np.float32(options["temperature"]))
    top_p = float(np.float32(options["top_p"]))
    editable = np.array(case["editable"], dtype=bool)
    x = np.array(case["ids"])
    result = Result(x)
    algorithm = options["algorithm"]
    steps = options["steps"] or int(((x == mask_id) & editable).sum())
    if steps == 0:
        return result
    times = linspace_f32(1, options["eps"], steps + 1)
    for i in range(steps):
        masked = np.flatnonzero((x == mask_id) & editable)
        if len(masked) == 0:
            break
        logits = model(x)
        if corrected:
            suppress_special(logits, case)
        noise = None
        if temperature > 0:
            noise = candidate_noise(seed, i, len(x), case["n_vocab"])[masked]
        confidence, x0 = sample_tokens(logits[masked], temperature, top_p, options["top_k"], noise,
                                       algorithm)
        t, s = times[i], times[i + 1]
        last = i == steps - 1
        draws = philox.uniform(seed, i, masked, 0, philox.TRANSFER)
        if algorithm == "origin":
            share = np.float32(1) if last else np.float32(1) - s / t
            chosen = np.flatnonzero(draws < np.float64(share))
        else:
            number = len(masked) if last else int(np.float32(len(masked)) * (np.float32(1) - s / t))
            if options["alg_temp"] > 0:
                # Gumbel top-n: a draw without replacement in proportion to exp(c / alg_temp).
                chosen = top(confidence / options["alg_temp"] - np.log(-np.log(draws)), number)
            else:
                chosen = top(confidence, number)
        result.write(masked[chosen], x0[chosen], mask_id)
        result.forwards += len(chosen) > 0
    return result
