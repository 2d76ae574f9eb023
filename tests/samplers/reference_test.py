"""Sampler plugins against the Python oracle: token for token, step for step, over random settings.

usage: reference_test.py DRIVER PLUGIN_FOLDER SAMPLER CASES
"""

import json
import random
import subprocess
import sys

import sampler_oracle

DEFAULTS = {
    "llada": {"steps": 0, "block_length": 0, "temperature": 0.0, "cfg_scale": 0.0,
              "remasking": "low_confidence", "logits_eos_inf": False,
              "confidence_eos_eot_inf": False, "exact": False},
    "dream": {"steps": 0, "eps": 0.001, "algorithm": "entropy", "temperature": 0.0, "top_p": 1.0,
              "top_k": 0, "alg_temp": 0.0, "exact": False},
}


def text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def random_canvas(rng, case, holes):
    """Ids and editable flags: a prompt followed by masks, or masked positions anywhere."""
    total = rng.choice([1, 2, 3, 5, 8, 13, 24, 40])
    plain = [v for v in range(case["n_tokens"]) if v != case["mask_id"]]
    case["ids"], case["editable"] = [], []
    first = 0 if total == 1 else rng.randrange(0, total)
    for i in range(total):
        masked = rng.random() < 0.6 if holes else i >= first
        case["ids"].append(case["mask_id"] if masked else rng.choice(plain))
        # A mask id that is given (fixed) is not to be filled; a filled position may be editable.
        case["editable"].append(int(masked))
    if holes and total > 2:
        case["editable"][rng.randrange(total)] ^= 1
    return sum(1 for i, e in zip(case["ids"], case["editable"]) if e and i == case["mask_id"])


def random_case(rng, sampler):
    n_vocab = rng.choice([5, 8, 17, 33])
    case = {"sampler": sampler, "seed": rng.getrandbits(64), "n_vocab": n_vocab,
            "n_tokens": n_vocab - rng.choice([0, 0, 1])}
    special = rng.sample(range(case["n_tokens"]), 3)
    case["mask_id"], case["eos_id"], case["eot_id"] = special
    case["logits"] = {"seed": rng.getrandbits(63), "levels": rng.choice([2, 3, 1 << 20]),
                      "scale": 1.0, "tie": rng.choice([1, 1, 2, 100])}
    case["logits"]["scale"] = rng.choice([1.0, 4.0, 12.0]) / case["logits"]["levels"]
    options = dict(DEFAULTS[sampler])
    options["exact"] = rng.random() < 0.4
    options["temperature"] = rng.choice([0.0, 0.0, 0.2, 0.7, 1.0, 1.9])
    n = random_canvas(rng, case, holes=not (options["exact"] and sampler == "llada") and
                      rng.random() < 0.5)
    fill = random_llada if sampler == "llada" else random_dream
    fill(rng, options, n)
    return case, options


def random_llada(rng, options, n):
    options["cfg_scale"] = rng.choice([0.0, 0.0, 0.5, 2.0])
    options["remasking"] = rng.choice(["low_confidence", "low_confidence", "random"])
    options["logits_eos_inf"] = rng.random() < 0.25
    options["confidence_eos_eot_inf"] = rng.random() < 0.4
    if n == 0:
        return
    if options["exact"]:  # what the reference asserts
        length = rng.choice([d for d in range(1, n + 1) if n % d == 0])
        options["block_length"] = length
        options["steps"] = (n // length) * rng.choice([1, 2, 3, length])
        return
    length = rng.choice([0, 1, 2, 3, n, n + 5])
    options["block_length"] = length
    blocks = -(-n // (length or min(n, 32)))
    options["steps"] = rng.choice([0, blocks, blocks + 1, n + 3, 2 * n + blocks])


def random_dream(rng, options, n):
    options["algorithm"] = rng.choice(["origin", "maskgit_plus", "topk_margin", "entropy"])
    options["steps"] = rng.choice([0, 1, 2, 3, 7, max(1, n // 2), 2 * n + 1])
    options["eps"] = rng.choice([0.001, 0.001, 0.1, 0.7])
    options["top_p"] = rng.choice([1.0, 1.0, rng.uniform(0.05, 0.98)])
    options["top_k"] = rng.choice([0, 0, 1, 2, 5, 1000])
    if options["algorithm"] != "origin":
        options["alg_temp"] = rng.choice([0.0, 0.0, 0.3, 2.0])


def check(case, options, got):
    """Returns what differs, or None."""
    rule = getattr(sampler_oracle, case["sampler"])
    want = rule(case, options, corrected=not options["exact"])
    if "error" in got:
        return f"the plugin failed: {got['error']}"
    rounds = got["rounds"]
    if not want.rounds:  # nothing was masked: one round that says so
        want.rounds.append([])
    for i, (a, b) in enumerate(zip(rounds, want.rounds)):
        if a != b:
            return f"step {i}: committed {a}, want {b}"
    if len(rounds) != len(want.rounds):
        return f"{len(rounds)} rounds, want {len(want.rounds)}"
    if got["forwards"] != want.forwards:
        return f"{got['forwards']} forwards, want {want.forwards}"
    if got["ids"] != want.x.tolist():
        return f"canvas {got['ids']}, want {want.x.tolist()}"
    left = [i for i, e in enumerate(case["editable"]) if e and got["ids"][i] == case["mask_id"]]
    if left and not options["exact"]:
        return f"positions {left} are still masked"
    return None


def main():
    driver, folder, sampler, count = sys.argv[1:4] + [int(sys.argv[4])]
    rng = random.Random(20240601)
    cases = [random_case(rng, sampler) for _ in range(count)]
    lines = []
    for case, options in cases:
        case["options"] = {name: text(value) for name, value in options.items()}
        lines.append(json.dumps(case))
    done = subprocess.run([driver, folder], input="\n".join(lines) + "\n", text=True,
                          capture_output=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == count, f"{len(results)} results of {count} cases"
    failures = 0
    seen = {"exact": 0, "default": 0, "sampled": 0, "left masked": 0, "free rounds": 0}
    for number, ((case, options), got) in enumerate(zip(cases, results)):
        problem = check(case, options, got)
        if problem:
            failures += 1
            print(f"case {number}: {problem}\n  {json.dumps(case)}")
            continue
        seen["exact" if options["exact"] else "default"] += 1
        seen["sampled"] += options["temperature"] > 0
        seen["left masked"] += any(e and i == case["mask_id"]
                                   for i, e in zip(got["ids"], case["editable"]))
        seen["free rounds"] += got["forwards"] < len(got["rounds"])
    print(f"{count - failures} of {count} settings agree; {seen}")
    # A test that met only easy settings would prove little.
    assert all(seen.values()), f"some kind of setting never came up: {seen}"
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
