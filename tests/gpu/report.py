#!/usr/bin/env python3
"""Tests and measurements on a machine with a GPU, as one JSON file.

  tests/gpu/report.py --build build/release --model llada-8b.gguf --out result.json [--compile]

Every figure of docs/cuda-backend.md comes from such a file (tests/gpu/results). It holds the
commit, the driver, the GPU, what each test did, load and step times by canvas with their stages
(gpu_steps), and what `dllm run -n 128 --steps 32` reports. With --sanitizer NAME (repeatable)
compute-sanitizer runs the tests, too. `--compile` configures and builds first; without it the build
folder may come from another machine.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["dllm", "backend_cuda_test", "gpu_steps", "backend_cuda", "backend_cpu", "model_llada",
           "model_dream", "sampler_llada", "sampler_dream"]


def run(command, timeout, **options):
    """stdout of a command; None and a line on standard error where it fails."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=timeout, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"report: {error}", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"report: {command[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}",
              file=sys.stderr)
        return None
    return done.stdout


def machine():
    names = ["name", "driver_version", "memory.total"]
    text = run(["nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader"], 30) or ""
    gpus = [dict(zip(names, (field.strip() for field in line.split(","))))
            for line in text.splitlines()]
    return {"gpus": gpus, "visible": os.environ.get("CUDA_VISIBLE_DEVICES", "all")}


def commit():
    head = run(["git", "-C", ROOT, "rev-parse", "HEAD"], 30)
    changed = run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"], 30)
    return {"commit": head.strip() if head else None, "modified": bool(changed)}


def tests(build, sanitizer, timeout, gtest_filter):
    """Counts, and the names of what failed or was skipped."""
    program = build / "tests" / "backend_cuda_test"
    out = Path("/tmp") / f"report-tests-{os.getpid()}-{sanitizer or 'plain'}.json"
    out.unlink(missing_ok=True)
    command = [program, f"--gtest_output=json:{out}", f"--gtest_filter={gtest_filter}"]
    if sanitizer:
        command = ["compute-sanitizer", f"--tool={sanitizer}", "--error-exitcode=99", *command]
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=timeout)
        code, text = done.returncode, done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        code, text = str(error), ""
    result = {"filter": gtest_filter, "exit": code}
    summary = [line.strip("= \n") for line in text.splitlines() if "SUMMARY" in line]
    if summary:
        result["summary"] = summary[-1]
    if out.exists():
        suites = json.loads(out.read_text())["testsuites"]
        cases = [(f"{suite['name']}.{case['name']}", case) for suite in suites
                 for case in suite["testsuite"]]
        result |= {"run": sum(case["status"] == "RUN" for _, case in cases),
                   "failed": [name for name, case in cases if case.get("failures")],
                   "skipped": [name for name, case in cases if case.get("result") == "SKIPPED"]}
    return result


def generation(build, model):
    text = run([build / "bin" / "dllm", "run", "-m", model, "--backend", "cuda", "-n", "128",
                "--steps", "32", "-p", "Why is the sky blue?", "-s", "1", "--json"], 120)
    if text is None:
        return None
    answer = json.loads(text)
    return {key: answer.get(key) for key in ("timings_ms", "tokens_per_second", "counts", "device")}


def steps(build, model):
    text = run([build / "tests" / "gpu_steps", model, build / "lib" / "dllm" / "plugins"], 180)
    return None if text is None else json.loads(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--commit", help="where the build comes from, if not from this checkout")
    parser.add_argument("--sanitizer", action="append", default=[],
                        choices=["memcheck", "racecheck", "synccheck", "initcheck"])
    parser.add_argument("--only-sanitizers", action="store_true")
    parser.add_argument("--filter", default="*", help="tests, as --gtest_filter")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a run of the tests")
    args = parser.parse_args()
    if args.compile:
        subprocess.run(["cmake", "--preset", "release", "-DDLLM_CUDA=ON"], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--build", args.build, "--target", *TARGETS], cwd=ROOT, check=True)
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              **({"commit": args.commit} if args.commit else commit()), **machine()}
    if not args.only_sanitizers:
        result["tests"] = tests(args.build, None, args.timeout, args.filter)
        result["models"] = [{"steps": steps(args.build, model), "run": generation(args.build, model)}
                            for model in args.model]
    for tool in args.sanitizer:
        result[tool] = tests(args.build, tool, args.timeout, args.filter)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    bad = [name for name in ("tests", *args.sanitizer)
           if name in result and result[name]["exit"] != 0]
    print(f"{args.out}: " + (f"failed: {', '.join(bad)}" if bad else "all passed"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
