"""What a task family is, how prompts are phrased, and how held-out prompts are kept out of training.

A family makes instances from a seeded `random.Random` and checks answers from the prompt text alone: the checker
reads the question again and works the answer out its own way, so it shares no state with the generator.
"""

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Callable


@dataclass(frozen=True)
class Instance:
    key: str | None     # the question without its phrasing: decides training or held-out; None: always training
    prompt: str
    answer: str


@dataclass(frozen=True)
class Task:
    name: str
    make: Callable[[Random], Instance]
    check: Callable[[str, str], bool]      # (prompt, answer) -> right?
    weight: float                          # share of the training examples, before normalisation
    one_answer: bool = True                # exactly one right answer, so exact match is the measure
    holdout_every: int = 64                # one key in this many is held out


def is_held_out(task: Task, key: str | None) -> bool:
    """True for keys that never occur in training.

    The hash is taken over the question, not its wording, so all phrasings of one question fall on the same side.
    """
    if key is None:
        return False
    digest = hashlib.blake2b(f"{task.name}|{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % task.holdout_every == 0


def draw(task: Task, rng: Random, held_out: bool) -> Instance:
    """The next instance of `task` on the wanted side of the split."""
    while True:
        instance = task.make(rng)
        if is_held_out(task, instance.key) == held_out:
            return instance


def phrase(rng: Random, templates, **slots) -> str:
    """One of `templates`, sometimes without its capital or its last mark, as people type."""
    text = rng.choice(templates)
    if rng.random() < 0.12 and text[0] != "{":
        text = text[0].lower() + text[1:]
    if rng.random() < 0.15 and text[-1] in ".?":
        text = text[:-1]
    return text.format(**slots)
