"""Makes results/ (tables, curves, samples) from what train.py and evaluate.py left in the folders of one or more runs.

    python3 results.py RUN...        # in order; the loss curves of all, the evaluation of the last

Standard library only.
"""

import csv
import json
import math
import sys
from pathlib import Path

from evaluate_rules import HERE, RATES
from generator import TASKS

TITLES = {"llada": "LLaDA", "dream": "Dream"}
COLORS = {"llada": "#1f77b4", "dream": "#d62728"}
OUT = HERE / "results"

ACCURACY_HEAD = """# Accuracy on held-out prompts

Per cent right in a window of 128 generated tokens, at temperature 0, with the weights as the GGUF file holds them, at 1, 2, 4
and 8 tokens a step; rounded down, so 98 means at least 98 %. LLaDA: low_confidence in blocks of 32. Dream: entropy over the
whole window. Where a task has one right answer it must match exactly, working included; else the task's checker decides.
Arithmetic of the evaluation: bfloat16, as in training.

"Of record" is a larger set at 1 token a step (`evaluate.py --write-record`, up to 500 a task): held-out questions that the other
sets do not have, except for sequence and weekday, which have no more than the 120. Which questions count was decided before they
were asked, and no weights were chosen with them. LLaDA: the first 200 of each task. Dream: the next 200 (of date_shift and chat the
68 and 171 there are), because its first 200 had been asked of the same weights and steered another training, which validation
then rejected. Those had 13 wrong of 4,840: date_shift 5, steps 3, worked_product 2, sort_numbers, sort_words and pick 1. Both
together: date_shift 263 of 268 (98.1 %), steps 393 of 400 (98.2), every other task at least 397 of 400. By the 120 of the held-out set
trainings were judged; they chose no weights either.
"""

SAMPLES_HEAD = """# What the models write

At 1 and at 4 tokens a step, window 128, temperature 0; the first prompts are made up by hand, the others held out. Nothing was
picked: these are all the prompts that were run.
"""


def evaluation(run: Path, architecture: str) -> dict:
    """{"prompts": {task: n}, "quantized": {task: {rate: share}}, "record", if measured: {"prompts", "right"}}"""
    found = {"prompts": {}, "quantized": {name: {} for name in TASKS}}
    for path in sorted(run.glob(f"{architecture}-quantized*.json")):
        report = json.loads(path.read_text())
        found["prompts"].update(report["prompts"])
        for task, shares in report["accuracy"].items():
            found["quantized"][task].update(shares)
    if (run / f"{architecture}-record.json").exists():
        record = json.loads((run / f"{architecture}-record.json").read_text())
        n = record["prompts"]
        found["record"] = {"prompts": n, "right": {t: round(n[t] * shares["1"]) for t, shares in record["accuracy"].items()}}
    return found


def per_cent(share: float | None) -> str:
    """Rounded down; a dash where it was not measured."""
    return "-" if share is None else str(math.floor(100 * share + 1e-9))


def mean(column) -> str:
    return "-" if None in column else f"{100 * sum(column) / len(column):.1f}"


def table(found: dict, one_answer: bool) -> list[str]:
    """Per cent right; with one right answer the set of record first, to a tenth."""
    names = [name for name, task in TASKS.items() if task.one_answer == one_answer]
    shares = {name: [found["quantized"][name].get(str(rate)) for rate in RATES] for name in names}
    means = [mean(column) for column in zip(*shares.values())]
    heads, lines = ["n", *map(str, RATES)], []
    for name in names:
        lines.append([name, str(found["prompts"][name]), *map(per_cent, shares[name])])
    lines.append(["**mean**", "", *means])
    if one_answer and "record" in found:
        record = found["record"]
        heads = ["of record: n", "wrong", "1", *heads]
        for line in lines[:-1]:
            n, right = record["prompts"][line[0]], record["right"][line[0]]
            line[1:1] = [str(n), str(n - right), f"{math.floor(1000 * right / n) / 10:.1f}"]
        wrong = sum(record["prompts"].values()) - sum(record["right"].values())
        lines[-1][1:1] = ["", str(wrong), mean([record["right"][name] / record["prompts"][name] for name in names])]
    rows = [["task", *heads], ["---", *["--:"] * len(heads)], *lines]
    return [*("| " + " | ".join(row) + " |" for row in rows), ""]


def write_accuracy(run: Path) -> None:
    everything = {a: evaluation(run, a) for a in TITLES}
    lines = [ACCURACY_HEAD]
    for a, found in everything.items():
        lines += [f"## {TITLES[a]}: one right answer", "", *table(found, True)]
        lines += [f"## {TITLES[a]}: many right answers", "", *table(found, False)]
    (OUT / "accuracy.json").write_text(json.dumps(everything, indent=1) + "\n")
    (OUT / "accuracy.md").write_text("\n".join(lines).rstrip() + "\n")


def write_samples(run: Path) -> None:
    lines = [SAMPLES_HEAD]
    for a, title in TITLES.items():
        lines += [f"## {title}", ""]
        text, decoder, at = (run / f"{a}-samples.jsonl").read_text(), json.JSONDecoder(), 0
        while at < len(text.rstrip()):
            sample, at = decoder.raw_decode(text, at)
            at += 1                                             # the line end between two
            lines += [f"**{sample['prompt']}**".replace("\n", " / "), "", f"- 1 a step: {sample['1/step']}",
                      f"- 4 a step: {sample['4/step']}", ""]
    (OUT / "samples.md").write_text("\n".join(lines).rstrip() + "\n")


def curve(runs: list[Path], architecture: str) -> list[list[float]]:
    """Rows [run, step, seconds since the first run's start, loss, examples made]."""
    rows, start = [], 0.0
    for number, run in enumerate(runs, 1):
        if not (run / f"{architecture}-loss.csv").exists():
            continue                                            # a run of the other model only
        with open(run / f"{architecture}-loss.csv", newline="") as file:
            points = [[float(v) for v in line] for line in list(csv.reader(file))[1:]]
        rows += [[number, step, start + seconds, loss, made] for step, seconds, loss, made in points]
        start = rows[-1][2]
    return rows


def write_curves(runs: list[Path]) -> None:
    curves = {a: curve(runs, a) for a in TITLES}
    for a, rows in curves.items():
        with open(OUT / f"{a}-loss.csv", "w", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows(
                [("run", "step", "seconds", "loss", "examples_made"),
                 *((int(n), int(step), round(s, 1), loss, int(made)) for n, step, s, loss, made in rows)])
    (OUT / "loss.svg").write_text(svg(curves))


def svg(curves: dict) -> str:
    end = max(rows[-1][2] for rows in curves.values())

    def x(seconds):
        return 50 + 660 * seconds / end

    def y(loss):
        return 10 + 260 * math.log(5 / min(5, max(0.08, loss))) / math.log(5 / 0.08)

    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" font-family="sans-serif" font-size="12">',
             '<rect width="720" height="300" fill="white"/>']
    for loss in (0.1, 0.2, 0.5, 1, 2, 5):
        lines.append(f'<path d="M50 {y(loss):.1f}H710" stroke="#ddd"/>'
                     f'<text x="44" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    for seconds in range(0, int(end) + 1, 200):
        lines.append(f'<text x="{x(seconds):.1f}" y="288" text-anchor="middle">{seconds} s</text>')
    for i, (a, rows) in enumerate(curves.items()):
        path = "L".join(f"{x(s):.1f} {y(loss):.1f}" for _, _, s, loss, _ in rows[::4])
        lines.append(f'<path fill="none" stroke="{COLORS[a]}" stroke-width="1.5" d="M{path}"/>'
                     f'<text x="600" y="{60 + 18 * i}" fill="{COLORS[a]}">{TITLES[a]}</text>')
        for before, row in zip(rows, rows[1:]):
            if before[0] != row[0]:
                lines.append(f'<path d="M{x(row[2]):.1f} {12 + 14 * i}V270" stroke="{COLORS[a]}" stroke-dasharray="1 5"/>'
                             f'<text x="{x(row[2]) + 3:.1f}" y="{22 + 14 * i}" fill="{COLORS[a]}">run {row[0]:.0f}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]]
    if not folders or not all(folder.is_dir() for folder in folders):
        sys.exit("usage: results.py RUN...   (folders that train.py and evaluate.py filled)")
    write_accuracy(folders[-1])
    write_samples(folders[-1])
    write_curves(folders)
