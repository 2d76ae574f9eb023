#!/usr/bin/env python3
"""How many lines of core the tests ran, from what gcov counted in a build of preset `coverage`.

    lines.py build/coverage 90               # a line a file below 100 %, then the whole; status 1 below 90 %
    lines.py build/coverage 90 --missed      # the numbers of the lines that never ran, too

A line of a template or inline function counts once, however many files hold it: run in one of them is run.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

CORE = pathlib.Path(__file__).resolve().parents[2] / "core"


def counts_of(counter):
    """(file, line, times) of everything one object file counted."""
    result = subprocess.run(["gcov", "--json-format", "--stdout", str(counter)], capture_output=True, check=True)
    report = json.loads(result.stdout)
    folder = pathlib.Path(report["current_working_directory"])
    for file in report["files"]:
        path = pathlib.Path(os.path.normpath(folder / file["file"]))
        if path.is_relative_to(CORE):
            for line in file["lines"]:
                yield path.relative_to(CORE), line["line_number"], line["count"]


def count_lines(build):
    """file -> line -> times"""
    counters = sorted((build / "core").rglob("*.gcda"))
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for counts in pool.map(lambda counter: list(counts_of(counter)), counters):
            for path, line, times in counts:
                lines[path][line] += times
    # A source that no counter names was never even loaded: its lines are not known, so this is no result.
    unseen = [path for path in sorted(CORE.glob("src/**/*.cpp")) if path.relative_to(CORE) not in lines]
    if unseen:
        sys.exit(f"no counts of {', '.join(map(str, unseen))}. Fix: build preset coverage and run its tests")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("least", type=float, help="per cent")
    parser.add_argument("--missed", action="store_true")
    arguments = parser.parse_args()
    all_lines = all_run = 0
    for path, lines in sorted(count_lines(arguments.build).items()):
        missed = sorted(line for line, times in lines.items() if times == 0)
        all_lines += len(lines)
        all_run += len(lines) - len(missed)
        if missed:
            print(f"{100 * (1 - len(missed) / len(lines)):6.1f} %  {len(missed):4} of {len(lines):4} lines missed  {path}"
                  + (": " + " ".join(map(str, missed)) if arguments.missed else ""))
    share = 100 * all_run / all_lines
    print(f"core: {all_run} of {all_lines} lines ran, {share:.2f} %; asked: {arguments.least:g} %")
    return 0 if share >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
