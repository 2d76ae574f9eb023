"""What an evaluation asks and what counts as right. Standard library only."""

import argparse
import json
from pathlib import Path

from generator import TASKS, held_out_prompts

HERE = Path(__file__).parent
WINDOW = 128
RATES = (1, 2, 4, 8)
PROMPTS_PER_TASK = {True: 120, False: 60}       # by one_answer: a target of 98 % needs more than 60 to mean something
SPLIT_SEED = 2024
VALIDATION_SEED = 4048
RECORD_SEED, RECORD_PROMPTS = 6072, 500         # 120 prompts cannot tell 97.5 from 99 %
# Its first 200 a task were asked of LLaDA and of Dream's run 7; as they then steered Dream's run 8, the next 200 count for that.
RECORD_PART, RECORD_SKIPPED = 200, {"llada": 0, "dream": 200}
RECORD_SHA256 = "b09705f0f0602950918cd77655c9eba4f3cc26cd476c3ce030231dc24e4d1001"      # of its files, in order of name


def held_out_set(task):
    """The held-out prompts of one task, as heldout/ has them."""
    return held_out_prompts(task, PROMPTS_PER_TASK[task.one_answer], SPLIT_SEED)


def validation_set(task):
    """Other held-out prompts, to choose between checkpoints with: none of the questions of held_out_set."""
    tested = frozenset(instance.key for instance in held_out_set(task))
    return held_out_prompts(task, PROMPTS_PER_TASK[task.one_answer], VALIDATION_SEED, without=tested, tries=2000)


def record_set(task):
    """The prompts that accuracy at one token a step is stated for: 500 questions that neither of the other sets has.

    Some tasks have fewer held-out questions: then what is left, and the held-out set too where that is less than 120.
    """
    tested, validated = held_out_set(task), validation_set(task)
    known = frozenset(instance.key for instance in tested + validated)
    found = held_out_prompts(task, RECORD_PROMPTS, RECORD_SEED, without=known, tries=12_000)
    return found if len(found) >= len(tested) else tested + found


def prompts_of(task, most=None, folder=HERE / "heldout", skip=0):
    """The prompts of a folder after the first `skip` (all, if it has no more than those), `most` at most."""
    path = folder / f"{task.name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return (rows[skip:] or rows)[:most]


def is_right(task, prompt, expected, text) -> bool:
    """Exact match where there is one right answer, else the task's checker."""
    return text == expected if task.one_answer else safely(task.check, prompt, text)


def safely(check, prompt, text) -> bool:
    """A checker may stumble over text that is no answer at all; then the answer is wrong."""
    try:
        return bool(check(prompt, text))
    except (ValueError, IndexError, KeyError, TypeError):
        return False


def task_names(text: str) -> list[str]:
    """The option --tasks: names separated by commas, each a task's."""
    names = text.split(",")
    for name in names:
        if name not in TASKS:
            raise argparse.ArgumentTypeError(f"no task '{name}'; there are {', '.join(TASKS)}")
    return names


def count(text: str) -> int:
    """An option that is a number from 1 on."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)


def rates(text: str) -> list[int]:
    """The option --rates: tokens per step, separated by commas, at most the window."""
    found = [count(rate) for rate in text.split(",")]
    if max(found) > WINDOW:
        raise argparse.ArgumentTypeError(f"{max(found)} tokens a step, the window has {WINDOW}")
    return found
