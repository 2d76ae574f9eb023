"""Greedy texts of the demo models on the GPU against those of the CPU, step by step.

    for text in compare_texts(dllm): ...      # one dict for each model, prompt and way of multiplying

At temperature 0 both backends commit the position they are surest of. Both run with one token a step; the
CPU multiplies in f32 (`products=f32`). Up to the first step in which they choose differently they have
seen the same canvas, so there the choices can be held against each other:

* the same position, another token: `margin` is how far the CPU's f32 logits of the two tokens are apart;
* another position: each took the one it was surest of, so were they exact the confidences would be the
  same number, and `margin` is their difference (a probability for LLaDA, nats for Dream).

After that step the canvases differ and there is nothing left to compare. `drift` is the largest
difference of the confidences in the steps before it.
"""

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

DEMO = Path(__file__).resolve().parents[2] / "apps" / "demo_models"
PROMPTS = ("What is 48213 + 9971?", "Sort these words: pear, zebra, apple, moon",
           "Tell me a story about a fox named Milo who finds a red lantern.", "Reverse the word: lantern",
           "What is 731 - 468?", "Tell me a story about a girl and a boat.")
SHIFT = {"llada": 0, "dream": 1}  # row i - 1 scores position i
CPU = ("--backend", "cpu", "--backend-set", "products=f32")
PRODUCTS = ("f16", "auto")  # of the CUDA backend
N_PREDICT = 48


def gpu_missing(dllm):
    """Why the CUDA backend cannot run here; empty where it can."""
    listing = subprocess.run([dllm, "run", "--list-devices"], check=True, capture_output=True, text=True).stdout
    lines = [line for line in listing.splitlines() if line.startswith("cuda")]
    if not lines:
        return "the CUDA backend was not built"
    return lines[0] if "not usable" in lines[0] else ""


def generate(dllm, model, prompt, backend):
    """The answer of `dllm run --json`, and the edits of every step that made one."""
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "steps.jsonl")
        line = [dllm, "run", "-m", model, "-p", prompt, "-n", str(N_PREDICT), "--steps", str(N_PREDICT),
                "-s", "1", "--json", "--dump-step-stats", stats, *backend]
        answer = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
        steps = [json.loads(step)["edits"] for step in Path(stats).read_text().splitlines()]
    return answer, [edits for edits in steps if edits]


def logits(dllm, model, ids, row, backend):
    """[vocabulary] of one row."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits.npy")
        subprocess.run([dllm, "logits", "-m", model, "--tokens", ",".join(map(str, ids)), "--rows", str(row),
                        "--out", out, *backend], check=True, capture_output=True)
        return np.load(out)[0]


def choices(edits):
    return {edit["position"]: edit["token"] for edit in edits}


def canvas_before(answer, steps, mask):
    ids = answer["prompt_tokens"] + [mask] * N_PREDICT
    for edits in steps:
        for position, token in choices(edits).items():
            ids[position] = token
    return ids


def mask_id(dllm, model):
    metadata = json.loads(subprocess.run([dllm, "inspect", "-m", model, "--json"], check=True,
                                         capture_output=True, text=True).stdout)["metadata"]
    return metadata["tokenizer.ggml.mask_token_id"]


def difference(dllm, model, family, answer, before, ours, theirs):
    """What differs in a step of the CPU (`ours`) and of the GPU (`theirs`), and by what margin."""
    mine, other = ours[0], theirs[0]
    if mine["position"] != other["position"]:
        return {"kind": "position", "margin": abs(mine["confidence"] - other["confidence"])}
    ids = canvas_before(answer, before, mask_id(dllm, model))
    row = logits(dllm, model, ids, mine["position"] - SHIFT[family], CPU)
    return {"kind": "token", "margin": abs(float(row[mine["token"]]) - float(row[other["token"]]))}


def compare_text(dllm, family, prompt, products):
    model = DEMO / f"demo-{family}.gguf"
    cuda = ("--backend", "cuda", "--backend-set", f"products={products}")
    answer, ours = generate(dllm, model, prompt, CPU)
    gpu_answer, theirs = generate(dllm, model, prompt, cuda)
    again, repeated = generate(dllm, model, prompt, cuda)
    same = 0
    while same < min(len(ours), len(theirs)) and choices(ours[same]) == choices(theirs[same]):
        same += 1
    drifts = [abs(a["confidence"] - b["confidence"]) for mine, other in zip(ours[:same], theirs[:same])
              for a, b in zip(mine, other)]
    result = {"model": family, "prompt": prompt, "products": products, "text_equal": answer["text"] == gpu_answer["text"],
              "steps": len(ours), "equal_steps": same, "drift": max(drifts, default=0.0),
              "repeats": gpu_answer["tokens"] == again["tokens"] and theirs == repeated}
    if same < max(len(ours), len(theirs)):
        result |= difference(dllm, model, family, answer, ours[:same], ours[same], theirs[same])
    return result


def compare_texts(dllm, jobs=6):
    cases = [(family, prompt, products) for products in PRODUCTS for family in SHIFT for prompt in PROMPTS]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda case: compare_text(dllm, *case), cases))
