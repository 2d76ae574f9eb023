"""Held-out accuracy through the dllm command line itself: what a user gets. Standard library only.

    python3 evaluate_cli.py --dllm ../../build/release/bin/dllm --model demo-llada.gguf --tasks add,compare --rates 1,4

One process per prompt, so this is slow; evaluate.py decodes many prompts at once on a GPU.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from evaluate_rules import RATES, WINDOW, count, is_right, prompts_of, rates, task_names
from generator import TASKS


def answer(args, prompt: str, rate: int) -> str:
    command = [args.dllm, "run", "-m", args.model, "-p", prompt, "-e", "-n", str(WINDOW), "--steps", str(WINDOW // rate),
               "-t", str(args.threads), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{args.dllm}: {error.strerror}")
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"{args.dllm} ended with status {done.returncode}")
    return json.loads(done.stdout)["text"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dllm", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tasks", type=task_names, default=list(TASKS))
    parser.add_argument("--rates", type=rates, default=RATES, help="tokens per step")
    parser.add_argument("--per-task", type=count, help="at most; default: all of heldout/")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--out", type=Path, help="JSON file for the shares and the wrong answers")
    args = parser.parse_args()
    if args.out and not args.out.parent.is_dir():
        parser.error(f"--out: there is no folder {args.out.parent}")
    table, wrong = {}, []
    for name in args.tasks:
        rows = prompts_of(TASKS[name], args.per_task)
        table[name] = {}
        for rate in args.rates:
            got = [answer(args, row["prompt"], rate) for row in rows]
            marks = [is_right(TASKS[name], row["prompt"], row["answer"], text) for row, text in zip(rows, got)]
            table[name][rate] = sum(marks) / len(marks)
            wrong += [{"task": name, "tokens_per_step": rate, "prompt": row["prompt"], "expected": row["answer"], "got": text}
                      for row, text, ok in zip(rows, got, marks) if not ok]
            print(f"{name} at {rate} per step: {sum(marks)} of {len(marks)}", flush=True)
    if args.out:
        args.out.write_text(json.dumps({"accuracy": table, "wrong": wrong}, indent=1) + "\n")


if __name__ == "__main__":
    main()
