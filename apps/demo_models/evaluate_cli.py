"""Held-out accuracy through the dllm command line itself: what a user gets. Standard library only.

    python3 evaluate_cli.py --dllm ../../build/release/bin/dllm --model demo-llada.gguf --tasks add,compare --rates 1,4

One process per prompt, so this is slow; evaluate.py decodes many prompts at once on a GPU.
"""

import argparse
import json
import subprocess
from pathlib import Path

from evaluate_rules import RATES, WINDOW, is_right, prompts_of
from generator import TASKS


def answer(args, prompt: str, rate: int) -> str:
    command = [args.dllm, "run", "-m", args.model, "-p", prompt, "-e", "-n", str(WINDOW), "--steps", str(WINDOW // rate),
               "-t", str(args.threads), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["text"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dllm", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--rates", default=",".join(map(str, RATES)), help="tokens per step")
    parser.add_argument("--per-task", type=int, help="at most; default: all of heldout/")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="JSON file for the shares and the wrong answers")
    args = parser.parse_args()
    table, wrong = {}, []
    for name in args.tasks.split(","):
        rows = prompts_of(TASKS[name], args.per_task)
        table[name] = {}
        for rate in map(int, args.rates.split(",")):
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
