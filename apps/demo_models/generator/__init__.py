"""The training text of the demo models: instruction pairs whose answers can all be checked.

Use:
    from generator import TASKS, stream
    for task, instance in stream(seed=1): ...        # endless, never a held-out question
    TASKS["add"].check("What is 2 + 3?", "5")        # True

Each file holds one family; `task.py` says how a question is kept out of training.
"""

from dataclasses import replace
from random import Random

from . import (arithmetic, chat, dates, descriptions, json_field, letters, number_words, open_ended, ordering, stories,
               sudoku, world)
from .practice import PRACTICE
from .task import Instance, Task, draw, is_held_out

FAMILIES = (arithmetic, ordering, letters, dates, number_words, json_field, sudoku, world, open_ended, stories,
            descriptions, chat)
TASKS = {task.name: task for family in FAMILIES for task in family.TASKS}


def stream(seed: int, held_out: bool = False, weights: dict | None = None, practice: float = 0.0):
    """Endless (task, instance) pairs, tasks drawn by weight; the same seed gives the same pairs.

    practice: the share of a task's instances that come from practice.py, if it has any there.
    """
    rng = Random(seed)
    tasks = list(TASKS.values())
    harder = {name: replace(TASKS[name], make=make) for name, make in PRACTICE.items()}
    shares = [(weights or {}).get(task.name, task.weight) for task in tasks]
    while True:
        for task in rng.choices(tasks, shares, k=64):
            practised = practice > 0 and task.name in harder and rng.random() < practice
            yield task, draw(harder[task.name] if practised else task, rng, held_out)


def held_out_prompts(task: Task, count: int, seed: int, without: frozenset = frozenset(), tries: int = 0) -> list[Instance]:
    """Prompts of `count` different held-out questions of one task, none with a key in `without`.

    tries: after that many draws, fewer will do; 0: never.
    """
    rng, found, drawn = Random(f"{seed} {task.name}"), {}, 0
    while len(found) < count and not 0 < tries <= drawn:
        instance = draw(task, rng, held_out=True)
        drawn += 1
        if instance.key not in without:
            found.setdefault(instance.key, instance)
    return list(found.values())
