#!/usr/bin/env python3
"""Runs every libFuzzer target for some seconds, one per core at a time, and prints what each did.

    fuzz_all.py build/fuzz 10            # seconds a target; new inputs and finds go to build/fuzz/found/<target>

Prints a line per target: seconds of processor time, executions, edges, features and inputs of the corpus. Ends with status 1 where one
found something; the file that shows it is named.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
DICTIONARIES = {"inspect": "gguf", "tokenizer": "text", "vocabulary": "text"}
TARGETS = [path.stem[len("fuzz_"):] for path in sorted(HERE.glob("fuzz_*.cpp")) if path.stem != "fuzz_on_purpose"]


def fuzz(build, target, seconds):
    """(finished well, line to print)"""
    found = build / "found" / target
    (found / "corpus").mkdir(parents=True, exist_ok=True)
    command = [str(build / "tests" / f"fuzz_{target}"), f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2500",
               "-print_final_stats=1", f"-artifact_prefix={found}/"]
    dictionary = HERE / "dictionaries" / f"{DICTIONARIES.get(target, target)}.dict"
    if dictionary.is_file():
        command.append(f"-dict={dictionary}")
    folders = [found / "corpus", build / "tests/fuzz/seeds" / target, HERE / "corpus" / target]
    command += [str(folder) for folder in folders if folder.is_dir()]
    with open(found / "log", "wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    log = (found / "log").read_text(encoding="utf-8", errors="replace")
    states = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/", log) or [("?", "?", "?")]
    runs = re.search(r"number_of_executed_units: *(\d+)", log)
    edges, features, inputs = states[-1]
    line = (f"{target:14} {used.ru_utime + used.ru_stime:5.0f} s, {runs[1] if runs else '?':>10} executions, "
            f"{edges:>5} edges, {features:>6} features, {inputs:>5} inputs")
    if process.returncode == 0 and runs:
        return True, line
    reason = re.findall(r"(?m)^.*(?:does not hold|SUMMARY|runtime error|ERROR:).*$", log)[:3]
    return False, "\n    ".join([line + f"; FAILED with status {process.returncode}, log {found}/log", *reason])


def main():
    build, seconds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda target: fuzz(build, target, seconds), TARGETS))
    print("\n".join(line for _, line in results))
    return 0 if results and all(well for well, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
