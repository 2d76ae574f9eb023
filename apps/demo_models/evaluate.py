"""Held-out accuracy per task at 1, 2, 4 and 8 tokens per step, and samples of what a model writes.

    python3 evaluate.py demo-llada.gguf --out DIR       # the weights as quantised

The prompts are those of heldout/*.jsonl, which `evaluate.py --write-prompts` makes again.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import torch

from evaluate_rules import (HERE, RATES, RECORD_PART, RECORD_SHA256, RECORD_SKIPPED, WINDOW, count, held_out_set, is_right,
                            prompts_of, rates, record_set, task_names, validation_set)
from generator import TASKS
from sampling import decode
from tokenizer import Tokenizer

FREE_PROMPTS = ["Tell me a story about a fox named Milo who finds a red lantern. Include the forest.",
                "Write a short story about Nora. Include Ben, a wooden boat, and the river.",
                "Write a story in which Max learns to bake bread. Use Lily in the story.",
                "Describe a tall green tower by the lake.", "Who are you?", "What is the capital of France?",
                "Why is the sky blue?", "What is 48213 + 9971?", "Sort these words: pear, apple, zebra, moon, cat"]


def write_prompts(folder: Path, chosen, tasks=tuple(TASKS.values())):
    folder.mkdir(exist_ok=True)
    for task in tasks:
        rows = [{"task": task.name, "one_answer": task.one_answer, "prompt": i.prompt, "answer": i.answer} for i in chosen(task)]
        (folder / f"{task.name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


def write_record(folder: Path):
    """The set of record, in some minutes; an error if it is not the one that results/ was measured on."""
    write_prompts(folder, record_set, [task for task in TASKS.values() if task.one_answer])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))).hexdigest()
    if digest != RECORD_SHA256:
        raise ValueError(f"{folder}: SHA-256 {digest}, but the recorded set has {RECORD_SHA256}; use an empty folder")


def accuracy(model, tokenizer, rates, per_task=None, window=WINDOW, tasks=tuple(TASKS), folder=HERE / "heldout", skip=0):
    """{task: {rate: share right}}, and the wrong answers at the first rate."""
    cases = [(task, row) for task in map(TASKS.get, tasks) for row in prompts_of(task, per_task, folder, skip)]
    # Rows of similar length together: less padding.
    cases.sort(key=lambda case: len(tokenizer.prompt_ids(case[1]["prompt"])))
    table, wrong = {name: {} for name in tasks}, []
    for rate in rates:
        texts = decode(model, tokenizer, [row["prompt"] for _, row in cases], window, rate)
        right = {name: [] for name in tasks}
        for (task, row), text in zip(cases, texts):
            ok = is_right(task, row["prompt"], row["answer"], text)
            right[task.name].append(ok)
            if not ok:
                wrong.append({"task": task.name, "tokens_per_step": rate, "prompt": row["prompt"], "expected": row["answer"],
                              "got": text})
        for name, marks in right.items():
            table[name][rate] = sum(marks) / max(1, len(marks))
    return table, wrong


def markdown(table, rates) -> str:
    lines = ["| task | kind | " + " | ".join(f"{r}/step" for r in rates) + " |", "|---|---|" + "---:|" * len(rates)]
    for name, row in table.items():
        kind = "exact match" if TASKS[name].one_answer else "checker"
        lines.append(f"| {name} | {kind} | " + " | ".join(f"{100 * row[r]:.0f}" for r in rates) + " |")
    exact = [row for name, row in table.items() if TASKS[name].one_answer]
    if exact:
        means = [100 * sum(row[rate] for row in exact) / len(exact) for rate in rates]
        lines.append("| mean of exact match | | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    return "\n".join(lines) + "\n"


def report(model, tokenizer, out: Path, label: str, rates, per_task, tasks=tuple(TASKS), folder=HERE / "heldout", skip=0):
    started = time.monotonic()
    table, wrong = accuracy(model, tokenizer, rates, per_task, tasks=tasks, folder=folder, skip=skip)
    stem = f"{tokenizer.architecture}-{label}"
    prompts = {name: len(prompts_of(TASKS[name], per_task, folder, skip)) for name in tasks}
    (out / f"{stem}.json").write_text(json.dumps({"window": WINDOW, "prompts": prompts, "accuracy": table}, indent=1) + "\n")
    (out / f"{stem}.md").write_text(markdown(table, rates))
    (out / f"{stem}-wrong.jsonl").write_text("".join(json.dumps(w) + "\n" for w in wrong))
    print(f"{stem} ({time.monotonic() - started:.0f} s)\n{markdown(table, rates)}", flush=True)


def write_samples(model, tokenizer, out: Path):
    stories = [row["prompt"] for name in ("story", "description") for row in prompts_of(TASKS[name], 6)]
    prompts = FREE_PROMPTS + stories
    texts = {rate: decode(model, tokenizer, prompts, WINDOW, rate) for rate in (1, 4)}
    lines = [json.dumps({"prompt": p, **{f"{rate}/step": texts[rate][i] for rate in texts}}, indent=1)
             for i, p in enumerate(prompts)]
    (out / f"{tokenizer.architecture}-samples.jsonl").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--per-task", type=count, help="at most; default: all of heldout/")
    parser.add_argument("--record", action="store_true",
                        help="of the folder --prompts, the part that counts for this model, at one token a step")
    parser.add_argument("--rates", type=rates, default=RATES, help="tokens per step")
    parser.add_argument("--tasks", type=task_names, default=list(TASKS))
    parser.add_argument("--label", default="quantized", help="part of the names of the files written")
    parser.add_argument("--no-samples", action="store_true")
    parser.add_argument("--prompts", type=Path, default=HERE / "heldout", help="folder of the prompts")
    parser.add_argument("--write-prompts", action="store_true")
    parser.add_argument("--write-validation", action="store_true", help="makes the folder --prompts of other held-out prompts")
    parser.add_argument("--write-record", action="store_true", help="makes the folder --prompts of the set of record")
    args = parser.parse_args()
    if args.write_record:
        return write_record(args.prompts)
    if args.write_prompts:
        return write_prompts(HERE / "heldout", held_out_set)
    if args.write_validation:
        return write_prompts(args.prompts, validation_set)
    if args.record and args.prompts == parser.get_default("prompts"):
        parser.error("--record is of the folder that --write-record made: give it with --prompts")
    import export_gguf
    model = export_gguf.load(args.gguf).to("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = Tokenizer(model.config.architecture)
    args.out.mkdir(parents=True, exist_ok=True)
    skip = 0
    if args.record:
        skip, args.per_task, args.rates = RECORD_SKIPPED[tokenizer.architecture], RECORD_PART, [1]
        args.tasks = [task.name for task in TASKS.values() if task.one_answer]
    with torch.no_grad():
        report(model, tokenizer, args.out, args.label, args.rates, args.per_task, args.tasks, args.prompts, skip)
        if not args.no_samples:
            write_samples(model, tokenizer, args.out)


if __name__ == "__main__":
    main()
