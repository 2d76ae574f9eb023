"""4x4 sudoku: with one solution, and with several (where tokens chosen together can contradict each other).

A grid is 16 digits in reading order inside this file and four lines of four digits in the text; 0 is an empty cell.
"""

import itertools
import re
from functools import lru_cache
from random import Random

from .task import Instance, Task, phrase

UNITS = ([[4 * r + c for c in range(4)] for r in range(4)] + [[4 * r + c for r in range(4)] for c in range(4)]
         + [[8 * r + 2 * c + d for d in (0, 1, 4, 5)] for r in (0, 1) for c in (0, 1)])


@lru_cache(maxsize=None)
def all_grids() -> list[str]:
    """The 288 complete grids."""
    rows = ["".join(p) for p in itertools.permutations("1234")]
    grids = []

    def extend(grid: str):
        if len(grid) == 16:
            grids.append(grid)
            return
        for row in rows:
            longer = grid + row
            if all(len({longer[i] for i in u if i < len(longer)}) == sum(i < len(longer) for i in u) for u in UNITS):
                extend(longer)

    extend("")
    return grids


def solutions(puzzle: str, limit: int) -> int:
    """How many complete grids agree with the givens, counted up to `limit`."""
    givens = [(i, c) for i, c in enumerate(puzzle) if c != "0"]
    count = 0
    for grid in all_grids():
        if all(grid[i] == c for i, c in givens):
            count += 1
            if count == limit:
                break
    return count


def lines(grid: str) -> str:
    return "\n".join(grid[i:i + 4] for i in range(0, 16, 4))


def with_holes(rng: Random, grid: str, holes: int) -> str:
    hidden = set(rng.sample(range(16), holes))
    return "".join("0" if i in hidden else c for i, c in enumerate(grid))


SOLVE = ["Solve this 4x4 sudoku (0 is empty):\n{s}", "Fill in the 4x4 sudoku:\n{s}",
         "Complete this sudoku, where 0 marks an empty cell:\n{s}"]


def make_sudoku(rng: Random) -> Instance:
    grid = rng.choice(all_grids())
    holes = rng.randint(4, 11)
    puzzle = with_holes(rng, grid, holes)
    while solutions(puzzle, 2) != 1:
        holes = max(4, holes - 1)
        puzzle = with_holes(rng, grid, holes)
    return Instance(puzzle, phrase(rng, SOLVE, s=lines(puzzle)), lines(grid))


def make_sudoku_open(rng: Random) -> Instance:
    grid = rng.choice(all_grids())
    puzzle = with_holes(rng, grid, rng.randint(11, 14))
    while solutions(puzzle, 2) < 2:
        puzzle = with_holes(rng, grid, rng.randint(12, 14))
    return Instance(puzzle, phrase(rng, SOLVE, s=lines(puzzle)), lines(grid))


def check_sudoku(prompt: str, answer: str) -> bool:
    """Any complete grid that keeps the givens is right."""
    puzzle = "".join(re.findall(r"^[0-4]{4}$", prompt, re.M))
    if not re.fullmatch(r"[1-4]{4}(\n[1-4]{4}){3}", answer):
        return False
    grid = answer.replace("\n", "")
    kept = all(p in ("0", g) for p, g in zip(puzzle, grid))
    return kept and all({grid[i] for i in unit} == set("1234") for unit in UNITS)


TASKS = [
    Task("sudoku", make_sudoku, check_sudoku, 3.0),
    Task("sudoku_open", make_sudoku_open, check_sudoku, 3.0, one_answer=False),
]
