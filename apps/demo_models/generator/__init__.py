"""The training text of the demo models: instruction pairs whose answers can all be checked.

Use:
    from generator import TASKS, stream
    for task, instance in stream(seed=1): ...        # endless, never a held-out question
    TASKS["add"].check("What is 2 + 3?", "5")        # True

Each file holds one family; `task.py` says how a question is kept out of training.
"""

from random import Random

from . import (arithmetic, chat, dates, descriptions, json_field, letters, number_words, open_ended, ordering, stories,
               sudoku, world)
from .task import Instance, Task, draw, is_held_out

FAMILIES = (arithmetic, ordering, letters, dates, number_words, json_field, sudoku, world, open_ended, stories,
            descriptions, chat)
TASKS = {task.name: task for family in FAMILIES for task in family.TASKS}


def stream(seed: int, held_out: bool = False, weights: dict | None = None):
    """Endless (task, instance) pairs, tasks drawn by weight; the same seed gives the same pairs."""
    rng = Random(seed)
    tasks = list(TASKS.values())
    shares = [(weights or {}).get(task.name, task.weight) for task in tasks]
    while True:
        for task in rng.choices(tasks, shares, k=64):
            yield task, draw(task, rng, held_out)


def held_out_prompts(task: Task, count: int, seed: int) -> list[Instance]:
    """Prompts of `count` different held-out questions of one task."""
    rng, found = Random(f"{seed} {task.name}"), {}
    while len(found) < count:
        instance = draw(task, rng, held_out=True)
        found.setdefault(instance.key, instance)
    return list(found.values())
