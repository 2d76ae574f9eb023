"""What an evaluation asks and what counts as right. Standard library only."""

import json
from pathlib import Path

from generator import held_out_prompts

HERE = Path(__file__).parent
WINDOW = 128
RATES = (1, 2, 4, 8)
PROMPTS_PER_TASK = 60
SPLIT_SEED = 2024


def prompts_of(task, count):
    path = HERE / "heldout" / f"{task.name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else [
        {"prompt": i.prompt, "answer": i.answer} for i in held_out_prompts(task, count, SPLIT_SEED)]
    return rows[:count]


def is_right(task, prompt, expected, text) -> bool:
    """Exact match where there is one right answer, else the task's checker."""
    return text == expected if task.one_answer else safely(task.check, prompt, text)


def safely(check, prompt, text) -> bool:
    """A checker may stumble over text that is no answer at all; then the answer is wrong."""
    try:
        return bool(check(prompt, text))
    except (ValueError, IndexError, KeyError, TypeError):
        return False
